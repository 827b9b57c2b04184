#!/usr/bin/env bats
# A shared lock directory that one of its members tampers with: root still uses it, and the
# member gains nothing except wrong information about locks.
# shellcheck disable=SC2086  # words

setup_file() {
  load ../bats/support
  local program
  tools=$BATS_FILE_TMPDIR
  for program in judge member; do
    cc -std=gnu11 -O2 -static -o "$tools/$program" "$DLOCK_SOURCE/tests/faults/$program.c" ||
      return
  done
}

setup() {
  load ../bats/support
  use_private_store
  ((EUID == 0)) ||
    { echo 'root is needed: these tests are root and a member of a group' >&2; return 1; }
  tools=$BATS_FILE_TMPDIR
  # The directories of Bats are closed to other users.
  yard=$(mktemp -d /tmp/dlock-hostile.XXXXXX)
  chmod 711 "$yard"
  install -m 755 "$DLOCK_BIN" "$yard/dlock"
  install -m 755 "$tools/member" "$yard/member"
  shared=$yard/shared
  outside=$yard/outside
  install -d -m 2770 -o root -g "$group" "$shared"
  install -d -m 700 "$outside" "$outside/folder"
  echo precious > "$outside/precious"
  chmod 640 "$outside/precious"
  touch -d 2020-01-01 "$outside/precious" "$outside/folder" "$outside"
  export DLOCK_STORE=local:$shared
  umask 077
  # A sanitizer needs more memory.
  if grep -q __asan_init "$DLOCK_BIN"; then export JUDGE_KIB=1000000; fi
}

clean_up() {
  kill_leftovers
  [[ -z ${yard:-} ]] || rm -rf --one-file-system "$yard"
}

# Ids without accounts.
member=61001
stranger=61002
group=61000

# Arrays instead of functions, so that the pid of a job is that of the program.
as_member=(setpriv --reuid "$member" --regid "$group" --clear-groups --)
as_stranger=(setpriv --reuid "$stranger" --regid "$stranger" --clear-groups --)

# --- The store, what is put in place of its files, and what must come of it ---

# Makes a store with a file of each kind, and a lease for each verb that needs one.
fill_store() {
  local lease watcher
  dlock run job -- true
  lease=$(dlock acquire --json -t 1h leased)
  [[ $lease =~ '"token":"'([0-9a-f]+) ]] && token=${BASH_REMATCH[1]}
  [[ $lease =~ '"fence":'([0-9]+) ]] && fence=${BASH_REMATCH[1]}
  dlock acquire -t 1h doomed > /dev/null
  dlock fence res 5
  dlock limit api 1000/1h
  dlock cache key -- echo cached > /dev/null
  dlock watch --json > "$yard/watched" 2>&1 3>&- &
  watcher=$!
  eventually is_told
  kill "$watcher"
  wait "$watcher" || true
  verbs=(
    dlock status job ::: dlock list ::: dlock list --json ::: dlock history job
    ::: dlock check leased --fence "$fence" ::: dlock doctor ::: dlock run job -- true
    ::: dlock run -w 50ms job -- true ::: dlock acquire -t 500ms other
    ::: dlock renew leased --token "$token" -t 1h ::: dlock fence res 9
    ::: dlock limit api 1000/1h ::: dlock limit --json api 1000/1h
    ::: dlock cache key -- echo made ::: @60 dlock watch job
    ::: dlock break --yes doomed ::: dlock release leased --token "$token"
  )
}

is_told() {
  dlock run job -- true
  [[ -s $yard/watched && -s $shared/events ]]
}

# Prints the paths of all files of a kind; fails if there is none.
paths_of() {  # <kind>
  local -a where
  case $1 in
    sessions | runs.jsonl | fences | events | cache) where=("$shared" -maxdepth 1 -name "$1") ;;
    state-folder) where=("$shared" -maxdepth 1 -name 'state-*' -type d) ;;
    lock) where=("$shared" -path '*/state-*/*.lock' -type f) ;;
    limit) where=("$shared" -path '*/state-*/*.limit' -type f) ;;
    head) where=("$shared" -path '*/state-*/head' -type f) ;;
    cache-folder) where=("$shared/cache" -mindepth 1 -maxdepth 1 -type d) ;;
    cache-file) where=("$shared/cache" -mindepth 2 -type f) ;;
  esac
  find "${where[@]}" | grep . || { echo "the store has nothing of this kind: $1" >&2; return 1; }
}

