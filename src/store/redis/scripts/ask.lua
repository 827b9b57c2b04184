-- Grants the lock, or says why not.
--
-- ARGV: token, the waiter's id, mode (x or s; a d behind it for a detached lease), slots, ttl
-- in ms, whether to join the queue (1 or 0), the claimant as JSON, which runs count as its
-- own or nothing, the server's time when it came first if it had a place in the queue, a fence
-- that the granted one has to be beyond (or 0), then the fences that outer runs hold.
-- Answers {'granted', fence, slot}, {'busy', now, place, queued, blocked for, holders},
-- {'above', fence}, {'slots', number}, {'deduplicated', run} or {'given up'}. What blocks it
-- is of no concern to a waiter that others watch for: -2.
--
-- uses: turns expiry dedupe watching runs
local SHOWN = 8         -- holders told to one that waits
local QUICK_PLACES = 50 -- so many whose turn may come before a quick lock is one no more

local token, id, wanted, ttl = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local mode, detached = string.sub(ARGV[3], 1, 1), string.sub(ARGV[3], 2) == 'd'
local join, info, dedupe = ARGV[6] == '1', ARGV[7], ARGV[8] ~= '' and ARGV[8]
local arrived, floor = tonumber(ARGV[9]), tonumber(ARGV[10])

local function is_above(h)
  for i = 11, #ARGV do
    if tonumber(ARGV[i]) == h.fence then return not h.ended end
  end
  return false
end

local function granted(h)
  return { 'granted', int(h.fence), h.slot }
end

local function free_slot()
  local taken = {}
  for other, h in pairs(holders) do
    if not h.promise and other ~= token then taken[h.slot] = true end
  end
  local slot = 0
  while taken[slot] do slot = slot + 1 end
  return slot
end

local function grant()
  fence = math.max(fence + 1, floor + 1, now)
  local h = { mode = mode, slot = mode == 's' and 0 or free_slot(), fence = fence, since = now,
    ends = now + ttl * 1000, promise = false, detached = detached, info = info }
  slots = wanted
  occupy(token, h, ttl)
  redis.call('HSET', S, 'fence', int(fence), 'slots', int(slots))
  if reclaimed then redis.call('HDEL', S, 'reclaimed') end
  redis.call('PEXPIRE', S, kept_ms)
  tell('granted', fence, ttl, info)
  if is_run(h) then dismiss() end
  if ttl < PROMISE_MS and queued_count() > 0 then
    -- It may be over before those who watched the promise ask.
    local _, waiters = next_in_line(1)
    if waiters[1] then wake(waiters[1]) end
  end
  return granted(h)
end

local function busy(place, watches)
  return { 'busy', int(now), place, queued_count(), watches and blocked_for() or -2,
    holders_shown(SHOWN) }
end

-- Whether somebody has just got the lock. Who comes now may soon be one of the next, and
-- watches beforehand, so that it need not be told then.
local function is_quick()
  local h = holders[value]
  return h and now - h.since < QUICK_MS * 1000
end

-- The answer to a waiter, which also notes whether it is one to watch.
local function wait(w, place)
  call_those_before(token)
  w.quick = place <= QUICK_PLACES and is_quick()
  w.watches = w.quick or is_to_watch(token)
  note_waiter(token, w)
  redis.call('PEXPIRE', W, QUEUE_MS)
  if dedupe then
    redis.call('HSET', D, token, dedupe)
    redis.call('PEXPIRE', D, QUEUE_MS)
    redis.call('HSET', S, 'dedupes', '1')
  end
  return busy(place, w.watches)
end

remove_expired()

local own = holders[token]
if own and not own.promise then
  -- The answer got lost, or the caller wants to be sure: the full lease again.
  own.ends = now + ttl * 1000
  redis.call('PEXPIRE', key, value == MARKER and math.max(ttl, redis.call('PTTL', key)) or ttl)
  redis.call('HSET', H, token, holder_text(own))
  keep_for(ttl)
  redis.call('DEL', key .. ':w:' .. id) -- which may tell of it, too
  return granted(own)
