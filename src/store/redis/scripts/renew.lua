-- Renews the lease for its full ttl, if the caller still holds it.
--
-- ARGV: token, fence, ttl in ms. Answers 'renewed', {'broken', the holder as JSON} (it was
-- renewed, unless the lock was freed by force; the caller must stop its command), 'gone' or 'taken
-- over'.
--
-- uses: holders holding
local token, own_fence, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local own = holders[token]
-- Another fence means that a late request of the same claim, which arrived after the lease was
-- gone, got a new lease or a promise; others may have held the lock in between.
local is_another = own and own.fence ~= own_fence

if value == token and not is_another then
  redis.call('PEXPIRE', key, ttl)
elseif value == MARKER and own and own.ends > now and not is_another then
  redis.call('PEXPIRE', key, math.max(ttl, redis.call('PTTL', key)))
  own.ends = now + ttl * 1000
  redis.call('HSET', H, token, holder_text(own))
else
  -- uses: runs
  local taken = value and value ~= MARKER or slots == 1 and granted > own_fence
  return forced_answer(own_fence) or taken and 'taken over' or 'gone'
end
redis.call('PEXPIRE', H, kept_ms)
redis.call('PEXPIRE', S, kept_ms)
redis.pcall('PEXPIRE', R, kept_ms) -- in a cluster it may be migrated before the lock
keep_for(ttl)
return own and own.broken and { 'broken', own.info } or 'renewed'
