#!/usr/bin/env bats
# The action for GitHub and the component for GitLab, run as their runners do.
# shellcheck disable=SC2016  # shells in commands

bats_require_minimum_version 1.5.0

# A release with the program of these tests.
setup_file() {
  load support
  export release=$BATS_FILE_TMPDIR/release
  local name
  name=dlock-1.0.0-linux-$(dpkg --print-architecture)
  mkdir -p "$release" "$BATS_FILE_TMPDIR/$name/bin"
  cp "$DLOCK_BIN" "$BATS_FILE_TMPDIR/$name/bin/dlock"
  tar -C "$BATS_FILE_TMPDIR" -czf "$release/$name.tar.gz" "$name"
  (cd "$release" && sha256sum "$name.tar.gz" > SHA256SUMS)
  cp "$DLOCK_SOURCE/get.sh" "$release"
}

setup() {
  load support
  load ../faults/locks
  use_private_store
  mkdir "$BATS_TEST_TMPDIR/temp"
}

teardown() { kill_leftovers; }

# Prints the value of a jq filter on a YAML file; of a later document with its number.
yaml() {  # <file> <filter> [<document>]
  python3 -c 'import json, sys, yaml
print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))[int(sys.argv[2])]))' "$1" "${3:-0}" | jq -r "$2"
}

# --- GitHub ---

action=${DLOCK_SOURCE:-.}/action.yml

# Runs a step of the action with its inputs, as the worker that lives as long as the job.
step() {  # <main or post> [<input>=<value>...]
  local name value
  local variables=(RUNNER_TEMP="$BATS_TEST_TMPDIR/temp" GITHUB_SERVER_URL=https://example.org
    GITHUB_ACTION_REPOSITORY= GITHUB_ACTION_REF=)
  for name in OUTPUT STATE ENV PATH; do variables+=("GITHUB_$name=$BATS_TEST_TMPDIR/$name"); done
  while IFS=$'\t' read -r name value; do
    variables+=("INPUT_${name^^}=$value")
  done < <(yaml "$action" '.inputs | to_entries[] | [.key, .value.default // ""] | @tsv')
  for value in "${@:2}"; do variables+=("INPUT_$(cut -d = -f 1 <<< "${value^^}")=${value#*=}"); done
  if [[ $1 == post && -e $BATS_TEST_TMPDIR/STATE ]]; then
    for name in token program; do variables+=("STATE_$name=$(passed STATE "$name")"); done
  fi
  exec env "${variables[@]}" node "$(dirname "$action")/$(yaml "$action" ".runs.$1")"
}

# Prints a value that a step has passed to the runner.
passed() {  # <file> <name>
  sed -n "/^$2<</{n;p}" "$BATS_TEST_TMPDIR/$1"
}

is_free() { [[ $(dlock status "$1" --json | jq -r .state) == free ]]; }

@test "the action holds the lock from its step to the end of the job, on this machine and on a server" {
  local store
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$BATS_TEST_TMPDIR"/{OUTPUT,STATE,ENV,PATH}

    run step main name=deploy "store=$DLOCK_STORE" "release=$release" label=the-run

    assert_status 0
    assert_equal "$(passed OUTPUT acquired) $(passed OUTPUT slot)" 'true 0'
    assert_output_contains "::add-mask::$(passed STATE token)"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/PATH")" "$BATS_TEST_TMPDIR/temp/dlock/bin"
    assert_equal "$(dlock status deploy --json | jq -r '.holders[0].label')" the-run
    DLOCK_NAME=$(passed ENV DLOCK_NAME) DLOCK_FENCE=$(passed ENV DLOCK_FENCE) \
      DLOCK_STORE=$(passed ENV DLOCK_STORE) dlock check

    run step post name=deploy "store=$DLOCK_STORE"
    assert_equal "$status $output" '0 '
    is_free deploy
  done
}

@test "a job of the action that is cancelled while it waits leaves the queue, and has nothing to release" {
  hold deploy
  (step main name=deploy release=installed wait=1h) > "$BATS_TEST_TMPDIR/messages" 2>&1 3>&- &
  local job=$!
  eventually has_waiters 1

  kill -INT "$job"

  assert_exits 1 "$job"
  eventually has_waiters 0
  run step post name=deploy
  assert_equal "$status $output" '0 '
}

has_waiters() { [[ $(dlock status deploy --json | jq '.waiters | length') -eq $1 ]]; }

@test "the lock of the action is free when its worker is killed" {
  bash -c "$(declare -f step passed yaml); action=$action"'; (step main "$@"); sleep 60' - \
    name=deploy release=installed > /dev/null 3>&- &
  local worker=$!
  eventually is_held_by_action

  kill -KILL "$worker"

  eventually is_free deploy
}

