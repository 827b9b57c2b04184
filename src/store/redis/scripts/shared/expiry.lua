-- Removes leases and promises that have expired.
--
-- A script that grants, releases or promises the lock removes them first.
--
-- uses: holders events queue by_hand

-- Marks the waiter that did not take its promise, and those before it that did not respond, as
-- passed over: otherwise each of them would cost the time of a promise.
local function pass_over_called()
  local place = 0
  while true do
    local token = waiting_at(place)
    local w = token and waiter(token)
    if not w or not w.passed and not w.called then return end
    if w.called then
      w.passed = true
      note_waiter(token, w)
    end
    place = place + 1
  end
end

-- Removes what has expired: leases, whose runs have vanished then (a detached one ends as by
-- hand), and promises, whose waiters are passed over until they ask again.
local function remove_expired()
  local left, lapsed = false, false
  for token, h in pairs(holders) do
    if counts(token, h) then
      left = true
    else
      holders[token] = nil
      redis.call('HDEL', H, token)
      if h.promise then
        local w = waiter(token)
        lapsed = true
        if w then
          w.passed = true
          note_waiter(token, w)
        end
      elseif not h.ended and not h.detached then
        keep_state()
        note_run(h, 0, h.info, 'none') -- how it ended is unknown: it does not count
      elseif h.detached then
        note_by_hand(h, h.ends)
      end
      if not h.promise then publish(h.ended and 'released' or 'expired', h.fence, 0, h.info) end
    end
  end
  if value == MARKER and not left then
    redis.call('DEL', key)
    value = false
  end
  if lapsed then pass_over_called() end
end
