-- Which waiters watch the clock, because the holder may end without a notification.
--
-- uses: state queue

-- Makes one of the next two waiters ask, unless it already knows that it is one of them.
local function ensure_watch(place, self)
  local tokens, waiters = next_in_line(place, self)
  local w = waiters[place]
  if not w or w.watches then return end
  w.watches = true -- it is about to
  note_waiter(tokens[place], w)
  wake(w)
end

-- Whether the asking waiter has to watch. The first of the two ensures that there is a second
-- one. A waiter that learns of a promise watches it whatever its position: if the promise was
-- made to a dead waiter, those that should watch may be dead as well.
local function has_to_watch(token)
  local tokens = next_in_line(2, token)
  if tokens[1] == token then ensure_watch(2, token) end
  if tokens[1] == token or tokens[2] == token then return true end
  for _, h in pairs(holders) do
    if h.promise then return true end
  end
  return false
end
