-- The state of the lock KEYS[1]: its keys and records, the server's time, and what S says.
--
-- Every script of a lock begins with this, which changes nothing. holders.lua reads who holds the
-- lock. The rules of the scripts are those of src/rules: rules_against_lua_test.cpp runs the same
-- histories through both.
--
-- KEYS[1]     a string with a time to live: the holder. It contains an exclusive holder's token,
--             as in every `SET NX PX` lock; the token of the waiter that has the promise; or a
--             marker while shared or slot holders are in H. Anything else is the token of another
--             program.
-- KEYS[1]:s   a hash: fence (the last one), slots (the number that holders and waiters name),
--             last (the last grant, as grant_id() names it), reclaimed (from a lease that was
--             set up again to the next grant: the fence of the last grant, 0 if there was
--             none, and the grants whose leases were lost since), run and good (of
--             the runs that count for deduplication the last one, and the last successful one),
--             dedupes (D may have entries), kept (until when all this is kept, in ms, if a lease
--             is very long), told (when A was last notified of a promise), newest (when the last
--             claim came that supersedes older ones, and its token), replacers (the tokens of
--             the waiters that take the lock from its holders), refused and superseded (numbers
--             of such claims), idle (the fence of the last grant, if its release has left neither
--             holders nor waiters), late (when the last of the keys KEYS[1]:t:TOKEN
--             expires, except those that a client has set itself),
--             armed (in which period S and R got their time to live)
-- KEYS[1]:h   a hash of token -> record of a holder, or of a promise; and of fence -> record
--             of a lease that stays held after its run has ended
-- KEYS[1]:q   a sorted set of waiters' tokens by priority and order of arrival (joining.lua)
-- KEYS[1]:w   a hash of token -> record of a waiter
-- KEYS[1]:r   a list of ended runs and ended detached leases, newest first
-- KEYS[1]:d   a hash of token -> the deduplication rule of a waiter
-- KEYS[1]:d:TOKEN  the run against which that waiter was deduplicated; or an s, followed by the
--             claimant that superseded it
-- KEYS[1]:f   a string: the greatest fence that a resource of this name has admitted; it
--             does not belong to a lock, and has no time to live
-- KEYS[1]:v   a hash, the value that is cached under this name: fence (of the run it is from),
--             size, sum (its checksum), stale (for how many ms of its time to live it is past
--             its ttl), and data, unless it is large
-- KEYS[1]:v:FENCE  a string: the data of a large value
-- KEYS[1]:w:ID  a list that notifies the waiter ID when to ask again, in ms, mostly at once
--             because of a promise; or that it has the lock: 'granted' and the fence
-- KEYS[1]:a    a list with the same notifications for the waiter that listens first
-- KEYS[1]:b:FENCE  a list that notifies the holder with that fence that its lease is broken
-- KEYS[1]:t:TOKEN  a string: '1' for a claim that was abandoned before it was answered; 'gone' for
--             one that was released after its lease had ended, which may be set up again
-- KEYS[1]:e   a stream of the newest events, and the channel that says so
-- NAMESPACE:locks  a sorted set of encoded names by the period in which the lock was last used for
--             the first time: where list looks if the database is large. It need not be complete,
--             and nothing depends on it. A cluster has none, as its locks are on different members
--
-- The usual claim asks for a lock that is idle and releases one that has no waiters. For this to
-- take few calls, ask.lua and release.lua end early then; tests/bats/cost.bats counts them.
--
-- Numbers of microseconds take as long to format and parse as a command does, also as arguments of
-- redis.call. Each is therefore converted once: number() remembers the text for int(), and
-- constants that are only arguments are strings.
--
-- With memory full a script can only continue if its first write is one that frees memory: DEL,
-- HDEL, ZREM or PEXPIRE comes before any other.
--
-- Without a permission the script stops at the call that needs it. For no key to stay forever, a
-- script that creates a key has used PEXPIRE before, or undoes the write.

local key = KEYS[1]
local S, H, Q, W, R = key .. ':s', key .. ':h', key .. ':q', key .. ':w', key .. ':r'
local D, A = key .. ':d', key .. ':a'

local MARKER = 'dlock:shared'
-- 32 days and a period: fence and runs of an unused lock are kept for 32 days, counted from the
-- end of a lease that is longer than LONG_MS.
local KEPT_MS = '2864800000'
local LONG_MS = 1296000000
-- 2^52: no clock shows as many microseconds before 2112, so a greater fence is a mistake or a
-- lie. Lua numbers are exact up to twice as much.
local MOST_FENCE = 4503599627370496

