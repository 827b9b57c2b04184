# Helpers for tests with a private Redis server. They need support.bash. DLOCK_TEST_SERVER can
# name another program than redis-server.
# shellcheck disable=SC2034  # some of what is set here is for the tests

# use_private_store unsets all variables that begin with DLOCK_.
redis_program=${DLOCK_TEST_SERVER:-redis-server}

# All permissions that dlock needs, as in the manual.
least_permissions='resetkeys resetchannels -@all ~dlock:* &dlock:* +client|setname
  +publish +xadd +xrange +subscribe +psubscribe +ping
  +evalsha +eval +blpop +scan +select +time +exists +get +set +del +pttl +pexpire
  +getrange +setrange
  +hget +hset +hdel +hgetall +hmget +lindex +lpush +lrem +ltrim +rpush
  +zadd +zcard +zrange +zrank +zrem +zremrangebyscore +zscore'
least_permissions=${least_permissions//$'\n'/}

redis_password='only (us) %$'

# Prints the users of the server: dlock with the minimum permissions, and one with all. The
# default user, which clients continue as after a refused login, cannot log in. It keeps its
# permissions, because servers load their data as this user.
users_of_redis() {
  local users="user default off nopass allkeys allchannels allcommands
user admin on nopass allkeys allchannels allcommands
user dlock on \">$redis_password\" $least_permissions"
  # Before 6.2 there were no permissions on channels.
  if "$redis_program" --version | grep -q 'v=6\.[01]'; then
    users=${users//resetchannels/}
    users=${users//allchannels/}
    users=${users//'&dlock:*'/}
  fi
  echo "$users"
}

# For `setup`, instead of use_private_store: starts a server, and makes it the store.
use_redis_store() {  # [<option of the server>...]
  local users=$BATS_FILE_TMPDIR/redis-users # the same for all tests of a file
  use_private_store || return
  redis_root=$BATS_TEST_TMPDIR/redis
  redis_socket=$redis_root/socket
  mkdir "$redis_root"
  [[ -e $users ]] || users_of_redis > "$users"
  printf '%s\n' "include $users" "unixsocket $redis_socket" "dir $redis_root" 'save ""' \
    > "$redis_root/conf"
  (umask 077 && echo "$redis_password" > "$redis_root/password")
  start_redis "$@" || return
  export DLOCK_STORE=redis+unix:$redis_socket
  export DLOCK_USER=dlock DLOCK_PASSWORD_FILE=$redis_root/password
}

# Starts the server, with its data if it saved them. Its output goes to redis/log.
start_redis() {  # [<option of the server>...]
  redis_options=("$@")
  [[ " $* " == *' --port '* ]] || set -- --port 0 "$@"
  : >> "$redis_root/log"
  local known
  known=$(< "$redis_root/log")
  "$redis_program" "$redis_root/conf" "$@" >> "$redis_root/log" 2>&1 3>&- &
  redis_pid=$!
  eventually redis_listens "${#known}" || { cat "$redis_root/log" >&2; return 1; }
}

# Whether the server has said, after so many characters of its log, that it listens: redis-cli would
# take more processor time to ask than the server takes to start. While it still loads its data, it
# has to be asked.
redis_listens() {
  local said
  said=$(< "$redis_root/log")
  said=${said:$1}
  [[ $said == *'eady to accept connections'* ]] ||
    [[ "${redis_options[*]}" == *--key-load-delay* && $(redis PING) == LOADING* ]]
}

# Kills the server, also a stopped one, as a power failure would. For `teardown` as well.
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

# Until redis_goes_on, the server accepts connections but does not reply.
redis_freezes() { halt "$redis_pid"; }
redis_goes_on() { kill -CONT "$redis_pid"; }

# Sends a command to a server on this machine that needs neither a login nor TLS, and prints the
# reply as redis-cli does, which takes twenty times as long. Fails if there is no reply in 5 s.
ask_port() {  # <port> <command> [<argument>...]
  local LC_ALL=C word server status=0 request="*$(($# - 1))"$'\r\n'
  for word in "${@:2}"; do request+="\$${#word}"$'\r\n'"$word"$'\r\n'; done
  { exec {server}<> "/dev/tcp/127.0.0.1/$1"; } 2> /dev/null || return
  # The server may have closed the connection.
  { printf %s "$request" >&"$server"; } 2> /dev/null && print_reply "$server" || status=1
  exec {server}>&-
  return "$status"
}

print_reply() {  # <descriptor>
  local head text i
  IFS= read -r -t 5 head <&"$1" || return
  head=${head%$'\r'}
  case $head in
    '$-1' | '*0' | '*-1') echo ;;
    '$'*)
      IFS= read -r -t 5 -N $((${head:1} + 2)) text <&"$1" || return
      printf '%s\n' "${text%$'\r\n'}" ;;
    '*'*) for ((i = 0; i < ${head:1}; ++i)); do print_reply "$1" || return; done ;;
    *) printf '%s\n' "${head:1}" ;;
  esac
}

# Sends a command as a user with all permissions, and prints the reply.
redis() {  # <command> [<argument>...]
  timeout 60 redis-cli -s "$redis_socket" --user admin --pass any --no-auth-warning "$@"
}

# For `setup`, before use_redis_store: sets $redis_port to a free port. Pass it to
# use_redis_store as `--port $redis_port`.
choose_redis_port() { redis_port=$(free_ports 1); }

# Puts a network that can fail between dlock and the server.
use_relay() {
  "$DLOCK_SOURCE/tests/faults/relay" "$BATS_TEST_TMPDIR/port" "$BATS_TEST_TMPDIR/mode" \
    "$redis_socket" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/port"
  DLOCK_STORE=redis://127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")
}

network() { echo "$1" > "$BATS_TEST_TMPDIR/mode"; }  # <forward, drop, drip, crawl, keep or late>

# Writes all commands that the server receives from now on to a file.
start_monitor() {  # <file>
  monitor=$1
  redis MONITOR > "$monitor" 2> /dev/null &
  eventually grep -qx OK "$monitor"
}

# Prints the commands that clients have sent since then, without their logins, which not every
# server shows. Commands of scripts have "lua" in place of the address.
told() {
  redis ECHO 'that was it' > /dev/null
  eventually grep -q '"that was it"' "$monitor"
  sed -n '/ lua\]/d; /"AUTH"/d; /"that was it"/d; s/^[^]]*\] //p' "$monitor"
}

# Prints how often clients and scripts have called a command since the server started.
calls_of() {  # <command, in small letters>
  redis INFO commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p" | grep . || echo 0
}

# Prints the remaining time of a lease on the server; -2 if there is no lease.
left_of() { redis PTTL "dlock:{$1}"; }

# Keeps the server busy for good. First logs when the lease of job ends: there may be a renewal
# until the script begins.
run_endless_script() {
  redis EVAL 'local time = redis.call("TIME")
    local ends = time[1] * 1000 + time[2] / 1000 + redis.call("PTTL", "dlock:{job}")
    redis.log(redis.LOG_WARNING, string.format("the lease ends at %.0f", ends))
    while true do end' 0
}
# Sets $end to that, in milliseconds.
read_logged_end() { end=$(grep -oP 'the lease ends at \K[0-9]+' "$redis_root/log"); }

# Waits for a renewal of a lease: its remaining time grows.
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
