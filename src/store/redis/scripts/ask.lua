-- Grants the lock, or says why not.
--
-- ARGV: token; the waiter's id; mode (x or s, followed by d for a detached lease, n for
-- --supersede, r for --replace); slots; ttl in ms; whether to join the queue (1, 0, or 2: count
-- the claim as refused if it would have to wait; 1 may be followed by the maximum number of
-- waiters, beyond which the claim is refused and counted); the claimant as JSON; the deduplication
-- rule or nothing; the server's time when the claim first came, if it had a place in the queue; a
-- fence that the granted one must exceed (or 0); then the fences that outer runs hold. In a quorum
-- the time is preceded by = and is the order in the queue, whatever this server's clock says; and
-- the fence is preceded by = if it is to be granted (see store/redis/ballot.hpp), by ^ if an
-- existing lease of the caller is to be raised to it, or by ! if the lease is known to hold with
-- exactly this fence.
-- Answers {'granted', fence, slot}, followed by 'broken' and the holder as JSON if the lease was
-- broken at once,
-- {'busy', now, place, queued, blocked for, holders},
-- {'above', fence}, {'slots', number}, {'deduplicated', run},
-- {'superseded', newer claimant} or {'given up'}. `blocked for` is -2 for a waiter that need not
-- watch, because others do; and for a parked one minus the time for which it is parked.
--
-- uses: turns expiry dedupe watching parking runs taking
local SHOWN = 8         -- holders reported to a waiter
local QUICK_PLACES = 50 -- waiters that count as `quick` on a quick lock

local token, id, wanted, ttl = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local function is_marked(letter) return string.find(ARGV[3], letter, 2, true) ~= nil end
local mode, detached = string.sub(ARGV[3], 1, 1), is_marked('d')
local supersedes, replaces = is_marked('n'), is_marked('r')
local join, refuse = string.sub(ARGV[6], 1, 1) == '1', ARGV[6] == '2'
local info, dedupe = ARGV[7], ARGV[8] ~= '' and ARGV[8]
local max_queue = tonumber(string.sub(ARGV[6], 3)) -- or nil
local ticket = tonumber(string.match(ARGV[9], '^=(%d+)$'))
local arrived = ticket or tonumber(ARGV[9])
local kind, wanted_fence = string.match(ARGV[10], '^([=^!])(%d+)$')
local voted, is_repair = tonumber(wanted_fence), kind == '!' -- nil unless in a quorum
local floor = voted or tonumber(ARGV[10])

local function is_above(h)
  for i = 11, #ARGV do
    if tonumber(ARGV[i]) == h.fence then return not h.ended end
  end
  return false
end

local function granted(h)
  return { 'granted', int(h.fence), h.slot, h.broken and 'broken' or nil, h.broken and h.info or nil }
end

local function free_slot()
  local taken = {}
  for other, h in pairs(holders) do
    if not h.promise and other ~= token then taken[h.slot] = true end
  end
  local slot = 0
  while taken[slot] do slot = slot + 1 end
  return slot
end

local function grant()
  if is_repair then
    fence = math.max(fence, voted)
  else
    fence = voted and math.max(fence + 1, voted) or math.max(fence + 1, floor + 1, now)
  end
  local h = { mode = mode, slot = mode == 's' and 0 or free_slot(),
    fence = is_repair and voted or fence, since = now,
    ends = now + ttl * 1000, promise = false, detached = detached, info = info }
  slots = wanted
  occupy(token, h, ttl)
  redis.call('HSET', S, 'fence', int(fence), 'slots', int(slots))
  if reclaimed then redis.call('HDEL', S, 'reclaimed') end
  redis.call('PEXPIRE', S, kept_ms)
  publish('granted', h.fence, ttl, info)
  if replacers then take_if_replaced(token, h) end
  if is_run(h) then remove_deduplicated() end
  if queued_count() > 0 then
    ensure_second_watch()
    local _, waiters = next_in_line(1)
    -- It may be over before those that watch the promise ask.
    if ttl < PROMISE_MS and waiters[1] then wake(waiters[1]) end
  end
  return granted(h)
end

