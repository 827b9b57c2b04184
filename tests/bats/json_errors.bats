#!/usr/bin/env bats
# --json: a failure prints a document on standard output and a line on standard error.

setup() {
  load support
  load ../faults/locks
  use_private_store
  said=$BATS_TEST_TMPDIR/said
  printed=$BATS_TEST_TMPDIR/printed
}

teardown() { kill_leftovers; }

# Asserts that this fails with one document of that kind, with the same message as the line.
assert_document() {  # <exit code> <kind> <word>...
  local expected=$1 kind=$2 code=0
  shift 2
  "$@" > "$printed" 2> "$said" || code=$?

  assert_equal "$code" "$expected"
  assert_equal "$(wc -l < "$printed")" 1
  assert_equal "$(jq -c '[keys, (.error | keys_unsorted)]' "$printed")" \
    '[["error"],["code","kind","message"]]'
  assert_equal "$(jq -r '.error | "\(.code) \(.kind)"' "$printed")" "$expected $kind"
  assert_equal "dlock: $(jq -r .error.message "$printed")" "$(< "$said")"
}

@test "the error for an invalid command line is of kind usage, wherever --json is" {
  assert_document 64 usage dlock --json status
  assert_document 64 usage dlock status --no-such-option job --json
  assert_document 64 usage dlock --json statsu job
  assert_document 64 usage dlock acquire --json --ttl 5x job
  assert_document 64 usage dlock --json
}

@test "the error for an unreachable store is of kind unavailable, for every verb that prints JSON" {
  export DLOCK_STORE=redis://127.0.0.1:1 DLOCK_TOKEN=9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1

  assert_document 69 unavailable dlock status --json job
  assert_document 69 unavailable dlock list --json
  assert_document 69 unavailable dlock history --json job
  assert_document 69 unavailable dlock watch --json job
  assert_document 69 unavailable dlock acquire --json job
  assert_document 69 unavailable dlock renew --json job
  assert_document 69 unavailable dlock release --json job
  assert_document 69 unavailable dlock check --json job --fence 1
  assert_document 69 unavailable dlock fence --json disk 1
  assert_document 69 unavailable dlock limit --json api 1/1h
  assert_document 69 unavailable dlock break --json --yes job
}

@test "the error for a held lock is of kind busy, even with --quiet" {
  hold job

  assert_document 75 busy dlock acquire --json job

  dlock -q acquire --json job > "$printed" 2> "$said" || true
  assert_equal "$(jq -r .error.kind "$printed") $(< "$said")" 'busy '
}

@test "the error for a lost lock or a stale fence is of kind lost" {
  export DLOCK_TOKEN=9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1
  dlock fence disk 10

  assert_document 76 lost dlock renew --json job
  assert_document 76 lost dlock release --json job
  assert_document 76 lost dlock check --json job --fence 1
  assert_document 76 lost dlock fence --json disk 9
}

@test "the error for an unsafe store directory is of kind permission" {
  mkdir -m 777 "$BATS_TEST_TMPDIR/store"

  assert_document 77 permission dlock status --json job
}

@test "the errors for an invalid store, a missing file and a different --slots are of kind configuration" {
  assert_document 78 configuration dlock --store nonsense: status --json job
  assert_document 78 configuration dlock --config /nonexistent status --json job
  hold job -n 3
  assert_document 78 configuration dlock acquire --json -n 2 job
}

@test "json = true in the configuration file works like --json" {
  echo 'json = true' > "$BATS_TEST_TMPDIR/config.toml"
  hold job

  assert_document 75 busy dlock --config "$BATS_TEST_TMPDIR/config.toml" acquire job
}

@test "an answer that is not a failure is the verb's own document" {
  dlock limit api 1/1h

  run dlock limit --json api 1/1h
  assert_status 75
  assert_equal "$(head -n 1 <<< "$output" | jq -c 'del(.retry_in_ms)')" \
    '{"admitted":false,"remaining":0}'
  refute_output_contains '"error"'
  run dlock status --json job
  assert_status 1
  assert_equal "$(json .state)" free
  run bash -c 'dlock break --yes --json job 2> /dev/null'
  assert_equal "$status $output" '1 []'
}

@test "verbs that run a command do not print error documents" {
  hold job

  run bash -c 'dlock run --json job -- true 2> /dev/null'
  assert_equal "$status $output" '75 '
  run bash -c 'dlock cache --json --ttl x job -- true 2> /dev/null'
  assert_equal "$status $output" '64 '
}

@test "without --json a failure prints nothing on standard output" {
  hold job

  run bash -c 'dlock acquire job 2> /dev/null'

  assert_equal "$status $output" '75 '
}
