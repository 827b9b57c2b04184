-- The runs under the lock that are over.
--
-- uses: state

local RUNS = 20              -- that are kept, and as many besides before they are dropped

-- Whether what this one runs can count for others: it has the lock for itself.
local function is_run(h)
  return h.mode == 'x' and slots == 1 and not h.promise and not h.ended and not h.detached
end

-- Verdict: 'good', 'failed', or 'none' for what was no run in the end. Returns its record.
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
