-- Grants the lock, or says why not.
--
-- ARGV: the claim, see shared/claim.lua.
-- Answers {'granted', fence, slot, the grant before it or ''}, followed by 'broken' and the holder
-- as JSON if the lease was broken at once,
-- {'busy', now, place, queued, blocked for, holders},
-- {'above', fence}, {'slots', number}, {'deduplicated', run},
-- {'superseded', newer claimant} or {'given up'}. `blocked for` is -2 for a waiter that need not
-- watch, because others do; and for a parked one minus the time for which it is parked.
--
-- uses: claim

-- Whether it was abandoned before this request arrived. On a server of a quorum only the key may
-- say so: the client sends that first, as the server may read nothing more.
local function was_abandoned()
  if late < now and not voted then return false end
  return redis.call('EXISTS', key .. ':t:' .. token) == 1
end

-- A claim without options that matter here. The usual cases end early.
local is_usual = mode == 'x' and wanted == 1 and not dedupe and not supersedes and not ticket
  and not is_repair and fence < MOST_FENCE and not was_abandoned()
local is_first_request = arrived == 0 -- or its repetition, if the answer got lost
local is_plain_state = not reclaimed and not dedupes and not replacers

-- It gets an idle lock at once, unless another program has it.
if is_usual and is_first_request and is_idle and is_plain_state
  and redis.call('SET', key, token, 'PX', ARGV[5], 'NX') then
  -- uses: granting
  value = token
  local h = new_holder(0)
  note_holder(token, h, ttl)
  note_grant(h)
  return granted(h)
end

-- uses: joining

-- The record of the only holder, or of the only promise; the lock has one slot then.
local single = not next(holders, next(holders)) and holders[value]

-- It waits at once if a holder keeps the lock, and the first waiter its place.
local function has_to_wait()
  if replaces or not single or single.promise or value == token then return false end
  local first = waiting_at(0)
  if not first then return true end
  local w = not waiter(token) and waiter(first)
  return w and not w.passed and w.until_ > now
end
if is_usual and is_first_request and ARGV[6] == '1' and #ARGV == 10 and has_to_wait() then
  return stay(join_queue())
end

-- uses: granting leaving

-- After the grant. The lease may be over before those that watch the promise ask.
local function ensure_watches()
  if not waiting_at(0) then return end
  ensure_second_watch()
  local _, waiters = next_in_line(1)
  if ttl < PROMISE_MS and waiters[1] then wake(waiters[1]) end
end

local function leave_queue()
  remove_waiter(token)
  redis.call('DEL', key .. ':w:' .. id)
end

-- The first waiter takes its promise.
if is_usual and is_plain_state and single and single.promise and value == token
  and waiting_at(0) == token then
  leave_queue()
  local h = enter(0)
  ensure_watches()
  return granted(h)
end

-- uses: calling turns expiry dedupe taking

local function is_above(h)
  for i = 11, #ARGV do
    if tonumber(ARGV[i]) == h.fence then return not h.ended end
  end
  return false
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
  local h = enter(mode == 's' and 0 or free_slot())
  if is_repair then end_idleness() end -- the fence may stay as it is
  if reclaimed then redis.call('HDEL', S, 'reclaimed') end
  if replacers then take_if_replaced(token, h) end
  if dedupes and is_run(h) then remove_deduplicated() end
  ensure_watches()
  return granted(h)
end

-- Increments a counter in S. A failure to count (memory is full, for example) does not affect
-- the lock.
local function count(field)
  local expires = redis.pcall('PEXPIRE', S, kept_ms) -- fails without permission
  if type(expires) ~= 'number' then return end
  local so_far = string.match(redis.call('HGET', S, field) or '', '^%d+$')
  redis.pcall('HSET', S, field, int((so_far or 0) + 1))
  if expires == 0 then redis.pcall('PEXPIRE', S, kept_ms) end
end

-- The answer to a waiter.
local function wait(w, place)
  call_those_before(token)
  local answer = stay(w, place)
  if refuse then count('refused') end
  if dedupe then
    redis.call('HSET', D, token, dedupe)
    redis.call('PEXPIRE', D, QUEUE_MS)
    redis.call('HSET', S, 'dedupes', '1')
  end
  return answer
end

remove_expired()

local own = holders[token]
if own and not own.promise then
  -- The answer got lost, or the caller repeats the request: the full lease again.
  own.ends = now + ttl * 1000
  local raised
  if not voted and own.fence <= floor then
    raised = math.max(fence + 1, floor + 1, now)
  elseif kind == '^' and voted > own.fence or is_repair and voted ~= own.fence then
    raised = voted
  end
  local left = value == MARKER and redis.call('PTTL', key) or 0 -- of other holders
  redis.call('PEXPIRE', key, int(math.max(ttl, left)))
  if raised then
    own.fence = raised
    fence = math.max(fence, raised)
    redis.call('HSET', S, 'fence', int(fence), 'last', grant_id(fence, token))
    keep_state()
    publish('granted', raised, ttl, own.info)
  end
  redis.call('HSET', H, token, holder_text(own))
  keep_for(ttl)
  redis.call('DEL', key .. ':w:' .. id) -- it may announce the grant
  return granted(own)
