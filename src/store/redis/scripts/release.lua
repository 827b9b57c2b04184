-- Releases the lock if the caller holds it, removes the caller from the queue, and promises the
-- free lock to the next waiters.
--
-- ARGV: token; the waiter's id; how the run ended as JSON, or nothing; for how many ms to refuse a
-- late request of this claim (0: there can be none); the verdict on the run; for how many ms from
-- the grant the lock stays held though the run has ended (--min-hold); whether waiters that join a
-- run are deduplicated against this one (1 or 0; v: the grant was not relied on, and is released
-- even if it was broken); the fence of the lease that the run relied on, or that is released (0:
-- there was no run, or no lease); if that lease is known to be lost, its holder as JSON; and 1 if
-- the lease stays for as long as it lasts.
-- Answers 'released' or 'not ours'; or, if the lease is lost and the caller did not know it, 'taken
-- over', 'gone' or 'broken': then only a late request is refused, and the caller releases again.
--
-- uses: holders runs events
local token, id, ended, refuse = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local verdict, min_hold, shared = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local is_unused = ARGV[7] == 'v'
local own_fence, lost_info, leaves = tonumber(ARGV[8]), ARGV[9], ARGV[10] == '1'
local own = holders[token]
local lease_ends = own and own.ends -- in microseconds, of a lease that stays
if leaves and value == token then lease_ends = now + redis.call('PTTL', key) * 1000 end
local answer, left = 'not ours', false -- a waiter that has left

local function refuse_late(why)
  if refuse == 0 then return end
  redis.call('DEL', key .. ':t:' .. token) -- a server whose memory is full accepts this first write
  redis.call('SET', key .. ':t:' .. token, why, 'PX', refuse)
  redis.call('HSET', S, 'late', int(math.max(late, now + refuse * 1000)))
  keep_state()
end

if own_fence > 0 and not lost_info then
  local is_promise = own and own.promise
  local is_another = own and own.fence ~= own_fence -- as in renew.lua
  if is_promise or is_another or value ~= token and not (own and counts(token, own)) then
    refuse_late('gone')
    local taken = value and value ~= MARKER and not is_promise or slots == 1 and latest.fence > own_fence
    return forced_answer(own_fence) or taken and 'taken over' or 'gone'
  end
  if own and own.broken and not is_unused then
    refuse_late('gone')
    return { 'broken', own.info }
  end
end

-- The usual run was the only holder, and had no options that matter here. If there is no waiter,
-- the lock is idle then.
local is_only_holder = value == token and own and not next(holders, next(holders))
local is_usual = is_only_holder and is_run(own) and ended ~= '' and not own.broken
  and not lost_info and not leaves and min_hold == 0 and refuse == 0 and armed == period
local head = is_usual and redis.call('ZRANGE', Q, '0', '3')
if is_usual and not head[1] and not dedupes then
  redis.call('DEL', key, H)
  value, holders[token] = false, nil
  note_run(own, now, ended, verdict, true)
  publish('released', own.fence, 0, own.info .. '\n' .. ended)
  return 'released'
end

-- uses: turns

queue_head = head or nil
if value == token then
  if is_only_holder then redis.call('DEL', key, H) else redis.call('DEL', key) end
  value = false
  if not (own and own.promise) then answer = 'released' end
elseif own and not own.promise and counts(token, own) then
  answer = 'released'
end
-- It has expired, and is reported and recorded as lost below.
local is_lost = lost_info and answer ~= 'released' and own and not own.promise
  and own.fence == own_fence
if own and (answer == 'released' or own.promise or is_lost) then
  if not is_only_holder then redis.call('HDEL', H, token) end
  holders[token] = nil
end
if not own or own.promise then
  local w = waiter(token)
  if remove_waiter(token) then
    left = w
    redis.call('DEL', key .. ':w:' .. id)
    if w then
      publish('left', 0, 0, w.info)
    end
    if dedupes then redis.call('HDEL', D, token) end
  end
elseif ended == '' then
  redis.call('DEL', key .. ':w:' .. id) -- it may announce a grant that is no longer needed
end

if own and own.broken then redis.call('DEL', key .. ':b:' .. int(own.fence)) end

-- Before anything is created: fails if this user has no permission for PEXPIRE. If a run was lost,
-- nothing may have been written yet.
if lost_info then armed = false end
keep_state()

local has_ended = answer == 'released' and own and ended ~= ''
local kept = false
if has_ended then
  local ends = math.min(own.since, now) + min_hold * 1000 -- not longer if the clock was set back
  kept = ends > now and not own.broken
  if leaves then
    ends = math.max(ends, lease_ends)
    kept = ends > now
  end
  own.ends = ends
end
if kept then
  -- The lease has no owner now, but stays held. Done before watchers get the number of free slots.
  local last = own.ends
  for other, h in pairs(holders) do
    if counts(other, h) then last = math.max(last, h.ends) end
  end
  local held = { mode = own.mode, slot = own.slot, fence = own.fence, since = own.since,
    ends = own.ends, ended = true, info = own.info }
  redis.call('SET', key, MARKER, 'PX', math.ceil((last - now) / 1000))
  value = MARKER
  holders[int(own.fence)] = held
  redis.call('HSET', H, int(own.fence), holder_text(held))
  expire_or(H, kept_ms, 'HDEL', H, int(own.fence))
end

if own and not kept and (answer == 'released' or is_lost) then leaving = own end
-- Before the run is recorded, so that a vanished run does not become the last one.
if not is_only_holder then
  -- uses: expiry
  remove_expired()
end
leaving = nil
if lost_info and answer ~= 'released' then
  -- The end of this run is known, though it may have been recorded as vanished, or as ended well
  -- before other servers of a quorum reported the loss; no claim is deduplicated against it.
  local since = is_lost and own.since or math.min(own_fence, now)
  for i = 0, RUNS - 1 do
    local run = redis.call('LINDEX', R, i)
    if not run then break end
    local began = string.match(run, '^' .. int(own_fence) .. ' (%d+) ')
    if began then
      since = tonumber(began)
      local forced = forced_part(run)
      if forced then ended = string.sub(ended, 1, -2) .. ',' .. forced .. '}' end
      redis.call('LREM', R, 1, run)
      for _, last in ipairs({ 'run', 'good' }) do
        if redis.call('HGET', S, last) == run then redis.call('HDEL', S, last) end
      end
      break
    end
  end
  note_run({ fence = own_fence, since = since }, now, ended, 'none')
end
local joined
if answer == 'released' and own and own.detached then
  -- uses: by_hand
  note_by_hand(own, now)
end
if has_ended then
  local run = note_run(own, now, ended, verdict)
  if shared and is_run(own) then joined = run end
end
local lost = lost_info and not (own and own.broken)
if lost then publish('lost', own_fence, 0, lost_info .. '\n' .. ended) end
if kept then
  publish('kept', own.fence, math.ceil((own.ends - now) / 1000), '{}') -- not an event, but when to look again
elseif not lost and (answer == 'released' or lost_info) then -- or broken, and then expired
  publish('released', own and own.fence or 0, 0, (own and own.info or '{}') .. '\n' .. ended)
end
if answer == 'released' and dedupes then
  -- uses: dedupe
  remove_deduplicated(joined)
end
refuse_late('1')
keep_state() -- what follows may lack a permission
local was_quick = answer == 'released' and own and now - own.since < QUICK_MS * 1000
promise_to_the_next(nil, kept, was_quick and not kept)
if left then pass_on_watch(left.watches) end
keep_state()
return answer
