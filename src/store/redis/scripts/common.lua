-- What every script begins with: the state of the lock KEYS[1], and the rules of granting
-- on it. The rules are those of rules/; tests hold the two against each
-- other.
--
-- KEYS[1]     a string, with a time to live: who has the lock. An exclusive holder's token,
--             as every `SET NX PX` lock has it; that of the waiter it is promised to; or a
--             marker while shared or slot holders are in H. Anything else is foreign.
-- KEYS[1]:s   a hash: fence (the last one), slots (that those in use or in the queue name),
--             reclaimed (from a lease that was set up again to the next grant: the fence of
--             the last grant, 0 if that is not known, and those of leases lost since), run and
--             good (of the runs that can count for others the last one, and the last that
--             succeeded), dedupes (there may be somebody in D), kept (until when all this is
--             kept, in ms, where a lease is very long), told (when A was last told of a promise)
-- KEYS[1]:h   a hash of token -> record of a holder, or of a promise; and of fence -> record
--             of one whose run has ended, and for whom the lock is held on
-- KEYS[1]:q   a sorted set of waiters' tokens by order of arrival
-- KEYS[1]:w   a hash of token -> record of a waiter
-- KEYS[1]:r   a list of ended runs, the newest first
-- KEYS[1]:d   a hash of token -> which runs count for a waiter as its own
-- KEYS[1]:d:TOKEN  the run because of which that waiter has left the queue
-- KEYS[1]:f   a string: the greatest fence that a resource of this name has admitted; it
--             is no lock's, and has no time to live
-- KEYS[1]:v   a hash, the value that is cached under this name: fence (of the run it is from),
--             size, sum (its checksum), stale (for how many ms of its time to live it is past
--             its ttl), and data, unless it is large
-- KEYS[1]:v:FENCE  a string: the data of a large value
-- KEYS[1]:w:ID  a list on which the waiter ID is told when to ask again, in ms, mostly at
--             once, because of a promise; or that it has the lock: 'granted' and the fence
-- KEYS[1]:a    a list on which whoever of those that wait listens first is told the same
-- KEYS[1]:b:FENCE  a list on which the holder with that fence is told that it is broken
-- KEYS[1]:t:TOKEN  a claim that was given up before it was answered
-- KEYS[1]:e   no key, but the channel on which those who watch are told what happens
--
-- A number that is an argument of redis.call is printed and read again, which takes as long as
-- the command: constants are texts.
--
-- With memory full a script may only go on if its first write is one that frees: DEL,
-- HDEL, ZREM or PEXPIRE comes before any other.
--
-- A user may lack a right, and then the script ends where it needs it. So that nothing is left
-- for ever, a script that creates a key has used PEXPIRE before, or undoes that.

local key = KEYS[1]
local S, H, Q, W, R = key .. ':s', key .. ':h', key .. ':q', key .. ':w', key .. ':r'
local D, A = key .. ':d', key .. ':a'

local MARKER = 'dlock:shared'
local PROMISE_MS = 3000      -- a dead waiter costs this much
local PLACE_MS = 90000       -- a waiter that is not heard of for longer has no place
local WATCH_MS = 5000        -- one that watches is heard of more often than that
local LOOK_MS = 2000         -- who watches a promise asks then whether it was taken, and if
local UNTAKEN_MS = 1000      -- it was not for so long, calls those before it, as long as
local ANSWER_MS = 500        -- they have so long to answer before the promise lapses;
local CALLED = 500           -- so many
local TOLD_MS = 1000         -- how often somebody is told to watch who may not have to
local ALARM_MS = '3000'      -- what nobody has listened to by then is of no use
local HEARD_MS = 250         -- one that was heard of so recently counts as alive
local QUICK_MS = 10          -- for a lock that nobody holds for longer,
local QUICK_PLACES = 50      -- and so many whose turn may then come before that is over
local QUEUE_MS = '600000'    -- an abandoned queue goes away by itself
local KEPT_MS = '2592000000' -- 30 days: fence and runs of a lock out of use,
local LONG_MS = 1296000000   -- counted from the end of a lease that is longer than this
local RUNS = 20              -- that are kept, and as many besides before they are dropped
local MOST_FENCE = 9007199254740991 -- 2^53 - 1: beyond it numbers here are not exact
local SHOWN = 8              -- holders told to one that waits

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] -- microseconds
local now_text = time[1] .. string.sub('00000' .. time[2], -6)

