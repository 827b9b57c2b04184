-- The claim of ask.lua becomes a waiter, or stays one, and gets the answer 'busy'.
--
-- uses: claim events showing queue watching parking

local SHOWN = 8         -- holders reported to a waiter
local QUICK_PLACES = 50 -- waiters that count as `quick` on a quick lock

-- Whether the asking waiter has to watch. The first of the two ensures that there is a second
-- one. A waiter that learns of a promise watches it whatever its position: if the promise was
-- made to a dead waiter, those that should watch may be dead as well.
local function has_to_watch(token)
  local tokens = next_in_line(2, token)
  if tokens[1] == token then ensure_watch(2, token) end
  for i = 1, #tokens do
    if tokens[i] == token then return true end
  end
  for _, h in pairs(holders) do
    if h.promise then return true end
  end
  return false
end

-- How long the lock can stay occupied, in milliseconds; -1 if unknown. A promise is checked
-- before that. `key_left` is how long KEYS[1] lasts.
local function blocked_for(key_left)
  local least = value ~= MARKER and key_left or -1
  for _, h in pairs(holders) do
    local left = math.ceil((h.ends - now) / 1000)
    local look = left - (PROMISE_MS - LOOK_MS)
    if h.promise and look > 0 then left = look end
    if value == MARKER or h.promise then
      if least < 0 or left < least then least = left end
    end
  end
  return least
end

local function busy(place, watches, parked)
  local key_left = value and redis.call('PTTL', key) or -2
  local blocked = watches and blocked_for(key_left) or parked and -parked or -2
  return { 'busy', now_text, place, queued_count(), blocked, holders_shown(SHOWN, key_left) }
end

-- Whether the lock was granted just now. A claim that comes now may soon be one of the next;
-- it watches from the start, so that it need not be notified later.
local function is_quick()
  local h = holders[value]
  return h and now - h.since < QUICK_MS * 1000
end

-- Records the waiter at this place, and whether it has to watch or is parked. Returns the answer
-- to it.
local function stay(w, place)
  w.quick = place <= QUICK_PLACES and is_quick()
  w.watches = w.quick or has_to_watch(token)
  local is_urgent = w.watches or dedupe or supersedes or replaces or ticket
  local parked = not is_urgent and parked_for(w, place)
  if parked then w.until_ = now + 2 * parked * 1000 end
  note_waiter(token, w)
  redis.call('PEXPIRE', W, QUEUE_MS)
  return busy(place, w.watches, parked)
end

local function add_waiter(token, score)
  redis.call('ZADD', Q, int(score), token)
  queue_size, queue_head, head_size = nil, nil, 4
end

-- The same behind all others. Returns its place.
local function append_waiter(token, score)
  local before = queued_count()
  redis.call('ZADD', Q, int(score), token)
  queue_size = before + 1
  if queue_head and before < head_size then queue_head[before + 1] = token end
  return queue_size
end

-- The score of a waiter is the time of its arrival, and so much more for each step of its priority:
-- three years in microseconds, of which 20 fit into the numbers that are exact.
local PRIORITY_STEP = 1e14
local function score_of(arrival) return arrival + priority * PRIORITY_STEP end

-- When the last one with this priority arrived, or any one before those; and whether the others, if
-- there are any, are less important. Nothing if there is none.
local function last_arrival()
  if not waiting_at(0) then return nil end
  local function arrival(found) return found[2] and tonumber(found[2]) - score_of(0) end
  local last = arrival(redis.call('ZRANGE', Q, '-1', '-1', 'WITHSCORES'))
  if last < now + PRIORITY_STEP / 2 then return last, false end
  return arrival(redis.call('ZRANGE', Q, int(score_of(now + PRIORITY_STEP / 2)),
    int(score_of(now - PRIORITY_STEP / 2)), 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')), true
end

-- Enters the queue: as if it had arrived then, or behind all others with its priority, even if the
-- clock stepped back. Returns the waiter, its place and when it counts as arrived.
local function join_queue(arrival)
  local place
  if arrival then
    add_waiter(token, score_of(arrival))
  else
    local last, is_before_others = last_arrival()
    arrival = math.max(now, last and last + 1 or 0)
    if is_before_others then
      add_waiter(token, score_of(arrival))
    else
      place = append_waiter(token, score_of(arrival))
    end
  end
  expire_or(Q, QUEUE_MS, 'ZREM', Q, token)
  redis.call('DEL', key .. ':w:' .. id) -- it may announce a grant that has expired
  end_idleness()
  if state[2] ~= ARGV[4] then
    redis.call('HSET', S, 'slots', ARGV[4])
    keep_state()
  end
  publish('queued', 0, 0, info)
  local can_be_handed = mode == 'x' and wanted == 1 and not detached and not dedupe and floor == 0
  local w = { mode = mode, since = now_text, until_ = now + PLACE_MS * 1000,
    ttl = can_be_handed and ARGV[5] or '0', id = id, info = info }
  return w, place or redis.call('ZRANK', Q, token) + 1, arrival
end
