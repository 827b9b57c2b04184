-- The state of the lock KEYS[1]: its keys and records, the server's time, and its holders.
--
-- Every script of a lock begins with this, which reads the holders and changes nothing. The rules
-- of the scripts are those of src/rules: rules_against_lua_test.cpp runs the same histories
-- through both.
--
-- KEYS[1]     a string with a time to live: the holder. It contains an exclusive holder's token,
--             as in every `SET NX PX` lock; the token of the waiter that has the promise; or a
--             marker while shared or slot holders are in H. Anything else is a foreign holder.
-- KEYS[1]:s   a hash: fence (the last one), slots (the number that holders and waiters name),
--             reclaimed (from a lease that was set up again to the next grant: the fence of
--             the last grant, 0 if unknown, and those of leases lost since), run and good (of
--             the runs that count for deduplication the last one, and the last successful one),
--             dedupes (D may have entries), kept (until when all this is kept, in ms, if a lease
--             is very long), told (when A was last notified of a promise), newest (when the last
--             claim came that supersedes older ones, and its token), replacers (the tokens of
--             the waiters that take the lock from its holders), refused and superseded (numbers
--             of such claims)
-- KEYS[1]:h   a hash of token -> record of a holder, or of a promise; and of fence -> record
--             of a lease that stays held after its run has ended
-- KEYS[1]:q   a sorted set of waiters' tokens by order of arrival
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
-- KEYS[1]:t:TOKEN  a claim that was abandoned before it was answered
-- KEYS[1]:e   not a key, but the channel on which events are published
--
-- redis.call formats and parses numeric arguments, which takes as long as the command itself:
-- constants are strings.
--
-- With memory full a script can only continue if its first write is one that frees memory: DEL,
-- HDEL, ZREM or PEXPIRE comes before any other.
--
-- Without a permission the script stops at the call that needs it. So that no key stays forever, a
-- script that creates a key has used PEXPIRE before, or undoes the write.

local key = KEYS[1]
local S, H, Q, W, R = key .. ':s', key .. ':h', key .. ':q', key .. ':w', key .. ':r'
local D, A = key .. ':d', key .. ':a'

local MARKER = 'dlock:shared'
local KEPT_MS = '2592000000' -- 30 days: fence and runs of an unused lock,
local LONG_MS = 1296000000   -- counted from the end of a lease that is longer than this
local MOST_FENCE = 9007199254740991 -- 2^53 - 1: greater Lua numbers are not exact

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds
local now_text = time[1] .. string.sub('00000' .. time[2], -6)

local function int(x)
  if x == now then return now_text end
  return string.format('%.0f', x)
end

-- Sets a time to live for a new key; without permission for that, the key is deleted again.
local function expire_or(of, ms, ...)
  local expires = redis.pcall('PEXPIRE', of, ms)
  if type(expires) == 'number' then return end
  redis.call(...)
  error(expires.err, 0)
end

-- A record is a few words followed by JSON that only clients parse.
local function holder_of(text)
  local mode, slot, fence, since, ends, kind, info =
    string.match(text, '^(%a) (%d+) (%d+) (%d+) (%d+) (%a) (.*)$')
  return { mode = mode, slot = tonumber(slot), fence = tonumber(fence), since = tonumber(since),
    ends = tonumber(ends), promise = kind == 'p', ended = kind == 'e', detached = kind == 'd',
    broken = kind == 'b', info = info }
end
local function holder_text(h)
  local kind = h.promise and 'p' or h.ended and 'e' or h.detached and 'd' or h.broken and 'b' or 'h'
  return h.mode .. ' ' .. int(h.slot) .. ' ' .. int(h.fence) .. ' ' .. int(h.since) .. ' ' ..
    int(h.ends) .. ' ' .. kind .. ' ' .. h.info
end

local value = redis.call('GET', key)
local holders = {} -- token -> record, holders and promises
local flat = redis.call('HGETALL', H)
for i = 1, #flat, 2 do holders[flat[i]] = holder_of(flat[i + 1]) end
local state = redis.call('HMGET', S, 'fence', 'slots', 'reclaimed', 'dedupes', 'kept',
  'told', 'newest', 'replacers')
local fence = tonumber(string.match(state[1] or '0', '^%d+$') or MOST_FENCE)
local slots, reclaimed = tonumber(state[2] or 1), state[3]
local told = tonumber(state[6] or 0)
local newest_score, newest = string.match(state[7] or '', '^(%d+) (%x+)$')
local replacers = state[8]
-- The fence of the last grant: a lease that is set up again keeps its own fence.
local granted = reclaimed and tonumber(string.match(reclaimed, '^%d+')) or fence
local dedupes = state[4] == '1'
local kept_until = tonumber(state[5] or 0) -- in ms
local kept_ms = KEPT_MS                    -- of S, H and R
if kept_until > 0 then kept_ms = int(math.max(kept_until - now / 1000, tonumber(KEPT_MS))) end

-- Whether a record of H is still valid: by the key for a single holder, by its time for several.
local function counts(token, h)
  if value == token then return true end
  return value == MARKER and h.ends > now
end
local function is_foreign()
  return value and value ~= MARKER and not holders[value]
end

-- The holder that is releasing the lock: no longer among the others, but its event was not
-- published yet.
local leaving

-- How many more can hold the lock.
local function free()
  if leaving and leaving.mode == 's' then return 0 end
  local taken = is_foreign() and slots or leaving and 1 or 0
  for _, h in pairs(holders) do
    if not h.promise then
      if h.mode == 's' then return 0 end
      taken = taken + 1
    end
  end
  return math.max(slots - taken, 0)
end

-- Whether the lock admits one more holder.
local function admits(mode, wanted)
  if is_foreign() then return false end
  local shared, exclusive = 0, 0
  for _, h in pairs(holders) do
    if h.mode == 's' then shared = shared + 1 else exclusive = exclusive + 1 end
  end
  if mode == 's' then return exclusive == 0 end
  return shared == 0 and exclusive < wanted
end

-- Keeps the records of a very long lease until its end, instead of KEPT_MS. Not for the first
-- write of a script.
local function keep_for(ms)
  if ms < LONG_MS then return end
  kept_until = math.max(kept_until, math.ceil(now / 1000) + ms + tonumber(KEPT_MS))
  kept_ms = int(kept_until - now / 1000)
  redis.call('HSET', S, 'kept', int(kept_until))
  redis.call('PEXPIRE', S, kept_ms)
  redis.call('PEXPIRE', H, kept_ms)
end

-- Gives `token` the lock for this long, as a holder or as a promise.
local function occupy(token, h, ms)
  holders[token] = h
  if h.mode == 'x' and slots == 1 then
    redis.call('SET', key, token, 'PX', int(ms))
    value = token
  else
    redis.call('SET', key, MARKER, 'PX', math.max(ms, redis.call('PTTL', key)))
    value = MARKER
  end
  redis.call('PEXPIRE', H, kept_ms) -- fails without permission
  redis.call('HSET', H, token, holder_text(h))
  redis.call('PEXPIRE', H, kept_ms)
  keep_for(ms)
end

-- The holders as pairs of a record and the time left of its lease.
local function holders_shown(most)
  local shown = {}
  if is_foreign() then return { 'foreign', redis.call('PTTL', key) } end
  for token, h in pairs(holders) do
    if not h.promise and counts(token, h) and #shown < 2 * most then
      shown[#shown + 1] = holder_text(h)
      shown[#shown + 1] = value == token and redis.call('PTTL', key)
        or math.ceil((h.ends - now) / 1000)
    end
  end
  return shown
end
