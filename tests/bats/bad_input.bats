#!/usr/bin/env bats
# Invalid input is refused with one line and the right exit code, and nothing is started,
# created or contacted. The texts of the messages are tested in errors.bats.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter
# shellcheck disable=SC2016  # commands are shells that expand for themselves

setup() {
  load support
  load ../faults/locks
  use_private_store
  started=$BATS_TEST_TMPDIR/started
}

teardown() { kill_leftovers; }

# Asserts that dlock refuses this, in one line without control characters.
refuses() {  # <exit code> <dlock's arguments>...
  run timeout 5 dlock "${@:2}" < /dev/null
  if [[ $status != "$1" || $output != 'dlock: '?* || $output =~ [[:cntrl:]] ]] ||
    [[ -e $started || -e $BATS_TEST_TMPDIR/store ]]; then
    printf 'dlock %s\nexit code %s, said:\n%s\n' "${*:2}" "$status" "$output" >&2
    return 1
  fi
}

# Asserts that dlock refuses these options of run.
run_refuses() {  # <exit code> <option>...
  refuses "$1" run "${@:2}" job -- touch "$started"
}

# --- Names ---

@test "an empty name is refused" {
  refuses 64 run '' -- touch "$started"
  refuses 64 status ''
}

@test "a name that is too long, has control characters or is not UTF-8 is refused" {
  for name in "$(printf 'n%.0s' {1..256})" "$(printf 'é%.0s' {1..128})" "$(head -c 65536 /dev/zero | tr '\0' n)" \
    $'a\nb' $'\t' $'\e[31m' $'\x7f' $'a\n' $'a\u0085b' $'a\u202eb' $'\u2028' $'\xff' $'\xc0\xaf' $'\xed\xa0\x80'; do
    refuses 64 run "$name" -- touch "$started"
    refuses 64 status "$name"
  done
}

@test "a missing name is refused" {
  refuses 64 run
  refuses 64 run --
  refuses 64 status
}

@test "an unexpected second name is refused" {
  refuses 64 acquire job another
  refuses 64 list a b
}

@test "an invalid namespace is refused" {
  refuses 64 --namespace $'a\nb' run job -- touch "$started"
  refuses 64 --namespace "$(printf 'n%.0s' {1..256})" run job -- touch "$started"
}

@test "a label that cannot be shown is refused" {
  run_refuses 64 --label $'a\nb'
  run_refuses 64 --label $'\e[31m'
  run_refuses 64 --label "$(printf 'n%.0s' {1..256})"
}

# --- Values of options: options_test.cpp has more of each kind ---

@test "an invalid duration, number or word is refused before anything starts" {
  for words in '--wait nan' '-w inf' '-w -5' '-w 5x' '-w forever_' '--wait=1e3' '--ttl 0' '-t 499ms' '--ttl forever' \
    '--timeout 0ms' '--timeout forever' '--jitter soon' '--splay soon' '--splay forever' '--lock-delay forever' '-k -1' '--slots 0' '--slots 1.5' \
    '-n 0x2' '-E 256' '-E busy' '--stragglers leave,kill'; do
    # shellcheck disable=SC2086
    run_refuses 64 $words
  done
  for option in -w --ttl --timeout --jitter --splay --lock-delay -k --slots -E --stragglers; do
    run_refuses 64 "$option" ''
    run_refuses 64 "$option" ' 2'
  done
  for duration in 0 forever nan soon; do refuses 64 --store-timeout "$duration" run job -- touch "$started"; done
  for word in bogus '' Always 1; do refuses 64 --color "$word" status job; done
}

@test "--shared together with --slots is refused" {
  run_refuses 64 -s -n 2
  run_refuses 64 -s -n 1
}

# --- Options and verbs ---

@test "an unknown option is refused" {
  run_refuses 64 --no-such-option
  run_refuses 64 -z
  run_refuses 64 --waits=5s
  refuses 64 --no-such-option list
  refuses 64 status --no-such-option job
}

@test "an option of run for another verb is refused" {
  refuses 64 status -w 5s job
  refuses 64 status -n 2 job
  refuses 64 list --slots 2
  refuses 64 --wait 5s run job -- touch "$started"
}

@test "an option without its value is refused" {
  refuses 64 run job --wait
  refuses 64 run -w
  refuses 64 --store
}

@test "a value for an option that takes none is refused" {
  run_refuses 64 --shared=yes
  run_refuses 64 --quiet=maybe
  run_refuses 64 --no-quiet
  refuses 64 --json=please list
}

