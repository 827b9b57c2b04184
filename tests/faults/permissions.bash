# Helpers for tests with users that lack permissions on a Redis server. They need support.bash
# and redis.bash.
# shellcheck disable=SC2154  # redis.bash sets what is used here

# A script that returns the keys that never expire, except those of registers, which are meant to
# stay.
find_lasting_keys='local lasting = {}
  for _, key in ipairs(redis.call([[KEYS]], [[*]])) do
    if redis.call([[PTTL]], key) < 0 and string.sub(key, -2) ~= [[:f]] then
      lasting[#lasting + 1] = key
    end
  end
  return table.concat(lasting, [[ ]])'

# The commands that dlock needs permission for, except those that only waits and watches use.
permissions() {
  grep -o '+[a-z|]*' <<< "$least_permissions" | grep -v 'client\|subscribe\|publish\|ping\|select' | tr -d +
}

# Opens a connection for `tell`.
open_console() {
  coproc console {
    exec redis-cli -s "$redis_socket" --user admin --pass any --no-auth-warning 2>&1 3>&-
  }
}

# Sends commands as a user with all permissions. Sets $replies to the lines of the replies.
# There are thousands, and a redis-cli for each would take most of the test's time.
tell() {  # <line of redis-cli>...
  local line
  replies=()
  printf '%s\n' "$@" 'ECHO end-of-replies' >&"${console[1]}"
  while IFS= read -r -t 20 line <&"${console[0]}"; do
    [[ $line != end-of-replies ]] || return 0
    replies+=("$line")
  done
  echo "the server did not reply to: $*" >&2
  return 1
}

# Calls a verb as a user without this permission. A verb that takes a lock is also called as a
# user that cannot release a grant either.
call_without() {  # <permission> <verb> <argument>...
  call_as "-$1" +ping "${@:2}"
  [[ $2 == @(run|acquire|break) ]] || return 0
  call_as "-$1" -del "${@:2}"
}

# Calls a verb after the commands in $preparation, to each of which the reply is OK.
call_as() {  # <permission> <permission> <verb> <argument>...
  local status=0 reply
  tell "${preparation[@]}" "ACL SETUSER dlock $1 $2"
  for reply in "${replies[@]}"; do assert_equal "$reply" OK; done
  timeout 60 dlock "${@:3}" > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null || status=$?
  tell "ACL SETUSER dlock +${1#-} +${2#[+-]}" "EVAL \"${find_lasting_keys//$'\n'/ }\" 0"
  what="as a user with $1 $2, ${*:3}"
  [[ $status == @(0|1|75|76|77) || $what == *--slots* && $status == 78 ]] ||
    { echo "$what exits with $status: $(< "$BATS_TEST_TMPDIR/said")" >&2; return 1; }
  assert_equal "$what: ${replies[*]}" "$what: OK "
}

# Calls each verb that changes something, one after the other on the same server. Uses
# $preparation before each.
call_all_without() {  # <permission>
  local mode token
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
  tell FLUSHALL
  local preparation=()
  token=$(dlock acquire job --ttl 5s)
  call_without "$1" renew job --token "$token" --ttl 4s
  call_without "$1" release job --token "$token"
}
