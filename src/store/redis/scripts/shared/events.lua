-- Publishes the events of the lock, in the step in which they happen.
--
-- uses: state

-- Publishes an event: its name, the grant (fence, and for how many ms it lasts) and the party as
-- JSON; after a line break how a run ended. It does not matter to the lock whether there are
-- subscribers, or whether this user may publish.
local function publish(event, of_fence, ms, info)
  redis.pcall('PUBLISH', key .. ':e', event .. ' ' .. int(of_fence) .. ' ' .. int(ms) .. ' ' ..
    free() .. ' ' .. int(now) .. ' ' .. info)
end
