#!/usr/bin/env bats
# dlock in a container: the image that Containerfile describes, what a container lacks and what
# its engine forbids, and how a platform stops it. The image is built with buildah and run with
# podman where these work here; otherwise the same steps are made with tar and cp, and its program
# runs in a chroot in its own namespaces. All other tests do that anyway: so each of them
# decides alone what its container lacks.
#
# process_one.bats has what process 1 has to do, tests/faults/containers.bats what happens when
# containers share a directory but not a clock, and tests/faults/bare.bats a /proc that shows less.
# shellcheck disable=SC2034,SC2086  # for and from the helpers; tests are subshells

setup_file() {
  load support
  load image
  export tools=$BATS_FILE_TMPDIR/tools
  mkdir "$tools"
  cc -O2 -static -o "$tools/without" "$DLOCK_SOURCE/tests/faults/without.c"
  cp "$(realpath "$DLOCK_BIN")" "$tools/dlock"
  # "<name> <number>" of each system call.
  cc -E -dM -include sys/syscall.h -x c /dev/null | sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\1 \2/p' > "$tools/calls"
  prepare_release
  build_image
}

teardown_file() {
  load support
  load image
  remove_image
}

setup() {
  load support
  load image
  use_private_store
  needs_root
  volume=$BATS_TEST_TMPDIR/volume
  mkdir "$BATS_TEST_TMPDIR/root"
  install -d -m 777 "$volume"
  user=12345
  within=local:/locks/dlock
}

clean_up() { remove_containers; }

# --- The image ---

