-- What those are told who watch the lock, in the step in which it happens.
--
-- uses: state

-- Tells those who watch: what, to whose grant (its fence, for how many ms it lasts), and
-- who that is as JSON; behind a line break how a run ended. Whether anybody listens, and
-- whether this user may speak there, is of no concern to the lock.
local function tell(event, of_fence, ms, info)
  redis.pcall('PUBLISH', key .. ':e', event .. ' ' .. int(of_fence) .. ' ' .. int(ms) .. ' ' ..
    free() .. ' ' .. int(now) .. ' ' .. info)
end