-- Increments a counter in S. A failure to count (memory is full, for example) does not affect
-- the lock.
local function count(field)
  local expires = redis.pcall('PEXPIRE', S, kept_ms) -- fails without permission
  if type(expires) ~= 'number' then return end
  local so_far = string.match(redis.call('HGET', S, field) or '', '^%d+$')
  redis.pcall('HSET', S, field, int((so_far or 0) + 1))
  if expires == 0 then redis.pcall('PEXPIRE', S, kept_ms) end
end

local function busy(place, watches, parked)
  local blocked = watches and blocked_for() or parked and -parked or -2
  return { 'busy', int(now), place, queued_count(), blocked, holders_shown(SHOWN) }
end

-- Whether the lock was granted just now. A claim that comes now may soon be one of the next;
-- it watches from the start, so that it need not be notified later.
local function is_quick()
  local h = holders[value]
  return h and now - h.since < QUICK_MS * 1000
end

-- The answer to a waiter; also records whether it has to watch.
local function wait(w, place)
  call_those_before(token)
  w.quick = place <= QUICK_PLACES and is_quick()
  w.watches = w.quick or has_to_watch(token)
  local is_urgent = w.watches or dedupe or supersedes or replaces or ticket
  local parked = not is_urgent and parked_for(w, place)
  if parked then w.until_ = now + 2 * parked * 1000 end
  note_waiter(token, w)
  redis.call('PEXPIRE', W, QUEUE_MS)
  if refuse then count('refused') end
  if dedupe then
    redis.call('HSET', D, token, dedupe)
    redis.call('PEXPIRE', D, QUEUE_MS)
    redis.call('HSET', S, 'dedupes', '1')
  end
  return busy(place, w.watches, parked)
end

remove_expired()

local own = holders[token]
if own and not own.promise then
  -- The answer got lost, or the caller repeats the request: the full lease again.
  own.ends = now + ttl * 1000
  local raised = voted and (kind == '^' and voted > own.fence or is_repair and voted ~= own.fence)
  redis.call('PEXPIRE', key, value == MARKER and math.max(ttl, redis.call('PTTL', key)) or ttl)
  if raised then
    own.fence = voted
    redis.call('HSET', S, 'fence', int(math.max(fence, voted)))
    redis.call('PEXPIRE', S, kept_ms)
    publish('granted', voted, ttl, own.info)
  end
  redis.call('HSET', H, token, holder_text(own))
  keep_for(ttl)
  redis.call('DEL', key .. ':w:' .. id) -- it may announce the grant
  return granted(own)
end
if redis.call('EXISTS', key .. ':t:' .. token) == 1 then return { 'given up' } end
if fence >= MOST_FENCE then
  return redis.error_reply('WRONGTYPE ' .. S .. ' has a last fence that none can follow')
end

-- Usually there are no waiters, and nothing to read about them.
local is_queue = queued_count() > 0
local text = is_queue and record_of(token)
local queued = text and redis.call('ZSCORE', Q, token)
local w = queued and waiter_of(text)
if queued then
  -- A waiter that comes late gets its place back, unless the lock was promised to another.
  w.passed, w.called = false, false
  w.until_ = now + PLACE_MS * 1000
  if own then
    records[token] = waiter_text(w) -- its promise is kept a few lines below
  else
    redis.call('PEXPIRE', Q, QUEUE_MS)
    note_waiter(token, w)
    redis.call('PEXPIRE', W, QUEUE_MS)
  end
  if ticket and tonumber(queued) ~= ticket then add_waiter(token, ticket) end
end
if is_queue then promise_to_the_next(token) end
local left_for = (dedupe or supersedes) and redis.call('GET', D .. ':' .. token)
if left_for then
  if string.sub(left_for, 1, 2) == 's ' then return { 'superseded', string.sub(left_for, 3) } end
  return { 'deduplicated', left_for }
end
if arrived > 0 and not queued and not ticket then call_waiters() end

-- All holders and waiters must name the same number of slots.
local others = queued_count() - (queued and 1 or 0)
for other in pairs(holders) do
  if other ~= token then others = others + 1 end
end
if others == 0 then
  slots = wanted
elseif slots ~= wanted then
  return { 'slots', slots }
end

-- A reader below a reader enters even if a writer waits: that writer waits for the outer
-- run, which waits for this one.
local joins_outer_reader, above, can_wait = false, false, false
for _, h in pairs(holders) do
  if not h.promise and is_above(h) then
    above = h.fence
    if mode == 's' and h.mode == 's' then joins_outer_reader = true end
  else
    can_wait = mode == 'x' and wanted > 1 -- another holder's slot can become free
  end
