-- The claim of ask.lua becomes a holder, and gets the answer 'granted'.
--
-- uses: claim holding events

local function granted(h)
  return { 'granted', int(h.fence), h.slot, h.after or '', h.broken and 'broken' or nil,
    h.broken and h.info or nil }
end

-- The claim as a holder with a new fence.
local function new_holder(slot)
  if is_repair then
    fence = math.max(fence, voted)
  else
    fence = voted and math.max(fence + 1, voted) or math.max(fence + 1, floor + 1, now)
  end
  slots = wanted
  return { mode = mode, slot = slot, fence = is_repair and voted or fence, since = now,
    ends = now + ttl * 1000, promise = false, detached = detached, info = info }
end

-- Records the grant in S, with the one before it in `h.after`, and publishes it.
local function note_grant(h)
  h.after, latest.id = latest.id, grant_id(fence, token)
  redis.call('HSET', S, 'fence', int(fence), 'slots', int(slots), 'last', latest.id)
  keep_state()
  publish('granted', h.fence, ttl, info)
end

-- Makes the claim the holder of this slot.
local function enter(slot)
  local h = new_holder(slot)
  occupy(token, h, ttl)
  note_grant(h)
  return h
end