local function int(x)
  if x == now then return now_text end
  return string.format('%.0f', x)
end

-- Has what was just made expire; if the user may not, that is undone by this command.
local function expire_or(of, ms, ...)
  local expires = redis.pcall('PEXPIRE', of, ms)
  if type(expires) == 'number' then return end
  redis.call(...)
  error(expires.err, 0)
end

-- Records are a few words and then JSON that only clients read.
local function holder_of(text)
  local mode, slot, fence, since, ends, kind, info =
    string.match(text, '^(%a) (%d+) (%d+) (%d+) (%d+) (%a) (.*)$')
  return { mode = mode, slot = tonumber(slot), fence = tonumber(fence), since = tonumber(since),
    ends = tonumber(ends), promise = kind == 'p', ended = kind == 'e', detached = kind == 'd',
    broken = kind == 'b', info = info }
end
local function holder_text(h)
  local kind = h.promise and 'p' or h.ended and 'e' or h.detached and 'd' or h.broken and 'b' or 'h'
  return h.mode .. ' ' .. int(h.slot) .. ' ' .. int(h.fence) .. ' ' .. int(h.since) .. ' ' ..
    int(h.ends) .. ' ' .. kind .. ' ' .. h.info
end
-- `quick`: when it asked, who had the lock had just got it; then it watches, too. `called`:
-- it was told to ask, and has not yet. `ttl` is that of the lease it asks for, or '0' if that
-- needs more than a free lock.
local function waiter_of(text)
  local mode, since, until_, state, ttl, id, info =
    string.match(text, '^(%a) (%d+) (%d+) (%d) (%d+) (%x+) (.*)$')
  return { mode = mode, since = tonumber(since), until_ = tonumber(until_),
    passed = state == '1', watches = state == '2' or state == '3', quick = state == '3',
    called = state == '4', ttl = ttl, id = id, info = info }
end
local function waiter_text(w)
  local state = w.passed and '1' or w.called and '4' or w.quick and '3' or w.watches and '2'
    or '0'
  return w.mode .. ' ' .. int(w.since) .. ' ' .. int(w.until_) .. ' ' .. state .. ' ' .. w.ttl ..
    ' ' .. w.id .. ' ' .. w.info
end

local value = redis.call('GET', key)
local holders = {} -- token -> record, holders and promises
local flat = redis.call('HGETALL', H)
for i = 1, #flat, 2 do holders[flat[i]] = holder_of(flat[i + 1]) end
local state = redis.call('HMGET', S, 'fence', 'slots', 'reclaimed', 'dedupes', 'kept',
  'told')
local fence = tonumber(string.match(state[1] or '0', '^%d+$') or MOST_FENCE)
local slots, reclaimed = tonumber(state[2] or 1), state[3]
local told = tonumber(state[6] or 0)
-- The fence of the last grant: a lease that is set up again brings its own one along.
local granted = reclaimed and tonumber(string.match(reclaimed, '^%d+')) or fence
local dedupes = state[4] == '1'
local kept_until = tonumber(state[5] or 0) -- in ms
local kept_ms = KEPT_MS                    -- of S, H and R
if kept_until > 0 then kept_ms = int(math.max(kept_until - now / 1000, tonumber(KEPT_MS))) end

-- Whether a record of H still counts: the key says so for one holder, its time for many.
local function counts(token, h)
  if value == token then return true end
  return value == MARKER and h.ends > now
end
local function is_foreign()
  return value and value ~= MARKER and not holders[value]
end

-- The queue and the records of those in it, each asked for once: every script looks at the
-- same few waiters several times.
local queue_size, records = nil, {}
local queue_head, head_size = nil, 4 -- so many of the first, or all if there are less

