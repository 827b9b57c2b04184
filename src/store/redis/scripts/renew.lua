-- Sets the lease to a full one from now, if it still is the caller's.
--
-- ARGV: token, fence, ttl in ms. Answers 'renewed', {'broken', the holder as JSON} (it was
-- renewed, but the caller is to end), 'gone' or 'taken over'.
--
-- uses: state
local token, own_fence, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local own = holders[token]
-- A request to be granted the lock that came late, when the lease was gone, has got another one,
-- or the promise of one; others may have had the lock in between.
local is_another = own and own.fence ~= own_fence

if value == token and not is_another then
  redis.call('PEXPIRE', key, ttl)
elseif value == MARKER and own and own.ends > now and not is_another then
  redis.call('PEXPIRE', key, math.max(ttl, redis.call('PTTL', key)))
  own.ends = now + ttl * 1000
  redis.call('HSET', H, token, holder_text(own))
elseif value and value ~= MARKER or slots == 1 and granted > own_fence then
  return 'taken over'
else
  return 'gone'
end
redis.call('PEXPIRE', H, kept_ms)
redis.call('PEXPIRE', S, kept_ms)
redis.pcall('PEXPIRE', R, kept_ms) -- in a cluster it may have been moved before the lock
keep_for(ttl)
return own and own.broken and { 'broken', own.info } or 'renewed'