sorts=(link dangling fifo device directory sparse hardlink)

# Puts something in place of a file, as the member would. Root makes the device and the
# hard link, because the kernel may deny both to a member.
put() {  # <sort> <path>
  local target=$outside/precious
  [[ ! -d $2 ]] || target=$outside/folder
  rm -rf "$2"
  case $1 in
    link) ln -s "$target" "$2" ;;
    dangling) ln -s "$outside/none" "$2" ;;
    fifo) mkfifo -m 660 "$2" ;;
    device) mknod -m 660 "$2" c 1 5 && return ;;
    directory) mkdir -m 2770 "$2" ;;
    sparse) truncate -s 10G "$2" && chmod 660 "$2" ;;
    hardlink) ln "$outside/precious" "$2" && return ;;
  esac || return
  chown -h "$member:$group" "$2"
}

# Sets $outside_is to everything that is visible of the files outside the store. Of these, only one has
# contents.
look_outside() {
  outside_is=$(find "$outside" -printf '%P %y %s %m %U:%G %T@ %l\n')$'\n'$(< "$outside/precious")
}

assert_nothing_outside_was_touched() {  # [<by what>]
  look_outside
  [[ $outside_is == "$was_outside" ]] ||
    { printf 'outside of the store%s, from:\n%s\nto:\n%s\n' "${1:+ ($1)}" "$was_outside" \
        "$outside_is" >&2; return 1; }
}

# Runs verbs with each possible replacement of the files of some kinds. Of several kinds, no verb may
# need the files of one before it comes to those of another.
assert_harmless() {  # <kind>...
  local kind
  paths=
  for kind; do paths+=$(paths_of "$kind")$'\n' || return; done
  replace_and_judge "${paths%$'\n'}"
}

replace_and_judge() {  # <paths, a line each> [<what to remove before>...]
  local sort path objections failed=0
  look_outside
  was_outside=$outside_is
  cp -a "$shared" "$yard/pristine"
  for sort in "${sorts[@]}"; do
    rm -rf "${@:2}"
    while read -r path; do put "$sort" "$path"; done <<< "$1"

    objections=$("$tools/judge" -- "${verbs[@]}") || failed=1
    [[ -z $objections ]] || printf '%s: %s\n' "$sort" "$objections"
    assert_nothing_outside_was_touched "$sort"

    rm -rf "$shared"
    cp -a "$yard/pristine" "$shared"
  done
  ((failed == 0))
}

@test "the judge of these tests objects to what dlock must not do" {
  local wrong
  for wrong in 'kill -SEGV $$' 'exit 70' 'exit 78' 'echo dlock: a >&2; echo dlock: b >&2; exit 78' \
    'echo oops >&2' 'printf "dlock: \033[2J\n" >&2' 'head -c 200000000 /dev/zero | tail -c 190000000'; do
    run "$tools/judge" -- sh -c "$wrong"

    assert_status 1
  done
}

# One round without tampering shows that the verbs work at all.
@test "every verb works in a shared directory without tampering" {
  fill_store

  run "$tools/judge" -- "${verbs[@]}"

  assert_equal "$status $output" '0 '
}

@test "whatever is in place of a file of the store, every verb ends in time and touches nothing outside" {
  local kinds
  for kinds in sessions state-folder lock head runs.jsonl 'limit fences events cache' cached; do
    echo "in place of: $kinds"
    rm -rf "$yard/pristine" "$shared"
    install -d -m 2770 -o root -g "$group" "$shared"
    fill_store
    if [[ $kinds == cached ]]; then
      # The others do not look there.
      verbs=(dlock cache key -- echo made ::: dlock cache --show key ::: dlock cache --forget key ::: dlock doctor
        ::: dlock cache key -- echo made ::: dlock run job -- true)
      assert_harmless cache-folder
      rm -rf "$yard/pristine"
      kinds=cache-file
    fi
    assert_harmless $kinds
  done
}

@test "whatever is in place of drafts, every verb ends in time and touches nothing outside" {
  fill_store
  # At the next boot the states are created again.
  replace_and_judge "$(find "$shared" -mindepth 1 -not -path '*/state-*/*' -printf '%p.new\n')" "$shared"/state-*
}

wake_socket() { find "$shared" -name 'wake-*'; }
wake_socket_is_there() { [[ -n $(wake_socket) ]]; }