local function queued_count()
  queue_size = queue_size or redis.call('ZCARD', Q)
  return queue_size
end

-- The waiter with so many before it.
local function waiting_at(place)
  if place >= head_size then return redis.call('ZRANGE', Q, int(place), int(place))[1] end
  queue_head = queue_head or redis.call('ZRANGE', Q, '0', '3')
  return queue_head[place + 1]
end

-- A waiter's record, or false. Who asks for that of the first in line mostly wants that of
-- the second, too.
local function record_of(token)
  if records[token] ~= nil then return records[token] end
  local second = queue_head and queue_head[1] == token and queue_head[2]
  if second and records[second] == nil then
    local both = redis.call('HMGET', W, token, second)
    records[token], records[second] = both[1], both[2]
  else
    records[token] = redis.call('HGET', W, token)
  end
  return records[token]
end

local function note_waiter(token, w)
  records[token] = waiter_text(w)
  redis.call('HSET', W, token, records[token])
end

local function add_waiter(token, score)
  redis.call('ZADD', Q, int(score), token)
  queue_size, queue_head, head_size = nil, nil, 4
end

-- Returns whether it was in the queue.
local function remove_waiter(token)
  local was_queued = redis.call('ZREM', Q, token) == 1
  redis.call('HDEL', W, token)
  records[token] = false
  if not was_queued then return false end
  queue_size = queue_size and queue_size - 1
  if queue_head and queue_head[1] == token and head_size > 1 then
    table.remove(queue_head, 1)
    head_size = head_size - 1
  else
    queue_head, head_size = nil, 4
  end
  return true
end

-- How many more can hold the lock.
local function free()
  local taken = is_foreign() and slots or 0
  for _, h in pairs(holders) do
    if not h.promise then
      if h.mode == 's' then return 0 end
      taken = taken + 1
    end
  end
  return math.max(slots - taken, 0)
end

-- Tells those who watch: what, to whose grant (its fence, for how many ms it lasts), and
-- who that is as JSON; behind a line break how a run ended. Whether anybody listens, and
-- whether this user may speak there, is of no concern to the lock.
local function tell(event, of_fence, ms, info)
  redis.pcall('PUBLISH', key .. ':e', event .. ' ' .. int(of_fence) .. ' ' .. int(ms) .. ' ' ..
    free() .. ' ' .. int(now) .. ' ' .. info)
end

-- Whether what this one runs can count for others: it has the lock for itself.
local function is_run(h)
  return h.mode == 'x' and slots == 1 and not h.promise and not h.ended and not h.detached
end

-- Verdict: 'good', 'failed', or 'none' for what was no run in the end. Returns its record.
local function note_run(h, ended, text, verdict)
  local run = int(h.fence) .. ' ' .. int(h.since) .. ' ' .. int(ended) .. ' ' .. text
  if redis.call('LPUSH', R, run) > 2 * RUNS then redis.call('LTRIM', R, '0', RUNS - 1) end
  redis.call('PEXPIRE', R, kept_ms)
  if verdict == 'none' or not is_run(h) then return run end
  if verdict == 'good' then
    redis.call('HSET', S, 'run', run, 'good', run)
  else
    redis.call('HSET', S, 'run', run)
  end
  return run
end

-- Passes those over who stand in front and have not answered, with the one that was promised
-- the lock and did not take it: otherwise each of them would cost the time of a promise.
local function pass_over_called()
  local place = 0
  while true do
    local token = waiting_at(place)
    local text = token and record_of(token)
    local w = text and waiter_of(text)
    if not w or not w.passed and not w.called then return end
    if w.called then
      w.passed = true
      note_waiter(token, w)
    end
    place = place + 1
  end
end

