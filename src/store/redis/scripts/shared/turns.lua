-- Which waiter gets the lock next: promises, and direct hand-overs.
--
-- uses: state events queue watching

local WATCH_MS = 5000        -- a waiter that watches asks more often than this
local PROMISE_MS = 3000      -- what a dead waiter costs
local LOOK_MS = 2000         -- a waiter that watches a promise asks after this time; if
local UNTAKEN_MS = 1000      -- the promise is not taken for this long, it calls those before it,
local ANSWER_MS = 500        -- while they still have this long to respond before it lapses;
local CALLED = 500           -- at most this many
local TOLD_MS = 1000         -- how often a waiter is told to watch that may not have to
local ALARM_MS = '3000'      -- a notification that was not read by then is useless
local QUICK_MS = 10          -- a lock is quick if it is held no longer
local HEARD_MS = 250         -- a waiter that asked this recently counts as alive

-- Whether a waiter of a quick lock can be assumed to be alive.
local function asked_recently(w)
  local ago = asked_ago(w)
  return w.quick and ago >= 0 and ago < HEARD_MS * 1000
end

-- After a grant another waiter is the second one, and does not watch until the first tells it to:
-- the first, and the holder, may die before that.
local function ensure_second_watch()
  local _, waiters = next_in_line(2)
  if waiters[2] and not waiters[2].watches then wake(waiters[2], LOOK_MS) end
end

-- Hands a free lock over to a waiter without a request.
local function grant_to_waiter(token, w)
  remove_waiter(token)
  fence = math.max(fence + 1, now)
  local ttl = tonumber(w.ttl)
  occupy(token, { mode = w.mode, slot = 0, fence = fence, since = now, ends = now + ttl * 1000,
    info = w.info }, ttl)
  redis.call('HSET', S, 'fence', int(fence))
  publish('granted', fence, ttl, w.info)
  wake(w, 'granted ' .. int(fence))
  ensure_second_watch()
end

-- Notifies the waiter that listens first, and so is alive, to watch a promise: the next waiters
-- may all be dead. And the last one, because if the first waiters are only stopped, the one that
-- listens first may be stopped, too.
local function request_promise_watch()
  if told > now - TOLD_MS * 1000 and told <= now then return end
  told = now
  redis.call('RPUSH', A, LOOK_MS)
  redis.call('PEXPIRE', A, ALARM_MS)
  redis.call('HSET', S, 'told', int(now))
  redis.call('PEXPIRE', S, kept_ms)
  local last = waiting_at(queued_count() - 1)
  local text = last and not holders[last] and record_of(last)
  if text then wake(waiter_of(text), LOOK_MS) end
end

-- The server has forgotten the queue of a waiter that asks now: wakes two others, which do the
-- same.
local function call_waiters()
  redis.call('RPUSH', A, '0', '0')
  expire_or(A, ALARM_MS, 'DEL', A)
end

-- For a waiter that asks: if a promise has not been taken for a while, makes those before it ask,
-- too, so that when the promise lapses it is known which of them are alive. If one of them has
-- asked since the promise was made, that one does this.
local function call_those_before(self)
  local since
  for _, h in pairs(holders) do
    local age = now - h.since
    if h.promise and age >= UNTAKEN_MS * 1000 and age <= (PROMISE_MS - ANSWER_MS) * 1000 then
      since = h.since
    end
  end
  if not since then return end
  local place, called = 0, 0
  while called < CALLED do
    local token = waiting_at(place)
    if not token or token == self then return end
    local text = record_of(token)
    local w = text and waiter_of(text)
    if w and not w.passed and not w.called and not holders[token] then
      local ago = asked_ago(w) -- negative for one that is parked
      if ago >= 0 and now - ago > since then return end
      w.called = true
      note_waiter(token, w)
      wake(w)
      called = called + 1
    end
    place = place + 1
  end
end

-- Promises the free lock to the first waiters that fit, in order, and notifies each on its own
-- list, except `self`, which is asking now. Stops at the first that does not fit: no waiter
-- overtakes. That one is notified only if it does not know yet that it has to watch: while a
-- promise lasts it need not ask; for other blockers (`anew`) it has to.
--
-- A dead waiter costs the time of a promise instead of a lease. With `quick`, if the last holder
-- had the lock only for a moment, the lock is handed over to a waiter that asked just now and
-- found the lock as quick.
local function promise_to_the_next(self, anew, quick)
  if is_foreign() then return end
  local is_plain = quick and not reclaimed and not dedupes and not replacers
  local first, promised, is_sure = 0, false, true
  while true do
    local token = waiting_at(first)
    if not token then return end
    local text = record_of(token)
    local w = text and waiter_of(text)
    if not w or w.until_ <= now then
      forget(token)
      anew = true
    elseif w.passed or holders[token] then
      first = first + 1
    elseif not admits(w.mode, slots) then
      if anew then
        if token ~= self then wake(w) end
      elseif promised and token ~= self and
        not (w.watches and asked_ago(w) < WATCH_MS * 1000) then
        wake(w, LOOK_MS)
      end
      if not is_sure then request_promise_watch() end
      return
    elseif is_plain and w.ttl ~= '0' and fence < MOST_FENCE and asked_recently(w) then
      -- A short lease may be over before those that watch a promise ask.
      anew = anew or tonumber(w.ttl) < PROMISE_MS
      grant_to_waiter(token, w)
      promised = true
    else
      occupy(token, { mode = w.mode, slot = 0, fence = 0, since = now,
        ends = now + PROMISE_MS * 1000, promise = true, info = w.info }, PROMISE_MS)
      if token ~= self then
        wake(w)
        promised, is_sure = true, false
      else
        anew = true -- the next waiter is in its place now, and was not notified
      end
      first = first + 1
    end
  end
end

-- How long the lock can stay occupied, in milliseconds; -1 if unknown. A promise is checked
-- before that.
local function blocked_for()
  local least = value ~= MARKER and redis.call('PTTL', key) or -1
  for _, h in pairs(holders) do
    local left = math.ceil((h.ends - now) / 1000)
    local look = left - (PROMISE_MS - LOOK_MS)
    if h.promise and look > 0 then left = look end
    if value == MARKER or h.promise then
      if least < 0 or left < least then least = left end
    end
  end
  return least
end
