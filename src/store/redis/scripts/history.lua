-- Reads the runs of the lock; changes nothing.
--
-- Answers {now, holders, runs}: pairs of a holder's record and the time left of its lease;
-- records of runs that are over.
--
-- uses: showing by_hand
local runs = {}
for i = 0, RUNS - 1 do
  local run = redis.call('LINDEX', R, i)
  if not run then break end
  runs[#runs + 1] = run
end
-- Runs whose lease expired are over, though that is not recorded yet.
for token, h in pairs(holders) do
  if not h.promise and not h.ended and not counts(token, h) then
    runs[#runs + 1] = h.detached and by_hand(h, h.ends)
      or int(h.fence) .. ' ' .. int(h.since) .. ' 0 ' .. h.info
  end
end
return { int(now), holders_shown(100000), runs }
