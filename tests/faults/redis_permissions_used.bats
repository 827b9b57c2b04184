#!/usr/bin/env bats
# The same as redis_permissions.bats, on a server in use. It takes long, so it runs at night.
# shellcheck disable=SC2034  # the helpers use and set what the test needs

setup() {
  load ../bats/support
  load redis
  load permissions
  use_redis_store
}

@test "with a missing permission on a server in use, no key stays there forever" {
  # With a vanished run, an earlier one, and a dead waiter.
  dlock run job -- true
  hold job
  queue job -- true
  kill -KILL "$waiter" "$holder"
  restore=$(redis EVAL "local script = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      if key ~= 'dlock:{job}' then
        local bytes = string.gsub(redis.call('DUMP', key), '.', function(c)
          return string.format('\\\\%03d', string.byte(c))
        end)
        script[#script + 1] = 'redis.call(\"RESTORE\", \"' .. key .. '\", 100000, \"' .. bytes .. '\")'
      end
    end
    script[#script + 1] = 'return redis.status_reply(\"OK\")'
    return table.concat(script, ' ')" 0)

  open_console
  preparation=(FLUSHALL "EVALSHA $(redis SCRIPT LOAD "$restore") 0")

  for permission in $(permissions); do call_all_without "$permission"; done
}
