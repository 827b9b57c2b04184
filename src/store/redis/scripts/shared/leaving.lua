-- Waiters leave the queue.
--
-- uses: queue events

-- Returns whether it was in the queue.
local function remove_waiter(token)
  local was_queued = redis.call('ZREM', Q, token) == 1
  redis.call('HDEL', W, token)
  waiters[token] = false
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

-- Ends the promise to a waiter, if it has one.
local function withdraw_promise(token)
  if not holders[token] or not holders[token].promise then return end
  holders[token] = nil
  redis.call('HDEL', H, token)
  if value == token then
    redis.call('DEL', key)
    value = false
  end
end

-- Removes a waiter from the queue, with its promise.
local function forget(token)
  local w = waiter(token)
  remove_waiter(token)
  withdraw_promise(token)
  if w then publish('left', 0, 0, w.info) end
end
