-- Sets a lease to this ttl from now, if the caller still holds it.
--
-- ARGV: token, ttl in ms; 1 if the lease keeps the ttl that it was acquired with, where that is
-- known. Answers {'renewed', ttl}, 'gone' or 'taken over'.
--
-- uses: holders holding watching
local token, ttl = ARGV[1], tonumber(ARGV[2])
local own = holders[token]
local is_promise = own and own.promise

if is_promise or value ~= token and not (own and counts(token, own)) then
  if value and value ~= MARKER and not is_promise then return 'taken over' end
  return 'gone'
end

if ARGV[3] == '1' and own then
  -- Quotes inside JSON strings are escaped.
  ttl = tonumber(string.match(own.info, '"ttl_ms":(%d+)') or ttl)
end
local ends, ended = now + ttl * 1000, own and own.ends
if value == token then
  ended = now + redis.call('PTTL', key) * 1000
  redis.call('PEXPIRE', key, ttl)
else
  -- The marker lasts as long as the longest lease.
  local last = ends
  for other, h in pairs(holders) do
    if other ~= token and counts(other, h) then last = math.max(last, h.ends) end
  end
  redis.call('PEXPIRE', key, math.ceil((last - now) / 1000))
end
if own then
  own.ends = ends
  redis.call('HSET', H, token, holder_text(own))
end
redis.call('PEXPIRE', H, kept_ms)
redis.call('PEXPIRE', S, kept_ms)
redis.call('PEXPIRE', R, kept_ms)
keep_for(ttl)

-- Waiters that watch the clock know only when the lease would have ended before.
if ends < ended then
  local _, waiters = next_in_line(1)
  for _, w in pairs(waiters) do wake(w) end
end
return { 'renewed', ttl }
