#!/usr/bin/env bats
# The configuration file: its location, its contents, and what overrides it.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2030,SC2031  # tests are subshells and set things for themselves

setup() {
  load support
  load ../faults/locks
  use_private_store
  own=$HOME/.config/dlock/config.toml
  other=$BATS_TEST_TMPDIR/other.toml
  mkdir -p "${own%/*}"
}

teardown() { kill_leftovers; }

namespace=(run job -- sh -c 'echo "$DLOCK_NAMESPACE"')

# Asserts that dlock refuses the user's file in one line that contains the name of the file
# and the given words.
assert_refused() {  # <exit code> <word>...
  local word
  run timeout 5 dlock run job -- echo started
  assert_status "$1"
  assert_one_line
  assert_output_contains "$own"
  for word in "${@:2}"; do assert_output_contains "$word"; done
}

# --- Location ---

@test "~/.config/dlock/config.toml is read" {
  echo 'namespace = "own"' > "$own"

  run dlock "${namespace[@]}"

  assert_equal "$output" own
}

@test "/etc/dlock/config.toml is read if the user has no file" {
  use_private_mounts
  inside mount -t tmpfs none /etc
  inside mkdir /etc/dlock
  echo 'namespace = "global"' > "$(from_outside /etc/dlock/config.toml)"

  run inside dlock "${namespace[@]}"

  assert_equal "$output" global
}

@test "the user's file replaces /etc/dlock/config.toml" {
  use_private_mounts
  inside mount -t tmpfs none /etc
  inside mkdir /etc/dlock
  printf 'namespace = "global"\n[run]\nconflict-exit-code = 3' \
    > "$(from_outside /etc/dlock/config.toml)"
  echo 'namespace = "own"' > "$own"

  run inside dlock "${namespace[@]}"
  assert_equal "$output" own
}

@test "--config names another file, which replaces the usual one" {
  echo 'namespace = "own"' > "$own"
  echo 'quiet = true' > "$other"

  run dlock --config "$other" "${namespace[@]}"

  assert_equal "$output" dlock
}

@test "DLOCK_CONFIG names another file" {
  echo 'namespace = "other"' > "$other"

  DLOCK_CONFIG=$other run dlock "${namespace[@]}"

  assert_equal "$output" other
}

@test "--config overrides DLOCK_CONFIG" {
  echo 'namespace = "other"' > "$other"

  DLOCK_CONFIG=/no/such/file run dlock --config "$other" "${namespace[@]}"

  assert_equal "$output" other
}

@test "without a file, settings have their defaults" {
  run dlock "${namespace[@]}"

  assert_equal "$output" dlock
}

@test "the command inherits the absolute path of a file with a relative path" {
  cd "$BATS_TEST_TMPDIR"
  echo 'namespace = "other"' > other.toml

  run dlock --config other.toml run outer -- sh -c \
    'cd / && dlock run inner -- sh -c '\''echo "$DLOCK_CONFIG $DLOCK_NAMESPACE"'\'

  assert_equal "$output" "$(pwd)/other.toml other"
}

@test "an empty file is valid" {
  : > "$own"

  run dlock "${namespace[@]}"

  assert_equal "$status $output" '0 dlock'
}

# --- Precedence ---

@test "the environment overrides the file" {
  echo 'namespace = "own"' > "$own"

  DLOCK_NAMESPACE=environment run dlock "${namespace[@]}"

  assert_equal "$output" environment
}

@test "the command line overrides the environment and the file" {
  echo 'namespace = "own"' > "$own"

  DLOCK_NAMESPACE=environment run dlock --namespace line "${namespace[@]}"

  assert_equal "$output" line
}

@test "the command line overrides the verb's table" {
  printf '[run]\nconflict-exit-code = 3' > "$own"
  hold job

  run dlock run -E 4 job -- true

  assert_status 4
}

@test "an empty variable counts as not set" {
  echo 'namespace = "own"' > "$own"

  DLOCK_NAMESPACE='' run dlock "${namespace[@]}"

  assert_equal "$output" own
}

@test "the environment can turn off an option of the file" {
  echo 'tls-insecure = true' > "$own"

  DLOCK_TLS_INSECURE=false run dlock run job -- printenv DLOCK_TLS_INSECURE

  assert_equal "$output" false
}

@test "--user overrides DLOCK_USER, which overrides the file" {
  echo 'user = "own"' > "$own"

  run dlock run job -- printenv DLOCK_USER
  assert_equal "$output" own
  DLOCK_USER=environment run dlock run job -- printenv DLOCK_USER
  assert_equal "$output" environment
  DLOCK_USER=environment run dlock --user line run job -- printenv DLOCK_USER
  assert_equal "$output" line
}