end

if dedupe then
  if above then return { 'above', int(above) } end
  local run = counting_run(dedupe, join)
  if run then
    if queued then
      forget(token)
      promise_to_the_next()
    end
    return { 'deduplicated', run }
  end
end

if queued and replaces and not holders[token] then
  replace_holders(is_above, info)
  promise_to_the_next(token)
end
if queued then
  if not holders[token] then return wait(w, redis.call('ZRANK', Q, token) + 1) end
  remove_waiter(token)
  redis.call('DEL', key .. ':w:' .. id)
  return grant()
end

-- A waiter whose place was forgotten may have been superseded meanwhile.
if supersedes and arrived > 0 and newest ~= token and arrived < tonumber(newest_score or 0) then
  count('superseded')
  return { 'superseded', record_of(newest) and waiter_of(record_of(newest)).info or '{}' }
end

-- Waiters that were promised the lock count as holders.
local function can_enter()
  local place = 0
  while not joins_outer_reader and queued_count() > place do
    local waiting = waiting_at(place)
    if not waiting then break end
    local record = record_of(waiting)
    if not holders[waiting] and record and not waiter_of(record).passed then return false end
    place = place + 1
  end
  return admits(mode, wanted)
end

-- Whether there are too many waiters for --max-queue. Those that it would supersede do not
-- count, nor do dead ones.
local function is_full()
  if not max_queue or arrived > 0 and not (ticket and supersedes) then return false end
  local place, waiting = 0, 0
  while waiting < max_queue do
    local other = queued_count() > place and waiting_at(place)
    if not other then return false end
    local record = record_of(other)
    local counted = record and waiter_of(record).until_ > now
    if counted and not (supersedes and other == newest) then waiting = waiting + 1 end
    place = place + 1
  end
  return true
end

-- Removes the waiter that this claim supersedes from the queue, and notifies it. False if
-- there is none.
local function supersede()
  local record = newest and redis.call('ZSCORE', Q, newest) and record_of(newest)
  if not record then return false end
  local w = waiter_of(record)
  forget(newest)
  redis.call('SET', D .. ':' .. newest, 's ' .. info, 'PX', PLACE_MS)
  if w.until_ > now then count('superseded') end
  wake(w)
  if w.watches then ensure_watch(1) end
  return true
end

local enters = can_enter()
if not enters then
  if above and not can_wait then return { 'above', int(above) } end
  local is_refused = refuse or join and is_full()
  if is_refused then count('refused') end
  if is_refused or not join then return busy(0, false) end
end
local has_made_way = supersedes and supersede()
if replaces and not enters then
  replace_holders(is_above, info)
  has_made_way = true
end
if has_made_way then
  promise_to_the_next()
  enters = can_enter()
end
if enters then
  local answer = grant()
  if supersedes then redis.call('HSET', S, 'newest', int(ticket or now) .. ' ' .. token) end
  return answer
end

-- Ordered by the clock, but behind existing waiters even if the clock stepped back. A waiter
-- whose place was forgotten gets it back.
local score = arrived
if not ticket and (arrived == 0 or arrived > now) then
  local last = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
  score = math.max(now, last and last + 1 or 0)
end
add_waiter(token, score)
expire_or(Q, QUEUE_MS, 'ZREM', Q, token)
if state[2] ~= ARGV[4] then
  redis.call('HSET', S, 'slots', ARGV[4])
  redis.call('PEXPIRE', S, kept_ms)
end
if supersedes then redis.call('HSET', S, 'newest', int(score) .. ' ' .. token) end
if replaces then
  local tokens = waiting_replacers(token)
  tokens[#tokens + 1] = token
  note_replacers(tokens)
end
if supersedes or replaces then redis.call('PEXPIRE', S, kept_ms) end
publish('queued', 0, 0, info)
local is_plain = mode == 'x' and wanted == 1 and not detached and not dedupe and floor == 0
return wait({ mode = mode, since = now, until_ = now + PLACE_MS * 1000,
  ttl = is_plain and ARGV[5] or '0', id = id, info = info }, redis.call('ZRANK', Q, token) + 1)
