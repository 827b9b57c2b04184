-- Who can become a holder, and making it one.
--
-- `value` and `holders` are as on the server: read by holders.lua, or known to be empty.
--
-- uses: state

-- Keeps the records of a very long lease until its end, instead of KEPT_MS. Not for the first
-- write of a script.
local function keep_for(ms)
  if ms < LONG_MS then return end
  kept_until = math.max(kept_until, math.ceil(now / 1000) + ms + tonumber(KEPT_MS))
  kept_ms = int(kept_until - now / 1000)
  armed = false -- with the old time
  redis.call('HSET', S, 'kept', int(kept_until))
  keep_state()
  redis.call('PEXPIRE', H, kept_ms)
end

-- Records who has the lock for this long, as a holder or as a promise, once KEYS[1] says so.
local function note_holder(token, h, ms)
  holders[token] = h
  redis.call('HSET', H, token, holder_text(h))
  expire_or(H, kept_ms, 'HDEL', H, token)
  keep_for(ms)
end

-- Gives `token` the lock for this long, as a holder or as a promise.
local function occupy(token, h, ms)
  if h.mode == 'x' and slots == 1 then
    value = token
    redis.call('SET', key, token, 'PX', int(ms))
  else
    local left = value and redis.call('PTTL', key) or 0 -- of other holders
    value = MARKER
    redis.call('SET', key, MARKER, 'PX', int(math.max(ms, left)))
  end
  note_holder(token, h, ms)
end
