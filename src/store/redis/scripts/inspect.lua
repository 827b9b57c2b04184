-- The lock as it is, changing nothing.
--
-- Answers {now, slots, holders, waiters, last run}: pairs of a holder's record and how long
-- its lease has left; waiters' records in order; the record of a run, or nothing.
--
-- uses: queue
local waiters = {}
for _, token in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
  local text = redis.call('HGET', W, token)
  if text and waiter_of(text).until_ > now then waiters[#waiters + 1] = text end
end

-- A run whose lease ran out is the last one though nobody has noted it yet.
local last = redis.call('LINDEX', R, 0) or ''
for token, h in pairs(holders) do
  if not h.promise and not h.ended and not h.detached and not counts(token, h) then
    last = int(h.fence) .. ' ' .. int(h.since) .. ' 0 ' .. h.info
  end
end
return { int(now), slots, holders_shown(100000), waiters, last }