@test "the image has the program of the release, certificates and licences alone, says what it is, and is not for root" {
  local root from
  root=$(root_of_image)
  # Where the example of an application's image takes it from.
  from=$(sed -n 's/^COPY --from=dlock \([^ ]*\) .*/\1/p' "$DLOCK_SOURCE/examples/Containerfile")

  run files_of_image
  assert_equal "$output" "etc/ssl/certs/ca-certificates.crt
${from#/}
usr/share/doc/dlock/LICENSE
usr/share/doc/dlock/dlock.spdx.json
usr/share/doc/dlock/third-party.gz"
  cmp "$root/usr/bin/dlock" "$release/bin/dlock"
  cmp "$root$from" "$release/bin/dlock"

  run config_of_image
  assert_equal "$(json '"\(.User) \(.Entrypoint | join(" "))"')" '65532:65532 /usr/bin/dlock'
  assert_equal "$(json '.Labels | "\(.["org.opencontainers.image.version"]) \(.["org.opencontainers.image.licenses"])"')" "$version MIT"
}

# examples.bats runs the commands of that file. What podman does not know, a CronJob, it leaves out; the secret stays
# out because podman 4.3 cannot read one.
@test "an engine that knows Kubernetes makes pods of kubernetes.yaml, with the store in their environment" {
  [[ $run_by == podman ]] && podman kube play --help > /dev/null 2>&1 || return 0
  podman "${images[@]}" tag dlock app
  sed -e 's/, {secretRef: {name: locks}}//' -e 's/replicas: .*/replicas: 1/' "$DLOCK_SOURCE/examples/kubernetes.yaml" \
    > "$BATS_TEST_TMPDIR/pods.yaml"

  podman "${images[@]}" $engine_options kube play --start=false --network none "$BATS_TEST_TMPDIR/pods.yaml" 3>&-

  for container in migrate worker; do
    # Older versions number the pods.
    run podman "${images[@]}" inspect "$(podman "${images[@]}" ps --all --format '{{.Names}}' | grep -E "^[a-z]*-pod(-0)?-$container\$")"
    assert_equal "$(json '.[0].Config.Env[] | select(startswith("DLOCK_STORE"))')" \
      "DLOCK_STORE=postgres://app@db.example.org/app"
    [[ $(json '.[0].Config.Entrypoint | tostring') == *'dlock run'* ]]
  done
  podman "${images[@]}" pod rm --all --force > /dev/null
}

# A directory of which containers of the image and the test are users.
use_shared_volume() {
  install -d -m 2770 -g 65532 "$volume/shared"
  export DLOCK_STORE=local:$volume/shared
  within=local:/locks/shared
}

@test "a container of the image needs no root, no capability, no writable file and no network" {
  use_shared_volume

  run run_image --version
  assert_equal "$status $output" "0 dlock $version"
  run run_image run --store "$within" job -- /usr/bin/dlock --version
  assert_equal "$status $output" "0 dlock $version"
  assert_equal "$(look job .last_run.exit_code)" 0
}

@test "a container of the image and the host exclude each other over a shared directory" {
  use_shared_volume
  hold job
  run run_image run --store "$within" job -- /usr/bin/dlock --version
  assert_status 75
  let_go
  assert_exits 0 "$holder"

  hold gate
  start_image run --store "$within" job -- /usr/bin/dlock run -w forever gate -- /usr/bin/dlock --version
  eventually is_held job
  run dlock run job -- true
  assert_status 75
}

@test "an engine that stops a container of the image stops its command, and the lock is free before the engine kills" {
  use_shared_volume
  hold gate
  start_image run --store "$within" job -- /usr/bin/dlock run -w forever gate -- /usr/bin/dlock --version
  eventually somebody_waits gate

  stop_image 100

  is_free job
  assert_equal "$(look job '.last_run | "\(.exit_code) \(.signal)"')" 'null TERM'
}

# --- What a container lacks ---

# Runs a command as process 1 of a container: in namespaces and its own root directory that
# has /usr, a volume at /locks, /dev/null and what `extra` adds, which is a shell line. Nothing
# else of the root directory exists or can be written, and `user` has no name there.
contained() {  # <command>...
  unshare --mount --propagation private --pid --fork --kill-child --ipc --uts --cgroup sh -c '
    root=$1 volume=$2 extra=$3
    shift 3
    set -e
    mount -t tmpfs -o mode=755 none "$root"
    cd "$root"
    mkdir usr tools locks proc dev
    for name in bin sbin lib lib64; do ln -s usr/$name $name; done
    touch dev/null
    mount --bind /usr usr
    mount --bind "$tools" tools
    mount --bind "$volume" locks
    mount --bind /dev/null dev/null
    eval "${extra:-mount -t proc proc proc}"
    mount -o remount,bind,ro "$root"
    exec env -i PATH=/tools:/usr/bin "$@"' - "$BATS_TEST_TMPDIR/root" "$volume" "${extra:-}" \
    DLOCK_STORE="$within" DLOCK_TEST_ID="$DLOCK_TEST_ID" "${variables[@]}" \
    "$(command -v chroot)" --userspec="$user:$user" --groups= "$BATS_TEST_TMPDIR/root" "$@"
}

# The same in the background. Sets $outside to the pid of a process that ends as the container, and
# $first to that of process 1 once its command has created the file `started`.
start_contained() {  # <command>...
  rm -f "$volume/started"
  contained "$@" 3>&- &
  outside=$!
  eventually test -e "$volume/started"
  first=$(first_of "$outside")
}

# Uses a server as the store, whose socket is in the volume.
use_server_in_volume() {
  local socket=$volume/server.socket
  within=redis+unix:/locks/server.socket
  export DLOCK_STORE=redis+unix:$socket
  [[ ! -S $socket ]] || return 0
  redis-server --port 0 --unixsocket "$socket" --unixsocketperm 777 --save '' --dir "$BATS_TEST_TMPDIR" \
    > "$BATS_TEST_TMPDIR/server.log" 2>&1 3>&- &
  server_pid=$!
  disown "$server_pid"
  answers() { [[ -S $socket && $(redis-cli -s "$socket" PING) == PONG ]]; }
  eventually answers
}

# Puts the store into a directory below the volume, which the user of the container owns.
use_directory_in_volume() {
  install -d -m 2770 -g "$user" "$volume/dlock"
  export DLOCK_STORE=local:$volume/dlock
  within=local:/locks/dlock
}

stores=(use_directory_in_volume use_server_in_volume)

# Uses every verb.
all_verbs='set -e
  dlock run job -- true
  [ "$(dlock run job -- sh -c "echo \$DLOCK_NAME")" = job ]
  token=$(dlock acquire manual)
  dlock renew manual --token "$token" > /locks/said
  dlock release manual --token "$token"
  [ -n "$no_pidfd" ] || dlock acquire --for-pid $$ "watched$proc" > /locks/said
  dlock acquire kept > /locks/said
  dlock status kept > /locks/said
  dlock fence resource 7
  dlock limit api 5/1s
  [ "$(dlock cache key -- echo made)" = made ]
  dlock list > /locks/said
  dlock history job > /locks/said
  dlock break --yes kept
  dlock config > /locks/said
  dlock doctor > /locks/said || [ $? = 1 ]
  dlock run --timeout 100ms -k 50ms --on-failure "echo hook ran" job -- sh -c "trap \"\" TERM; setsid -f sleep 60; sleep 60" ||
    [ $? = 124 ]'

assert_all_verbs_work() {
  run contained sh -c "$all_verbs"
  assert_status 0
  assert_output_contains 'hook ran'
}

@test "every verb works for an unknown user without a home, without /tmp, where no file can be written and /proc hides processes" {
  for store in "${stores[@]}"; do
    "$store"
    for proc in 0 2; do
      extra="mount -t proc -o hidepid=$proc proc proc"
      variables=(proc="$proc")
      assert_all_verbs_work
    done
  done
}

@test "without a shell a hook says so" {
  extra='mount -t proc proc proc; mkdir empty; mount --bind empty usr'
  run contained dlock run --on-success true job -- /tools/dlock --version
  assert_status 0
  assert_output_contains 'the --on-success command could not be started: there is no /bin/sh'
}

# --- What an engine forbids ---

# Prints the numbers of system calls on this machine: those that $tools/calls has, from setup_file.
numbers_of() {  # <name>...
  local name calls
  calls=$'\n'$(< "$tools/calls")$'\n'
  for name; do
    [[ ! $calls =~ $'\n'"$name "([0-9]+)$'\n' ]] || printf '%s ' "${BASH_REMATCH[1]}"
  done
}

# What the default profiles of Docker, containerd and Podman refuse to a container without
# capabilities, with EPERM.
privileged=(acct add_key bpf clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick
  get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load
  kexec_load keyctl lookup_dcookie mbind mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl
  open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise process_vm_readv
  process_vm_writev ptrace quotactl quotactl_fd reboot request_key set_mempolicy setdomainname sethostname setns
  settimeofday swapoff swapon syslog umount2 unshare userfaultfd vhangup)
# What profiles do not know that are older than it. Docker before 20.10.10 and the libseccomp of that time refuse
# these with EPERM, newer ones with ENOSYS; kernels that lack them say ENOSYS.
newer=(cachestat close_range clone3 epoll_pwait2 faccessat2 fchmodat2 futex_waitv landlock_create_ruleset memfd_secret
  openat2 pidfd_open pidfd_send_signal process_mrelease rseq statx)

eperm=1 enosys=38

# Runs a command in a container whose engine refuses the privileged calls, and the newer ones with this error.
filtered() {  # <error> <command>...
  # shellcheck disable=SC2046
  contained without "$eperm" $(numbers_of "${privileged[@]}") -- \
    without "$1" $(numbers_of "${newer[@]}") -- "${@:2}"
}

@test "under the filters of today's engines every verb works" {
  newer=(clone3)
  for store in "${stores[@]}"; do
    "$store"
    run filtered "$enosys" sh -c "$all_verbs"
    assert_status 0
    assert_output_contains 'hook ran'
  done
}

@test "under the filters of older engines all works but --for-pid, which says what is missing" {
  variables=(no_pidfd=1)
  for error in "$eperm" "$enosys"; do
    for store in "${stores[@]}"; do
      "$store"
      run filtered "$error" sh -c "$all_verbs"
      assert_status 0
      assert_output_contains 'hook ran'
    done
    run filtered "$error" dlock acquire --for-pid 1 watched
    assert_message 125
    assert_output_contains 'the system call pidfd_open is missing: Linux is older than 5.3, or a filter (seccomp) or an emulator refuses the call'
  done
}

@test "a run that a filter keeps from killing says so and what to do, and keeps the lock" {
  newer=(kill pidfd_send_signal tgkill)
  for store in "${stores[@]}"; do
    "$store"
    for error in "$eperm" "$enosys"; do
      run filtered "$error" timeout -s KILL 60 dlock run --timeout 100ms -k 100ms job -- sleep 2
      assert_status 124
      assert_equal "${#lines[@]}" 2
      assert_output_contains "cannot kill 1 of the command's processes"
      assert_output_contains 'keeping the lock until they exit: kill them as root'
    done
  done
}

@test "break of a run whose dlock was killed names the call that it lacks" {
  use_directory_in_volume
  dlock run job -- sh -c 'echo > "$1"; exec sleep 60' - "$volume/started" 3>&- &
  holder=$!
  eventually test -e "$volume/started"
  kill -KILL "$holder"
  eventually has_ended "$holder"

  run without_pidfd "$eperm" dlock break --yes job
  assert_message 125 'cannot stop the command' 'the system call pidfd_open is missing'
}

# Outside of a container: break stops processes that it can see.
without_pidfd() {  # <error> <command>...
  # shellcheck disable=SC2046
  timeout -s KILL 60 "$tools/without" "$1" $(numbers_of pidfd_open) -- "${@:2}"
}

@test "a waiter without pidfd_open gets the lock of a run that is killed" {
  newer=(pidfd_open)
  use_directory_in_volume
  dlock run job -- sh -c 'echo > "$1"; exec sleep 60' - "$volume/started" 3>&- &
  holder=$!
  eventually test -e "$volume/started"
  filtered "$eperm" dlock run -w 30s job -- true 3>&- &
  outside=$!
  eventually somebody_waits job

  kill -KILL "$holder" "$(pgrep -P "$holder")"

  assert_exits 0 "$outside"
}

# --- Control groups ---

@test "whatever the container shows of control groups, a run that is timed out leaves nothing" {
  local hierarchy
  user=0
  for hierarchy in none v1 v2 v2-read-only; do
    extra='mount -t proc proc proc; mkdir -p sys/fs/cgroup; '
    case $hierarchy in
      v1) extra+='mount -t tmpfs none sys/fs/cgroup; mkdir sys/fs/cgroup/pids; mount --bind /sys/fs/cgroup/pids sys/fs/cgroup/pids || mount -t cgroup -o pids none sys/fs/cgroup/pids;' ;;
      v2) extra+='mount -t cgroup2 none sys/fs/cgroup;' ;;
      v2-read-only) extra+='mount -t cgroup2 none sys/fs/cgroup; mount -o remount,bind,ro sys/fs/cgroup;' ;;
    esac
    use_directory_in_volume

    run contained dlock run --timeout 1500ms -k 100ms job -- sh -c '
      grep ^0:: /proc/self/cgroup
      trap "" TERM; (setsid sh -c "trap \"\" TERM; sleep 60" &); sleep 60; sleep 60'

    assert_status 124
    [[ $hierarchy != v2 || $output == '0::/dlock-1'* ]]
    [[ $hierarchy == v2 || $output == '0::/'$'\n'* ]]
    no_leftovers
  done
}

