-- To whom the lock goes next: promises, and leases that are handed over without one.
--
-- uses: state events queue watching

local WATCH_MS = 5000        -- one that watches is heard of more often than that
local PROMISE_MS = 3000      -- a dead waiter costs this much
local LOOK_MS = 2000         -- who watches a promise asks then whether it was taken, and if
local UNTAKEN_MS = 1000      -- it was not for so long, calls those before it, as long as
local ANSWER_MS = 500        -- they have so long to answer before the promise lapses;
local CALLED = 500           -- so many
local TOLD_MS = 1000         -- how often somebody is told to watch who may not have to
local ALARM_MS = '3000'      -- what nobody has listened to by then is of no use
local QUICK_MS = 10          -- for a lock that nobody holds for longer
local HEARD_MS = 250         -- one that was heard of so recently counts as alive

-- Whether a waiter for a lock that is quick to change hands can be taken to be alive.
local function was_just_there(w)
  local ago = heard_ago(w)
  return w.quick and ago >= 0 and ago < HEARD_MS * 1000
end

-- Somebody has just got the lock, so that another one is the second in line, and watches no
-- more than the first has told it to: the first may be dead before it does, and who has the
-- lock, too.
local function have_second_look()
  local _, waiters = next_in_line(2)
  if waiters[2] and not waiters[2].watches then wake(waiters[2], LOOK_MS) end
end

-- Gives a free lock to a waiter that does not ask for it.
local function grant_to_waiter(token, w)
  remove_waiter(token)
  fence = math.max(fence + 1, now)
  local ttl = tonumber(w.ttl)
  occupy(token, { mode = w.mode, slot = 0, fence = fence, since = now, ends = now + ttl * 1000,
    info = w.info }, ttl)
  redis.call('HSET', S, 'fence', int(fence))
  tell('granted', fence, ttl, w.info)
  wake(w, 'granted ' .. int(fence))
  have_second_look()
end

-- Tells whoever listens first, and is alive therefore, to see what becomes of a promise: those
-- next in line may all be dead. And the last in line, for if the first are only stopped, the
-- one that listens first may be so, too.
local function have_promise_watched()
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

-- The server has forgotten the queue of a waiter that asks now: wakes two of the others, who
-- do the same.
local function call_roll()
  redis.call('RPUSH', A, '0', '0')
  expire_or(A, ALARM_MS, 'DEL', A)
end

-- For who asks: if a promise has not been taken for a while, has those before it ask, too, so
-- that it is known when the promise lapses who of them is there. Where one of them has asked
-- since it was made, that one does this.
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
      if now - heard_ago(w) > since then return end
      w.called = true
      note_waiter(token, w)
      wake(w)
      called = called + 1
    end
    place = place + 1
  end
end

-- Promises what is free to the first waiters that fit, in order, and tells each on its own
-- list, but for `self`, who asks just now. Stops at the first that does not fit: nobody
-- overtakes. That one is told only if it does not know yet that it has to watch: for how
-- long a promise can last it need not ask, for how long something else can (`anew`) it has to.
--
-- A waiter that dies costs the time of a promise, and not of a lease. With `quick`, if the
-- last one had the lock for a moment only, it is given the lease all the same if it was just
-- heard of, and found the lock as quick.
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
        not (w.watches and heard_ago(w) < WATCH_MS * 1000) then
        wake(w, LOOK_MS)
      end
      if not is_sure then have_promise_watched() end
      return
    elseif is_plain and w.ttl ~= '0' and fence < MOST_FENCE and was_just_there(w) then
      -- A short lease may be over before those who watch a promise ask.
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
        anew = true -- the next one stands where this one stood, and was told nothing
      end
      first = first + 1
    end
  end
end

-- How long what occupies the lock can last, in milliseconds; -1 if nobody knows. A promise is
-- looked at before that.
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
