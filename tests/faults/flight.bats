#!/usr/bin/env bats
# Commands that try to escape, and supervision that cannot see them: when dlock says that
# the run is over, no process of the command is alive.
# shellcheck disable=SC2034  # what the helpers and the tests set for each other

setup_file() {
  load ../bats/support
  "${CC:-cc}" -O1 -o "$BATS_FILE_TMPDIR/chains" "$DLOCK_SOURCE/tests/faults/chains.c"
}

setup() {
  load ../bats/support
  load redis
  load tree
  cd "$BATS_TEST_TMPDIR" || return
  chains=$BATS_FILE_TMPDIR/chains
  stop=$BATS_TEST_TMPDIR/stop
}

clean_up() { : > "$stop"; }

# Each link writes its pid, so a chain that continues changes the numbers.
chains_have_begun() { [[ -s $stop.alive ]] && [[ $(od -An -td4 "$stop.alive") != *' 0'* ]]; }

# Asserts that no chain continues, and that no link of one is alive.
assert_nothing_is_alive() {
  local before
  before=$(od -An -td4 "$stop.alive")
  run pgrep -f "^$chains [0-9]+ [0-9]+ $stop "
  assert_equal "$output" ''
  never_within 200 refute test "$(od -An -td4 "$stop.alive")" = "$before"
}

# After this, dlock runs where it cannot make a cgroup.
use_no_cgroups() {
  needs_root
  before_dlock=(unshare --mount --propagation private sh -c 'mount -t tmpfs none /sys/fs/cgroup; exec "$@"' -)
}

# Runs chains under a lock with a time limit, and asserts that nothing is left of them when
# dlock reports the time-out. Twice, because it is a race; each kind is tried several times. On a busy
# machine the chains may need a longer limit to begin.
assert_timeout_ends_chains() {  # <kind>
  local kind=$1 limit times=0
  for limit in 300ms 300ms 2s 10s 30s 30s; do
    rm -f "$stop.alive"
    status=0
    timeout -s KILL 60 "${before_dlock[@]}" dlock run --timeout "$limit" --kill-after 50ms --stragglers kill \
      job -- "$chains" 12 20 "$stop" "$kind" 2> "$said" 3>&- || status=$?

    assert_status 124
    chains_have_begun || continue
    assert_nothing_is_alive
    ((++times < 2)) || return 0
  done
  return 1
}

# The same, but the lease is lost.
assert_loss_ends_chains() {  # <kind>
  "${before_dlock[@]}" dlock run --ttl 2s --kill-after 50ms --report "$report" job -- "$chains" 12 20 "$stop" "$1" \
    2> "$said" 3>&- &
  holder=$!
  eventually chains_have_begun

  redis SET 'dlock:{job}' other PX 60000 > /dev/null

  assert_exits 76 "$holder"
  assert_nothing_is_alive
}

@test "no chain of processes outlives a time-out: short ones, with their own sessions, and with shared memory" {
  local kind
  use_private_store
  use_no_cgroups
  for kind in plain session vfork; do assert_timeout_ends_chains "$kind"; done
}

@test "no chain outlives a time-out where a cgroup can be made" {
  use_private_store
  needs_root

  assert_timeout_ends_chains session
  assert_timeout_ends_chains vfork
}

@test "no chain outlives a time-out on a server" {
  use_redis_store
  use_no_cgroups

  assert_timeout_ends_chains session
  assert_timeout_ends_chains vfork
}

@test "no chain outlives a lease that was taken over, with cgroups and without" {
  use_redis_store
  needs_root
  assert_loss_ends_chains session

  redis DEL 'dlock:{job}' > /dev/null
  rm -f "$stop.alive"
  use_no_cgroups
  assert_loss_ends_chains session
}

# --- What does not end keeps the lock ---

@test "processes that are killed and do not end keep the lock, with a message" {
  use_private_store
  use_no_cgroups
  # The call is not made, and returns success.
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 "${before_dlock[@]}" \
    strace -f -qq -o /dev/null -e trace=kill,pidfd_send_signal -e inject=kill,pidfd_send_signal:retval=0 \
    dlock run --timeout 200ms --kill-after 50ms job -- sleep 600 \
    2> "$said" 3>&- &
  holder=$!
  eventually grep -q 'keeping the lock until they exit' "$said"

  is_held job
}

# --- Supervision that cannot see ---

blind=("unshare --pid --fork --kill-child --"
  "unshare --mount --propagation private sh -c 'mount -t tmpfs none /proc; exec \"\$@\"' -")

assert_refused() {  # <option>...
  local how
  for how in "${blind[@]}"; do
    eval "run $how dlock run $* job -- touch began"
    assert_message 78 '/proc is not mounted, or shows another PID namespace'
    [[ ! -e began ]]
  done
}

