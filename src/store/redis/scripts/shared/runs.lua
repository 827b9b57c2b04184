-- The records of runs that are over.
--
-- uses: state

local RUNS = 20              -- runs to keep; older ones are dropped once there are twice as many
local BY_HAND = 10           -- of them at most this many detached leases, to leave room for runs

-- Whether other claims can be deduplicated against its run: it holds the lock alone.
local function is_run(h)
  return h.mode == 'x' and slots == 1 and not h.promise and not h.ended and not h.detached
end

-- Verdict: 'good', 'failed', or 'none' if there was no run in the end. Returns its record.
local function note_run(h, ended, text, verdict)
  local run = int(h.fence) .. ' ' .. int(h.since) .. ' ' .. int(ended) .. ' ' .. text
  if redis.call('LPUSH', R, run) > 2 * RUNS then redis.call('LTRIM', R, '0', RUNS - 1) end
  redis.call('PEXPIRE', R, kept_ms)
  if verdict == 'none' or not is_run(h) then return run end
  if verdict == 'good' then
    redis.call('HSET', S, 'run', run, 'good', run)
  else
    redis.call('HSET', S, 'run', run)
  end
  return run
end

-- Whether a record is that of a detached lease, and not of a run.
local function is_by_hand(run) return string.match(run, '^%d+ %d+ %d+ h ') end

-- The record of a detached lease that has ended then.
local function by_hand(h, ended)
  return int(h.fence) .. ' ' .. int(h.since) .. ' ' .. int(ended) .. ' h ' .. h.info
end

local function note_by_hand(h, ended)
  redis.call('PEXPIRE', S, kept_ms)
  redis.call('LPUSH', R, by_hand(h, ended))
  redis.call('PEXPIRE', R, kept_ms)
  local noted, last = 0, nil
  for i = 0, 2 * RUNS do
    local run = redis.call('LINDEX', R, i)
    if not run then break end
    if is_by_hand(run) then noted, last = noted + 1, run end
  end
  if noted > BY_HAND then redis.call('LREM', R, -1, last) end
  redis.call('LTRIM', R, '0', 2 * RUNS - 1)
end

-- Whether it is the record of a run whose command exited with 0 and held the lock to its end.
-- Quotes inside JSON strings are escaped.
local function is_success(run)
  return string.find(run, '"outcome":"ran"', 1, true) and string.find(run, '"exit_code":0[,}]')
    and not string.find(run, '"reason":', 1, true)
end
