-- Which waiters watch the clock, because the holder may end without a notification.
--
-- uses: holders queue

local PROMISE_MS = 3000      -- what a dead waiter costs
local LOOK_MS = 2000         -- a waiter that watches a promise asks after this time
local QUICK_MS = 10          -- a lock is quick if it is held no longer

local FAR = 100              -- no further back is looked for one that others let pass

-- The next waiters that the lock can go to, up to this many: those that were not passed over and
-- have no promise. The first two watch the clock, because the holder, or the waiter before them,
-- may end without a notification. `self` counts even if it has no record yet. If all of them let
-- others pass (--spread), the first that does not is added: they may die together with the holders
-- on their hosts.
local function next_in_line(most, self)
  local tokens, found, place, is_open = {}, {}, 0, slots == 1
  while #tokens < most or not is_open and place < FAR do
    local token = waiting_at(place)
    if not token then break end
    local w = (token ~= self or slots > 1) and waiter(token)
    if token == self or w and not w.passed and not holders[token] then
      local is_crowd = slots > 1 and w and is_crowded(w.info)
      if #tokens < most or not is_crowd then
        tokens[#tokens + 1] = token
        found[#tokens] = token ~= self and w or nil
      end
      is_open = is_open or not is_crowd
    end
    place = place + 1
  end
  return tokens, found
end

-- Makes one of the next two waiters ask, unless it already knows that it is one of them.
local function ensure_watch(place, self)
  local tokens, waiters = next_in_line(place, self)
  for i = place, #tokens do
    local w = waiters[i]
    if w and not w.watches then
      w.watches = true -- it is about to
      note_waiter(tokens[i], w)
      wake(w)
    end
  end
end

-- After a grant another waiter is the second one, and does not watch until the first tells it to:
-- the first, and the holder, may die before that.
local function ensure_second_watch()
  local tokens, waiters = next_in_line(2)
  for i = 2, #tokens do
    if waiters[i] and not waiters[i].watches then wake(waiters[i], LOOK_MS) end
  end
end
