-- Removes the caller from the queue of the limit KEYS[1] (see limit.lua) and from the admitted
-- ones: it withdraws only if it did not receive the admission and has not used it.
-- ARGV: the caller. Answers 'withdrawn'.
local L = KEYS[1] .. ':limit'
for _, key in ipairs({ ':queue', ':turns', ':stamps' }) do
  redis.call('ZREM', L .. key, ARGV[1])
end
return 'withdrawn'