@test "--quiet overrides verbose in the file" {
  echo 'verbose = true' > "$own"

  run dlock run -q job true

  assert_equal "$status $output" '0 '
}

@test "--verbose overrides quiet in the file" {
  echo 'quiet = true' > "$own"
  hold job

  run dlock run -v job true

  assert_status 75
  assert_output_contains 'dlock: job: contacting '
  assert_output_contains 'dlock: job: held by '
}

@test "--shared overrides slots in the file" {
  printf '[run]\nslots = 2\n[acquire]\nslots = 2' > "$own"

  hold job -s
  assert_equal "$(look job '"\(.mode) \(.slots)"')" 'shared 1'
  dlock acquire -s job
}

@test "--slots overrides shared in the file" {
  printf '[run]\nshared = true' > "$own"

  hold job -n 1
  assert_equal "$(look job .mode)" exclusive
  hold sem -n 2
  assert_equal "$(look sem '"\(.mode) \(.slots)"')" 'exclusive 2'
}

@test "--shared and --slots override dedupe in the file" {
  printf '[run]\ndedupe = "1h"\nretry-failed = true' > "$own"
  dlock run job true
  dlock run sem true

  run dlock run -s job echo ran
  assert_equal "$status $output" '0 ran'
  run dlock run -n 2 sem echo ran
  assert_equal "$status $output" '0 ran'
}

@test "--slots 1 does not override dedupe in the file" {
  printf '[run]\ndedupe = "1h"' > "$own"
  dlock run job true

  run dlock run -q -n 1 job echo ran

  assert_equal "$status $output" '0 '
}

@test "--dedupe overrides shared and slots in the file" {
  for line in 'shared = true' 'slots = 2'; do
    printf '[run]\n%s' "$line" > "$own"
    dlock run --dedupe 1h "${line%% *}" true

    run dlock run -q --dedupe 1h "${line%% *}" echo ran

    assert_equal "$status $output" '0 '
  done
}

@test "--dedupe 0 does not override shared in the file" {
  printf '[run]\nshared = true' > "$own"

  hold job --dedupe 0

  assert_equal "$(look job .mode)" shared
}

@test "--retry-failed with dedupe in the file cannot be combined with --shared" {
  printf '[run]\ndedupe = "1h"' > "$own"
  dlock run --retry-failed job true

  run dlock run --retry-failed -s job echo started

  assert_status 64
  assert_output_contains 'cannot be combined'
}

@test "options in the file that cannot be combined are refused" {
  for pair in $'shared = true\nslots = 2' $'shared = true\ndedupe = 60' $'slots = 2\ndedupe = 60'; do
    printf '[run]\n%s' "$pair" > "$own"

    run dlock run job -- echo started

    assert_status 78
    assert_one_line
    assert_output_contains 'cannot be combined'
  done
}

# --- Valid contents ---

@test "the store can be set" {
  echo "store = \"local:$BATS_TEST_TMPDIR/elsewhere\"" > "$own"
  unset DLOCK_STORE

  dlock run job -- true

  [[ -e $BATS_TEST_TMPDIR/elsewhere/sessions ]]
}

@test "options of run in [run] can be whole numbers" {
  printf '[run]\nconflict-exit-code = 3' > "$own"
  hold job

  run dlock run job -- true

  assert_status 3
}

@test "options of run in [run] can be strings" {
  printf '[run]\nlabel = "from the file"' > "$own"

  hold job

  assert_equal "$(look job '.holders[0].label')" 'from the file'
}

@test "an option of run in [run] that is true is on" {
  printf '[run]\nshared = true' > "$own"

  hold job

  assert_equal "$(look job .mode)" shared
}

@test "an option of run in [run] that is false is off" {
  printf '[run]\nshared = false' > "$own"

  hold job

  assert_equal "$(look job .mode)" exclusive
}

@test "durations can be strings with a unit" {
  printf '[run]\ntimeout = "50ms"' > "$own"

  run timeout 10 dlock run job -- sleep 600

  assert_status 124
}

@test "durations can be numbers of seconds" {
  printf '[run]\ntimeout = 0.05' > "$own"

  run timeout 10 dlock run job -- sleep 600

  assert_status 124
}

@test "a wait can be forever" {
  hold job
  printf '[run]\nwait = "forever"' > "$own"
  dlock run job -- true 3>&- &
  eventually is_queued job $!

  let_go

  assert_exits 0 $!
}

@test "common options are at the top level" {
  printf 'json = true' > "$own"

  run dlock list

  assert_equal "$output" '[]'
}