@test "an unknown verb is refused" {
  refuses 64 frobnicate
  refuses 64 frobnicate job -- touch "$started"
  refuses 64 Run job -- touch "$started"
  refuses 64 $'r\nun' job
}

@test "a mistyped verb suggests the right one" {
  refuses 64 rnu job -- touch "$started"
  assert_equal "$output" "dlock: unknown verb 'rnu': did you mean 'run'?"
  refuses 64 acq job
  assert_equal "$output" "dlock: unknown verb 'acq': did you mean 'acquire'?"
}

@test "a mistyped option suggests the right one, of the verb or a common one" {
  run_refuses 64 --tll 5s
  assert_equal "$output" "dlock: unknown option '--tll': did you mean '--ttl'?"
  run_refuses 64 --timout=5s
  assert_equal "$output" "dlock: unknown option '--timout': did you mean '--timeout'?"
  refuses 64 --stroe none: list
  assert_equal "$output" "dlock: unknown option '--stroe': did you mean '--store'?"
  refuses 64 status --hlep
  assert_equal "$output" "dlock: unknown option '--hlep': did you mean '--help'?"
}

@test "a mistyped option suggests no option of another verb" {
  refuses 64 status --tll 5s job
  assert_equal "$output" "dlock: unknown option '--tll' (see dlock status --help)"
}

@test "a mistyped value suggests the right one" {
  run_refuses 64 --stragglers kil
  assert_equal "$output" "dlock: --stragglers: expected leave, wait or kill, not 'kil': did you mean 'kill'?"
  run_refuses 64 --on-outage sotp
  assert_equal "$output" "dlock: --on-outage: expected stop or run, not 'sotp': did you mean 'stop'?"
  refuses 64 --color Never list
  assert_equal "$output" "dlock: --color: expected auto, always or never, not 'Never': did you mean 'never'?"
}

@test "a word unlike any known one gets no suggestion" {
  refuses 64 frobnicate
  assert_equal "$output" "dlock: unknown verb 'frobnicate'; to run a command: dlock run frobnicate -- COMMAND"
  run_refuses 64 --frobnicate
  assert_equal "$output" "dlock: unknown option '--frobnicate' (see dlock run --help)"
  run_refuses 64 -z
  assert_equal "$output" "dlock: unknown option '-z' (see dlock run --help)"
  run_refuses 64 --stragglers bogus
  assert_equal "$output" "dlock: --stragglers: expected leave, wait or kill, not 'bogus'"
}

@test "a missing verb is refused" {
  refuses 64
  refuses 64 --verbose
}

@test "a missing command is refused" {
  refuses 64 run job
  refuses 64 run job --
  refuses 64 run -w 5s job
}

# --- Stores ---

@test "a store of an unknown kind is refused" {
  for store in nowhere: nowhere://host http://host local /dir '' : :// :/dir file:/dir local:/dev/null \
    'lo cal:/dir' $'local\n:/dir'; do
    refuses 78 --store "$store" run job -- touch "$started"
  done
}

@test "the message about an invalid store does not contain its password" {
  refuses 78 --store redis://user:secret@host:port run job -- touch "$started"

  refute_output_contains secret
}

@test "an invalid server is refused" {
  for store in redis: redis:host redis:/host redis:// redis://user@ redis:///1 redis://:6379 \
    redis://host: redis://host:0 redis://host:65536 redis://host:redis redis://host:1:2 \
    redis://host/x redis://host/-1 redis://host/2147483648 redis://host/1/2 redis://host//1 \
    'redis://host/2?db=1' 'redis://host/1#2' 'redis://ho st' redis://host,other redis://::1 \
    'redis://[::1' 'redis://[::1]6379' 'redis://[host]' $'redis://ho\nst' $'redis://host\e[31m' \
    redis://@host redis://:@host redis://user:@host redis://a@b@host redis://%zz@host \
    redis://a:%00@host rediss://host:x; do
    refuses 78 --store "$store" run job -- touch "$started"
    refuses 78 --store "$store" status job
  done
}

@test "an invalid socket is refused" {
  for store in redis+unix: redis+unix:path redis+unix:./path redis+unix:/ redis+unix://host/path \
    'redis+unix:/path?db=' 'redis+unix:/path?db=x' 'redis+unix:/path?x=1' 'redis+unix:/path#x' \
    redis+unix:/a%00b redis+unix:/100% "redis+unix:/$(printf 'n%.0s' {1..108})"; do
    refuses 78 --store "$store" run job -- touch "$started"
  done
}

