-- Writes a piece of a value to be stored, if the caller holds the lock, and renews its lease.
--
-- ARGV: token, ttl of the lease in ms, offset of the piece, the piece. Answers 'written'
-- or 'not ours'.
--
-- uses: holders
local ABANDONED_MS = 120000 -- the pieces of an abandoned value expire
local token, ttl, offset, piece = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local own = holders[token]
if value ~= token or not own or own.promise then return 'not ours' end

-- The first write, which the server must refuse if memory is full.
local data = key .. ':v:' .. int(own.fence)
local written = redis.pcall('SETRANGE', data, offset, piece)
if type(written) == 'table' then
  redis.call('DEL', data)
  return written
end
expire_or(data, ABANDONED_MS, 'DEL', data)
redis.call('PEXPIRE', key, ttl)
return 'written'
