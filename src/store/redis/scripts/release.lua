-- Gives the lock back if it is the caller's, takes the caller out of the queue, and promises
-- what is free to the next.
--
-- ARGV: token, the waiter's id, how the run ended as JSON or nothing, for how many ms a late
-- request of this claim is to be refused (0: there is none), the verdict on the run, for how
-- many ms from the grant on the lock is to be held though the run has ended, whether those who
-- wait to join a run have run with it (1 or 0), and if the lease was lost its fence and its
-- holder as JSON.
-- Answers 'released' or 'not ours'.
local token, id, ended, refuse = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local verdict, min_hold, shared = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local lost_fence = ARGV[8]
local own = holders[token]
local answer, left_watch = 'not ours', false

if value == token then
  redis.call('DEL', key)
  value = false
  if not (own and own.promise) then answer = 'released' end
elseif own and not own.promise and counts(token, own) then
  answer = 'released'
end
if own and (answer == 'released' or own.promise) then
  redis.call('HDEL', H, token)
  holders[token] = nil
end
if not own or own.promise then
  local text = record_of(token)
  if remove_waiter(token) then
    redis.call('DEL', key .. ':w:' .. id)
    if text then
      local w = waiter_of(text)
      tell('left', 0, 0, w.info)
      left_watch = w.watches
    end
  end
elseif ended == '' then
  redis.call('DEL', key .. ':w:' .. id) -- which may tell of the grant that it has no use for
end

if own and own.broken then redis.call('DEL', key .. ':b:' .. int(own.fence)) end

-- Before the run is noted, so that one that vanished does not become the last one.
tidy(lost_fence and token)
local kept, joined = false, nil
if answer == 'released' and own and ended ~= '' then
  local run = note_run(own, now, ended, verdict)
  if shared and is_run(own) then joined = run end
  own.ends = math.min(own.since, now) + min_hold * 1000 -- not longer if the clock was set back
  kept = own.ends > now and not own.broken
end
if kept then
  -- It is nobody's any more, but held.
  own.ended = true
  local left = math.ceil((own.ends - now) / 1000)
  holders[int(own.fence)] = own
  redis.call('SET', key, MARKER, 'PX', math.max(left, redis.call('PTTL', key)))
  value = MARKER
  redis.call('HSET', H, int(own.fence), holder_text(own))
  redis.call('PEXPIRE', H, kept_ms)
end
if lost_fence and not (own and own.broken) then
  tell('lost', tonumber(lost_fence), 0, ARGV[9])
elseif kept then
  tell('kept', own.fence, math.ceil((own.ends - now) / 1000), '{}') -- no event, but when to look
elseif answer == 'released' then
  tell('released', own and own.fence or 0, 0, (own and own.info or '{}') .. '\n' .. ended)
end
dismiss(joined)
if refuse > 0 then redis.call('SET', key .. ':t:' .. token, '1', 'PX', refuse) end
local was_quick = answer == 'released' and own and now - own.since < QUICK_MS * 1000
promise_to_the_next(nil, kept, was_quick and not kept)
if left_watch then have_watch(1) end
redis.call('PEXPIRE', S, kept_ms)
return answer