@test "where /proc does not show the command's processes, a lease that can expire and what may have to end them are refused" {
  needs_root
  use_redis_store
  assert_refused

  DLOCK_STORE=local:$BATS_TEST_TMPDIR/embedded
  assert_refused --timeout 5s
  assert_refused --stragglers kill
  assert_refused --stragglers wait
}

@test "where /proc shows another namespace, an embedded run gives back the command's exit code, and a broken one ends" {
  needs_root
  use_private_store

  run timeout -s KILL 60 unshare --pid --fork --kill-child dlock run job -- sh -c 'exit 3'
  assert_status 3

  unshare --pid --fork --kill-child dlock run job -- sh -c 'trap "" TERM; echo > began; while :; do sleep 0.1; done' \
    2> "$said" 3>&- &
  holder=$!
  eventually test -e began

  dlock break --yes job

  assert_exits 76 "$holder"
}

# --- Descriptors ---

# A command that sleeps without needing a descriptor.
make_sleeper() {
  cat > sleeper.c << 'END'
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
  (void)argc;
  mkdir(argv[1], 0755);
  for (;;) pause();
}
END
  "${CC:-cc}" -static -o sleeper sleeper.c
}

# For each limit of descriptors up to one that is enough: the time limit stops the command, or it is
# never started.
assert_never_alone() {
  local number limit allowed times_begun=0
  for number in {3..24} 32 64 1024 2048 4096; do
    # The last ones also show that a command begins, on a busy machine as well.
    case $number in 1024) limit=1s ;; 2048) limit=5s ;; 4096) limit=30s ;; *) limit=60ms ;; esac
    ((times_begun == 0 || number <= 64)) || continue
    rm -rf began
    status=0
    timeout -s KILL 60 prlimit --nofile="$number" "$(type -P dlock)" run --timeout "$limit" --kill-after 50ms job -- \
      ./sleeper began > "$said" 2>&1 3>&- || status=$?
    # A dlock that is not linked statically may not start.
    ! grep -q 'loading shared libraries' "$said" || continue
    grep -q '^dlock: ' "$said"
    # On a busy machine the time limit may stop the command before it has written anything.
    if [[ -e began ]]; then
      ((++times_begun))
      allowed=124
    else
      allowed='12[45]'
    fi
    [[ $status =~ ^$allowed$ ]] ||
      { echo "with $number descriptors, exited with $status: $(< "$said")" >&2; return 1; }
    run pgrep -f '^./sleeper began'
    assert_equal "$number: $output" "$number: "
  done
  ((times_begun > 0))
}

@test "with any number of descriptors a time limit stops the command, or it is never started" {
  use_private_store
  make_sleeper

  assert_never_alone
}

# --- dlock is killed while others are at work ---

# Holds `job` in a mount namespace in which /proc can be covered by another mount.
hold_tree_in_own_mounts() {
  dlock() { exec unshare --mount --propagation private "$(type -P dlock)" "$@"; }
  hold_tree "$@"
  unset -f dlock
}

# While it runs, pids are reused as fast as possible.
start_recycling() {
  rm -f "$stop"
  "$chains" 1 10 "$stop" recycle 3>&- &
  recycler=$!
  eventually chains_have_begun
}

stop_recycling() {
  : > "$stop"
  assert_exits 0 "$recycler"
}

@test "when dlock is killed while pids are reused and /proc is taken away, the tree is dead in time" {
  needs_root
  use_redis_store
  for ((i = 0; i < ${DLOCK_TEST_ROUNDS:-2}; ++i)); do
    start_recycling
    hold_tree_in_own_mounts --ttl 2s
    nsenter --target "$holder" --mount mount -t tmpfs none /proc
    await_renewal job
    end=$(lease_end job)

    kill -KILL "$holder"

    await_death
    ((spare > 0))
    stop_recycling
    rm -rf "$BATS_TEST_TMPDIR/pids"
    redis DEL 'dlock:{job}' > /dev/null
  done
}

@test "when dlock is killed and another process keeps its end of the channel open, the tree is dead in time" {
  needs_root
  use_redis_store
  hold_tree --ttl 2s
  # A descriptor of another process says nothing about dlock.
  perl -e '
    my ($pid) = @ARGV;
    my $pidfd = syscall(434, $pid + 0, 0);
    for my $fd (0 .. 63) { syscall(438, $pidfd, $fd, 0) if readlink("/proc/$pid/fd/$fd") =~ /^socket/ }
    $| = 1; print "on\n"; sleep 60' "$holder" > kept 3>&- &
  eventually test -s kept
  await_renewal job
  end=$(lease_end job)

  kill -KILL "$holder"

  await_death
  ((spare > 0))
}
