#!/usr/bin/env bats
# The store local: where it is, which files it trusts, and how it handles lock names.

setup() {
  load support
  use_private_store
  store=$BATS_TEST_TMPDIR/store
  victim=$BATS_TEST_TMPDIR/victim
  echo precious > "$victim"
}

mode_of() { stat -c %a "$1"; }

# Runs a command as an unprivileged user, with its own home below /mnt.
as_user() {  # <uid> <command>...
  inside setpriv --reuid "$1" --regid "$1" --groups "${group:-$1}" env \
    -u XDG_STATE_HOME HOME="/mnt/$1" PATH="/mnt/bin:$PATH" "${@:2}"
}

# Makes homes for users that as_user can run as. They have no accounts, only numbers.
use_other_users() {  # <uid>...
  local uid
  use_private_mounts
  inside mkdir /mnt/bin
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  for uid; do inside install -d -m 700 -o "$uid" -g "$uid" "/mnt/$uid"; done
}

# Asserts that the last `run` exited with this status and printed one line.
assert_refused() {  # <status>
  assert_message "$1"
}

# --- Where it is ---

@test "locks are in /var/lib/dlock for root and in ~/.local/state/dlock for others, who alone can enter" {
  use_other_users 1001 1002
  inside mount -t tmpfs none /var/lib

  inside env -u DLOCK_STORE dlock run job -- true
  as_user 1001 env -u DLOCK_STORE dlock run job -- true

  assert_equal "$(mode_of "$(from_outside /var/lib/dlock)")" 700
  assert_equal "$(mode_of "$(from_outside /mnt/1001/.local/state/dlock)")" 700
  run as_user 1002 dlock --store local:/mnt/1001/.local/state/dlock run job -- echo started
  assert_refused 77
}

@test "a link of root or of the user leads to the store, and that of another user does not" {
  use_other_users 1001 1002
  inside install -d -m 755 /mnt/private
  inside install -d -m 700 -o 1001 -g 1001 /mnt/private/jobs
  # As systemd makes it for StateDirectory= with DynamicUser=.
  inside ln -s private/jobs /mnt/jobs
  inside ln -s private/jobs /mnt/theirs
  inside chown -h 1002 /mnt/theirs
  inside ln -s private/jobs /mnt/own
  inside chown -h 1001 /mnt/own

  for name in jobs own private/jobs; do
    run as_user 1001 dlock --store "local:/mnt/$name" run job -- \
      dlock --store local:/mnt/private/jobs status --json job
    assert_status 0
  done
  run as_user 1001 dlock --store local:/mnt/theirs run job -- echo started
  assert_refused 78
  assert_output_contains "/mnt/theirs is not a directory (another user's link is not followed)"
}

@test "a user whose home belongs to another is told to name a directory, and can name one" {
  local verb
  use_other_users 1001
  inside install -d -m 700 -o 1001 -g 1001 /mnt/own

  for verb in run cache; do
    run as_user 1001 env -u DLOCK_STORE HOME=/mnt dlock $verb job -- true
    assert_refused 77
    assert_output_contains 'job: cannot create the directory /mnt/.local: Permission denied; name a directory with --store local:/DIR'
  done
  # The directory exists, but only root may enter.
  inside install -d -m 700 /mnt/.local/state/dlock
  inside chmod 755 /mnt/.local /mnt/.local/state
  run as_user 1001 env -u DLOCK_STORE HOME=/mnt dlock run job -- true
  assert_refused 77
  assert_output_contains 'cannot open the directory /mnt/.local/state/dlock: Permission denied; name a directory'

  run as_user 1001 env HOME=/mnt dlock --store local:/mnt/own cache job -- echo made
  assert_equal "$status $output" '0 made'
  run as_user 1001 dlock --store local:/mnt/locks run job -- true
  assert_equal "$status" 77
  refute_output_contains 'name a directory'
}

