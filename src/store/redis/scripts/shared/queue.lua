-- The queue of the lock: its waiters, their order, and notifying them to ask.
--
-- turns.lua decides whose turn it is.
--
-- uses: state

local PLACE_MS = 90000       -- a waiter that is silent for longer loses its place
local QUEUE_MS = '600000'    -- an abandoned queue expires

-- A waiter has at most one of these states. `passed`: it did not take its promise, and is passed
-- over until it asks. `called`: it was told to ask, and has not yet. `watches`: it watches the
-- clock. `quick`: so it does, and when it asked, the holder had just got the lock. `ttl` is that of
-- the requested lease, or '0' if the lock cannot be handed off to it.
local function waiter_of(text)
  local mode, since, until_, state, ttl, id, json =
    string.match(text, '^(%a) (%d+) (%d+) (%d) (%d+) (%x+) ()')
  return { mode = mode, since = since, until_ = number(until_),
    passed = state == '1', watches = state == '2' or state == '3', quick = state == '3',
    called = state == '4', ttl = ttl, id = id, info = string.sub(text, json) }
end
local function waiter_text(w)
  local state = w.passed and '1' or w.called and '4' or w.quick and '3' or w.watches and '2'
    or '0'
  return w.mode .. ' ' .. w.since .. ' ' .. int(w.until_) .. ' ' .. state .. ' ' .. w.ttl ..
    ' ' .. w.id .. ' ' .. w.info
end

-- The queue and its records, each read and parsed once: every script uses the same few waiters
-- several times.
local queue_size = nil
local queue_head, head_size = nil, 4 -- this many of the first waiters, or all
local records, waiters = {}, {} -- token -> record, or false; and once it was needed, the waiter

local function queued_count()
  if queue_head and #queue_head < head_size then return #queue_head end
  queue_size = queue_size or redis.call('ZCARD', Q)
  return queue_size
end

-- The waiter with this many before it.
local function waiting_at(place)
  if place >= head_size then return redis.call('ZRANGE', Q, int(place), int(place))[1] end
  queue_head = queue_head or redis.call('ZRANGE', Q, '0', '3')
  return queue_head[place + 1]
end

-- The waiter with this token, or false. The records of the first three are read together with
-- that of another one, because most scripts need them.
local function waiter(token)
  local w = waiters[token]
  if w ~= nil then return w end
  if records[token] == nil then
    local tokens = { token }
    for place = 1, queue_head and 3 or 0 do
      local other = queue_head[place]
      if other and other ~= token and records[other] == nil then tokens[#tokens + 1] = other end
    end
    local read = redis.call('HMGET', W, unpack(tokens))
    for i = 1, #tokens do records[tokens[i]] = read[i] end
  end
  w = records[token] and waiter_of(records[token])
  waiters[token] = w
  return w
end

local function note_waiter(token, w)
  if w.passed then w.called = false end
  if w.passed or w.called then w.watches, w.quick = false, false end
  waiters[token] = w
  redis.call('HSET', W, token, waiter_text(w))
end

local function wake(w, ask_after)
  local list = key .. ':w:' .. w.id
  redis.call('RPUSH', list, ask_after or '0')
  expire_or(list, QUEUE_MS, 'LTRIM', list, '1', '0')
end

-- Nothing but --priority has this name, because quotes inside JSON strings are escaped.
-- Other numbers than clients take for one are none.
local function priority_of(w)
  return tonumber(string.match(w.info, '"priority":(-?%d%d?),') or
    string.match(w.info, '"priority":(-?%d%d?)}') or 0)
end
