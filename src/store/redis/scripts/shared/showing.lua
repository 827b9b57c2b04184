-- What is shown of the holders.
--
-- uses: holders

-- The holders as pairs of a record and the time left of its lease. `key_left` is how long KEYS[1]
-- lasts, if that is known.
local function holders_shown(most, key_left)
  local shown = {}
  if is_foreign() then return { 'foreign', key_left or redis.call('PTTL', key) } end
  for token, h in pairs(holders) do
    if not h.promise and counts(token, h) and #shown < 2 * most then
      shown[#shown + 1] = holder_text(h)
      shown[#shown + 1] = value == token and (key_left or redis.call('PTTL', key))
        or math.ceil((h.ends - now) / 1000)
    end
  end
  return shown
end