@test "an invalid list of sentinels is refused in one line" {
  for store in redis+sentinel: redis+sentinel:a/m redis+sentinel:// redis+sentinel:///m \
    redis+sentinel://a redis+sentinel://a,b redis+sentinel://a,b/ redis+sentinel://a//0 \
    redis+sentinel://a,/m redis+sentinel://,a/m redis+sentinel://a,,b/m redis+sentinel://a:0/m \
    redis+sentinel://a,b:65536/m redis+sentinel://a,b:x/m redis+sentinel://a,a/m \
    redis+sentinel://a,b,A:26379/m 'redis+sentinel://[::1],[0::1]/m' redis+sentinel://a,::1/m \
    redis+sentinel://a/m/x redis+sentinel://a/m/-1 redis+sentinel://a/m/1/2 redis+sentinel://a/%00 \
    "redis+sentinel://a/$(printf 'n%.0s' {1..256})" 'redis+sentinel://a/m?db=1' $'redis+sentinel://a/m\e[31m' \
    redis+sentinel://u:p@a,u:p@b/m redis+sentinel://@a/m "rediss+sentinel://$(printf 'h%s,' {1..32})h/m"; do
    refuses 78 --store "$store" run job -- touch "$started"
    assert_one_line
    refute_output_contains 'this version'
    refuses 78 --store "$store" status job
  done
}

@test "an invalid cluster is refused in one line" {
  for store in redis+cluster: redis+cluster:a redis+cluster:// redis+cluster:/// 'redis+cluster://a,' \
    redis+cluster://,a redis+cluster://a,,b redis+cluster://a,b:0 redis+cluster://a:65536 redis+cluster://a,a \
    redis+cluster://A,b,a:6379 redis+cluster://a,::1 redis+cluster://a/0 redis+cluster://a,b/1 \
    redis+cluster://a/name 'redis+cluster://a?db=0' redis+cluster://u:p@a,u:p@b \
    "rediss+cluster://$(printf 'h%s,' {1..32})h"; do
    refuses 78 --store "$store" run job -- touch "$started"
    assert_one_line
    refute_output_contains 'this version'
    refuses 78 --store "$store" status job
  done
}

@test "an invalid quorum is refused in one line" {
  for store in redis+quorum: redis+quorum:a,b,c redis+quorum:// redis+quorum://a redis+quorum://a,b \
    'redis+quorum://a,b,c,' redis+quorum://,a,b,c redis+quorum://a,,b,c redis+quorum://a,b,c:0 \
    redis+quorum://a,b,c:65536 redis+quorum://a,b,a redis+quorum://a,b,A:6379 redis+quorum://a,b,::1 \
    redis+quorum://a,b,c/x redis+quorum://a,b,c/-1 'redis+quorum://a,b,c?db=0' redis+quorum://u:p@a,u:p@b,c \
    redis+quorum://a,b,c,d,e,f,g,h,i,j; do
    refuses 78 --store "$store" run job -- touch "$started"
    assert_one_line
    refute_output_contains 'this version'
    refuses 78 --store "$store" status job
  done
}

@test "an invalid etcd cluster is refused in one line" {
  for store in etcd: etcd:a etcd:// etcd:/// 'etcd://a,' etcd://,a etcd://a,,b etcd://a,b:0 etcd://a:65536 \
    etcd://a,a etcd://A,b,a:2379 etcd://a,::1 etcd://a/0 etcd://a,b/name 'etcd://a?x=1' 'etcd://a#' \
    etcd://u:p@a,u:p@b etcd://:p@a etcd://u:@a etcds://@a etcd+unix:/a "etcds://$(printf 'h%s,' {1..32})h"; do
    refuses 78 --store "$store" run job -- touch "$started"
    assert_one_line
    refute_output_contains 'this version'
    refuses 78 --store "$store" status job
  done
}

@test "a feature that a quorum does not support is refused before its servers are contacted" {
  local quorum=redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3
  refuses 78 --store "$quorum" run --slots 2 job -- touch "$started"
  assert_output_contains 'a quorum does not support --slots'
  refuses 78 --store "$quorum" limit job 1/s
  refuses 78 --store "$quorum" cache job -- touch "$started"
  refuses 78 --store "$quorum" run --ttl 2m job -- touch "$started"
  assert_output_contains 'longer than --max-ttl (1m0s)'
  refuses 64 --store "$quorum" --min-strength 5 run job -- touch "$started"
  refuses 64 --store "$quorum" --max-ttl soon run job -- touch "$started"
}

