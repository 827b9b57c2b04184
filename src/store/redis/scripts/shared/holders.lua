-- Reads who holds the lock.
--
-- uses: state

value = redis.call('GET', key)
local flat = redis.call('HGETALL', H)
for i = 1, #flat, 2 do holders[flat[i]] = holder_of(flat[i + 1]) end

-- Whether a record of H is still valid: by the key for a single holder, by its time for several.
local function counts(token, h)
  if value == token then return true end
  return value == MARKER and h.ends > now
end

-- Whether a party has to let others go first, because its host has a slot (--spread), or was
-- promised one. Quotes inside JSON strings are escaped.
local function host_of(info) return string.match(info, '^{"host":(".-"),"pid":') end
local function is_crowded(info, except_promises)
  local host = string.find(info, '"spread":true', 1, true) and host_of(info)
  if not host then return false end
  for _, h in pairs(holders) do
    if host_of(h.info) == host and not (except_promises and h.promise) then return true end
  end
  return false
end

-- Whether the lock admits one more holder.
local function admits(mode, wanted)
  if is_foreign() then return false end
  local shared, exclusive = 0, 0
  for _, h in pairs(holders) do
    if h.mode == 's' then shared = shared + 1 else exclusive = exclusive + 1 end
  end
  if mode == 's' then return exclusive == 0 end
  return shared == 0 and exclusive < wanted
end