-- Clears what ran out: leases, whose runs then vanished (a detached one has none), and
-- promises, whose waiters are passed over until they ask again. That of `known` is told
-- by the caller.
local function tidy(known)
  local left, lapsed = false, false
  for token, h in pairs(holders) do
    if counts(token, h) then
      left = true
    else
      holders[token] = nil
      redis.call('HDEL', H, token)
      if h.promise then
        local text = record_of(token)
        lapsed = true
        if text then
          local w = waiter_of(text)
          w.passed = true
          note_waiter(token, w)
        end
      elseif not h.ended and not h.detached then
        redis.call('PEXPIRE', S, kept_ms)
        note_run(h, 0, h.info, 'failed')
      end
      if not h.promise and token ~= known then
        tell(h.ended and 'released' or 'expired', h.fence, 0, h.info)
      end
    end
  end
  if value == MARKER and not left then
    redis.call('DEL', key)
    value = false
  end
  if lapsed then pass_over_called() end
end

-- Whether the lock has room for one more.
local function admits(mode, wanted)
  if is_foreign() then return false end
  local shared, exclusive = 0, 0
  for _, h in pairs(holders) do
    if h.mode == 's' then shared = shared + 1 else exclusive = exclusive + 1 end
  end
  if mode == 's' then return exclusive == 0 end
  return shared == 0 and exclusive < wanted
end

-- Keeps the records of a lease of so long for as long, and not only KEPT_MS. Not the first
-- write of a script.
local function keep_for(ms)
  if ms < LONG_MS then return end
  kept_until = math.max(kept_until, math.ceil(now / 1000) + ms + tonumber(KEPT_MS))
  kept_ms = int(kept_until - now / 1000)
  redis.call('HSET', S, 'kept', int(kept_until))
  redis.call('PEXPIRE', S, kept_ms)
  redis.call('PEXPIRE', H, kept_ms)
end

-- Lets `token` have the lock, as a holder or as one it is promised to, for so long.
local function occupy(token, h, ms)
  holders[token] = h
  if h.mode == 'x' and slots == 1 then
    redis.call('SET', key, token, 'PX', int(ms))
    value = token
  else
    redis.call('SET', key, MARKER, 'PX', math.max(ms, redis.call('PTTL', key)))
    value = MARKER
  end
  redis.call('PEXPIRE', H, kept_ms) -- by this it is known that the user may
  redis.call('HSET', H, token, holder_text(h))
  redis.call('PEXPIRE', H, kept_ms)
  keep_for(ms)
end

local function wake(w, ask_after)
  redis.call('RPUSH', key .. ':w:' .. w.id, ask_after or '0')
  redis.call('PEXPIRE', key .. ':w:' .. w.id, QUEUE_MS)
end