@test "whatever is in place of a waiter's socket, the lock is handed on and nothing outside is touched" {
  local sort socket
  look_outside
  was_outside=$outside_is
  for sort in "${sorts[@]}"; do
    hold job
    queue job -- true
    # A waiter makes its socket after it has joined the queue.
    eventually wake_socket_is_there
    socket=$(wake_socket)
    put "$sort" "$socket"

    let_go

    assert_exits 0 "$holder"
    assert_exits 0 "$waiter"
    assert_nothing_outside_was_touched "$sort"
    rm -rf "$socket"
  done
}

# --- Whose the directory and its files are ---

@test "a member and root use a shared directory together" {
  "${as_member[@]}" "$yard/dlock" run job -- true
  dlock run job -- true
  "${as_member[@]}" "$yard/dlock" acquire -t 1h job > /dev/null

  run dlock run job -- true

  assert_status 75
}

# --- At every moment ---

racing_verbs=(
  dlock run job -- true ::: dlock status job ::: dlock fence res 9 ::: dlock limit api 1000/1h
  ::: dlock cache key -- echo made ::: dlock list ::: dlock history job
  ::: dlock acquire -t 500ms other ::: @20 dlock watch
)

# Runs the verbs while members swap the files of each kind.
assert_wins_race() {  # {<kind> <target>}...
  local path paths member members=()
  fill_store
  look_outside
  was_outside=$outside_is
  while (($#)); do
    paths=$(paths_of "$1")
    path=${paths%%$'\n'*}
    "${as_member[@]}" "$yard/member" swap 1 "$path" "$outside/$2" >> "$yard/raced" 2>&1 3>&- &
    members+=($!)
    shift 2
  done

  run "$tools/judge" --for 1 -- "${racing_verbs[@]}"

  for member in "${members[@]}"; do assert_exits 0 "$member" || { cat "$yard/raced" >&2; return 1; }; done
  assert_nothing_outside_was_touched
  assert_equal "$status $output" '0 '
}

@test "a member that swaps files or folders while root uses them gains nothing" {
  local swaps
  for swaps in 'sessions precious' 'state-folder folder' 'lock precious limit none' 'head none cache-file precious' \
    'runs.jsonl precious fences precious' 'events precious cache folder'; do
    echo "swaps: $swaps"
    rm -rf "$shared"
    install -d -m 2770 -o root -g "$group" "$shared"
    assert_wins_race $swaps
  done
}

# Simulates boot after boot, because a store is created at each.
make_anew() {
  local end=$((SECONDS + $1)) code
  while ((SECONDS < end)); do
    find "$shared" -mindepth 1 -maxdepth 1 -name 'state-*' -not -name '*.new' \
      -exec rm -rf {} +
    code=0
    timeout 60 dlock run -w 30ms job -- true 2>> "$yard/said" || code=$?
    [[ $code =~ ^(0|69|7[5-8])$ ]] || { echo "exit code $code" >&2; return 1; }
    dlock fence res 9 2>> "$yard/said" || true
  done
}

@test "a member that races links into the place of drafts while a store is made gains nothing" {
  local target
  fill_store
  look_outside
  was_outside=$outside_is
  for target in precious none; do
    "${as_member[@]}" "$yard/member" drafts 3 "$shared" "$outside/$target" > "$yard/raced" 2>&1 3>&- &

    make_anew 2

    assert_exits 0 $! || { cat "$yard/raced" >&2; return 1; }
    assert_nothing_outside_was_touched "$target"
    find "$shared" -type l -delete
  done
}

@test "a member that races links into the place of sockets while root waits gains nothing" {
  dlock acquire -t 1h job > /dev/null
  look_outside
  was_outside=$outside_is
  "${as_member[@]}" "$yard/member" drafts 3 "$shared" "$outside/precious" > "$yard/raced" 2>&1 3>&- &

  run "$tools/judge" --for 2 -- dlock run -w 1ms job -- true ::: dlock run -w 5ms job -- true

  assert_exits 0 $! || { cat "$yard/raced" >&2; return 1; }
  assert_nothing_outside_was_touched
  assert_equal "$status $output" '0 '
}

# --- Whom break signals ---

# Kills the dlock of a member's command. Sets $command to the pid of the command.
orphan() {  # <script>
  local pid=$yard/pid
  install -m 666 /dev/null "$pid"
  "${as_member[@]}" "$yard/dlock" run job -- \
    bash -c "$1"' echo $$ > "$0"; while :; do sleep 0.1; done' "$pid" 3>&- &
  holder=$!
  eventually test -s "$pid"
  command=$(< "$pid")
  eventually dlock status job
  kill -KILL "$holder"
  eventually has_ended "$holder"
}

@test "root's break ends a member's command whose dlock was killed" {
  orphan ''

  run dlock break --yes job

  assert_status 0
  has_ended "$command"
}

@test "root's break signals no process for its recorded pid alone, and says so" {
  orphan 'for fd in /proc/$$/fd/*; do fd=${fd##*/}; ((fd < 3 || fd == 255)) || eval "exec $fd>&-"; done;'
  refute_session "$command"

  run timeout 60 dlock break --yes job

  assert_message 77
  is_alive "$command"
}

is_alive() { ! has_ended "$1"; }

refute_session() {
  readlink "/proc/$1"/fd/* > "$yard/open-files"
  if grep '/sessions$' "$yard/open-files"; then return 1; fi
}

@test "root's break does not signal another user's process that was given the session" {
  install -d -m 777 "$yard/open"
  "${as_stranger[@]}" "$yard/member" take "$yard/open/socket" "$yard/open/taken" 3>&- &
  victim=$!
  orphan "'$yard/member' give '$yard/open/socket';"
  eventually test -e "$yard/open/taken"
  kill -KILL "$command"
  eventually has_ended "$command"
  is_held job

  run timeout 60 dlock break --yes job

  is_alive "$victim"
  assert_message 77
}

# --- Any contents ---

use_own_store() {
  shared=$yard/own
  install -d -m 700 "$shared"
  export DLOCK_STORE=local:$shared
}

@test "whatever the files say, hundreds of times over, every verb ends with a documented code and in one line" {
  local -a files
  use_own_store
  fill_store
  mapfile -t files < <(find "$shared" -type f -not -name sessions -size -64k)
  look_outside
  was_outside=$outside_is

  run "$tools/judge" --storm "${DLOCK_TEST_MUTATIONS:-200}" "${DLOCK_TEST_SEED:-1}" \
    "${files[@]}" -- "${verbs[@]}"

  assert_equal "$status $output" '0 '
  assert_nothing_outside_was_touched
  paths_of lock && paths_of head
}

# Writes a line of an ended run to the log of runs, with one field replaced.
forge_run() {  # <jq filter>
  use_own_store
  dlock run job -- true
  forged=$(grep '"event":"end"' "$shared/runs.jsonl" | jq -c "$1")
  echo "$forged" >> "$shared/runs.jsonl"
  tail -n 1 "$shared/runs.jsonl" | jq -e . > /dev/null
  rm -rf "$shared"/state-*
}

assert_works_after_boot() {
  run "$tools/judge" -- dlock run job -- true ::: dlock list ::: dlock history job ::: dlock status job
  assert_equal "$status $output" '0 '
  dlock run job -- true
  dlock run other -- true
}

@test "a run in the log with a name that no lock can have, or the greatest fence, does not stop the store at the next boot" {
  local forgery
  for forgery in '.name = "x" * 600' '.name = ""' '.namespace = ""' '.namespace = "" | .name = ""' .; do
    forge_run "$forgery"
    [[ $forgery != . ]] || sed -i '$ s/"fence":[0-9]*/"fence":18446744073709551615/' "$shared/runs.jsonl"

    assert_works_after_boot || { echo "after $forgery" >&2; return 1; }
    rm -r "$shared"
  done
}

@test "a log of runs of 1 GiB, or of one line of 200 MB, takes little memory at the next boot" {
  use_own_store
  dlock run job -- true
  head -c 200000000 /dev/zero | tr '\0' x >> "$shared/runs.jsonl"
  rm -rf "$shared"/state-*
  assert_works_after_boot

  truncate -s 1G "$shared/runs.jsonl"
  rm -rf "$shared"/state-*
  assert_works_after_boot
}

@test "registers and events of 1 GiB take little memory" {
  use_own_store
  fill_store
  truncate -s 1G "$shared/fences" "$shared/events"

  run "$tools/judge" -- dlock fence res 9 ::: @100 dlock watch ::: dlock run job -- true

  assert_equal "$status $output" '0 '
}
