# Helpers for the tests that watch locks. They need support.bash.
# shellcheck disable=SC2034  # watcher is for the tests

seen=$BATS_TEST_TMPDIR/seen
said=$BATS_TEST_TMPDIR/said

# Starts `dlock watch` in the background, and sets $watcher to its pid.
watch() {  # [<option or name>...]
  dlock watch -v --json "$@" > "$seen" 2> "$said" 3>&- &
  watcher=$!
  eventually grep -q '^dlock: watching$' "$said"
}

# The same, but its output goes through a pipe of one page, whose reader is $reader.
watch_slowly() {
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  cat < "$BATS_TEST_TMPDIR/fifo" > "$seen" 3>&- &
  reader=$!
  perl -e 'fcntl(STDOUT, 1031, 4096) or die $!; exec @ARGV' "$DLOCK_BIN" watch -v --json \
    > "$BATS_TEST_TMPDIR/fifo" 2> "$said" 3>&- &
  watcher=$!
  eventually grep -q '^dlock: watching$' "$said"
}

events() { jq -r '"\(.event) \(.name) \(.free)"' "$seen"; }
has_seen() { events | grep -qxF "$1"; }  # <line>
has_as_many_as() { (($(wc -l < "$seen") >= $1)); }  # <lines>

# Asserts that exactly these events were seen, in this order.
assert_events() {  # <event name free>...
  eventually has_as_many_as $#
  assert_equal "$(events)" "$(printf '%s\n' "$@")"
}
