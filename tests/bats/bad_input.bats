#!/usr/bin/env bats
# Invalid input is refused with one line and the right exit code, and nothing is started,
# created or contacted. The texts of the messages are tested in errors.bats; what is valid for each
# kind of value and of URL, in tests/unit.
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  started=$BATS_TEST_TMPDIR/started
}

# Asserts that dlock refuses this, in one line without control characters.
refuses() {  # <exit code> <dlock's arguments>...
  status=0
  dlock "${@:2}" > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null || status=$?
  output=$(< "$BATS_TEST_TMPDIR/said")
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

@test "what is not refused, or not in one line, or has an effect, fails these tests" {
  run refuses 78 frobnicate
  assert_status 1
  run run_refuses 0
  assert_status 1
  run refuses 64 help
  assert_status 1
}

@test "a name, a namespace or a label that is empty, too long, or cannot be shown is refused" {
  local name long
  printf -v long 'n%.0s' {1..256}
  for name in '' "$long" "$(head -c 65536 /dev/zero | tr '\0' n)" $'a\nb' $'\e[31m' $'\x7f' $'a\u0085b' $'a\u202eb' $'\xff' $'\xed\xa0\x80'; do
    refuses 64 run "$name" -- touch "$started"
    refuses 64 status "$name"
  done
  for name in "$long" $'a\nb'; do
    refuses 64 --namespace "$name" run job -- touch "$started"
    run_refuses 64 --label "$name"
  done
}

@test "an invalid duration, number or word is refused before anything starts" {
  for words in '--wait nan' '-w -5' '-w forever_' '--ttl 0' '-t 499ms' '--ttl forever' '--timeout 0ms' '--timeout forever' \
    '--jitter soon' '--splay forever' '--lock-delay forever' '-k -1' '--slots 0' '--slots 1.5' '-E 256' '-E busy' \
    '--stragglers leave,kill' '-s -n 2' '-s -n 1' '--priority -21' '--priority high' '--spread' '--spread --slots 1' \
    '--no-such-option' '-z' '--waits=5s'; do
    run_refuses 64 $words
  done
  for option in -w --ttl --timeout --jitter --splay --lock-delay -k --slots -E --stragglers --priority --sentinel-tls --replicas \
    --tls-name --address-map --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key; do
    run_refuses 64 "$option" ''
  done
  run_refuses 64 -w ' 2'
  run_refuses 64 --slots ' 2'
  refuses 64 --store-timeout forever run job -- touch "$started"
  refuses 64 --color Always status job
  refuses 64 acquire --priority=20 job
  refuses 64 acquire --spread --shared job
  assert_output_contains '--spread needs --slots of 2 or more'
}

# --- Stores ---

@test "the message about an invalid list of servers says how to correct it" {
  local store said
  while read -r store said; do
    refuses 78 --store "$store" run job -- touch "$started"
    assert_output_contains "$said"
  done << 'END'
redis+sentinel://a,b /NAME
redis+cluster://a,b/2 only database 0
etcd://:secret@a a password for etcd requires a user
redis+sentinel://a,b:70000/m sentinel 2: the port must be a number from 1 to 65535
redis://a,b redis+sentinel://
END
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

@test "an option of other stores is refused on the command line, whatever the verb" {
  local verb stores="none: local:$BATS_TEST_TMPDIR/store redis://127.0.0.1:1 redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 etcd://127.0.0.1:1"
  for DLOCK_STORE in $stores; do
    for verb in 'run job -- true' doctor; do
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
