-- Admits by the limit KEYS[1], or says when. The rules are those of
-- rules/limit.cpp. Nothing of a lock of the same name is looked at.
--
-- KEYS[1]:limit         a hash: most, period (in microseconds), arrivals (how many got a
--                       turn so far), last and ahead (see below)
-- KEYS[1]:limit:stamps  a sorted set: who was admitted in the last period, by when
-- KEYS[1]:limit:queue   a sorted set: who waits, by order of arrival
-- KEYS[1]:limit:turns   a sorted set: the same, by when each is to ask again
--
-- ARGV: who asks, how many are admitted, in how many ms, for how many ms it would wait.
-- Answers {'admitted', remaining, ms until the next one could be}, {'later', remaining, ms
-- until the turn, whether it has one}, or {'differs', most, period in ms}.
--
-- Each step costs O(log n), but for what ran out, which is dropped once, and for those who
-- are late.
local L = KEYS[1] .. ':limit'
local A, Q, T = L .. ':stamps', L .. ':queue', L .. ':turns'
local id, most, period = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000
local patience = tonumber(ARGV[4]) * 1000
local TURN = 1000000 -- a turn that is not taken for so long has lapsed
local KEPT_MS = 60000 -- longer than anything of it is of consequence

local function int(x) return string.format('%.0f', x) end

-- Microseconds, and never less than when something was last written here: while the clock
-- is set back this one stands still, and from then on it is ahead.
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]
local limit = redis.call('HMGET', L, 'most', 'period', 'last', 'ahead', 'arrivals')
local last, ahead = tonumber(limit[3] or 0), tonumber(limit[4] or 0)
local now = clock + ahead
if now < last then
  ahead = last - clock
  now = last
  redis.call('HSET', L, 'ahead', int(ahead))
end

-- What is of no consequence any more goes.
if limit[2] then
  redis.call('ZREMRANGEBYSCORE', A, '-inf', int(now - tonumber(limit[2])))
end
while true do
  local first = redis.call('ZRANGE', T, 0, 0, 'WITHSCORES')
  if not first[1] or tonumber(first[2]) + TURN > now then break end
  redis.call('ZREM', T, first[1])
  redis.call('ZREM', Q, first[1])
end
local taken, queued = redis.call('ZCARD', A), redis.call('ZCARD', Q)
if limit[1] and (tonumber(limit[1]) ~= most or tonumber(limit[2]) ~= period)
  and taken + queued > 0 then
  return { 'differs', tonumber(limit[1]), tonumber(limit[2]) / 1000 }
end

-- The places of those that are late by a period, in order. Who waits behind them has lost
-- that turn to them, and loses no more; who only asks lets everybody in line go first.
local function late_ones()
  local places = {}
  while period < TURN do
    local nth = redis.call('ZRANGE', T, #places, #places, 'WITHSCORES')
    if not nth[1] or tonumber(nth[2]) + period > now then break end
    places[#places + 1] = redis.call('ZRANK', Q, nth[1])
  end
  table.sort(places)
  return places
end

-- When one behind the first `place` of the line, but for those in the places `without`, can
-- be admitted, as far as is known.
local function turn_behind(place, without)
  local all = place
  for _, late in ipairs(without) do
    if late < all then place = place - 1 end
  end
  if place >= most then
    -- The one that has to be admitted a period before it.
    local at = place - most
    for _, late in ipairs(without) do
      if late <= at then at = at + 1 end
    end
    local before = redis.call('ZRANGE', Q, at, at)[1]
    local turn = tonumber(redis.call('ZSCORE', T, before))
    return turn + period > now and turn + period or turn + TURN
  end
  if taken + place < most then return now end
  local nth = taken + place - most
  return tonumber(redis.call('ZRANGE', A, nth, nth, 'WITHSCORES')[2]) + period
end
local function remaining() return math.max(0, most - taken - queued) end
local function ms_until(moment) return math.ceil((moment - now) / 1000) end

-- The first write for who gets a turn, which has to be refused where memory is full. Nothing
-- is left of it if this user may not have it expire.
local function note(arrivals)
  redis.call('HSET', L, 'most', most, 'period', int(period), 'last', int(now), 'arrivals',
    arrivals)
  local expires = redis.pcall('PEXPIRE', L, int(period / 1000 + KEPT_MS))
  if type(expires) == 'number' then return end
  if not limit[1] then redis.call('DEL', L) end
  error(expires.err, 0)
end

-- Keeps what there is for as long as it can be of consequence.
local function keep()
  local latest = redis.call('ZRANGE', T, -1, -1, 'WITHSCORES')[2]
  local ms = int(ms_until(math.max(now, tonumber(latest or 0)) + period) + KEPT_MS)
  for _, key in ipairs({ L, A, Q, T }) do redis.call('PEXPIRE', key, ms) end
end

if redis.call('ZSCORE', A, id) then -- the answer was lost
  return { 'admitted', remaining(), ms_until(turn_behind(queued, {})) }
end
local place = redis.call('ZRANK', Q, id)
local without = (place or patience > 0) and late_ones() or {}
local turn = turn_behind(place or queued, without)
local waits = turn > now and patience > 0 and turn - now <= patience
if place and not waits then
  redis.call('ZREM', Q, id)
  redis.call('ZREM', T, id)
  queued = queued - 1
end
local arrivals = tonumber(limit[5] or 0)
if turn <= now then
  note(int(arrivals))
  redis.call('ZADD', A, int(now), id)
  taken = taken + 1
  keep()
  return { 'admitted', remaining(), ms_until(turn_behind(queued, {})) }
end
if waits then
  if not place then
    arrivals = arrivals + 1
    note(int(arrivals))
    redis.call('ZADD', Q, int(arrivals), id)
    queued = queued + 1
  end
  redis.call('ZADD', T, int(turn), id)
  keep()
end
return { 'later', remaining(), ms_until(turn), waits and 1 or 0 }