-- The next waiters that the lock can go to, up to so many of them, and their records: those
-- that were not passed over, and to whom nothing is promised. The first two watch the clock,
-- for what they wait for, or the one before them, may end without a word. `self` is one of
-- them though it may have no record yet.
local function next_in_line(most, self)
  local tokens, waiters, place = {}, {}, 0
  while #tokens < most do
    local token = waiting_at(place)
    if not token then break end
    local text = token ~= self and record_of(token)
    local w = text and waiter_of(text)
    if token == self or w and not w.passed and not holders[token] then
      tokens[#tokens + 1] = token
      waiters[#tokens] = w
    end
    place = place + 1
  end
  return tokens, waiters
end

-- Has one of the next two ask, if it does not know yet that it is one of them.
local function have_watch(place, self)
  local tokens, waiters = next_in_line(place, self)
  local w = waiters[place]
  if not w or w.watches then return end
  w.watches = true -- for it is about to
  note_waiter(tokens[place], w)
  wake(w)
end

-- For who asks: whether it is to watch. The first of the two sees to it that there is a second
-- one. And who learns of a promise watches it whatever its place is: where that was made to a
-- dead one, those who were to watch may be dead as well.
local function is_to_watch(token)
  local tokens = next_in_line(2, token)
  if tokens[1] == token then have_watch(2, token) end
  if tokens[1] == token or tokens[2] == token then return true end
  for _, h in pairs(holders) do
    if h.promise then return true end
  end
  return false
end

local function heard_ago(w) -- in microseconds
  return now - (w.until_ - PLACE_MS * 1000)
end

-- Whether a waiter for a lock that is quick to change hands can be taken to be alive.
local function was_just_there(w)
  local ago = heard_ago(w)
  return w.quick and ago >= 0 and ago < HEARD_MS * 1000
end

-- Gives a free lock to a waiter that does not ask for it.
local function hand_to(token, w)
  remove_waiter(token)
  fence = math.max(fence + 1, now)
  local ttl = tonumber(w.ttl)
  occupy(token, { mode = w.mode, slot = 0, fence = fence, since = now, ends = now + ttl * 1000,
    info = w.info }, ttl)
  redis.call('HSET', S, 'fence', int(fence))
  tell('granted', fence, ttl, w.info)
  wake(w, 'granted ' .. int(fence))
end

-- Takes a waiter out of the queue, with what it was promised.
local function forget(token)
  local text = record_of(token)
  remove_waiter(token)
  if holders[token] and holders[token].promise then
    holders[token] = nil
    redis.call('HDEL', H, token)
    if value == token then
      redis.call('DEL', key)
      value = false
    end
  end
  if text then tell('left', 0, 0, waiter_of(text).info) end
end

-- The run that counts as the one of a claim, as text: 'r' if it is going on, 'e' if it has
-- ended, and its record. `dedupe` is the claim's: a window in ms, and 1 if it runs again what
-- failed; one that waits then does so for the end of a run. A run that started later than
-- now, the clock having been set back, counts as far ahead as it would back. With 2 it joins a
-- run that ends while it waits, and no other counts.
local function counting_run(dedupe, waits)
  local window, retry = string.match(dedupe, '^(%d+) (%d)$')
  if retry == '2' then return nil end
  if not waits or retry == '0' then
    for _, h in pairs(holders) do
      if is_run(h) then
        return 'r ' .. int(h.fence) .. ' ' .. int(h.since) .. ' 0 ' .. h.info
      end
    end
  end
  local run = redis.call('HGET', S, retry == '1' and 'good' or 'run')
  if not run then return nil end
  local started = tonumber(string.match(run, '^%d+ (%d+)'))
  return math.abs(now - started) < tonumber(window) * 1000 and 'e ' .. run or nil
end

-- Takes those out of the queue that wait for what another run has done or does, and tells
-- each. The entries of those who have left otherwise go, too. `joined` is the record of a run
-- that has just ended, for those who wait to join it.
local function dismiss(joined)
  if not dedupes then return end
  dedupes = false
  local left_watch = false
  local waiting = redis.call('HGETALL', D)
  for i = 1, #waiting, 2 do
    local token = waiting[i]
    local text = redis.call('ZSCORE', Q, token) and record_of(token)
    local joins = joined and string.match(waiting[i + 1], ' 2$')
    local run = text and (joins and 'e ' .. joined or counting_run(waiting[i + 1], true))
    if run then
      forget(token)
      redis.call('SET', D .. ':' .. token, run, 'PX', PLACE_MS)
      left_watch = left_watch or waiter_of(text).watches
      wake(waiter_of(text))
    end
    if text and not run then dedupes = true else redis.call('HDEL', D, token) end
  end
  if not dedupes then redis.call('HDEL', S, 'dedupes') end
  if left_watch then have_watch(1) end
end

-- Tells whoever listens first, and is alive therefore, to see what becomes of a promise: those
-- next in line may all be dead. And the last in line, for if the first are only stopped, the
-- one that listens first may be so, too.
local function have_promise_watched()
  if told > now - TOLD_MS * 1000 and told <= now then return end
  told = now
  redis.call('RPUSH', A, LOOK_MS)
  redis.call('PEXPIRE', A, ALARM_MS)
  redis.call('HSET', S, 'told', int(now))
  redis.call('PEXPIRE', S, kept_ms)
  local last = waiting_at(queued_count() - 1)
  local text = last and not holders[last] and record_of(last)
  if text then wake(waiter_of(text), LOOK_MS) end
end

-- The server has forgotten the queue of a waiter that asks now: wakes two of the others, who
-- do the same.
local function call_roll()
  redis.call('RPUSH', A, '0', '0')
  expire_or(A, ALARM_MS, 'DEL', A)
end

-- For who asks: if a promise has not been taken for a while, has those before it ask, too, so
-- that it is known when the promise lapses who of them is there. Where one of them has asked
-- since it was made, that one does this.
local function call_those_before(self)
  local since
  for _, h in pairs(holders) do
    local age = now - h.since
    if h.promise and age >= UNTAKEN_MS * 1000 and age <= (PROMISE_MS - ANSWER_MS) * 1000 then
      since = h.since
    end
  end
  if not since then return end
  local place, called = 0, 0
  while called < CALLED do
    local token = waiting_at(place)
    if not token or token == self then return end
    local text = record_of(token)
    local w = text and waiter_of(text)
    if w and not w.passed and not w.called and not holders[token] then
      if now - heard_ago(w) > since then return end
      w.called = true
      note_waiter(token, w)
      wake(w)
      called = called + 1
    end
    place = place + 1
  end
end

-- Promises what is free to the first waiters that fit, in order, and tells each on its own
-- list, but for `self`, who asks just now. Stops at the first that does not fit: nobody
-- overtakes. That one is told only if it does not know yet that it has to watch: for how
-- long a promise can last it need not ask, for how long something else can (`anew`) it has to.
--
-- A waiter that dies costs the time of a promise, and not of a lease. With `quick`, if the
-- last one had the lock for a moment only, it is given the lease all the same if it was just
-- heard of, and found the lock as quick.
local function promise_to_the_next(self, anew, quick)
  if is_foreign() then return end
  local is_plain = quick and not reclaimed and not dedupes
  local first, promised, is_sure = 0, false, true
  while true do
    local token = waiting_at(first)
    if not token then return end
    local text = record_of(token)
    local w = text and waiter_of(text)
    if not w or w.until_ <= now then
      forget(token)
      anew = true
    elseif w.passed or holders[token] then
      first = first + 1
    elseif not admits(w.mode, slots) then
      if anew then
        if token ~= self then wake(w) end
      elseif promised and token ~= self and
        not (w.watches and heard_ago(w) < WATCH_MS * 1000) then
        wake(w, LOOK_MS)
      end
      if not is_sure then have_promise_watched() end
      return
    elseif is_plain and w.ttl ~= '0' and fence < MOST_FENCE and was_just_there(w) then
      -- A short lease may be over before those who watch a promise ask.
      anew = anew or tonumber(w.ttl) < PROMISE_MS
      hand_to(token, w)
      promised = true
    else
      occupy(token, { mode = w.mode, slot = 0, fence = 0, since = now,
        ends = now + PROMISE_MS * 1000, promise = true, info = w.info }, PROMISE_MS)
      if token ~= self then
        wake(w)
        promised, is_sure = true, false
      else
        anew = true -- the next one stands where this one stood, and was told nothing
      end
      first = first + 1
    end
  end
end

-- How long what occupies the lock can last, in milliseconds; -1 if nobody knows. A promise is
-- looked at before that.
local function blocked_for()
  local least = value ~= MARKER and redis.call('PTTL', key) or -1
  for _, h in pairs(holders) do
    local left = math.ceil((h.ends - now) / 1000)
    local look = left - (PROMISE_MS - LOOK_MS)
    if h.promise and look > 0 then left = look end
    if value == MARKER or h.promise then
      if least < 0 or left < least then least = left end
    end
  end
  return least
end

-- The holders as pairs of a record and how long its lease has left.
local function holders_shown(most)
  local shown = {}
  if is_foreign() then return { 'foreign', redis.call('PTTL', key) } end
  for token, h in pairs(holders) do
    if not h.promise and counts(token, h) and #shown < 2 * most then
      shown[#shown + 1] = holder_text(h)
      shown[#shown + 1] = value == token and redis.call('PTTL', key)
        or math.ceil((h.ends - now) / 1000)
    end
  end
  return shown
end
