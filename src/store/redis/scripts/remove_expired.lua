-- Removes expired leases, which publishes their events, and promises the free lock to waiters.
--
-- Answers {now, holders}, as in inspect.lua.
--
-- uses: showing turns expiry
remove_expired()
promise_to_the_next()
return { int(now), holders_shown(100000) }
