# Helpers for tests with several private, independent servers. They need support.bash,
# redis.bash and sentinel.bash.
# shellcheck disable=SC2034  # some of what is set here is for the tests
# shellcheck disable=SC2154  # sentinel.bash sets ports, pids and fleet

# For `setup`, instead of use_private_store: starts the servers 1 to N, and makes them the
# store. With DLOCK_MAX_TTL=0 they have a vote at once.
use_quorum_store() {  # <number>
  use_private_store || return
  start_quorum "$1"
}

start_quorum() {  # <number>
  fleet=$BATS_TEST_TMPDIR/fleet
  first_sentinel=100 # there is none
  servers=$1
  begin_to_use_ports
  read -ra ports <<< "$(free_ports "$servers")"
  ports=(0 "${ports[@]}")
  pids=()
  local i list=
  for ((i = 1; i <= servers; i++)); do
    mkdir -p "$fleet/$i"
    { printf '%s\n' 'bind 127.0.0.1' "dir $fleet/$i" 'save ""'
      port_settings "$i"; } > "$fleet/$i/conf"
    start_member "$i"
    list+=${list:+,}127.0.0.1:${ports[i]}
  done
  ports_are_used
  export DLOCK_STORE=redis+quorum://$list DLOCK_MAX_TTL=0
}

# Prints on how many servers the lock is held, according to these servers.
held_on() {  # <name>
  local i count=0
  for ((i = 1; i <= servers; i++)); do
    [[ $(member "$i" EXISTS "dlock:{$1}") != 1 ]] || ((++count))
  done
  echo "$count"
}

is_held_on() { [[ $(held_on "$1") == "$2" ]]; }  # <name> <number>

# Prints the uptime of a server in whole seconds.
uptime_of() {  # <number>
  member "$1" INFO server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p'
}

is_up_for() { (($(uptime_of "$1") >= $2)); }  # <number> <seconds>

# Restarts a server without its data.
restart_empty() {  # <number>...
  local i
  for i; do
    crash "$i"
    start_member "$i"
  done
}
