# Helpers for the tests with a Redis server of their own. They go with support.bash.
# DLOCK_TEST_SERVER names another program than redis-server.
# shellcheck disable=SC2034  # some of what is set here is for the tests

# use_private_store unsets what begins with DLOCK_.
redis_program=${DLOCK_TEST_SERVER:-redis-server}

# All that dlock needs to be allowed; the manual has the same.
least_permissions='resetkeys resetchannels -@all ~dlock:* &dlock:* +client|setname
  +publish +subscribe +psubscribe +ping
  +evalsha +eval +blpop +scan +select +time +exists +get +set +del +pttl +pexpire
  +getrange +setrange
  +hget +hset +hdel +hgetall +hmget +lindex +lpush +lrem +ltrim +rpush
  +zadd +zcard +zrange +zrank +zrem +zremrangebyscore +zscore'
least_permissions=${least_permissions//$'\n'/}

# Before 6.2 there were no permissions on channels.
known_permissions() {  # <permissions>
  local version
  version=$("$redis_program" --version | grep -o 'v=[0-9]*\.[0-9]*')
  case $version in
    v=6.[01])
      set -- "${1//resetchannels/}"
      set -- "${1//'&dlock:*'/}"
      echo "${1//allchannels/}"
      ;;
    *) echo "$1" ;;
  esac
}
redis_password='only (us) %$'

# For `setup`, in the place of use_private_store: starts a server, and makes it the store.
# dlock is a user with the least permissions. The default user, as whom clients go on after a
# refused login, is shut out; it keeps its permissions because servers load their data as it.
use_redis_store() {  # [<option of the server>...]
  use_private_store || return
  redis_root=$BATS_TEST_TMPDIR/redis
  redis_socket=$redis_root/socket
  mkdir "$redis_root"
  cat > "$redis_root/conf" << END
unixsocket $redis_socket
dir $redis_root
save ""
$(known_permissions 'user default off nopass allkeys allchannels allcommands')
$(known_permissions 'user admin on nopass allkeys allchannels allcommands')
user dlock on #$(printf %s "$redis_password" | sha256sum | cut -d ' ' -f 1) $(known_permissions "$least_permissions")
END
  (umask 077 && echo "$redis_password" > "$redis_root/password")
  start_redis "$@" || return
  export DLOCK_STORE=redis+unix:$redis_socket
  export DLOCK_USER=dlock DLOCK_PASSWORD_FILE=$redis_root/password
}

# Starts the server, with its data if it kept them. What it says goes to redis/log.
start_redis() {  # [<option of the server>...]
  redis_options=("$@")
  [[ " $* " == *' --port '* ]] || set -- --port 0 "$@"
  "$redis_program" "$redis_root/conf" "$@" >> "$redis_root/log" 2>&1 3>&- &
  redis_pid=$!
  eventually redis_answers || { cat "$redis_root/log" >&2; return 1; }
}

redis_answers() { [[ $(redis PING) == @(PONG|LOADING*) ]]; }

# Ends the server as a power cut does, also a stopped one. For `teardown`, too.
stop_redis() {
  [[ -n ${redis_pid:-} ]] || return 0
  end_processes "$redis_pid"
  wait "$redis_pid" || true
  redis_pid=
}

restart_redis() {
  stop_redis
  start_redis "${redis_options[@]}"
}

# Until redis_goes_on the server is there and answers nothing.
redis_freezes() { kill -STOP "$redis_pid"; }
redis_goes_on() { kill -CONT "$redis_pid"; }

# Sends a command as a user who may do everything, and prints the answer.
redis() {  # <command> [<argument>...]
  timeout 20 redis-cli -s "$redis_socket" --user admin --pass any --no-auth-warning "$@"
}

# Gives the server a port that nothing else uses, and sets $redis_port. For `setup`, before
# use_redis_store, to which `--port $redis_port` is to be given.
choose_redis_port() {
  redis_port=$(perl -MIO::Socket::INET -e \
    'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport')
}

# Puts a network between dlock and the server that can break.
use_relay() {
  "$DLOCK_SOURCE/tests/faults/relay" "$BATS_TEST_TMPDIR/port" "$BATS_TEST_TMPDIR/mode" \
    "$redis_socket" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/port"
  DLOCK_STORE=redis://127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")
}

network() { echo "$1" > "$BATS_TEST_TMPDIR/mode"; }  # <forward, drop, drip, keep or late>

# Notes in a file all that the server is told from now on.
start_monitor() {  # <file>
  monitor=$1
  redis MONITOR > "$monitor" 2> /dev/null &
  eventually grep -qx OK "$monitor"
}

# Prints the commands that clients have sent since then, without their logins, which not
# every server shows. Those of scripts are marked with "lua" in the place of the address.
told() {
  redis ECHO 'that was it' > /dev/null
  eventually grep -q '"that was it"' "$monitor"
  sed -n '/ lua\]/d; /"AUTH"/d; /"that was it"/d; s/^[^]]*\] //p' "$monitor"
}

# How often clients and scripts have called a command since the server was started.
calls_of() {  # <command, in small letters>
  redis INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p" | grep . || echo 0
}

# The time that a lock's lease has left, as the server has it; -2 if there is none.
left_of() { redis PTTL "dlock:{$1}"; }

# Waits for a renewal of a lock's lease: it lasts longer than it just did.
await_renewal() {  # <name>
  last_left=$(left_of "$1")
  eventually has_been_renewed "$1"
}

has_been_renewed() {
  local left
  left=$(left_of "$1")
  ((left <= last_left)) || return 0
  last_left=$left
  return 1
}
