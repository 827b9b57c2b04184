#!/usr/bin/env bats
# The configuration file: its location, its contents, and what overrides it.

setup() {
  load support
  use_private_store
  own=$HOME/.config/dlock/config.toml
  other=$BATS_TEST_TMPDIR/other.toml
  mkdir -p "${own%/*}"
}

namespace=(run job -- sh -c 'echo "$DLOCK_NAMESPACE"')

# Asserts that dlock refuses the user's file in one line that contains the name of the file
# and the given words.
assert_refused() {  # <exit code> <word>...
  local word
  status=0
  dlock run job -- echo started > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null || status=$?
  output=$(< "$BATS_TEST_TMPDIR/said")
  assert_message "$1" "$own"
  for word in "${@:2}"; do assert_output_contains "$word"; done
}

# --- Location ---

@test "the user's file is read, or the one that --config or DLOCK_CONFIG names, of which --config counts" {
  run dlock "${namespace[@]}"
  assert_equal "$output" dlock
  : > "$own"
  run dlock "${namespace[@]}"
  assert_equal "$status $output" '0 dlock'
  echo 'namespace = "own"' > "$own"
  run dlock "${namespace[@]}"
  assert_equal "$output" own

  # Another file replaces it.
  echo 'quiet = true' > "$other"
  run dlock --config "$other" "${namespace[@]}"
  assert_equal "$output" dlock
  echo 'namespace = "other"' > "$other"
  DLOCK_CONFIG=$other run dlock "${namespace[@]}"
  assert_equal "$output" other
  DLOCK_CONFIG=/no/such/file run dlock --config "$other" "${namespace[@]}"
  assert_equal "$output" other

  # The command inherits the absolute path.
  cd "$BATS_TEST_TMPDIR"
  run dlock --config other.toml run outer -- sh -c \
    'cd / && dlock run inner -- sh -c '\''echo "$DLOCK_CONFIG $DLOCK_NAMESPACE"'\'
  assert_equal "$output" "$other other"

  run dlock --config /dev/null "${namespace[@]}"
  assert_equal "$status $output" '0 dlock'
}

@test "/etc/dlock/config.toml is read if the user has no file, unless others can write it or its directory" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755 none /etc
  inside mkdir /etc/dlock
  printf 'namespace = "global"\n[run]\nconflict-exit-code = 3' > "$(from_outside /etc/dlock/config.toml)"
  run inside dlock "${namespace[@]}"
  assert_equal "$output" global

  for path in /etc/dlock/config.toml /etc/dlock; do
    inside chgrp 50 "$path"
    inside chmod g+w "$path"

    run inside dlock "${namespace[@]}"

    assert_status 77
    assert_output_contains "/etc/dlock/config.toml: refusing to use a file"
    assert_output_contains 'the group 50 can write (chmod g-w'
    inside chmod g-w "$path"
  done
  run inside dlock "${namespace[@]}"
  assert_equal "$status $output" '0 global'

  echo 'namespace = "own"' > "$own"
  run inside dlock "${namespace[@]}"
  assert_equal "$output" own
  hold job
  run inside dlock run job -- true
  assert_status 75
}

@test "a user who may not look into /etc/dlock does not get the defaults instead of what is there" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755 none /etc
  inside install -d -m 700 /etc/dlock
  inside install "$DLOCK_BIN" /mnt/dlock
  inside touch /mnt/empty
  as_another=(inside setpriv --reuid 1234 --clear-groups env HOME=/nowhere /mnt/dlock --store none:)

  run "${as_another[@]}" "${namespace[@]}"
  assert_message 78 'dlock: /etc/dlock/config.toml: Permission denied'
  run "${as_another[@]}" --config /mnt/empty "${namespace[@]}"
  assert_equal "$status $output" '0 dlock'
  inside chmod 755 /etc/dlock
  run "${as_another[@]}" "${namespace[@]}"
  assert_equal "$status $output" '0 dlock'
}

# --- Precedence ---

