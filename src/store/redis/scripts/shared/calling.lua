-- A waiter that asks calls others, which may be dead or know less.
--
-- uses: turns

local UNTAKEN_MS = 1000      -- if a promise is not taken for this long, a waiter that watches
local ANSWER_MS = 500        -- it calls those before it, while they still have this long to
local CALLED = 500           -- respond before it lapses; at most this many

-- The server has forgotten the queue of a waiter that asks now: wakes two others, which do the
-- same.
local function call_waiters()
  redis.call('RPUSH', A, '0', '0')
  expire_or(A, ALARM_MS, 'LTRIM', A, '1', '0')
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
    local w = waiter(token)
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