local time = redis.call('TIME')
local now_text = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(now_text) -- microseconds
local period = string.sub(time[1], 1, -6) -- of 100,000 s

local texts = { [0] = '0', [now] = now_text } -- of numbers
local function number(text)
  local n = tonumber(text)
  texts[n] = text
  return n
end
local function int(x) return texts[x] or string.format('%.0f', x) end

local state = redis.call('HMGET', S, 'fence', 'slots', 'reclaimed', 'dedupes', 'kept',
  'told', 'newest', 'replacers', 'idle', 'late', 'armed', 'last')
local fence = number(string.match(state[1] or '0', '^%d+$') or int(MOST_FENCE))
local NO_FENCE_LEFT = 'WRONGTYPE ' .. S .. ' has a fence that no clock explains: see dlock doctor'
local slots, reclaimed = number(state[2] or '1'), state[3]
local dedupes = state[4] == '1'
local kept_until = tonumber(state[5] or 0) -- in ms
local kept_ms = KEPT_MS                    -- of S, H and R
if kept_until > 0 then kept_ms = int(math.max(kept_until - now / 1000, tonumber(KEPT_MS))) end
local told = tonumber(state[6] or 0)
local replacers = state[8]
-- A grant since then would have changed the fence. Another program may hold it.
local is_idle = state[9] and state[9] == state[1]
local late = tonumber(state[10] or 0)
local armed = state[11]
-- The last grant: its fence, also where a lease that was set up again has a greater one, and its
-- id; '' if that is not known, as earlier versions have not recorded it.
local latest = { fence = reclaimed and tonumber(string.match(reclaimed, '^%d+')) or fence,
  id = state[12] or '' }
if string.match(latest.id, '^%d+') ~= int(latest.fence) then latest.id = '' end

-- Which grant it is. Its fence does not show that: two servers, of which one lacks what the other
-- has granted, may grant the same; nor does the token, for which the lock may be granted again.
local function grant_id(of_fence, of_token)
  return int(of_fence) .. ':' .. string.sub(of_token, 1, 16)
end

local value = false -- of KEYS[1]
local holders = {}  -- token -> record, holders and promises

local function is_foreign()
  return value and value ~= MARKER and not holders[value]
end

-- For a script that adds a holder or a waiter without a new fence.
local function end_idleness()
  if is_idle then redis.call('HDEL', S, 'idle') end
  is_idle = false
end

-- Sets a time to live for a new key. Without permission for that, the given command undoes the
-- write.
local function expire_or(of, ms, ...)
  local expires = redis.pcall('PEXPIRE', of, ms)
  if type(expires) == 'number' then return end
  redis.call(...)
  error(expires.err, 0)
end

local function is_in_cluster() return KEYS[2] and string.sub(KEYS[2], 1, #key) == key end

-- Notes the name for list, for 60 periods. A failure (no permission, the key of another kind) does
-- not matter.
local function note_name()
  local name_space, name = string.match(key, '^([^{]*):{(.*)}$')
  if is_in_cluster() or not name then return end
  local index = name_space .. ':locks'
  redis.pcall('ZADD', index, period, name)
  redis.pcall('ZREMRANGEBYSCORE', index, '-inf', period - 60)
  redis.pcall('PEXPIRE', index, KEPT_MS)
end

-- Keeps S, if it exists, and R: the first time in each period, instead of in every script. Without
-- permission for PEXPIRE, the script stops here then.
local function keep_state()
  if armed == period or redis.call('PEXPIRE', S, kept_ms) == 0 then return end
  armed = period
  redis.call('HSET', S, 'armed', period)
  redis.call('PEXPIRE', R, kept_ms)
  note_name()
end

-- A record is a few words, and from a position on JSON that only clients parse.
local function holder_of(text)
  local mode, slot, fence, since, ends, kind, json =
    string.match(text, '^(%a) (%d+) (%d+) (%d+) (%d+) (%a) ()')
  return { mode = mode, slot = number(slot), fence = number(fence), since = number(since),
    ends = number(ends), promise = kind == 'p', ended = kind == 'e', detached = kind == 'd',
    broken = kind == 'b', info = string.sub(text, json) }
end
local function holder_text(h)
  local kind = h.promise and 'p' or h.ended and 'e' or h.detached and 'd' or h.broken and 'b' or 'h'
  return h.mode .. ' ' .. int(h.slot) .. ' ' .. int(h.fence) .. ' ' .. int(h.since) .. ' ' ..
    int(h.ends) .. ' ' .. kind .. ' ' .. h.info
end