@test "[run] does not apply to other verbs" {
  printf '[run]\nslots = 5\n' > "$own"
  dlock run job -- true

  run dlock status job

  assert_status 1
}

@test "comments and inline tables are accepted" {
  printf '# mine\nnamespace = "own" # really\nrun = { label = "inline" }\n' > "$own"
  hold job

  assert_equal "$(look job '.holders[0].label')" inline
}

# --- Invalid contents ---

@test "an unknown key is refused and named" {
  echo 'namespase = "own"' > "$own"

  assert_refused 78 namespase
}

@test "an unknown key of a verb is refused and named" {
  printf '[run]\nwaits = "5s"' > "$own"

  assert_refused 78 run.waits
}

@test "an option of a verb at the top level is refused" {
  echo 'wait = "5s"' > "$own"

  assert_refused 78 wait
}

@test "a common option in a verb's table is refused" {
  printf '[run]\nnamespace = "own"' > "$own"

  assert_refused 78 "'namespace' belongs at the top level"
}

@test "an unknown table is refused and named" {
  printf '[rum]\nwait = "5s"' > "$own"

  assert_refused 78 rum
}

@test "a misspelt key of run is refused by other verbs as well" {
  printf '[run]\nwaits = "5s"' > "$own"

  run dlock status job

  assert_status 78
  assert_one_line
}

@test "an invalid value of an option is refused, and the file and key are named" {
  for line in 'ttl = "100ms"' 'wait = "soon"' 'slots = 0' 'slots = 1.5' 'timeout = 0' \
    'conflict-exit-code = 256' 'stragglers = "eat"' 'wait = ""' 'jitter = -1' 'splay = "often"' \
    'kill-after = "1x"' 'label = "a\nb"' 'label = ""'; do
    printf '[run]\n%s\n' "$line" > "$own"

    assert_refused 78 "run.${line%% *}"
  done
}

@test "an invalid value of a common option is refused, and the file and key are named" {
  unset DLOCK_STORE
  for line in 'namespace = ""' 'store = "nowhere:"' 'store = "local:here"' \
    'color = "red"' 'store-timeout = 0' 'json = "yes"' 'quiet = 2' 'user = ""' \
    'user = "a\nb"' 'password-file = ""' 'password-file = "a\u0000b"' 'tls-ca = ""' \
    'tls-insecure = 1' 'store = "redis://host:port"' 'store = "redis+sentinel://a,b"' 'replicas = 16' \
    'replicas = "some"' 'replicas = true' 'sentinel-user = ""' 'sentinel-password-file = ""' 'sentinel-tls = 1' \
    'sentinel-tls = "no"' 'tls-name = ""' 'tls-name = "a b"'; do
    echo "$line" > "$own"

    assert_refused 78 "${line%% *}"
  done
}

@test "a value of the wrong type is refused, and the file and key are named" {
  for line in 'wait = ["5s"]' 'wait = 2026-01-01' 'wait = true' 'shared = "perhaps"' \
    'label = { a = 1 }' 'slots = true' 'timeout = nan' 'timeout = inf'; do
    printf '[run]\n%s\n' "$line" > "$own"

    assert_refused 78 "run.${line%% *}"
  done
}

@test "a certificate without its key is refused, and a key without its certificate" {
  for line in 'tls-cert = "cert.pem"' 'tls-key = "key.pem"'; do
    echo "$line" > "$own"

    run timeout 5 dlock run job -- echo started

    assert_status 78
    assert_one_line
    assert_output_contains --tls-cert
  done
}

@test "a password is refused, and the message suggests password-file" {
  echo 'password = "secret"' > "$own"

  assert_refused 78 password-file
  refute_output_contains secret
}

@test "invalid TOML is refused in one line" {
  for text in 'namespace = own' 'namespace' '[run' '= 1' 'namespace = "own' \
    $'namespace = "a"\nnamespace = "b"' $'\xff\xfe' '{"json": true}' 'wait: 5s'; do
    printf '%s' "$text" > "$own"

    assert_refused 78
  done
}

@test "the message about an invalid key contains no escape sequences" {
  printf '"na\\u001b[31mme\\n" = 1\n' > "$own"

  assert_refused 78
  refute_output_contains $'\e'
}

@test "a missing file that --config names is refused" {
  run dlock --config "$other" run job -- echo started

  assert_status 78
  assert_one_line
  assert_output_contains "$other"
}

@test "a missing file that DLOCK_CONFIG names is refused" {
  DLOCK_CONFIG=$other run dlock run job -- echo started

  assert_status 78
  assert_one_line
  assert_output_contains "$other"
}

@test "a directory in the place of the file is refused" {
  mkdir "$own"

  assert_refused 78
}

