-- Publishes the events of the lock, in the step in which they happen.
--
-- uses: state

-- The holder that is releasing the lock: no longer among the others, but its event was not
-- published yet.
local leaving

-- How many more can hold the lock.
local function free()
  if leaving and leaving.mode == 's' then return 0 end
  local taken = is_foreign() and slots or leaving and 1 or 0
  for _, h in pairs(holders) do
    if not h.promise then
      if h.mode == 's' then return 0 end
      taken = taken + 1
    end
  end
  return math.max(slots - taken, 0)
end

-- Tells an event: its name, the grant (fence, and for how many ms it lasts) and the party as
-- JSON; after a line break how a run ended. It is recorded if anyone is told to look; on a cluster
-- always, as only subscribers of this member are counted. It does not matter to the lock whether
-- this user may do either.
local function publish(event, of_fence, ms, info)
  local name = key .. ':e'
  local line = event .. ' ' .. int(of_fence) .. ' ' .. int(ms) .. ' ' .. int(free()) .. ' ' ..
    now_text .. ' ' .. info
  local heard = redis.pcall('PUBLISH', name, line)
  if heard == 0 and not is_in_cluster() then return end
  redis.pcall('XADD', name, 'MAXLEN', '1000', '*', 'e', line)
  redis.pcall('PEXPIRE', name, '10000')
end
