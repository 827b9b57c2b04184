#!/usr/bin/env bats
# --json: a failure prints a document on standard output and a line on standard error.

setup() {
  load support
  use_private_store
  printed=$BATS_TEST_TMPDIR/printed
}

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

@test "each failure of a verb with --json is a document that says its kind and the exit code" {
  local expected kind words
  export DLOCK_TOKEN=9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1
  local away='--store redis://127.0.0.1:1'
  hold job -n 3
  hold taken
  dlock fence disk 10
  mkdir -m 777 "$BATS_TEST_TMPDIR/open"
  echo 'json = true' > "$BATS_TEST_TMPDIR/config.toml"
  while read -r expected kind words; do
    # shellcheck disable=SC2086  # words
    assert_document "$expected" "$kind" dlock $words || { echo "of dlock $words" >&2; return 1; }
  done << END
64 usage --json status
64 usage status --no-such-option job --json
64 usage --json statsu job
64 usage acquire --json --ttl 5x job
64 usage --json
69 unavailable $away status --json job
69 unavailable $away list --json
69 unavailable $away history --json job
69 unavailable $away watch --json job
69 unavailable $away acquire --json job
69 unavailable $away renew --json job
69 unavailable $away release --json job
69 unavailable $away check --json job --fence 1
69 unavailable $away fence --json disk 1
69 unavailable $away limit --json api 1/1h
69 unavailable $away break --json --yes job
75 busy acquire --json taken
76 lost renew --json other
76 lost release --json other
76 lost check --json other --fence 1
76 lost fence --json disk 9
77 permission --store local:$BATS_TEST_TMPDIR/open status --json job
78 configuration --store nonsense: status --json job
78 configuration --config /nonexistent status --json job
78 configuration acquire --json -n 2 job
78 configuration --config $BATS_TEST_TMPDIR/config.toml acquire -n 2 job
END
  # With --quiet, the document alone.
  dlock -q acquire --json taken > "$printed" 2> "$said" || true
  assert_equal "$(jq -r .error.kind "$printed") $(< "$said")" 'busy '
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

@test "verbs that run a command print no error documents, nor does any verb without --json" {
  hold job

  run bash -c 'dlock run --json job -- true 2> /dev/null'
  assert_equal "$status $output" '75 '
  run bash -c 'dlock cache --json --ttl x job -- true 2> /dev/null'
  assert_equal "$status $output" '64 '
  run bash -c 'dlock acquire job 2> /dev/null'
  assert_equal "$status $output" '75 '
}
