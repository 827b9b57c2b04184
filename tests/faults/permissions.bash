# Helpers for tests with users that lack permissions on a Redis server. They need support.bash
# and redis.bash.
# shellcheck disable=SC2154  # redis.bash sets what is used here

# The commands that dlock needs permission for, except those that only waits and watches use.
permissions() {
  grep -o '+[a-z|]*' <<< "$least_permissions" | grep -v 'client\|subscribe\|publish\|ping\|select' | tr -d +
}

# Prints the keys that never expire, except those of registers, which are meant to stay.
lasting_keys() {
  redis EVAL "local lasting = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      if redis.call('PTTL', key) < 0 and string.sub(key, -2) ~= ':f' then
        lasting[#lasting + 1] = key
      end
    end
    return lasting" 0
}

# Calls a verb as a user without this permission. A verb that takes a lock is also called as a
# user that cannot release a grant either.
call_without() {  # <permission> <verb> <argument>...
  "$prepare"
  call_as "-$1" +ping "${@:2}"
  [[ $2 == @(run|acquire|break) ]] || return 0
  "$prepare"
  call_as "-$1" -del "${@:2}"
}

call_as() {  # <permission> <permission> <verb> <argument>...
  local status=0
  redis ACL SETUSER dlock "$1" "$2" > /dev/null
  timeout 20 dlock "${@:3}" > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null || status=$?
  redis ACL SETUSER dlock "+${1#-}" "+${2#[+-]}" > /dev/null
  what="as a user with $1 $2, ${*:3}"
  [[ $status == @(0|1|75|76|77) || $what == *--slots* && $status == 78 ]] ||
    { echo "$what exits with $status: $(< "$BATS_TEST_TMPDIR/said")" >&2; return 1; }
  assert_equal "$what: $(lasting_keys)" "$what: "
}

# Calls each verb that changes something, one after the other on the same server.
call_all_without() {  # <permission> <function that prepares the server>
  local mode token prepare=$2
  for mode in '' --shared '--slots 2' '--dedupe 1s' '--min-hold 100ms' '--wait 100ms'; do
    # shellcheck disable=SC2086
    call_without "$1" run --ttl 5s $mode job -- true
  done
  for mode in '' --shared '--slots 2' '--wait 100ms'; do
    # shellcheck disable=SC2086
    call_without "$1" acquire --ttl 5s $mode job
  done
  call_without "$1" limit api 5/1s
  call_without "$1" limit api 5/1s -w 1s
  call_without "$1" fence disk 5
  call_without "$1" cache page -- echo contents
  call_without "$1" break job --yes
  call_without "$1" status job
  prepare=:
  redis FLUSHALL > /dev/null
  token=$(dlock acquire job --ttl 5s)
  call_without "$1" renew job --token "$token" --ttl 4s
  call_without "$1" release job --token "$token"
}
