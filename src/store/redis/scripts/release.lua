-- Gives the lock back if it is the caller's, takes the caller out of the queue, and promises
-- what is free to the next.
--
-- ARGV: token, the waiter's id, how the run ended as JSON or nothing, for how many ms a late
-- request of this claim is to be refused (0: there is none), the verdict on the run, for how
-- many ms from the grant on the lock is to be held though the run has ended, and whether those
-- who wait to join a run have run with it (1 or 0).
-- Answers 'released' or 'not ours'.
local token, id, ended, refuse = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local verdict, min_hold, shared = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local own = holders[token]
local answer = 'not ours'

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
if redis.call('ZREM', Q, token) == 1 then
  redis.call('HDEL', W, token)
  redis.call('DEL', key .. ':w:' .. id)
end

if own and own.broken then redis.call('DEL', key .. ':b:' .. int(own.fence)) end

-- Before the run is noted, so that one that vanished does not become the last one.
tidy()
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
  redis.call('PEXPIRE', H, KEPT_MS)
end
dismiss(joined)
if refuse > 0 then redis.call('SET', key .. ':t:' .. token, '1', 'PX', refuse) end
promise_to_the_next(nil, kept)
redis.call('PEXPIRE', S, KEPT_MS)
return answer
