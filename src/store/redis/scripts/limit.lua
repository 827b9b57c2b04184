-- Rate limits.

-- script: limit
-- Admits a caller by the limit KEYS[1], or says when to ask again. The rules are those of
-- rules/limit.cpp. A lock of the same name is independent.
--
-- KEYS[1]:limit         a hash: most, period (in microseconds), arrivals (how many got a
--                       turn so far), last and ahead (see below)
-- KEYS[1]:limit:stamps  a sorted set: the callers admitted in the last period, by time
-- KEYS[1]:limit:queue   a sorted set: the waiters, by order of arrival
-- KEYS[1]:limit:turns   a sorted set: the waiters, by the time at which each asks again
--
-- ARGV: the caller; how many are admitted; in how many ms; how many ms it would wait.
-- Answers {'admitted', remaining, ms until another could be}, {'later', remaining, ms until its
-- turn, whether it has one}, or {'differs', most, period in ms}.
--
-- Each step costs O(log n), except for expired entries, each of which is removed once, and for
-- late waiters.
local L = KEYS[1] .. ':limit'
local A, Q, T = L .. ':stamps', L .. ':queue', L .. ':turns'
local id, most, period = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000
local patience = tonumber(ARGV[4]) * 1000
local TURN = 1000000 -- a turn lapses if it is not taken for this long
local KEPT_MS = 60000 -- longer than any of its data matters

local function int(x) return string.format('%.0f', x) end

-- In microseconds, and never before the last write: if the clock was set back, this one stands
-- still until the clock has caught up.
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

-- Removes entries that no longer matter.
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

-- The positions of waiters that are late by a period, in order. Waiters behind them have lost
-- one turn to them, and lose no more; a caller that does not wait goes after the whole queue.
local function late_positions()
  local places = {}
  while period < TURN do
    local nth = redis.call('ZRANGE', T, #places, #places, 'WITHSCORES')
    if not nth[1] or tonumber(nth[2]) + period > now then break end
    places[#places + 1] = redis.call('ZRANK', Q, nth[1])
  end
  table.sort(places)
  return places
end

-- When a caller behind the first `place` waiters, not counting the positions in `without`, can
-- be admitted, as far as is known.
local function turn_behind(place, without)
  local all = place
  for _, late in ipairs(without) do
    if late < all then place = place - 1 end
  end
  if place >= most then
    -- The waiter that must be admitted a period before it.
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

-- The first write for a new turn, which the server must refuse if memory is full. It is undone
-- if this user has no permission for PEXPIRE.
local function note(arrivals)
  redis.call('HSET', L, 'most', most, 'period', int(period), 'last', int(now), 'arrivals',
    arrivals)
  local expires = redis.pcall('PEXPIRE', L, int(period / 1000 + KEPT_MS))
  if type(expires) == 'number' then return end
  if not limit[1] then redis.call('DEL', L) end
  error(expires.err, 0)
end

-- Keeps the data for as long as it can matter.
local function keep()
  local latest = redis.call('ZRANGE', T, -1, -1, 'WITHSCORES')[2]
  local ms = int(ms_until(math.max(now, tonumber(latest or 0)) + period) + KEPT_MS)
  for _, key in ipairs({ L, A, Q, T }) do redis.call('PEXPIRE', key, ms) end
end

if redis.call('ZSCORE', A, id) then -- the answer was lost
  return { 'admitted', remaining(), ms_until(turn_behind(queued, {})) }
end
local place = redis.call('ZRANK', Q, id)
local without = (place or patience > 0) and late_positions() or {}
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

-- script: look_at_limit
-- Reads the state of the limit KEYS[1] (see limit.lua); changes nothing.
--
-- Answers {now, most, period in ms, stamps, queue}: times in microseconds of its clock; pairs of
-- a waiter, in order of arrival, and the time from which it asks again. most and period are 0 if
-- the limit is not in use.
local L = KEYS[1] .. ':limit'
local function int(x) return string.format('%.0f', x) end

local time = redis.call('TIME')
local limit = redis.call('HMGET', L, 'most', 'period', 'last', 'ahead')
local now = time[1] * 1000000 + time[2] + tonumber(limit[4] or 0)
local stamps, line = {}, {}
local admitted = redis.call('ZRANGE', L .. ':stamps', 0, -1, 'WITHSCORES')
for i = 2, #admitted, 2 do stamps[#stamps + 1] = int(admitted[i]) end
for _, id in ipairs(redis.call('ZRANGE', L .. ':queue', 0, -1)) do
  local turn = redis.call('ZSCORE', L .. ':turns', id)
  if turn then
    line[#line + 1] = id
    line[#line + 1] = int(turn)
  end
end
return { int(math.max(now, tonumber(limit[3] or 0))), tonumber(limit[1] or 0),
  tonumber(limit[2] or 0) / 1000, stamps, line }

-- script: withdraw
-- Removes the caller from the queue of the limit KEYS[1] (see limit.lua) and from the admitted
-- ones: it withdraws only if it did not receive the admission and has not used it.
-- ARGV: the caller. Answers 'withdrawn'.
local L = KEYS[1] .. ':limit'
for _, key in ipairs({ ':queue', ':turns', ':stamps' }) do
  redis.call('ZREM', L .. key, ARGV[1])
end
return 'withdrawn'
