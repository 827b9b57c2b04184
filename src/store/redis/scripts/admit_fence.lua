-- Admits a fence for a resource, unless a greater one was admitted before.
--
-- ARGV: the fence, in decimal digits. Answers 'admitted' or 'stale'.
local register, wanted = KEYS[1] .. ':f', ARGV[1]
local greatest = redis.call('GET', register) or '0'

if not string.match(greatest, '^%d+$') then
  return redis.error_reply('WRONGTYPE ' .. register .. ' has no fence')
end
-- Compared as text: Lua numbers are exact only up to 2^53. Neither has leading zeros.
if #greatest > #wanted or #greatest == #wanted and greatest > wanted then return 'stale' end
if greatest ~= wanted then redis.call('SET', register, wanted) end
return 'admitted'
