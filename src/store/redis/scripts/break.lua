-- Takes the lock from some of its holders: marks and tells those that keep their leases, and
-- frees what nobody keeps.
--
-- ARGV: fences; 0 is a foreign holder. Answers {now, holders}, as inspect.lua shows them.
--
-- uses: turns expiry
local wanted = {}
for i = 1, #ARGV do wanted[tonumber(ARGV[i])] = true end

-- Whether nobody is there to be told.
local function nobody_keeps(h) return h.ended or h.detached end

remove_expired()
local shown = {}
local function show(text, left)
  shown[#shown + 1] = text
  shown[#shown + 1] = left
end

if is_foreign() then
  if wanted[0] then
    show('foreign', redis.call('PTTL', key))
    redis.call('DEL', key)
    value = false
    tell('broken', 0, 0, '{}')
  end
else
  redis.call('PEXPIRE', H, kept_ms) -- with memory full something like it has to come first
  local left = false
  for token, h in pairs(holders) do
    if h.promise or not wanted[h.fence] then
      left = true
    else
      local ends = value == token and redis.call('PTTL', key) or math.ceil((h.ends - now) / 1000)
      show(holder_text(h), ends)
      if nobody_keeps(h) then
        redis.call('HDEL', H, token)
        holders[token] = nil
        if value == token then
          redis.call('DEL', key)
          value = false
        end
        tell('broken', h.fence, 0, h.info)
      else
        left = true
      end
      if not nobody_keeps(h) and not h.broken then
        h.broken = true
        redis.call('HSET', H, token, holder_text(h))
        redis.call('RPUSH', key .. ':b:' .. int(h.fence), '1')
        redis.call('PEXPIRE', key .. ':b:' .. int(h.fence), QUEUE_MS)
        tell('broken', h.fence, 0, h.info)
      end
    end
  end
  if value == MARKER and not left then
    redis.call('DEL', key)
    value = false
  end
end
promise_to_the_next() -- also what remove_expired() has cleared
return { int(now), shown }