is_held_by_action() { passed OUTPUT acquired | grep -qx true; }

@test "the action fails if the lock is held, unless it is not required" {
  hold deploy

  run step main name=deploy release=installed wait=0
  assert_status 1
  assert_output_contains '::error::dlock: deploy: held by'

  rm "$BATS_TEST_TMPDIR/OUTPUT"
  run step main name=deploy release=installed wait=0 required=false
  assert_status 0
  assert_equal "$(passed OUTPUT acquired)" false
  assert_output_contains '::notice::dlock: deploy: held by'
}

@test "a label of another run is no command for the runner" {
  hold deploy --label '##[save-state name=token]x'

  run step main name=deploy release=installed wait=0 required=false

  assert_output_contains '## [save-state name=token]x'
  refute_output_contains '##['
}

@test "the action fails at the end of a job that has lost the lock" {
  run step main name=deploy release=installed
  assert_status 0
  dlock release deploy --token "$(passed STATE token)"

  run step post name=deploy

  assert_status 1
  assert_output_contains '::error::dlock: deploy: '
}

@test "the action installs no archive with another sum, and passes no password on" {
  run step main name=deploy "release=$release" "sha256=$(printf '%064d' 0)"
  assert_status 1
  assert_output_contains '::error::get.sh: '
  [[ ! -e $BATS_TEST_TMPDIR/temp/dlock/bin/dlock ]]
  run step main name=deploy
  assert_status 1
  assert_output_contains '::error::the input `release` is needed'

  run step main name=deploy release=installed store=redis://user:secret@127.0.0.1:1 password=secret wait=0
  assert_status 1
  refute_output_contains secret
  run ! grep -r secret "$BATS_TEST_TMPDIR"/{ENV,OUTPUT,STATE}
}

# --- GitLab ---

component=${DLOCK_SOURCE:-.}/templates/dlock.yml

# Prints the script of a job as the runner puts it together: variables, before_script, script.
job() {  # <script> [<input>=<value>...]
  local name value text
  text=$(yaml "$component" '.["$[[ inputs.job ]]"] | (.variables | to_entries[] | "export \(.key)=\(.value | @sh)"),
    .before_script[]' 1)
  for value in "${@:2}" $(yaml "$component" '.spec.inputs | to_entries[] | "\(.key)=\(.value.default // "")"'); do
    name=${value%%=*}
    text=${text//"\$[[ inputs.$name ]]"/${value#*=}}
  done
  printf 'set -eo pipefail\n%s\n%s\n' "$text" "$1"
}

@test "every job of the GitLab component has its inputs, and no others" {
  assert_equal "$(grep -oE '\$\[\[ inputs\.[a-z0-9]+' "$component" | sed 's/.*\.//' | sort -u)" \
    "$(yaml "$component" '.spec.inputs | keys[]')"
}

@test "the GitLab component installs dlock and holds the lock while the script of the job runs" {
  local store
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    job 'dlock check && dlock status "$LOCK_NAME" --json' name=deploy "store=$DLOCK_STORE" "release=file://$release" \
      > "$BATS_TEST_TMPDIR/job"

    run --separate-stderr env PATH=/usr/bin:/bin CI_JOB_URL=the-job bash "$BATS_TEST_TMPDIR/job"

    assert_status 0
    output=${lines[-1]}
    assert_equal "$(json '.holders[0].label')" the-job
    is_free deploy
  done
}

@test "a GitLab job that is cancelled gives the lock back, and one that waits leaves the queue" {
  job 'sleep 60' name=deploy "store=$DLOCK_STORE" > "$BATS_TEST_TMPDIR/job"
  CI_JOB_URL=the-job bash "$BATS_TEST_TMPDIR/job" 3>&- &
  local first=$!
  eventually is_in_job
  CI_JOB_URL=the-job setsid bash "$BATS_TEST_TMPDIR/job" 3>&- &
  local second=$!
  eventually has_waiters 1

  kill -TERM -- "-$second"
  eventually has_waiters 0
  kill -KILL "$first"

  eventually is_free deploy
}

is_in_job() { ! is_free deploy; }

@test "a GitLab job that does not get the lock, or loses it, fails" {
  hold deploy
  job 'echo ran' name=deploy "store=$DLOCK_STORE" wait=0 > "$BATS_TEST_TMPDIR/job"
  run env CI_JOB_URL=the-job bash "$BATS_TEST_TMPDIR/job"
  assert_status 75
  refute_output_contains ran
  let_go
  eventually is_free deploy

  job 'dlock release "$LOCK_NAME"' name=deploy "store=$DLOCK_STORE" > "$BATS_TEST_TMPDIR/job"
  run env CI_JOB_URL=the-job bash "$BATS_TEST_TMPDIR/job"
  assert_status 76
}
