-- Which waiter gets the lock next: promises, and direct hand-offs.
--
-- uses: holders holding leaving watching

local WATCH_MS = 5000        -- a waiter that watches asks more often than this
local TOLD_MS = 1000         -- how often a waiter is told to watch that may not have to
local ALARM_MS = '3000'      -- a notification that was not read by then is useless
local HEARD_MS = 250         -- a waiter that asked this recently counts as alive

local function asked_ago(w) -- in microseconds
  return now - (w.until_ - PLACE_MS * 1000)
end

-- Whether a waiter of a quick lock can be assumed to be alive.
local function asked_recently(w)
  local ago = asked_ago(w)
  return w.quick and ago >= 0 and ago < HEARD_MS * 1000
end

-- Hands a free lock over to a waiter without a request.
local function grant_to_waiter(token, w)
  remove_waiter(token)
  fence = math.max(fence + 1, now)
  local ttl = number(w.ttl)
  occupy(token, { mode = w.mode, slot = 0, fence = fence, since = now, ends = now + ttl * 1000,
    info = w.info }, ttl)
  local before = latest.id
  latest.id = grant_id(fence, token)
  redis.call('HSET', S, 'fence', int(fence), 'last', latest.id)
  publish('granted', fence, ttl, w.info)
  wake(w, 'granted ' .. int(fence) .. ' ' .. before)
  ensure_second_watch()
end

-- Notifies the waiter that listens first, and so is alive, to watch a promise: the next waiters
-- may all be dead. And the last one, because if the first waiters are only stopped, the one that
-- listens first may also be stopped.
local function request_promise_watch(anew)
  local is_soon = told > now - TOLD_MS * 1000 and told <= now
  if is_soon and (not anew or told == now) then return end
  told = now
  redis.call('RPUSH', A, LOOK_MS)
  redis.call('PEXPIRE', A, ALARM_MS)
  redis.call('HSET', S, 'told', int(now))
  keep_state()
  local last = waiting_at(queued_count() - 1)
  local w = last and not holders[last] and waiter(last)
  if w then wake(w, LOOK_MS) end
end

-- After a waiter has left, which may have been the only living one that watched: the holders, if it
-- `watched` the clock, or a promise, now or as one that was told to.
local function pass_on_watch(watched)
  if watched then ensure_watch(1) end
  for _, h in pairs(holders) do
    if h.promise then return request_promise_watch(true) end
  end
  if told > now - TOLD_MS * 1000 and told < now then redis.call('HDEL', S, 'told') end
  told = 0
end

-- Promises the free lock to the first waiters that fit, in order, and notifies each on its own
-- list, except `self`, which is asking now. Stops at the first that does not fit: no waiter
-- overtakes. That one is notified only if it does not know yet that it has to watch: while a
-- promise lasts it need not ask; for other blockers (`anew`) it has to.
--
-- A dead waiter costs the time of a promise instead of a lease. With `quick`, if the last holder
-- had the lock only for a moment, the lock is handed off to a waiter that asked just now and
-- found the lock as quick.
local function promise_to_the_next(self, anew, quick)
  if is_foreign() then return end
  local is_plain = quick and not reclaimed and not dedupes and not replacers
  local first, promised, is_sure = 0, false, true
  while true do
    local token = waiting_at(first)
    if not token then return end
    local w = waiter(token)
    if not w or w.until_ <= now then
      forget(token)
      anew = true
    elseif w.passed or holders[token] then
      first = first + 1
    elseif slots > 1 and is_crowded(w.info) then
      if anew and token ~= self then
        wake(w)
        anew = false
      end
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
      end_idleness()
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
