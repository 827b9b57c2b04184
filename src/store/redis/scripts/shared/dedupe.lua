-- Deduplication: waiters leave the queue because of a run that counts as their own.
--
-- uses: holders leaving runs turns

-- The run against which a claim is deduplicated, as text: 'r' if it is running, 'e' if it has
-- ended, followed by its record. `dedupe` is the claim's rule: a window in ms, followed by 1 if a
-- failed run does not count; then the claim waits for the end of a running one. A start in the
-- future (the clock was set back) counts within the same window. With 2 the claim joins a run
-- that ends while it waits, and no other run counts.
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
  local last = redis.call('HMGET', S, 'run', 'good')
  -- An earlier version recorded runs without an end as well.
  local needs_success = retry == '1' or not last[1] or string.find(last[1], '^%d+ %d+ 0 ')
  local run = last[needs_success and 2 or 1]
  if not run then return nil end
  local started = tonumber(string.match(run, '^%d+ (%d+)'))
  return math.abs(now - started) < tonumber(window) * 1000 and 'e ' .. run or nil
end

-- Whether the run that was in progress when a waiter left the queue because of it (`left_for`) does
-- not count after all: it was lost, or is about to be.
local function has_come_to_nothing(left_for)
  local of_run = tonumber(string.match(left_for, '^r (%d+) '))
  if not of_run then return false end
  for _, h in pairs(holders) do
    if h.fence == of_run and not h.ended and not h.promise then return h.broken end
  end
  local last, ended = string.match(redis.call('HGET', S, 'run') or '', '^(%d+) %d+ (%d+) ')
  return not last or ended == '0' or tonumber(last) < of_run
end

-- Removes deduplicated waiters from the queue and notifies each. Also removes the entries of
-- waiters that have left otherwise. `joined` is the record of a run that has just ended, for
-- waiters that join it. Only if `dedupes` says that there may be any.
local function remove_deduplicated(joined)
  dedupes = false
  local left, left_watch = false, false
  local waiting = redis.call('HGETALL', D)
  for i = 1, #waiting, 2 do
    local token = waiting[i]
    local w = redis.call('ZSCORE', Q, token) and waiter(token)
    local joins = joined and string.match(waiting[i + 1], ' 2$')
    local run = w and (joins and 'e ' .. joined or counting_run(waiting[i + 1], true))
    if run then
      forget(token)
      redis.call('SET', D .. ':' .. token, run, 'PX', PLACE_MS)
      left, left_watch = true, left_watch or w.watches
      wake(w)
    end
    if w and not run then dedupes = true else redis.call('HDEL', D, token) end
  end
  if not dedupes then redis.call('HDEL', S, 'dedupes') end
  if left then pass_on_watch(left_watch) end
end
