-- The values that runs store.

-- script: put_piece
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

-- script: put_value
-- Stores a value, replacing the previous one, if the caller holds the lock, and renews its lease.
--
-- ARGV: token, ttl of the lease in ms, for how many ms the value is kept, for how many of these
-- it is stale, its size, its checksum, whether it was written in pieces (1 or 0), and if not, the
-- data. Answers 'stored' or 'not ours'.
--
-- uses: holders
local token, ttl, value_ms, in_pieces = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[7] == '1'
local own = holders[token]
if value ~= token or not own or own.promise or own.broken then return 'not ours' end

local V, from = key .. ':v', int(own.fence)
local before = redis.call('HGET', V, 'fence')
-- The first write, which the server must refuse if memory is full.
local stored = redis.pcall('HSET', V, 'fence', from, 'size', ARGV[5], 'sum', ARGV[6],
  'stale', ARGV[4], 'lives', value_ms, 'data', ARGV[8] or '')
if type(stored) == 'table' then
  if in_pieces then redis.call('DEL', V .. ':' .. from) end
  return stored
end
expire_or(V, value_ms, 'DEL', V)
if in_pieces and redis.call('PEXPIRE', V .. ':' .. from, value_ms) == 0 then
  redis.call('DEL', V)
  return redis.error_reply('OOM the value was evicted before it was stored')
end
if before and before ~= from then redis.call('DEL', V .. ':' .. before) end
redis.call('PEXPIRE', key, ttl)
return 'stored'
