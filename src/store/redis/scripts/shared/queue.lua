-- The queue of the lock: its waiters, their order, and notifying them to ask.
--
-- turns.lua decides whose turn it is.
--
-- uses: state events

local PLACE_MS = 90000       -- a waiter that is silent for longer loses its place
local QUEUE_MS = '600000'    -- an abandoned queue expires

-- `quick`: when it asked, the holder had just got the lock; then it watches, too. `called`: it
-- was told to ask, and has not yet. `ttl` is that of the requested lease, or '0' if the lock
-- cannot be handed over to it.
local function waiter_of(text)
  local mode, since, until_, state, ttl, id, info =
    string.match(text, '^(%a) (%d+) (%d+) (%d) (%d+) (%x+) (.*)$')
  return { mode = mode, since = tonumber(since), until_ = tonumber(until_),
    passed = state == '1', watches = state == '2' or state == '3', quick = state == '3',
    called = state == '4', ttl = ttl, id = id, info = info }
end
local function waiter_text(w)
  local state = w.passed and '1' or w.called and '4' or w.quick and '3' or w.watches and '2'
    or '0'
  return w.mode .. ' ' .. int(w.since) .. ' ' .. int(w.until_) .. ' ' .. state .. ' ' .. w.ttl ..
    ' ' .. w.id .. ' ' .. w.info
end

-- The queue and its records, each read once: every script uses the same few waiters several
-- times.
local queue_size, records = nil, {}
local queue_head, head_size = nil, 4 -- this many of the first waiters, or all

local function queued_count()
  queue_size = queue_size or redis.call('ZCARD', Q)
  return queue_size
end

-- The waiter with this many before it.
local function waiting_at(place)
  if place >= head_size then return redis.call('ZRANGE', Q, int(place), int(place))[1] end
  queue_head = queue_head or redis.call('ZRANGE', Q, '0', '3')
  return queue_head[place + 1]
end

-- A waiter's record, or false. The record of the second waiter is read together with the first,
-- because most callers need both.
local function record_of(token)
  if records[token] ~= nil then return records[token] end
  local second = queue_head and queue_head[1] == token and queue_head[2]
  if second and records[second] == nil then
    local both = redis.call('HMGET', W, token, second)
    records[token], records[second] = both[1], both[2]
  else
    records[token] = redis.call('HGET', W, token)
  end
  return records[token]
end

local function note_waiter(token, w)
  records[token] = waiter_text(w)
  redis.call('HSET', W, token, records[token])
end

local function add_waiter(token, score)
  redis.call('ZADD', Q, int(score), token)
  queue_size, queue_head, head_size = nil, nil, 4
end

-- Returns whether it was in the queue.
local function remove_waiter(token)
  local was_queued = redis.call('ZREM', Q, token) == 1
  redis.call('HDEL', W, token)
  records[token] = false
  if not was_queued then return false end
  queue_size = queue_size and queue_size - 1
  if queue_head and queue_head[1] == token and head_size > 1 then
    table.remove(queue_head, 1)
    head_size = head_size - 1
  else
    queue_head, head_size = nil, 4
  end
  return true
end

local function wake(w, ask_after)
  redis.call('RPUSH', key .. ':w:' .. w.id, ask_after or '0')
  redis.call('PEXPIRE', key .. ':w:' .. w.id, QUEUE_MS)
end

-- The next waiters that the lock can go to, up to this many, and their records: those that were
-- not passed over and have no promise. The first two watch the clock, because the holder, or the
-- waiter before them, may end without a notification. `self` counts even if it has no record yet.
local function next_in_line(most, self)
  local tokens, waiters, place = {}, {}, 0
  while #tokens < most do
    local token = waiting_at(place)
    if not token then break end
    local text = token ~= self and record_of(token)
    local w = text and waiter_of(text)
    if token == self or w and not w.passed and not holders[token] then
      tokens[#tokens + 1] = token
      waiters[#tokens] = w
    end
    place = place + 1
  end
  return tokens, waiters
end

-- Removes a waiter from the queue, with its promise.
local function forget(token)
  local text = record_of(token)
  remove_waiter(token)
  if holders[token] and holders[token].promise then
    holders[token] = nil
    redis.call('HDEL', H, token)
    if value == token then
      redis.call('DEL', key)
      value = false
    end
  end
  if text then publish('left', 0, 0, waiter_of(text).info) end
end

local function asked_ago(w) -- in microseconds
  return now - (w.until_ - PLACE_MS * 1000)
end
