-- Which waiters watch the clock, because the holder may end without a notification.
--
-- uses: holders queue

local PROMISE_MS = 3000      -- what a dead waiter costs
local LOOK_MS = 2000         -- a waiter that watches a promise asks after this time
local QUICK_MS = 10          -- a lock is quick if it is held no longer

-- Makes one of the next two waiters ask, unless it already knows that it is one of them.
local function ensure_watch(place, self)
  local tokens, waiters = next_in_line(place, self)
  local w = waiters[place]
  if not w or w.watches then return end
  w.watches = true -- it is about to
  note_waiter(tokens[place], w)
  wake(w)
end

-- After a grant another waiter is the second one, and does not watch until the first tells it to:
-- the first, and the holder, may die before that.
local function ensure_second_watch()
  local _, waiters = next_in_line(2)
  if waiters[2] and not waiters[2].watches then wake(waiters[2], LOOK_MS) end
end
