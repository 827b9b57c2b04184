-- What those who look at a lock get.

-- script: inspect
-- Reads the state of the lock; changes nothing.
--
-- Answers {now, slots, holders, waiters, last run, last success, known, refused, superseded, last
-- run that counts, last success that counts}: pairs of a holder's record and the time left of its
-- lease; waiters' records in order; the records of runs, or nothing; 1 if the lock is known; the
-- numbers of refused and superseded claims; the records that deduplicate claims, or nothing.
--
-- uses: showing queue by_hand

-- Whether it is the record of a run whose command exited with 0 and held the lock to its end.
-- Quotes inside JSON strings are escaped.
local function is_success(run)
  return string.find(run, '"outcome":"ran"', 1, true) and string.find(run, '"exit_code":0[,}]')
    and not string.find(run, '"reason":', 1, true)
end

if fence >= MOST_FENCE and not next(holders) then return redis.error_reply(NO_FENCE_LEFT) end

local waiters = {}
for _, token in ipairs(redis.call('ZRANGE', Q, 0, -1)) do
  local text = redis.call('HGET', W, token)
  if text and waiter_of(text).until_ > now then waiters[#waiters + 1] = text end
end

local fields = redis.call('HMGET', S, 'refused', 'superseded', 'run', 'good')
local last, good = '', ''
for i = 0, 2 * RUNS do
  local run = redis.call('LINDEX', R, i)
  if not run then break end
  if last == '' and not is_by_hand(run) then last = run end
  if is_success(run) then
    good = run
    break
  end
end
if good == '' then good = fields[4] or '' end

-- A run whose lease expired is the last one, though that is not recorded yet.
for token, h in pairs(holders) do
  if not h.promise and not h.ended and not h.detached and not counts(token, h) then
    last = int(h.fence) .. ' ' .. int(h.since) .. ' 0 ' .. h.info
  end
end
local known = (state[1] or value or waiters[1] or last ~= '') and 1 or 0
local function counted(i) return tonumber(string.match(fields[i] or '', '^%d+$') or 0) end
return { int(now), slots, holders_shown(100000), waiters, last, good, known, counted(1),
  counted(2), fields[3] or '', fields[4] or '' }

-- script: history
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
