-- Clears what ran out, which those who watch are told of, and promises what is free.
--
-- Answers {now, holders}, as inspect.lua shows them.
--
-- uses: turns expiry
remove_expired()
promise_to_the_next()
return { int(now), holders_shown(100000) }