# --- How it is stopped ---

# Below an init process, dlock gets the signal of the platform from it, once or with its whole group.
assert_init_passes_signals_on() {  # <init>...
  start_contained "$@" dlock run job -- sh -c '
    trap "echo term >> /locks/got; exit 9" TERM; touch /locks/started; sleep 60 & wait'

  kill -TERM "$first"

  assert_exits 9 "$outside"
  assert_equal "$(< "$volume/got")" term
  is_free job
  rm "$volume/got"
}

@test "below an init process a command gets the signal once, and its exit code is that of the container" {
  use_directory_in_volume
  # docker run --init is tini; Podman's is catatonit, which does the same.
  assert_init_passes_signals_on tini --
  assert_init_passes_signals_on tini -g --
  assert_init_passes_signals_on dumb-init
}

# A command that needs a while to end, and one that does not end.
willing='trap "sleep 0.5; exit 0" TERM; touch /locks/started; sleep 60 & wait'
deaf='trap "" TERM; touch /locks/started; exec sleep 60'

@test "a container whose command ends in time gives the lock back before the platform kills" {
  # docker stop, and Kubernetes.
  for seconds in 10 30; do
    "${stores[seconds == 30]}"
    start_contained dlock run job -- sh -c "$willing"

    stop_first "$first" "$seconds"000

    assert_exits 0 "$outside"
    is_free job
    assert_equal "$(look job .last_run.exit_code)" 0
  done
}

@test "a container that is killed frees a lock of the host at once, and one on a server after its lease" {
  local began
  use_directory_in_volume
  start_contained dlock run job -- sh -c "$deaf"
  stop_first "$first" 300
  eventually has_ended "$first"
  is_free job

  use_server_in_volume
  start_contained dlock run --ttl 2s job -- sh -c "$deaf"
  stop_first "$first" 300
  began=$(now_ms)
  eventually has_ended "$first"
  is_held job
  dlock run -w 60s job -- true
  (($(now_ms) - began >= 300))
}