@test "the command line overrides the environment, which overrides the file" {
  printf 'namespace = "own"\nuser = "own"\ntls-insecure = true\n[run]\nconflict-exit-code = 3\n' > "$own"

  DLOCK_NAMESPACE=environment run dlock "${namespace[@]}"
  assert_equal "$output" environment
  DLOCK_NAMESPACE=environment run dlock --namespace line "${namespace[@]}"
  assert_equal "$output" line
  DLOCK_NAMESPACE='' run dlock "${namespace[@]}" # counts as not set
  assert_equal "$output" own
  run dlock run job -- printenv DLOCK_USER
  assert_equal "$output" own
  DLOCK_USER=environment run dlock run job -- printenv DLOCK_USER
  assert_equal "$output" environment
  DLOCK_USER=environment run dlock --user line run job -- printenv DLOCK_USER
  assert_equal "$output" line
  DLOCK_TLS_INSECURE=false run dlock run job -- printenv DLOCK_TLS_INSECURE
  assert_equal "$output" false
  hold job
  run dlock run job -- true
  assert_status 3
  run dlock run -E 4 job -- true
  assert_status 4
}

@test "--quiet overrides verbose in the file, and --verbose overrides quiet" {
  echo 'verbose = true' > "$own"
  run dlock run -q job true
  assert_equal "$status $output" '0 '

  echo 'quiet = true' > "$own"
  hold job
  run dlock run -v job true
  assert_status 75
  assert_output_contains 'dlock: job: contacting '
  assert_output_contains 'dlock: job: held by '
}

# --- Valid contents ---

@test "the file sets the store, common options, and options of a verb as numbers, text, true and false" {
  printf 'store = "local:%s"\njson = true\n[run]\nconflict-exit-code = 3\nlabel = "from the file"\nslots = 5\n' \
    "$BATS_TEST_TMPDIR/elsewhere" > "$own"
  unset DLOCK_STORE
  run dlock list
  assert_equal "$output" '[]'
  dlock run job -- true
  [[ -e $BATS_TEST_TMPDIR/elsewhere/sessions ]]
  # [run] does not apply to other verbs.
  run dlock status job
  assert_status 1

  # Comments and inline tables.
  printf '# mine\nstore = "local:%s" # really\nrun = { conflict-exit-code = 3, label = "from the file" }\n' \
    "$BATS_TEST_TMPDIR/elsewhere" > "$own"
  hold job
  assert_equal "$(look job '"\(.holders[0].label) \(.mode)"')" 'from the file exclusive'
  run dlock run job -- true
  assert_status 3

  echo 'run = { shared = true }' > "$own"
  hold read
  assert_equal "$(look read .mode)" shared
  echo 'run = { shared = false }' > "$own"
  hold write
  assert_equal "$(look write .mode)" exclusive
}

# --- Invalid contents ---

@test "an unknown key or table, a wrong place, value or type is refused, and the file and key are named" {
  local text said
  unset DLOCK_STORE
  while IFS='|' read -r text said; do
    printf '%b\n' "$text" > "$own"
    assert_refused 78 "$said"
  done << 'END'
namespase = "own"|namespase
[run]\nwaits = "5s"|run.waits
wait = "5s"|wait
[run]\nnamespace = "own"|'namespace' belongs at the top level
[rum]\nwait = "5s"|rum
[run]\nttl = "100ms"|run.ttl
[run]\nwait = "soon"|run.wait
[run]\nslots = 1.5|run.slots
[run]\nstragglers = "eat"|run.stragglers
[run]\nlabel = "a\\nb"|run.label
[run]\nwait = ["5s"]|run.wait
[run]\nwait = 2026-01-01|run.wait
[run]\nwait = true|run.wait
[run]\nshared = "perhaps"|run.shared
[run]\nlabel = { a = 1 }|run.label
[run]\ntimeout = nan|run.timeout
namespace = ""|namespace
store = "nowhere:"|store
store-timeout = 0|store-timeout
json = "yes"|json
quiet = 2|quiet
password-file = "a\\u0000b"|password-file
replicas = true|replicas
password = "secret"|password-file
END
  refute_output_contains secret
}

@test "a file that is missing but named, a directory, a FIFO, and a file of more than a megabyte are refused at once" {
  for how in --config DLOCK_CONFIG=; do
    [[ $how == --config ]] && run dlock --config "$other" run job -- echo started ||
      DLOCK_CONFIG=$other run dlock run job -- echo started
    assert_message 78 "$other"
  done

  mkdir "$own"
  assert_refused 78
  rmdir "$own"
  mkfifo "$own"
  assert_refused 78
  rm "$own"
  yes '# comment' | head -c 1100000 > "$own"
  assert_refused 78
}