@test "a lock of --also that is no name, has unknown options or repeats another is refused" {
  for also in '' : :shared cache:KEY gpu:slot=4 gpu:slots gpu:slots=0 gpu:slots=x gpu:shared,slots=2 $'a\nb' ' a' job; do
    run_refuses 64 --also "$also"
    assert_output_contains 'dlock: --also: '
  done
  run_refuses 64 --also cache:KEY
  assert_output_contains "write 'cache:KEY:'"
  run_refuses 64 --also job:shared
  assert_output_contains "'job' is the lock of this run already"
  run_refuses 64 --also a --also b --also a:shared
  assert_output_contains "'a' is named twice"
  mapfile -t many < <(printf -- '--also\nn%s\n' {1..17})
  run_refuses 64 "${many[@]}"
  assert_output_contains 'at most 16 locks'
  refuses 64 acquire --also b job
  run_refuses 64 --also b --supersede --wait 1s
  for also in '[1]' '[""]' '["a", "a"]' '["name:what"]'; do
    printf '[run]\nalso = %s\n' "$also" > "$BATS_TEST_TMPDIR/config"
    refuses 78 --config "$BATS_TEST_TMPDIR/config" run job --also b -- touch "$started"
  done
}

@test "an invalid --address-map exits with 64, or 78 in the file" {
  for map in '' a =b a= 'a=b,' a=b=c 'a b=c' ::1=b a:0=b a=b:70000 'a=b,a=c' '[::1=b' a=b/0 a=@b; do
    refuses 64 --address-map="$map" run job -- touch "$started"
    assert_one_line
    [[ -z $map ]] || DLOCK_ADDRESS_MAP=$map refuses 64 run job -- touch "$started"
  done
  printf '[address-map]\n"a:1" = 5\n' > "$BATS_TEST_TMPDIR/config"
  refuses 78 --config "$BATS_TEST_TMPDIR/config" run job -- touch "$started"
  assert_output_contains 'config:2: address-map.a:1: expected a string'
  printf '[address-map]\n"a:x" = "b"\n' > "$BATS_TEST_TMPDIR/config"
  refuses 78 --config "$BATS_TEST_TMPDIR/config" run job -- touch "$started"
  assert_output_contains address-map
}

@test "the message about an invalid list of servers says how to correct it" {
  refuses 78 --store redis+sentinel://a,b run job -- touch "$started"
  assert_output_contains /NAME
  refuses 78 --store redis+cluster://a,b/2 run job -- touch "$started"
  assert_output_contains 'only database 0'
  refuses 78 --store etcd://:secret@a run job -- touch "$started"
  assert_output_contains 'a password for etcd requires a user'
  refuses 78 --store redis+sentinel://a,b:70000/m run job -- touch "$started"
  assert_output_contains 'sentinel 2: the port must be a number from 1 to 65535'
  refuses 78 --store redis://a,b run job -- touch "$started"
  assert_output_contains redis+sentinel://
}

@test "a local store without an absolute path is refused" {
  for store in local:dir local:./dir local:../dir local:~/dir 'local: /dir'; do
    refuses 78 --store "$store" run job -- touch "$started"
  done
}

@test "a path after none: is refused" {
  refuses 78 --store none:/dir run job -- touch "$started"
}

@test "an invalid store in the environment is refused" {
  export DLOCK_STORE=nowhere:

  refuses 78 run job -- touch "$started"
  assert_output_contains DLOCK_STORE
}

@test "an invalid store timeout in the environment is refused" {
  export DLOCK_STORE_TIMEOUT=soon

  refuses 64 run job -- touch "$started"
  assert_output_contains DLOCK_STORE_TIMEOUT
}

# --- Users, certificates and replicas ---

@test "an invalid user is refused" {
  refuses 64 --user '' run job -- touch "$started"
  refuses 64 --user $'a\nb' run job -- touch "$started"
  refuses 64 --user $'\xff' status job
  refuses 64 --sentinel-user '' run job -- touch "$started"
  refuses 64 --sentinel-user $'a\nb' status job
}

@test "an empty file name is refused" {
  for option in --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key; do
    refuses 64 "$option" '' run job -- touch "$started"
    refuses 64 "$option=" list
  done
}

@test "a certificate without its key is refused, and a key without its certificate" {
  refuses 64 --tls-cert cert.pem run job -- touch "$started"
  refuses 64 --tls-key key.pem list
  DLOCK_TLS_CERT=cert.pem refuses 64 run job -- touch "$started"
  DLOCK_TLS_KEY=key.pem refuses 64 status job
}

@test "an invalid number of replicas is refused" {
  for number in '' -1 16 1.5 some ALL ' 1'; do
    refuses 64 --replicas="$number" run job -- touch "$started"
  done
  assert_output_contains 'whole number from 0 to 15, or all'
  DLOCK_REPLICAS=many refuses 64 status job
  assert_output_contains DLOCK_REPLICAS
}