@test "a FIFO in the place of the file is refused without a wait" {
  mkfifo "$own"

  assert_refused 78
}

@test "a file of more than a megabyte is refused" {
  yes '# comment' | head -c 1100000 > "$own"

  assert_refused 78
}

@test "an unreadable file is refused" {
  use_private_mounts
  inside install -d -m 755 /mnt/bin /mnt/home/.config/dlock
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  inside install -m 600 /dev/null /mnt/home/.config/dlock/config.toml

  run inside setpriv --reuid 1001 --regid 1001 --clear-groups \
    env HOME=/mnt/home /mnt/bin/dlock --store none: run job -- echo started

  assert_status 78
  assert_one_line
  assert_output_contains /mnt/home/.config/dlock/config.toml
}

# --- Permissions ---

@test "a world-writable file is refused" {
  echo 'namespace = "own"' > "$own"
  chmod 646 "$own"

  assert_refused 77
}

@test "another user's file is refused" {
  needs_root
  echo 'namespace = "own"' > "$own"
  chown 1001 "$own"

  assert_refused 77
}

@test "root's file is accepted for every user" {
  use_private_mounts
  inside install -d -m 755 /mnt/bin
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  echo 'namespace = "global"' > "$(from_outside /mnt/config.toml)"

  run inside setpriv --reuid 1001 --regid 1001 --clear-groups \
    /mnt/bin/dlock --store none: --config /mnt/config.toml "${namespace[@]}"

  assert_equal "$status $output" '0 global'
}

# Makes /mnt/anna, the home of a user 1001 in a mount namespace, whose own group is 1001.
use_home_of_anna() {
  use_private_mounts
  inside install -d -m 755 /mnt/bin
  cp "$DLOCK_BIN" "$(from_outside /mnt/bin/dlock)"
  printf '%s\n' 'root:x:0:0::/root:/bin/sh' 'anna:x:1001:1001::/mnt/anna:/bin/sh' \
    'bert:x:1002:1002::/mnt:/bin/sh' > "$(from_outside /mnt/passwd)"
  printf '%s\n' 'root:x:0:' 'anna:x:1001:' 'staff:x:50:anna,bert' > "$(from_outside /mnt/group)"
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

# Asserts that every way to name the file, every verb, and `config` and `doctor` in particular,
# refuse it (77) with these words, and that nothing is started.
assert_anna_refused() {  # <word>...
  local words word
  for words in 'run job -- echo started' 'config' 'doctor' "--config $anna_own run job -- echo started"; do
    # shellcheck disable=SC2086
    run anna /mnt/bin/dlock --store none: $words
    assert_status 77
    assert_one_line
    assert_output_contains "$anna_own"
    for word in "$@"; do assert_output_contains "$word"; done
  done
  run anna env DLOCK_CONFIG="$anna_own" /mnt/bin/dlock --store none: run job -- echo started
  assert_status 77
  assert_one_line
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

  assert_anna_refused 'the group staff can write (chmod g-w)'
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

@test "a file in a directory that others can change is refused, and the directory is named" {
  use_home_of_anna
  for directory in /mnt/anna/.config/dlock /mnt/anna; do
    inside chmod 775 "$directory"
    assert_anna_accepted
    inside chgrp 50 "$directory"
    assert_anna_refused "the directory $directory, which the group staff can write (chmod g-w $directory)"
    inside chmod 757 "$directory"
    assert_anna_refused "the directory $directory, which everyone can write (chmod o-w $directory)"
    inside chmod 755 "$directory"
    assert_anna_accepted
  done
  inside chown 1002 /mnt/anna/.config
  assert_anna_refused 'the directory /mnt/anna/.config, which bert owns'
}

@test "a file is refused if others can change where a link on its way leads" {
  use_home_of_anna
  inside install -d -m 1777 /mnt/sticky
  inside install -d -m 777 /mnt/open
  anna cp "$anna_own" /mnt/open/file
  anna ln -sf /mnt/sticky/link "$anna_own"
  anna ln -s /mnt/open/file /mnt/sticky/link

  assert_anna_refused 'the directory /mnt/open, which everyone can write'

  anna sh -c 'mv /mnt/open/file /mnt/sticky/file; ln -sf /mnt/sticky/file /mnt/sticky/link'
  assert_anna_accepted
  inside chown -h 1002 /mnt/sticky/link
  assert_anna_refused '/mnt/sticky/link, which bert has made'
}

@test "/etc/dlock/config.toml is refused if others can write it or its directory" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755 none /etc
  inside mkdir /etc/dlock
  echo 'namespace = "global"' > "$(from_outside /etc/dlock/config.toml)"
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
}
