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
