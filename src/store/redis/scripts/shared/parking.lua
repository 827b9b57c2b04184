-- Parked waiters: far back in a long queue, a waiter closes its connection until it is told to
-- come back. A server has room for some ten thousand connections, and for millions of waiters.
--
-- A parked waiter cannot be notified, so it has to be back well before its turn: it comes back
-- after half the time, at most, in which the queue can drain to the places that are not parked.
-- How quickly it can drain is taken from the last runs.
--
-- uses: state queue

local PARKED_FROM = 500        -- the first place of a parked waiter
local PARKED_MS = 45000        -- for this long there; further back for longer in proportion, so
                               -- that a queue that is left by all before it is not idle for long
local MOST_PARKED_MS = 600000
local PACE_RUNS = 5            -- the quickest of this many runs counts;
local UNKNOWN_PACE_MS = 12     -- without any: 8000 waiters stay connected, and maxclients is 10000

-- How quickly one run follows another, at the best, in milliseconds.
local function pace()
  local least
  for i = 0, PACE_RUNS - 1 do
    local run = redis.call('LINDEX', R, i)
    local since, ended = string.match(run or '', '^%d+ (%d+) (%d+) ')
    if not since then break end
    local took = math.max((ended - since) / 1000, 1)
    least = math.min(least or took, took)
  end
  return least or UNKNOWN_PACE_MS
end

-- For how many milliseconds a waiter at this place is parked; nothing if it has to stay connected.
-- Only waiters for a whole lock are: readers enter together, however many they are.
local function parked_for(w, place)
  if place < PARKED_FROM or w.ttl == '0' then return nil end
  local drained = (place - PARKED_FROM) * pace()
  local span = math.min(drained / 2, PARKED_MS * place / PARKED_FROM, MOST_PARKED_MS)
  if span < PARKED_MS then return nil end
  return math.floor(span)
end
