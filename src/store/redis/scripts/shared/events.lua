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

-- Publishes an event: its name, the grant (fence, and for how many ms it lasts) and the party as
-- JSON; after a line break how a run ended. It does not matter to the lock whether there are
-- subscribers, or whether this user may publish.
local function publish(event, of_fence, ms, info)
  redis.pcall('PUBLISH', key .. ':e', event .. ' ' .. int(of_fence) .. ' ' .. int(ms) .. ' ' ..
    int(free()) .. ' ' .. now_text .. ' ' .. info)
end