end
if redis.call('EXISTS', key .. ':t:' .. token) == 1 then return { 'given up' } end
if fence >= MOST_FENCE then
  return redis.error_reply('WRONGTYPE ' .. S .. ' has a last fence that none can follow')
end

-- Mostly nobody waits, and then there is nothing to be asked about it.
local is_queue = queued_count() > 0
local text = is_queue and record_of(token)
local queued = text and redis.call('ZSCORE', Q, token)
local w = queued and waiter_of(text)
if queued then
  -- One that comes late has its place again, as long as nobody else was promised it.
  w.passed, w.called = false, false
  w.until_ = now + PLACE_MS * 1000
  if own then
    records[token] = waiter_text(w) -- what it was promised it has a few lines below
  else
    redis.call('PEXPIRE', Q, QUEUE_MS)
    note_waiter(token, w)
    redis.call('PEXPIRE', W, QUEUE_MS)
  end
end
if is_queue then promise_to_the_next(token) end
local dismissed_by = dedupe and redis.call('GET', D .. ':' .. token)
if dismissed_by then return { 'deduplicated', dismissed_by } end
if arrived > 0 and not queued then call_roll() end

-- Whoever is there already has to name the same number of slots.
local others = queued_count() - (queued and 1 or 0)
for other in pairs(holders) do
  if other ~= token then others = others + 1 end
end
if others == 0 then
  slots = wanted
elseif slots ~= wanted then
  return { 'slots', slots }
end

-- A reader below a reader enters even if a writer waits: that writer waits for the outer
-- run, which waits for this one.
local joins_outer_reader, above, can_wait = false, false, false
for _, h in pairs(holders) do
  if not h.promise and is_above(h) then
    above = h.fence
    if mode == 's' and h.mode == 's' then joins_outer_reader = true end
  else
    can_wait = mode == 'x' and wanted > 1 -- somebody else's slot can become free
  end
end

if dedupe then
  if above then return { 'above', int(above) } end
  local run = counting_run(dedupe, join)
  if run then
    if queued then
      forget(token)
      promise_to_the_next()
    end
    return { 'deduplicated', run }
  end
end

if queued then
  if not holders[token] then return wait(w, redis.call('ZRANK', Q, token) + 1) end
  remove_waiter(token)
  redis.call('DEL', key .. ':w:' .. id)
  return grant()
end

-- Those that were promised it already count as if they held it.
local nobody_waits, first = true, 0
while is_queue and nobody_waits do
  local waiting = waiting_at(first)
  if not waiting then break end
  local record = record_of(waiting)
  nobody_waits = holders[waiting] ~= nil or not record or waiter_of(record).passed
  first = first + 1
end

if (nobody_waits or joins_outer_reader) and admits(mode, wanted) then return grant() end
if above and not can_wait then return { 'above', int(above) } end
if not join then return busy(0, false) end

-- By the clock, but behind whoever is there even if the clock stepped back. Who had a place
-- that was forgotten has it again.
local score = arrived
if arrived == 0 or arrived > now then
  local last = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
  score = math.max(now, last and last + 1 or 0)
end
add_waiter(token, score)
expire_or(Q, QUEUE_MS, 'ZREM', Q, token)
if state[2] ~= ARGV[4] then
  redis.call('HSET', S, 'slots', ARGV[4])
  redis.call('PEXPIRE', S, kept_ms)
end
tell('queued', 0, 0, info)
local is_plain = mode == 'x' and wanted == 1 and not detached and not dedupe and floor == 0
return wait({ mode = mode, since = now, until_ = now + PLACE_MS * 1000,
  ttl = is_plain and ARGV[5] or '0', id = id, info = info }, redis.call('ZRANK', Q, token) + 1)
