-- Sets up a lease again that the server has forgotten, unless the lock was granted since.
--
-- ARGV: token, fence, ttl in ms, mode (x or s), slots, slot, the holder as JSON. Answers
-- 'reclaimed' or 'taken over'.
--
-- uses: expiry holding
local token, own_fence, ttl, mode = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local wanted, slot, info = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

-- The claim was released while this request was in flight.
if redis.call('EXISTS', key .. ':t:' .. token) == 1 then return 'taken over' end

-- Each grant first removes expired leases. The leases that remove_expired() finds here thus expired
-- after the last grant. They are recorded, because their holders may reclaim them in turn.
local reclaimable = reclaimed or int(fence) .. ' '
local function is_reclaimable(a_fence)
  return string.find(reclaimable, ' ' .. int(a_fence) .. ' ', 1, true) ~= nil
end
for other, h in pairs(holders) do
  if not h.promise and not h.ended and not counts(other, h) and not is_reclaimable(h.fence) then
    reclaimable = reclaimable .. int(h.fence) .. ' '
  end
end
remove_expired()

-- A fence is the time of its grant, unless the clock was behind the last one.
local since = math.min(own_fence, now)
local own = holders[token]
if own then
  -- The answer to an earlier, identical request got lost.
  since = own.since
  holders[token] = nil
  if value == token then value = false end
end

local function fits()
  local others = redis.call('ZCARD', Q)
  for _, h in pairs(holders) do
    others = others + 1
    if mode == 'x' and not h.promise and h.slot == slot then return false end
  end
  return (others == 0 or slots == wanted) and admits(mode, wanted)
end

-- The run has not vanished after all. Returns when it began.
local function take_back_run()
  for i = 0, RUNS - 1 do
    local run = redis.call('LINDEX', R, i)
    if not run then return nil end
    local began = string.match(run, '^' .. int(own_fence) .. ' (%d+) 0 ')
    if began then
      redis.call('LREM', R, 1, run)
      return tonumber(began)
    end
  end
end

if granted > own_fence and not is_reclaimable(own_fence) or not fits() then
  return 'taken over'
end
redis.call('HDEL', H, token) -- with memory full the first write must be one that frees
since = take_back_run() or since
slots = wanted
occupy(token, { mode = mode, slot = slot, fence = own_fence, since = since,
  ends = now + ttl * 1000, promise = false, info = info }, ttl)
redis.call('HSET', S, 'fence', int(math.max(fence, own_fence)), 'slots', int(slots),
  'reclaimed', reclaimable)
end_idleness()
keep_state()
if not own then publish('granted', own_fence, ttl, info) end
return 'reclaimed'
