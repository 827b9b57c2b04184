# Helpers for tests in which a system call fails, or dlock is killed at one. They need
# support.bash and locks.bash.
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
  # Checks that it is alone and writes its fence.
  witness=("$DLOCK_SOURCE/tests/faults/critical_section" "$arena")
}

show_injections() { grep -e INJECTED -e 'killed by' "$log" >&2 || true; }

# Runs dlock with a fault at the Nth call of a system call. Sets $code to the exit code and
# writes its messages to the file $said. Fails if there is no Nth call.
run_with() {  # <fault> <system call> <N> <dlock's arguments>...
  code=0
  timeout 20 strace -y -o "$log" -e "trace=$2" -e "inject=$2:$1:when=$3" \
    dlock "${@:4}" > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- || code=$?
  said=$(< "$BATS_TEST_TMPDIR/said")
  what="$1 at $2 number $3"
  grep -q -e INJECTED -e '^+++ killed by SIGKILL' "$log"
}

complain() {
  printf '%s: %s (exit code %s, said: %s)\n' "$what" "$1" "$code" "$said" >&2
  return 1
}

# What has to be true after each fault.
assert_sound() {
  timeout 20 dlock run -w 10s job -- "${witness[@]}" ||
    complain "the next run ends with $?"
  [[ ! -e $arena/violations ]] || complain "$(< "$arena/violations")"
  sort -c -u -n "$arena/fences" || complain 'a fence went back'
}

runs() { wc -l < "$arena/fences"; }

says_one_line() { [[ $said == 'dlock: '* && $said != *$'\n'* ]]; }

is_an_excuse() { [[ $code == @(69|77|78|125) ]]; }

# What a run with a failed system call may do: its command ran and decided the exit code, or
# the command did not run and there is a message with the reason.
assert_ran_or_excused() {  # <runs before>
  if (($(runs) > $1)); then
    ((code == 0)) || complain "another exit code than the command's"
    [[ -z $said ]] || says_one_line || complain 'more than one line'
  else
    is_an_excuse || complain 'an exit code that is not for this'
    says_one_line || complain 'not one line'
  fi
}

# A program that is not linked statically opens its libraries first.
is_about_libraries() { grep INJECTED "$log" | grep -q '/ld\.so\|\.so\.'; }

is_queued_or_over() { has_ended "$1" || ! nobody_waits job; }
