# Helpers for tests in which a system call fails, or dlock is killed at one. They need
# support.bash. Thousands of commands run in these tests, so what bash can do itself
# needs no process.
# shellcheck disable=SC2034  # witness is for the tests

# For `setup`: makes a store, and a command that runs under the lock.
use_injection() {
  use_private_store
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  store=$BATS_TEST_TMPDIR/store
  arena=$BATS_TEST_TMPDIR/arena
  log=$BATS_TEST_TMPDIR/strace.log
  mkdir "$arena"
  touch "$arena/fences"
  # Writes its fence and then that it leaves. It is one process: if that is killed, nothing goes on.
  # SIGTERM does not come between the two.
  # shellcheck disable=SC2016
  witness=(sh -c 'trap "" TERM; exec >> "$0"; echo "$DLOCK_FENCE"; echo out' "$arena/fences")
  last_fence=0 lines_checked=0
  mkfifo "$BATS_TEST_TMPDIR/signs"
  end_what_hangs 3>&- &
}

# Ends all that runs if a command takes more than 20 s: `timeout` would be a process for each.
end_what_hangs() {
  local sign
  while read -r sign; do
    [[ $sign != begin ]] || read -r -t 20 sign || end_leftovers
  done <> "$BATS_TEST_TMPDIR/signs"
}

limited() {  # <command>...
  local status=0
  echo begin 1<> "$BATS_TEST_TMPDIR/signs"
  "$@" || status=$?
  echo end 1<> "$BATS_TEST_TMPDIR/signs"
  return "$status"
}

show_injections() { grep -e INJECTED -e 'killed by' "$log" >&2 || true; }

# Runs dlock with a fault at the Nth call of a system call. Sets $code to the exit code, $said to
# its messages, and $injected to the call. Fails if there is no Nth call.
run_with() {  # <fault> <system call> <N> <dlock's arguments>...
  local line
  code=0
  limited strace -y -o "$log" -e "trace=$2" -e "inject=$2:$1:when=$3" \
    dlock "${@:4}" > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- || code=$?
  said=$(< "$BATS_TEST_TMPDIR/said")
  what="$1 at $2 number $3"
  injected=
  while IFS= read -r line; do
    [[ $line != *INJECTED* && $line != '+++ killed by SIGKILL'* ]] || injected+=$line
  done < "$log"
  [[ -n $injected ]]
}

complain() {
  printf '%s: %s (exit code %s, said: %s)\n' "$what" "$1" "$code" "$said" >&2
  return 1
}

# What has to be true after each fault: the next run is granted the lock, and runs were alone and in
# the order of their fences.
assert_sound() {
  local line
  # shellcheck disable=SC2154  # some tests have it
  limited "${before_next[@]}" dlock run -w 10s job -- "${witness[@]}" || complain "the next run ends with $?"
  mapfile -t witnessed < "$arena/fences"
  for line in "${witnessed[@]:lines_checked}"; do
    if [[ $line == out ]]; then
      inside=
    else
      [[ -z ${inside:-} ]] || complain "fence $line came while $inside was inside"
      ((line > last_fence)) || complain "fence $line came after $last_fence"
      last_fence=$line inside=$line
    fi
  done
  [[ -z ${inside:-} ]] || complain "$inside has not left"
  lines_checked=${#witnessed[@]}
}

# Sets $runs to how many there were.
count_runs() {
  mapfile -t witnessed < "$arena/fences"
  runs=$((${#witnessed[@]} / 2))
}

says_one_line() { [[ $said == 'dlock: '* && $said != *$'\n'* ]]; }

is_an_excuse() { [[ $code == @(69|77|78|125) ]]; }

# What a run with a failed system call may do: its command ran and decided the exit code, or
# the command did not run and there is a message with the reason.
assert_ran_or_excused() {  # <runs before>
  count_runs
  if ((runs > $1)); then
    ((code == 0)) || complain "another exit code than the command's"
    [[ -z $said ]] || says_one_line || complain 'more than one line'
  else
    is_an_excuse || complain 'an exit code that is not for this'
    says_one_line || complain 'not one line'
  fi
}

# A program that is not linked statically opens its libraries first.
is_about_libraries() { [[ $injected == *@(/ld.so|.so.)* ]]; }

# A waiter makes its socket after it has joined the queue. After some faults it has none.
is_queued_or_over() {
  has_ended "$1" || compgen -G "$store/wake-*" > /dev/null || { ((++attempts % 4 == 0)) && ! nobody_waits job; }
}
