-- Who of those who wait watches the clock, for what it waits for may end without a word.
--
-- uses: state queue

-- Has one of the next two ask, if it does not know yet that it is one of them.
local function have_watch(place, self)
  local tokens, waiters = next_in_line(place, self)
  local w = waiters[place]
  if not w or w.watches then return end
  w.watches = true -- for it is about to
  note_waiter(tokens[place], w)
  wake(w)
end

-- For who asks: whether it is to watch. The first of the two sees to it that there is a second
-- one. And who learns of a promise watches it whatever its place is: where that was made to a
-- dead one, those who were to watch may be dead as well.
local function is_to_watch(token)
  local tokens = next_in_line(2, token)
  if tokens[1] == token then have_watch(2, token) end
  if tokens[1] == token or tokens[2] == token then return true end
  for _, h in pairs(holders) do
    if h.promise then return true end
  end
  return false
end
