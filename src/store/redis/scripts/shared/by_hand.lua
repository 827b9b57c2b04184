-- The records of detached leases that are over, among those of runs.
--
-- uses: runs

local BY_HAND = 10           -- of them at most this many detached leases, to leave room for runs

-- Whether a record is that of a detached lease, and not of a run.
local function is_by_hand(run) return string.match(run, '^%d+ %d+ %d+ h ') end

-- The record of a detached lease that has ended then.
local function by_hand(h, ended)
  return int(h.fence) .. ' ' .. int(h.since) .. ' ' .. int(ended) .. ' h ' .. h.info
end

local function note_by_hand(h, ended)
  keep_state()
  push_run(by_hand(h, ended))
  local noted, last = 0, nil
  for i = 0, 2 * RUNS do
    local run = redis.call('LINDEX', R, i)
    if not run then break end
    if is_by_hand(run) then noted, last = noted + 1, run end
  end
  if noted > BY_HAND then redis.call('LREM', R, -1, last) end
  redis.call('LTRIM', R, '0', 2 * RUNS - 1)
end
