#!/usr/bin/env bats
# A standard error without a reader: the messages of dlock do not block anything.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  mkfifo pipe
  exec 8<> pipe
}

clean_up() { exec 8>&-; }

# Fills the pipe completely.
fill() { dd if=/dev/zero bs=4096 oflag=nonblock >&8 2> /dev/null || true; }

# Prints what is in the pipe.
drained() { dd bs=65536 count=1 iflag=nonblock <&8 2> /dev/null | tr -d '\0'; }

# Runs dlock with the pipe as standard error. Sets $status to its exit code, and $took to how
# many milliseconds it took.
run_unread() {  # <dlock's argument>...
  local begin
  begin=$(now_ms)
  status=0
  timeout -s KILL 60 dlock "$@" 2> pipe 3>&- 8>&- || status=$?
  took=$(($(now_ms) - begin))
}

@test "while messages are not read, a run ends as with a reader: by a time-out, with its exit code, or without a start" {
  local code words
  while IFS='|' read -r code words; do
    fill
    eval "run_unread $words"

    assert_equal "$words: $status" "$words: $code"
    assert_between "$took" 0 50000
    is_free job
  done << 'END'
124|run --timeout 200ms job -- sleep 60
127|run job -- /no/such/command
7|-v run job -- sh -c 'exit 7'
END
  drained > /dev/null
  run_unread run --timeout 200ms --kill-after 200ms job -- sh -c 'yes >&2'
  assert_status 124
  is_free job
}

@test "a signal reaches the command though the messages of -v are not read" {
  fill
  env --default-signal setsid dlock -v run job -- sh -c \
    'exec 2>&-; trap "exit 7" TERM; touch began; while :; do sleep 0.1; done' 2> pipe 3>&- 8>&- &
  eventually test -e began

  kill -TERM $!

  assert_exits 7 $!
  is_free job
}

@test "a signal ends a waiter though the messages of -v are not read" {
  hold job 8>&-
  fill
  env --default-signal dlock -v run -w forever job -- touch began 2> pipe 3>&- 8>&- &
  eventually is_queued job $!

  kill -TERM $!

  assert_exits 143 $!
  nobody_waits job
}

@test "a socket without a reader does not block a run either" {
  timeout -s KILL 60 perl -MSocket -MIO::Handle -MPOSIX -e '
    $^F = 1000;
    socketpair my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die;
    $ours->blocking(0);
    1 while defined syswrite $ours, "x" x 1000;
    $ours->blocking(1);
    dup2 fileno $ours, 2;
    exec @ARGV' dlock -v run --timeout 200ms job -- sleep 60 3>&- 8>&- || status=$?

  assert_status 124
  is_free job
}

@test "omitted messages are counted once the pipe is read again" {
  fill

  run_unread -v run job -- sh -c 'dd bs=65536 count=1 iflag=nonblock < pipe > drained 2> errors'

  assert_status 0
  output=$(drained)
  assert_output_contains 'ended after'
  [[ $output =~ 'omitted because standard error was not read: '[23] ]]
}

@test "the command gets standard error with the same flags as dlock" {
  sh -c 'grep flags /proc/self/fdinfo/2' 2> pipe > before
  fill

  run_unread -v run job -- sh -c 'sleep 0.1; grep flags /proc/self/fdinfo/2' > during

  diff before during
}

@test "standard output waits for its reader" {
  hold job
  fill

  dlock status job > pipe 3>&- 8>&- &
  never_within 500 has_ended $!
  drained > printed
  assert_exits 0 $!
  drained >> printed

  grep -q '^job' printed
}
