-- Runs that count as those of claims that wait, and their leaving the queue because of them.
--
-- uses: state queue runs watching

-- The run that counts as the one of a claim, as text: 'r' if it is going on, 'e' if it has
-- ended, and its record. `dedupe` is the claim's: a window in ms, and 1 if it runs again what
-- failed; one that waits then does so for the end of a run. A run that started later than
-- now, the clock having been set back, counts as far ahead as it would back. With 2 it joins a
-- run that ends while it waits, and no other counts.
local function counting_run(dedupe, waits)
  local window, retry = string.match(dedupe, '^(%d+) (%d)$')
  if retry == '2' then return nil end
  if not waits or retry == '0' then
    for _, h in pairs(holders) do
      if is_run(h) and not h.broken then
        return 'r ' .. int(h.fence) .. ' ' .. int(h.since) .. ' 0 ' .. h.info
      end
    end
  end
  local run = redis.call('HGET', S, retry == '1' and 'good' or 'run')
  if not run then return nil end
  local started = tonumber(string.match(run, '^%d+ (%d+)'))
  return math.abs(now - started) < tonumber(window) * 1000 and 'e ' .. run or nil
end

-- Takes those out of the queue that wait for what another run has done or does, and tells
-- each. The entries of those who have left otherwise go, too. `joined` is the record of a run
-- that has just ended, for those who wait to join it.
local function dismiss(joined)
  if not dedupes then return end
  dedupes = false
  local left_watch = false
  local waiting = redis.call('HGETALL', D)
  for i = 1, #waiting, 2 do
    local token = waiting[i]
    local text = redis.call('ZSCORE', Q, token) and record_of(token)
    local joins = joined and string.match(waiting[i + 1], ' 2$')
    local run = text and (joins and 'e ' .. joined or counting_run(waiting[i + 1], true))
    if run then
      forget(token)
      redis.call('SET', D .. ':' .. token, run, 'PX', PLACE_MS)
      left_watch = left_watch or waiter_of(text).watches
      wake(waiter_of(text))
    end
    if text and not run then dedupes = true else redis.call('HDEL', D, token) end
  end
  if not dedupes then redis.call('HDEL', S, 'dedupes') end
  if left_watch then have_watch(1) end
end
