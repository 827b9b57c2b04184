-- Takes the one who asks out of the line for the limit KEYS[1] (see limit.lua), and out of
-- those admitted: it asks for this only if it has not heard of that, and made no use of it.
-- ARGV: who asks. Answers 'withdrawn'.
local L = KEYS[1] .. ':limit'
for _, key in ipairs({ ':queue', ':turns', ':stamps' }) do
  redis.call('ZREM', L .. key, ARGV[1])
end
return 'withdrawn'