@test "a user without a home directory is told to name a directory" {
  use_other_users 4242

  run as_user 4242 env -u DLOCK_STORE -u HOME dlock run job -- echo started

  assert_refused 78
  assert_output_contains local:/

  # As container engines set it for a user without an account.
  run as_user 4242 env -u DLOCK_STORE HOME=/ dlock run job -- echo started
  assert_refused 78
  assert_output_contains local:/dir
}

@test "a directory path of several hundred bytes works" {
  long=$BATS_TEST_TMPDIR/$(printf 'directory-%03d/' {1..30})
  mkdir -p "$long"
  export DLOCK_STORE=local:$long/store
  hold job
  queue job -- touch "$began"

  let_go

  eventually test -e "$began"
}

@test "a run leaves only its state, its log and the sessions" {
  dlock run job -- true

  run find "$store" -mindepth 1 -printf '%f\n'

  assert_equal "$(sed -E 's/^[0-9a-f]{32}\.lock$/LOCK/' <<< "$output" | LC_ALL=C sort | paste -s -d ' ')" \
    "LOCK head runs.jsonl sessions state-$(< /proc/sys/kernel/random/boot_id)"
}

# --- Which files it trusts ---

@test "files and a waiter's socket are for their user only, whatever the umask" {
  for umask in 000 077 777; do
    export DLOCK_STORE=local:$store-$umask
    (umask "$umask" && dlock run job -- true)

    find "$store-$umask" -type f -printf '%m\n' >> "$BATS_TEST_TMPDIR/modes"
  done
  assert_equal "$(sort -u "$BATS_TEST_TMPDIR/modes")" 600
  assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/modes")" 12

  umask 000
  export DLOCK_STORE=local:$store
  hold job
  queue job -- true
  assert_equal "$(find "$store" -name 'wake-*' -printf '%m')" 600
}

@test "two users of a group share a setgid directory of that group, and a lock is handed off from one to the other" {
  use_other_users 1001 1002
  inside install -d -m 2770 -g 4321 /mnt/store
  export DLOCK_STORE=local:/mnt/store group=4321
  as_user 1001 dlock run job -- \
    sh -c 'until [ -e /mnt/1001/go ]; do sleep 0.05; done' 3>&- &
  eventually as_user 1002 dlock status job
  run as_user 1002 dlock run job -- echo started
  assert_refused 75
  as_user 1002 dlock run -w 60s job -- true 3>&- &
  waiter=$!
  eventually has_waiter

  inside touch /mnt/1001/go

  assert_exits 0 "$waiter"
}

has_waiter() { as_user 1002 dlock status --json job | grep -q '"waiters":\[{'; }

# Mounts a FUSE file system with an empty directory, for `inside`.
mount_fuse() {  # <type, such as fuse.sshfs> <directory> <uid>
  cat > "$BATS_TEST_TMPDIR/fuse.py" << 'END'
import ctypes, os, struct, sys
device = os.open("/dev/fuse", os.O_RDWR)
kind, directory, user = sys.argv[1].encode(), sys.argv[2].encode(), int(sys.argv[3])
options = "fd=%d,rootmode=40700,user_id=0,group_id=0,allow_other" % device
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"test", directory, kind, 0, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
attributes = struct.pack("<QII6Q10I", 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40700, 2, user, user, 0, 4096, 0)
answers = {
    26: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 1, 0, 0),  # INIT
    3: attributes,  # GETATTR
    17: struct.pack("<5Q4I24x", 99, 99, 99, 99, 99, 4096, 255, 4096, 0),  # STATFS
    27: struct.pack("<QII", 0, 0, 0),  # OPENDIR
    29: b"",  # RELEASEDIR
}
while True:
    _, operation, unique = struct.unpack_from("<IIQ", os.read(device, 1 << 17))
    answer = answers.get(operation)
    error = 0 if answer is not None else -38
    os.write(device, struct.pack("<IiQ", 16 + len(answer or b""), error, unique) + (answer or b""))
END
  inside /usr/bin/python3 "$BATS_TEST_TMPDIR/fuse.py" "$@" 3>&- &
  eventually inside mountpoint -q "$2"
}

