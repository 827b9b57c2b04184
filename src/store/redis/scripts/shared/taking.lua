-- Takes the lock from its holders.
--
-- `taker` is JSON, and becomes part of the holder's JSON under the name `how`: 'broken_by',
-- 'replaced_by' if a claim takes the lock, or 'forced_by' if it is freed whether or not the holder
-- is alive. Such a run is recorded at once, with that JSON.
--
-- uses: holders queue events by_hand

local function take_from_foreign(how, taker)
  redis.call('DEL', key)
  value = false
  publish('broken', 0, 0, '{"' .. how .. '":' .. taker .. '}')
end

-- Whether the holder cannot be notified.
local function is_unattended(h) return h.ended or h.detached end

-- Marks and notifies a holder that renews its lease; removes a lease that is not renewed, or that
-- is freed by force.
local function take_from(token, h, how, taker)
  local is_forced = how == 'forced_by'
  if h.broken and not is_forced then return end
  local shown = string.match(h.info, '^({.+)}$')
  if shown then h.info = shown .. ',"' .. how .. '":' .. taker .. '}' end
  if not is_unattended(h) then
    redis.call('RPUSH', key .. ':b:' .. int(h.fence), '1')
    redis.call('PEXPIRE', key .. ':b:' .. int(h.fence), QUEUE_MS)
  end
  if is_forced or is_unattended(h) then
    redis.call('HDEL', H, token)
    holders[token] = nil
    if value == token then
      redis.call('DEL', key)
      value = false
    end
    if h.detached then
      note_by_hand(h, now)
    elseif not h.ended then
      keep_state()
      note_run(h, now, h.info, 'none')
    end
  else
    h.broken = true
    redis.call('HSET', H, token, holder_text(h))
  end
  publish('broken', h.fence, 0, h.info)
end

-- The marker is removed with the last holder.
local function drop_marker()
  if value ~= MARKER or next(holders) then return end
  redis.call('DEL', key)
  value = false
end

-- Takes the lock from all holders that are not spared, for this claimant.
local function replace_holders(is_spared, claimant)
  if is_foreign() then return take_from_foreign('replaced_by', claimant) end
  redis.call('PEXPIRE', H, kept_ms)
  for token, h in pairs(holders) do
    if not h.promise and not is_spared(h) then take_from(token, h, 'replaced_by', claimant) end
  end
  drop_marker()
end

-- The tokens of the waiters, except `self`, that take the lock from its holders (--replace).
local function waiting_replacers(self)
  local tokens = {}
  for token in string.gmatch(replacers or '', '%x+') do
    if token ~= self and waiter(token) then tokens[#tokens + 1] = token end
  end
  return tokens
end

local function note_replacers(tokens)
  if #tokens == 0 then
    redis.call('HDEL', S, 'replacers')
  else
    redis.call('HSET', S, 'replacers', table.concat(tokens, ' '))
  end
end

-- For a new holder: breaks its lease at once if a waiter with --replace, which was not promised
-- the lock itself, is in the queue, for the first of these. One that was passed over does not
-- count, as it would keep all others from the lock. A lease whose holder cannot be notified is left
-- to those waiters.
local function take_if_replaced(token, h)
  local tokens = waiting_replacers(token)
  local taker, first
  for _, other in ipairs(tokens) do
    local w = waiter(other)
    if w.until_ > now and not w.passed and not holders[other] then
      local place = redis.call('ZRANK', Q, other)
      if not first or place < first then taker, first = w.info, place end
      if h.detached then wake(w) end
    end
  end
  if taker and not h.detached then take_from(token, h, 'replaced_by', taker) end
  note_replacers(tokens)
end
