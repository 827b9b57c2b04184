-- Renewing a lease, setting the one that servers have agreed on, and restoring one that vanished.

-- script: renew
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
  local taken = value and value ~= MARKER or slots == 1 and latest.fence > own_fence
  return forced_answer(own_fence) or taken and 'taken over' or 'gone'
end
redis.call('PEXPIRE', H, kept_ms)
redis.call('PEXPIRE', S, kept_ms)
redis.pcall('PEXPIRE', R, kept_ms) -- in a cluster it may be migrated before the lock
keep_for(ttl)
return own and own.broken and { 'broken', own.info } or 'renewed'

-- script: set_lease
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

-- script: reclaim
-- Sets up a lease again that the server has forgotten, unless the lock was granted since.
--
-- ARGV: token, fence, ttl in ms, mode (x or s), slots, slot, the holder as JSON, the grant before
-- it or ''. Answers 'reclaimed' or 'taken over'.
--
-- uses: expiry holding leaving
local token, own_fence, ttl, mode = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local wanted, slot, info = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

-- The claim was released while this request was in flight.
if redis.call('GET', key .. ':t:' .. token) == '1' then return 'taken over' end

-- Where the state is an older one, it may still wait.
remove_waiter(token)
withdraw_promise(token)

-- Each grant first removes expired leases. The leases that remove_expired() finds here thus expired
-- after the last grant. They are recorded, because their holders may reclaim them in turn.
local reclaimable = reclaimed or int(fence) .. ' '
local function is_reclaimable(id)
  return string.find(reclaimable, ' ' .. id .. ' ', 1, true) ~= nil
end
for other, h in pairs(holders) do
  local id = grant_id(h.fence, other)
  if not h.promise and not h.ended and not counts(other, h) and not is_reclaimable(id) then
    reclaimable = reclaimable .. id .. ' '
  end
end
remove_expired()

-- A fence is the time of its grant, unless the clock was behind the last one.
local since = math.min(own_fence, now)
local own = holders[token]
if own then
  -- The answer to an earlier, identical request got lost.
  since = own.since
  holders[token] = nil
  if value == token then value = false end
end

local function fits()
  local others = redis.call('ZCARD', Q)
  for _, h in pairs(holders) do
    others = others + 1
    if mode == 'x' and not h.promise and h.slot == slot then return false end
  end
  return (others == 0 or slots == wanted) and admits(mode, wanted)
end

-- The run has not vanished after all. Returns when it began.
local function take_back_run()
  for i = 0, RUNS - 1 do
    local run = redis.call('LINDEX', R, i)
    if not run then return nil end
    local began = string.match(run, '^' .. int(own_fence) .. ' (%d+) 0 ')
    if began then
      redis.call('LREM', R, 1, run)
      return tonumber(began)
    end
  end
end

-- Not decided by which fence is greater: the clock of a server that took over or has lost its data
-- may be behind. A server that has recorded no grant at all may have forgotten others as well.
local own_id = grant_id(own_fence, token)
local is_next = latest.id ~= '' and latest.id == ARGV[8]
local was_granted_since = latest.fence ~= 0 and latest.id ~= own_id and not is_next and
  not is_reclaimable(own_id)
if was_granted_since or not fits() then return 'taken over' end
if is_next then
  latest.id = own_id
  reclaimable = string.gsub(reclaimable, '^%d+', int(own_fence))
end
redis.call('HDEL', H, token) -- with memory full the first write must be one that frees
since = take_back_run() or since
slots = wanted
occupy(token, { mode = mode, slot = slot, fence = own_fence, since = since,
  ends = now + ttl * 1000, promise = false, info = info }, ttl)
redis.call('HSET', S, 'fence', int(math.max(fence, own_fence)), 'slots', int(slots),
  'last', latest.id, 'reclaimed', reclaimable)
end_idleness()
keep_state()
if not own then publish('granted', own_fence, ttl, info) end
return 'reclaimed'
