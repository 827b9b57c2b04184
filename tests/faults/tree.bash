# Helpers for tests that end whole process trees. They need support.bash and redis.bash.
# shellcheck disable=SC2034,SC2154  # what is set here is for the tests, and the reverse

# A command whose processes are hard to end: one that obeys TERM, one that ignores it, and a
# daemon of each kind. Each writes its pid to its own file.
# shellcheck disable=SC2016  # it is a shell that expands for itself
tree=(sh -c '
  echo $$ > "$0/leader"
  sh -c "trap \"\" TERM; echo \$\$ > \"\$0/deaf\"; exec sleep 300" "$0" &
  setsid sh -c "(trap \"\" TERM INT HUP
    sh -c \"echo \\\$PPID > \\\"\\\$0/daemon\\\"\" \"\$0\"; exec sleep 300) &" "$0" &
  setsid sh -c "sleep 300 & echo \$! > \"\$0/sleeper\"; wait" "$0" &
  wait')

# Holds `job` with such a tree. Sets $holder to the pid of dlock, $guardian to that of the
# guardian, and $branches to those of the tree.
hold_tree() {  # [<option>...]
  local pids=$BATS_TEST_TMPDIR/pids
  rm -rf "$pids"
  mkdir "$pids"
  dlock run --report "$report" "$@" job -- "${tree[@]}" "$pids" 2> "$said" 3>&- &
  holder=$!
  local name
  branches=()
  for name in leader deaf daemon sleeper; do
    eventually test -s "$pids/$name" || return
    branches+=("$(< "$pids/$name")")
  done
  guardian=$(guardian_of "$holder")
}

guardian_of() {  # <pid of dlock>
  local child
  for child in $(pgrep -P "$1"); do
    [[ $(< "/proc/$child/comm") != lock-guardian ]] || echo "$child"
  done
}

all_have_ended() {  # <pid>...
  local pid
  for pid; do has_ended "$pid" || return; done
}

# Prints when the lease of a lock ends on the server, in milliseconds since the epoch.
lease_end() {  # <name>
  local moment
  # Exact, from Redis 7.0 on: on a busy machine the reply takes time.
  moment=$(redis PEXPIRETIME "dlock:{$1}")
  if [[ ! $moment =~ ^[1-9][0-9]*$ ]]; then moment=$(($(now_ms) + $(left_of "$1"))); fi
  echo "$moment"
}

# Waits until the tree is dead, and sets $spare to how long before $end that was, in
# milliseconds.
await_death() {
  local last
  last=$("$BATS_TEST_DIRNAME/last_death" "${branches[@]}") || return
  spare=$((end - last))
  echo "dead $spare ms before the end of the lease"
}