@test "an invalid --tls-name is refused" {
  for name in '' 'a b' $'a\nb' '*' a/b "$(printf 'n%.0s' {1..256})"; do
    refuses 64 --tls-name "$name" run job -- touch "$started"
  done
  DLOCK_TLS_NAME='a b' refuses 64 list
  assert_output_contains DLOCK_TLS_NAME
}

@test "an invalid --sentinel-tls is refused" {
  for value in '' yes 1 TRUE; do
    refuses 64 --sentinel-tls "$value" run job -- touch "$started"
  done
  DLOCK_SENTINEL_TLS=perhaps refuses 64 list
  assert_output_contains DLOCK_SENTINEL_TLS
}

@test "an invalid DLOCK_TLS_INSECURE is refused, and so is a value for --tls-insecure" {
  DLOCK_TLS_INSECURE=perhaps refuses 64 run job -- touch "$started"
  assert_output_contains DLOCK_TLS_INSECURE
  refuses 64 --tls-insecure=true list
}

@test "an option of other stores is refused on the command line, whatever the verb" {
  local verb stores="none: local:$BATS_TEST_TMPDIR/store redis://127.0.0.1:1 redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 etcd://127.0.0.1:1"
  for DLOCK_STORE in $stores; do
    for verb in 'run job -- true' 'status job' list 'acquire job' doctor; do
      # shellcheck disable=SC2086
      refuses 78 --replicas 1 $verb
      assert_output_contains '--replicas: not on this kind of store, only on redis+sentinel://, redis+cluster:// and postgres://'
    done
  done
  for DLOCK_STORE in redis://127.0.0.1:1 redis+sentinel://127.0.0.1:1/main redis+cluster://127.0.0.1:1 etcd://127.0.0.1:1; do
    refuses 78 --min-strength 1 list
    refuses 78 list --max-ttl 1m
    refuses 78 --tls-ca ca.pem list
    refuses 78 --tls-insecure list
    [[ $DLOCK_STORE == *sentinel* ]] || refuses 78 --sentinel-user me list
  done
}

# --- Valid input ---

@test "an option of other stores in a variable or the configuration file is ignored" {
  printf 'replicas = 1\nmin-strength = 1\nmax-ttl = "5m"\nsentinel-user = "me"\n' > "$BATS_TEST_TMPDIR/config"
  DLOCK_REPLICAS=all DLOCK_TLS_CA=/no/such/file DLOCK_SENTINEL_USER=me \
    run dlock --config "$BATS_TEST_TMPDIR/config" run job -- echo fine

  assert_equal "$status $output" '0 fine'
}

@test "a store without a login ignores login options" {
  for store in none: "local:$BATS_TEST_TMPDIR/store"; do
    DLOCK_PASSWORD=secret DLOCK_SENTINEL_PASSWORD=secret \
      run dlock --store "$store" --user me --password-file /no/such/file \
      --tls-ca /no/such/file --tls-cert /no/such/file --tls-key /no/such/file --tls-insecure \
      --tls-name stranger --sentinel-user me --sentinel-password-file /no/such/file --sentinel-tls false \
      run job -- echo fine

    assert_equal "$status $output" '0 fine'
  done
}

@test "all forms of durations in the manual are accepted" {
  for duration in 250ms 30s 5m 5min 1h30min 2h 1d 1h30m 0.5s 30 0.007 1.5h 1d2h3m4s5ms 0; do
    run dlock run -w "$duration" --jitter 0 job -- echo fine
    assert_equal "$status $output" '0 fine'
  done
}

@test "the smallest and the greatest numbers are accepted" {
  for option in '-E 0' '-E 255' '-n 1' '-n 1000' '--ttl 500ms' '--ttl 365d' '-k 0'; do
    # shellcheck disable=SC2086
    run dlock run $option job -- echo fine
    assert_equal "$status $output" '0 fine'
  done
}

@test "a name of 255 bytes is accepted" {
  run dlock run "$(printf 'n%.0s' {1..255})" -- echo fine

  assert_equal "$status $output" '0 fine'
}

@test "an invalid priority, and a spread without slots, are refused" {
  for wrong in -21 20 1.5 high ''; do
    refuses 64 run --priority "$wrong" job -- touch "$started"
    refuses 64 acquire --priority="$wrong" job
  done
  refuses 64 run --spread job -- touch "$started"
  assert_output_contains '--spread needs --slots of 2 or more'
  refuses 64 run --spread --slots 1 job -- touch "$started"
  refuses 64 acquire --spread --shared job
}