end
if was_abandoned() then return { 'given up' } end
if fence >= MOST_FENCE then return redis.error_reply(NO_FENCE_LEFT) end

-- Usually there are no waiters, and nothing to read about them.
local is_queue = waiting_at(0) ~= nil
local queued = is_queue and waiter(token) and redis.call('ZSCORE', Q, token)
local w = queued and waiter(token)
if queued then
  -- Another run on its host has got a slot since.
  if own and spreads and is_crowded(info, true) then
    withdraw_promise(token)
    own = nil
  end
  -- A waiter that comes late gets its place back, unless the lock was promised to another.
  w.passed, w.called = false, false
  w.until_ = now + PLACE_MS * 1000
  if not own then -- its promise is kept a few lines below
    redis.call('PEXPIRE', Q, QUEUE_MS)
    note_waiter(token, w)
    redis.call('PEXPIRE', W, QUEUE_MS)
  end
  if ticket and tonumber(queued) ~= score_of(ticket) then add_waiter(token, score_of(ticket)) end
end
if is_queue then promise_to_the_next(token) end
local left_for = (dedupe or supersedes) and redis.call('GET', D .. ':' .. token)
if left_for then
  if string.sub(left_for, 1, 2) == 's ' then return { 'superseded', string.sub(left_for, 3) } end
  if not has_come_to_nothing(left_for) then return { 'deduplicated', left_for } end
  redis.call('DEL', D .. ':' .. token) -- and it waits again
end
if arrived > 0 and not queued and not ticket then call_waiters() end

-- All holders and waiters must name the same number of slots.
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
    -- Another holder's slot can become free, but not on the host of the outer run.
    can_wait = mode == 'x' and wanted > 1 and not spreads
  end
end

if dedupe then
  if above then return { 'above', int(above) } end
  local run = counting_run(dedupe, join)
  if run then
    if queued then
      forget(token)
      promise_to_the_next()
      pass_on_watch(w.watches)
    end
    return { 'deduplicated', run }
  end
end

if queued and replaces and not holders[token] then
  replace_holders(is_above, info)
  promise_to_the_next(token)
end
if queued then
  if not holders[token] then return wait(w, redis.call('ZRANK', Q, token) + 1) end
  leave_queue()
  return grant()
end

-- A waiter whose place was forgotten may have been superseded meanwhile.
local newest_score, newest = string.match(state[7] or '', '^(%d+) (%x+)$')
if supersedes and arrived > 0 and newest ~= token and arrived < tonumber(newest_score or 0) then
  count('superseded')
  return { 'superseded', waiter(newest) and waiter(newest).info or '{}' }
end

-- Waiters that were promised the lock count as holders.
local function can_enter()
  if spreads and is_crowded(info) then return false end
  local place = 0
  while is_queue and not joins_outer_reader do
    local waiting = waiting_at(place)
    if not waiting then break end
    local w = waiter(waiting)
    if not holders[waiting] and w and not w.passed and not (slots > 1 and is_crowded(w.info)) then
      -- Then all that are behind it are also less important.
      if priority_of(w) > priority then break end
      return false
    end
    place = place + 1
  end
  return admits(mode, wanted)
end

-- Whether there are too many waiters for --max-queue. Those that it would supersede do not
-- count, nor do dead ones.
local function is_full()
  if not max_queue or arrived > 0 and not (ticket and supersedes) then return false end
  local place, waiting = 0, 0
  while waiting < max_queue do
    local other = is_queue and waiting_at(place)
    if not other then return false end
    local w = waiter(other)
    local counted = w and w.until_ > now
    if counted and not (supersedes and other == newest) then waiting = waiting + 1 end
    place = place + 1
  end
  return true
end

-- Removes the waiter that this claim supersedes from the queue, and notifies it. False if
-- there is none.
local function supersede()
  local w = newest and redis.call('ZSCORE', Q, newest) and waiter(newest)
  if not w then return false end
  forget(newest)
  redis.call('SET', D .. ':' .. newest, 's ' .. info, 'PX', PLACE_MS)
  if w.until_ > now then count('superseded') end
  wake(w)
  pass_on_watch(w.watches)
  return true
end

local enters = can_enter()
if not enters then
  if above and not can_wait then return { 'above', int(above) } end
  local is_refused = refuse or join and is_full()
  if is_refused then count('refused') end
  if is_refused or not join then return busy(0, false) end
end
local has_made_way = supersedes and supersede()
if replaces and not enters then
  replace_holders(is_above, info)
  has_made_way = true
end
if has_made_way then
  promise_to_the_next()
  enters = can_enter()
end
if enters then
  local answer = grant()
  if supersedes then redis.call('HSET', S, 'newest', int(ticket or now) .. ' ' .. token) end
  return answer
end

-- A waiter whose place was forgotten gets it back.
local has_place = ticket or arrived > 0 and arrived <= now
local waiting, place, arrival = join_queue(has_place and arrived)
if supersedes then redis.call('HSET', S, 'newest', int(arrival) .. ' ' .. token) end
if replaces then
  local tokens = waiting_replacers(token)
  tokens[#tokens + 1] = token
  note_replacers(tokens)
end
if supersedes or replaces then keep_state() end
return wait(waiting, place)