@test "a directory on FUSE is refused with the type of its file system and what to write instead" {
  use_private_mounts
  for type in fuse.sshfs fuse.gocryptfs fuse; do
    inside mkdir -p /mnt/fuse
    mount_fuse "$type" /mnt/fuse 0

    run inside dlock --store local:/mnt/fuse run job -- echo started
    assert_message 78 "is on a FUSE file system ($type)" '--store local:/DIR'
    refute_output_contains network
    run inside dlock --store local:/mnt/fuse doctor
    assert_status 2
    assert_output_contains "($type)"

    inside umount --lazy /mnt/fuse
  done
}

@test "a user whose home is on FUSE is told of XDG_STATE_HOME as well" {
  use_other_users 1001
  inside install -d -m 700 -o 1001 -g 1001 /mnt/own /mnt/own/.local{,/state{,/dlock}}
  mount_fuse fuse.sshfs /mnt/own/.local/state/dlock 1001

  run as_user 1001 env -u DLOCK_STORE -u XDG_STATE_HOME HOME=/mnt/own dlock run job -- echo started

  assert_message 78 'is on a FUSE file system (fuse.sshfs)' XDG_STATE_HOME
}

@test "a store that became read-only is an error of a run in one line, and status works" {
  use_private_mounts
  inside dlock --store local:/mnt/store run job -- sh -c 'exit 3' || true
  inside mount -o remount,ro /mnt

  run inside dlock --store local:/mnt/store run job -- echo started
  assert_message 78 'Read-only file system; name a directory that can be written with --store local:/DIR'
  assert_one_line

  run inside dlock --store local:/mnt/store status --json job
  assert_status 1
  assert_equal "$(json .last_run.exit_code)" 3
}

@test "a user without inotify instances can hold a lock and wait for it" {
  needs_user_namespace
  hold job
  queue job -- true
  unshare --map-root-user sh -c '
    echo 0 > /proc/sys/user/max_inotify_instances &&
      exec dlock run -w 60s job -- echo started' > "$began" 3>&- &
  last=$!
  eventually is_queued job "$last"

  let_go

  assert_exits 0 "$last"
  assert_equal "$(< "$began")" started
}

@test "a lock that is held under another clock is not shown as free there, and doctor says why" {
  needs_user_namespace
  hold job
  for verb in 'status job' list history 'history --json' 'list --prometheus' doctor 'run job true'; do
    # shellcheck disable=SC2086
    run unshare --map-root-user --time --boottime 1000000 dlock $verb
    ((status == 78 || status == 2))
    assert_output_contains 'is in use under another boot id or in another time namespace'
    refute_output_contains vanished
  done
}

# --- Names ---

# Prints names that would do harm if they were used as files, patterns, code or formats. The
# numbered ones show that no two names are the same lock.
# shellcheck disable=SC1003
hostile_names() {
  printf '%s\n' . .. / ../x ../../x x/../y /etc/passwd -- a/ a 'a b' \
    'a  b' '%s%n%d' '%2F' '%' '%%' '$(id)' '`id`' '${HOME}' "it's" '"quoted"' '\' '\\' \
    '\n' '\0' '{}' '{a}' '[a]' '*' '?' '~' '#' '!' '&' ';' '|' '<' '>' '(' ')' ':' \
    dlock:job job Job JOB job. job:1 job=1 'x=1 y=2' état etat 名前 🔒 ß SS \
    sessions runs.jsonl 0 00 000 -1 1e3 null true NaN "$(printf 'n%.0s' {1..255})" \
    "$(printf 'n%.0s' {1..254})" "$(printf 'é%.0s' {1..127})" | sort -u
  printf 'job-%s\nJob-%s\n' {1..130}{,}
}

@test "300 names, some of them hostile, are 300 locks" {
  names=$BATS_TEST_TMPDIR/names
  hostile_names | LC_ALL=C sort -u > "$names"
  (($(wc -l < "$names") > 300))

  while IFS= read -r name; do dlock run -- "$name" true < /dev/null; done < "$names"

  assert_equal "$(dlock list --json | jq -r '.[].name' | LC_ALL=C sort | md5sum)" \
    "$(md5sum < "$names")"
}

