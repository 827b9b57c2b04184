-- The records of runs that are over.
--
-- uses: state

local RUNS = 20              -- runs to keep; older ones are dropped once there are twice as many

-- Whether other claims can be deduplicated against its run: it holds the lock alone.
local function is_run(h)
  return h.mode == 'x' and slots == 1 and not h.promise and not h.ended and not h.detached
end

-- The part of a run's record that says who freed its lock by force, if anyone did.
local function forced_part(run) return string.match(run, ',("forced_by":{.*})}$') end

-- The answer to the holder with this fence, if its lock was freed by force.
local function forced_answer(of_fence)
  for i = 0, RUNS - 1 do
    local run = redis.call('LINDEX', R, i)
    if not run then return nil end
    if string.match(run, '^%d+') == int(of_fence) then
      local forced = forced_part(run)
      return forced and { 'broken', '{' .. forced .. '}' }
    end
  end
end

-- Adds a record to R.
local function push_run(run)
  local count = redis.call('LPUSH', R, run)
  if count == 1 then expire_or(R, kept_ms, 'LTRIM', R, '1', '0') end
  return count
end

-- Verdict: 'good', 'failed', or 'none' if there was no run in the end. `idle`: the lock is idle
-- then. Returns the record of the run.
local function note_run(h, ended, text, verdict, idle)
  local run = int(h.fence) .. ' ' .. int(h.since) .. ' ' .. int(ended) .. ' ' .. text
  if push_run(run) > 2 * RUNS then redis.call('LTRIM', R, '0', RUNS - 1) end
  if verdict == 'none' or not is_run(h) then return run end
  local fields = { 'run', run }
  if verdict == 'good' then fields[3], fields[4] = 'good', run end
  if idle then fields[#fields + 1], fields[#fields + 2] = 'idle', int(fence) end
  redis.call('HSET', S, unpack(fields))
  return run
end