# --- Permissions ---

@test "a world-writable file and that of another user are refused" {
  echo 'namespace = "own"' > "$own"
  chmod 646 "$own"
  assert_refused 77

  needs_root
  chmod 644 "$own"
  chown 1001 "$own"
  assert_refused 77
}

@test "root's file is accepted for every user, and an unreadable one is refused" {
  use_private_mounts
  inside install -d -m 755 /mnt/bin /mnt/home/.config/dlock
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  echo 'namespace = "global"' > "$(from_outside /mnt/config.toml)"
  inside install -m 600 /dev/null /mnt/home/.config/dlock/config.toml
  as_other=(setpriv --reuid 1001 --regid 1001 --clear-groups env HOME=/mnt/home /mnt/bin/dlock --store none:)

  run inside "${as_other[@]}" --config /mnt/config.toml "${namespace[@]}"
  assert_equal "$status $output" '0 global'

  run inside "${as_other[@]}" run job -- echo started
  assert_message 78 /mnt/home/.config/dlock/config.toml
}

# Makes /mnt/anna, the home of a user 1001 in a mount namespace, whose own group is 1001.
use_home_of_anna() {
  use_private_mounts
  inside install -d -m 755 /mnt/bin
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  printf '%s\n' 'root:x:0:0::/root:/bin/sh' 'anna:x:1001:1001::/mnt/anna:/bin/sh' \
    'bert:x:1002:1002::/mnt:/bin/sh' > "$(from_outside /mnt/passwd)"
  printf '%s\n' 'root:x:0:' 'anna:x:1001:' 'PATH:x:50:anna,bert' > "$(from_outside /mnt/group)"
  inside mount --bind /mnt/passwd /etc/passwd
  inside mount --bind /mnt/group /etc/group
  anna install -d /mnt/anna/.config/dlock
  anna_own=/mnt/anna/.config/dlock/config.toml
  anna sh -c "echo 'namespace = \"own\"' > $anna_own"
}

anna() {
  [[ -d /proc/$mounts/root/mnt/anna ]] || inside install -d -o 1001 -g 1001 -m 755 /mnt/anna
  inside setpriv --reuid 1001 --regid 1001 --clear-groups env HOME=/mnt/anna "$@"
}

# Asserts that dlock refuses the file (77) with these words, and starts nothing.
assert_anna_refused() {  # <word> [<arguments of dlock> [<variable>]]
  # shellcheck disable=SC2086
  run anna env ${3:-HOME=/mnt/anna} /mnt/bin/dlock --store none: ${2:-run job -- echo started}
  assert_message 77 "$anna_own" "$1"
}

assert_anna_accepted() {
  run anna /mnt/bin/dlock --store none: "${namespace[@]}"
  assert_equal "$status $output" '0 own'
}

@test "a file that a group can write is refused, unless that is the caller's private group" {
  use_home_of_anna
  inside chmod 664 "$anna_own"
  assert_anna_accepted

  inside chgrp 50 "$anna_own"

  local words
  for words in '' config doctor "--config $anna_own run job -- echo started"; do
    assert_anna_refused 'the group PATH can write (chmod g-w)' "$words"
  done
  assert_anna_refused 'the group PATH can write (chmod g-w)' '' "DLOCK_CONFIG=$anna_own"
  inside sh -c 'chgrp 1001 "$0"; echo "anna:x:1001:bert" > /mnt/group' "$anna_own"
  assert_anna_refused 'the group anna can write (chmod g-w)'
}

@test "a file in the private group that other users can write by an ACL is refused" {
  use_home_of_anna
  inside chmod 664 "$anna_own"
  # user::rw- user:1002:rw- group::r-- mask::rw- other::r--
  inside setfattr -n system.posix_acl_access -v 0x0200000001000600ffffffff02000600ea03000004000400ffffffff10000600ffffffff20000400ffffffff \
    "$anna_own"

  assert_anna_refused 'the group anna can write'
}