@test "no name creates a file outside the store" {
  before=$(cd "$BATS_TEST_TMPDIR" && find . ! -path './store*' | sort)

  for name in . .. / ../x ../../x /x "$BATS_TEST_TMPDIR/x" '$(touch x)' '`touch x`' \
    sessions; do
    dlock run -- "$name" true
  done

  assert_equal "$(cd "$BATS_TEST_TMPDIR" && find . ! -path './store*' | sort)" "$before"
}

# --- A day later ---

# Makes the store look as if it had not been swept for years. It is swept once a day.
make_sweep_due() {
  local head
  head=$(echo "$store"/state-*/head)
  # The first bytes of the file, with their checksum, where the time of the last sweep is 0.
  # The value that follows is all zeros.
  printf '%b' \
    '\x64\x6c\x6f\x63\x6b\x30\x35\x00\xeb\xa3\x60\xb9\xc1\xd7\x9d\x35\x01\x00\x00\x00\x00\x00\x00\x00' \
    '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00' > "$head"
  truncate -s 8192 "$head"
}

@test "a run during which the store is swept releases its lock and prints nothing" {
  dlock run job -- true
  make_sweep_due

  run dlock run another -- sh -c 'exit 3'

  assert_equal "$status $output" '3 '
  assert_equal "$(look another .last_run.exit_code)" 3
}

@test "a lock that was not used for a month is forgotten" {
  dlock run old -- true
  rm -r "$store"/state-*
  sed -i -E 's/("(started|ended)":")20[0-9]{2}/\12020/g' "$store/runs.jsonl"
  dlock run job -- true
  make_sweep_due

  dlock run another -- true

  assert_equal "$(dlock list --json | jq -r '.[].name' | paste -s -d ' ')" 'another job'
}

@test "a damaged file does not keep unused locks from being forgotten" {
  dlock run unused -- true
  rm -r "$store"/state-*
  sed -i -E 's/("(started|ended)":")20[0-9]{2}/\12020/g' "$store/runs.jsonl"
  dlock run job -- true
  unused=$(grep -laF unused "$store"/state-*/*.lock)
  truncate -s 4096 "$(grep -laF job "$store"/state-*/*.lock)"
  make_sweep_due

  dlock run another -- true

  [[ ! -e $unused ]]
}

# --- After a reboot ---

# Makes the store believe that `inside` runs after a reboot.
reboot() {
  use_private_mounts
  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id
}

@test "after a reboot fences of other locks are greater than those in the log as well" {
  dlock run job -- true
  sed -i -E 's/("fence":)[0-9]+/\14102444800000000/' "$store/runs.jsonl"

  reboot

  run inside dlock run another -- sh -c 'echo "$DLOCK_FENCE"'
  ((output > 4102444800000000))
}

@test "a fence that no clock explains is not continued from, and doctor finds it" {
  dlock run job -- true
  dlock run job -- true
  for far in $((${EPOCHREALTIME/[.,]/} + 33 * 86400000000)) 9007199254740989; do
    tail -n 1 "$store/runs.jsonl" | sed -E "s/(\"fence\":)[0-9]+/\1$far/" > "$BATS_TEST_TMPDIR/line"
    cat "$BATS_TEST_TMPDIR/line" >> "$store/runs.jsonl"
    run dlock doctor
    assert_output_contains "runs.jsonl has fence $far"
  done

  reboot

  for name in job another; do
    run inside dlock run "$name" -- sh -c 'echo "$DLOCK_FENCE"'
    ((output <= ${EPOCHREALTIME/[.,]/}))
  done
  # The way out that docs/operating.md describes.
  sed -i "/\"fence\":$far,/d" "$store/runs.jsonl"
  run inside dlock doctor
  [[ $output != *"$far"* ]]
}
