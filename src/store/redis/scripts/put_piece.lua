-- Writes a piece of a value that is to be stored, if the lock is the caller's, whose lease is
-- its full one again then.
--
-- ARGV: token, ttl of the lease in ms, where the piece begins, the piece. Answers 'written'
-- or 'not ours'.
--
-- uses: state
local ABANDONED_MS = 120000 -- what is not stored in the end goes away by itself
local token, ttl, offset, piece = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local own = holders[token]
if value ~= token or not own or own.promise then return 'not ours' end

-- The first write, which has to be refused where memory is full.
local data = key .. ':v:' .. int(own.fence)
local written = redis.pcall('SETRANGE', data, offset, piece)
if type(written) == 'table' then
  redis.call('DEL', data)
  return written
end
expire_or(data, ABANDONED_MS, 'DEL', data)
redis.call('PEXPIRE', key, ttl)
return 'written'
