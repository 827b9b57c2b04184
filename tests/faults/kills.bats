#!/usr/bin/env bats
# The embedded store when dlock is killed right before any change that it makes, and while it waits.
# (Killed elsewhere, it leaves the same as before the next change, because its locks end with it.)
# On builds without sanitizers, because a killed process reports nothing to them.
# shellcheck disable=SC2034  # the helpers set store and witness, and use what

setup() {
  load ../bats/support
  load injection
  use_injection
}

clean_up() { show_injections; }

# Prints the system calls of a command that change the store, notify others, start or stop a
# process, or wait for one, and the number of each among those of its name.
changes_of() {  # <command>...
  strace -o "$log" "$@" > /dev/null 3>&-
  perl -ne 'my ($call) = /^(\w+)\(/ or next;
    ++$seen{$call};
    print "$call $seen{$call}\n" if $call eq "openat" ? /O_CREAT/ : $call =~
      /^(mkdir|chmod|fchmod|pwrite|write|rename|unlink|v?fork|clone|wait|bind|send|ftruncate|link|symlink)/' "$log"
}

# Runs dlock and kills it at each change that such a run makes. After each kill, two commands are
# called. Sets $kills to how many there were.
kill_at_each_change() {  # <command before> <command after> <dlock's argument>...
  local before=$1 after=$2 call n
  shift 2
  kills=0
  "$before"
  changes_of dlock "$@" > "$BATS_TEST_TMPDIR/changes"
  while read -r call n; do
    "$before"
    # The number of waits may vary.
    run_with signal=KILL "$call" "$n" "$@" < /dev/null || continue
    ((++kills))
    "$after"
  done < "$BATS_TEST_TMPDIR/changes"
  echo "$kills kills"
}

has_no_draft() { ! compgen -G "$store/*.new" && ! compgen -G "$store/*/*.new"; } > /dev/null

@test "a run that is killed at any change leaves a store that works" {
  dlock run job -- "${witness[@]}"

  kill_at_each_change true assert_sound run job -- "${witness[@]}"

  ((kills > 10))
}

@test "a first run of all that is killed at any change leaves a store that works" {
  without_store() { rm -rf "$store"; }
  sound_without_draft() { assert_sound && { has_no_draft || complain 'a draft is left'; }; }

  kill_at_each_change without_store sound_without_draft run job -- "${witness[@]}"

  ((kills > 20))
}

@test "a waiter that is killed at any change does not hold up the next one" {
  local call n
  # No timer fires for the next one, so it is not held up for a while, either.
  local before_next=("${without_timers[@]}")
  hold job
  changes_of dlock run -w 20s job -- true > "$BATS_TEST_TMPDIR/changes" &
  eventually is_queued_or_over $!
  eventually somebody_waits job
  let_go
  assert_exits 0 $!
  kills=0
  while read -r call n; do
    hold job
    run_with signal=KILL "$call" "$n" run -w 20s job -- "${witness[@]}" < /dev/null &
    eventually is_queued_or_over $!
    let_go
    wait $! || continue
    ((++kills))
    what="a kill at $call number $n"

    assert_sound
    ! compgen -G "$store/wake-*" > /dev/null || complain 'its socket is left'
  done < "$BATS_TEST_TMPDIR/changes"
  echo "$kills kills"
  ((kills > 10))
}

# Makes leases until the file of `job` grows with the next one. Saves the store as it is
# before that, and sets $leases to their number.
fill_file() {
  local label
  printf -v label 'x%.0s' {1..200}
  more=(acquire --slots 1000 -t 1h --label "$label" job)
  for ((leases = 0; ; ++leases)); do
    rm -rf "$store.full"
    [[ ! -d $store ]] || cp -a "$store" "$store.full"
    dlock "${more[@]}" > /dev/null || return
    file=("$store"/state-*/*.lock)
    (($(stat -c %s "${file[0]}") <= 8192)) || return 0
  done
}

@test "a process that is killed while a lock's file grows leaves the old state or the new one" {
  fill_file
  ((leases > 5))
  restore() { rm -rf "$store" && cp -a "$store.full" "$store"; }
  assert_old_or_new() {
    local held
    held=$(look job '.holders | length')
    ((held == leases || held == leases + 1)) || complain "$held of $leases are left"
    dlock "${more[@]}" > /dev/null || complain 'the next one is refused'
    assert_equal "$(look job '.holders | length')" $((held + 1))
    has_no_draft || complain 'a draft is left'
  }

  kill_at_each_change restore assert_old_or_new "${more[@]}"

  ((kills > 5))
}
