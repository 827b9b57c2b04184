#!/usr/bin/env bats
# The action for GitHub and the component for GitLab, run as their runners do.
# shellcheck disable=SC2034,SC2086  # for and from the helpers; tests are subshells

# A release with the program of these tests, and the documents of the YAML files as JSON: Python takes
# long to start.
setup_file() {
  load support
  export release=$BATS_FILE_TMPDIR/release
  local name
  name=dlock-1.0.0-linux-$(dpkg --print-architecture)
  mkdir -p "$release" "$BATS_FILE_TMPDIR/$name/bin"
  cp "$DLOCK_BIN" "$BATS_FILE_TMPDIR/$name/bin/dlock"
  tar -C "$BATS_FILE_TMPDIR" -czf "$release/$name.tar.gz" "$name"
  (cd "$release" && sha256sum "$name.tar.gz" > SHA256SUMS)
  /usr/bin/python3 -c 'import json, os, sys, yaml
for file in sys.argv[2:]:
    for number, document in enumerate(yaml.safe_load_all(open(file))):
        with open(f"{sys.argv[1]}/{os.path.basename(file)}.{number}", "w") as made:
            json.dump(document, made)' "$BATS_FILE_TMPDIR" "$DLOCK_SOURCE"/{action,templates/dlock}.yml
}

setup() {
  load support
  use_private_store
  mkdir "$BATS_TEST_TMPDIR/temp"
}

# Prints the value of a jq filter on a YAML file; of a later document with its number.
yaml() { jq -r "$2" < "$BATS_FILE_TMPDIR/${1##*/}.${3:-0}"; }  # <file> <filter> [<document>]

# --- GitHub ---

action=${DLOCK_SOURCE:-.}/action.yml

# Runs a step of the action with its inputs, as the worker that lives as long as the job.
step() {  # <main or post> [<input>=<value>...]
  local name value
  local variables=(RUNNER_TEMP="$BATS_TEST_TMPDIR/temp" GITHUB_SERVER_URL="${server_url:-}"
    GITHUB_ACTION_REPOSITORY="${server_url:+owner/dlock}" GITHUB_ACTION_REF="${ref:-}")
  for name in OUTPUT STATE ENV PATH; do variables+=("GITHUB_$name=$BATS_TEST_TMPDIR/$name"); done
  while IFS=$'\t' read -r name value; do
    variables+=("INPUT_${name^^}=$value")
  done < <(yaml "$action" '.inputs | to_entries[] | [.key, .value.default // ""] | @tsv')
  for value in "${@:2}"; do variables+=("INPUT_$(cut -d = -f 1 <<< "${value^^}")=${value#*=}"); done
  if [[ $1 == post && -e $BATS_TEST_TMPDIR/STATE ]]; then
    for name in token program settings; do variables+=("STATE_$name=$(passed STATE "$name")"); done
  fi
  exec env "${variables[@]}" node "$(dirname "$action")/$(yaml "$action" ".runs.$1")"
}

# Prints a value that a step has passed to the runner.
passed() {  # <file> <name>
  sed -n "/^$2<</{n;p}" "$BATS_TEST_TMPDIR/$1"
}

# Runs a command as a later step does, with the variables and the directories that earlier ones have passed.
later() {  # <command>...
  local line name end
  while IFS= read -r line; do
    end=${line#*<<}
    name=${line%%<<*} value=
    while IFS= read -r line && [[ $line != "$end" ]]; do value+=$line; done
    export "$name=$value"
  done < "$BATS_TEST_TMPDIR/ENV"
  "$@"
}

@test "the action holds the lock from its step to the end of the job, on this machine and on a server" {
  local store
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$BATS_TEST_TMPDIR"/{OUTPUT,STATE,ENV,PATH}

    run step main name=deploy "store=$DLOCK_STORE" "release=$release" label=the-run

    assert_status 0
    assert_equal "$(passed OUTPUT acquired) $(passed OUTPUT slot)" 'true 0'
    assert_output_contains "::add-mask::$(passed STATE token)"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/PATH")" "$(echo "$BATS_TEST_TMPDIR"/temp/dlock/*/bin)"
    assert_equal "$(dlock status deploy --json | jq -r '.holders[0].label')" the-run
    DLOCK_STORE='' later dlock check

    run step post name=deploy "store=$DLOCK_STORE" "release=$release"
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
  refute grep ::error:: "$BATS_TEST_TMPDIR/messages"
  grep -qx '::notice::cancelled: the lock was not acquired' "$BATS_TEST_TMPDIR/messages"
  eventually has_waiters 0
  run step post name=deploy release=installed
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

@test "the action names a version of node that runners have, and needs no newer one than these tests" {
  # node20 left the runners in 2026.
  assert_equal "$(yaml "$action" .runs.using)" node24
  (($(node -p 'process.versions.node.split(".")[0]') <= 24))
}

@test "an input of the action that is neither true nor false is refused before anything is done" {
  local value
  for value in no yes 0 off 'true false'; do
    run step main name=deploy release=installed "required=$value"
    assert_status 1
    assert_equal "$output" "::error::the input \`required\` must be true or false, not '$value'"
    [[ ! -e $BATS_TEST_TMPDIR/OUTPUT ]]
  done
  is_free deploy

  hold deploy
  for value in False FALSE ' false '; do
    run step main name=deploy release=installed wait=0 "required=$value"
    assert_status 0
  done
  for value in True '' TRUE; do
    run step main name=deploy release=installed wait=0 "required=$value"
    assert_status 1
  done
}

# A server that takes a connection and never says a word.
start_silent_server() {
  /usr/bin/python3 -uc 'import socket
server = socket.create_server(("127.0.0.1", 0))
print("port", server.getsockname()[1])
kept = []
while True:
    kept.append(server.accept())
    print("asked")' > "$BATS_TEST_TMPDIR/silent" 3>&- &
  eventually grep -q port "$BATS_TEST_TMPDIR/silent"
  silent=http://127.0.0.1:$(sed -n 's/^port //p' "$BATS_TEST_TMPDIR/silent")
}

was_asked() { (($(grep -c asked "$BATS_TEST_TMPDIR/silent") == $1)); }

@test "a job of the action that is cancelled during the download ends at once, and is no failure" {
  local signal job count=0
  start_silent_server
  for signal in INT TERM; do
    (step main name=deploy "release=$silent") > "$BATS_TEST_TMPDIR/messages" 2>&1 3>&- &
    job=$!
    eventually was_asked $((count += 1))

    kill "-$signal" "$job"

    assert_exits 1 "$job"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/messages")" '::notice::cancelled: the lock was not acquired'
    refute pgrep -f "$silent"
  done
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

  run step post name=deploy release=installed

  assert_status 1
  assert_output_contains '::error::dlock: deploy: '
}

# Starts a server on a port of 127.0.0.1 that knows bob, whose password is `secret`, and no other
# user.
start_server_with_login() {
  begin_to_use_ports
  port=$(free_ports 1)
  redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$BATS_TEST_TMPDIR" --user default off \
    --user bob on '>secret' '~*' '&*' '+@all' > "$BATS_TEST_TMPDIR/server.log" 2>&1 3>&- &
  server_pid=$!
  eventually accepts_connections "$port"
  ports_are_used
}

@test "later steps of a job know the store and the user, and are told that they lack the password" {
  start_server_with_login
  local inputs given=$DLOCK_STORE
  for inputs in "store=redis://bob:secret@127.0.0.1:$port" "store=redis://127.0.0.1:$port user=bob password=secret" ''; do
    rm -f "$BATS_TEST_TMPDIR"/{OUTPUT,STATE,ENV,PATH}
    DLOCK_STORE=$given
    if [[ -z $inputs ]]; then export DLOCK_STORE=redis://127.0.0.1:$port DLOCK_USER=bob DLOCK_PASSWORD=secret; fi
    export DLOCK_NAMESPACE=team
    run step main name=deploy release=installed $inputs
    assert_status 0
    refute_output_contains secret
    refute_output_contains ::notice
    refute grep -r secret "$BATS_TEST_TMPDIR"/{ENV,OUTPUT,STATE}

    unset DLOCK_STORE DLOCK_USER DLOCK_PASSWORD DLOCK_NAMESPACE
    run later dlock check
    assert_status 78
    assert_output_contains "no password for user 'bob': use --password-file or DLOCK_PASSWORD"
    DLOCK_PASSWORD=secret later dlock check

    [[ -n $inputs ]] || export DLOCK_PASSWORD=secret
    run later step post name=deploy release=installed $inputs
    assert_equal "$status $output" '0 '
    DLOCK_PASSWORD=secret run later dlock check
    assert_status 76
  done
}

@test "a store with a password that the job or the step has set is not passed on, and a notice says so" {
  start_server_with_login
  export DLOCK_STORE=redis://bob:secret@127.0.0.1:$port
  run step main name=deploy release=installed
  assert_status 0
  assert_output_contains '::notice::DLOCK_STORE has a password and is not passed on'
  refute_output_contains secret
  refute grep -r secret "$BATS_TEST_TMPDIR"/{ENV,OUTPUT,STATE}

  # As if the job had set it.
  later dlock check
  run later step post name=deploy release=installed
  assert_equal "$status $output" '0 '
}

@test "the login of one use of the action is not that of another one in the same job" {
  start_server_with_login
  local one=(name=first release=installed "store=redis://127.0.0.1:$port" user=bob password=secret)
  use_server_as_store
  local other=(name=second release=installed "store=$DLOCK_STORE")
  unset DLOCK_STORE

  run step main "${one[@]}"
  assert_status 0
  mv "$BATS_TEST_TMPDIR/STATE" "$BATS_TEST_TMPDIR/state-of-first"
  run later step main "${other[@]}"
  assert_status 0

  later dlock check
  run later step post "${other[@]}"
  assert_equal "$status $output" '0 '
  mv "$BATS_TEST_TMPDIR/state-of-first" "$BATS_TEST_TMPDIR/STATE"
  run later step post "${one[@]}"
  assert_equal "$status $output" '0 '
}

@test "at the end of a job the action runs only the program that it has acquired the lock with" {
  local program fake=$BATS_TEST_TMPDIR/fake
  mkdir "$fake"
  printf '#!/bin/sh\ntouch "%s/ran"\n' "$fake" > "$fake/dlock"
  chmod +x "$fake/dlock"

  run step main name=deploy release=installed
  assert_status 0
  PATH=$fake:$PATH run step post name=deploy release=installed
  assert_equal "$status $output" '0 '

  rm "$BATS_TEST_TMPDIR/STATE"
  run step main name=deploy "release=$release"
  assert_status 0
  program=$(echo "$BATS_TEST_TMPDIR"/temp/dlock/*/bin/dlock)
  rm "$program"
  cp "$fake/dlock" "$program"
  run step post name=deploy "release=$release"
  assert_status 1
  assert_output_contains '::error::the dlock that acquired the lock has been changed or removed'

  sed -i "/^program<</{n;s|.*|$fake/dlock|}" "$BATS_TEST_TMPDIR/STATE"
  run step post name=deploy "release=$release"
  assert_status 1
  [[ ! -e $fake/ran ]]
}

@test "a commit of a release as the ref of the action installs that release, and others say what to name" {
  local version
  version=$(sed -n 's/^project(dlock VERSION \([0-9.]*\) .*/\1/p' "$DLOCK_SOURCE/CMakeLists.txt")
  mkdir -p "$BATS_TEST_TMPDIR/www/owner/dlock/releases/download"
  cp -r "$release" "$BATS_TEST_TMPDIR/www/owner/dlock/releases/download/v$version"
  (cd "$BATS_TEST_TMPDIR/www" && exec /usr/bin/python3 -u -m http.server --bind 127.0.0.1 0) > "$BATS_TEST_TMPDIR/port" 2>&1 3>&- &
  eventually grep -q 'port [0-9]' "$BATS_TEST_TMPDIR/port"
  server_url=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$BATS_TEST_TMPDIR/port")
  for ref in "v$version" v0 11bd71901bbe5b1630ceea73d27597364c9af683; do
    rm -f "$BATS_TEST_TMPDIR"/{OUTPUT,STATE,ENV,PATH}
    run step main "name=deploy-$ref"
    assert_status 0
  done

  mv "$BATS_TEST_TMPDIR/www/owner/dlock/releases/download/v"{"$version",other}
  ref=main
  run step main name=deploy
  assert_status 1
  assert_equal "$(grep -c '^::error::get.sh: cannot get SHA256SUMS from .*; main of the action is version .*: if that has not been released, use the tag of a release' <<< "$output")" 1
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
  refute grep -r secret "$BATS_TEST_TMPDIR"/{ENV,OUTPUT,STATE}
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

    run_apart env PATH=/usr/bin:/bin CI_JOB_URL=the-job bash "$BATS_TEST_TMPDIR/job"

    assert_status 0
    output=${lines[-1]}
    assert_equal "$(json '.holders[0].label')" the-job
    is_free deploy
  done
}

# Runs a job in an image without dlock.
run_job() {  # [<input>=<value>...]
  job 'echo ran' name=deploy "store=$DLOCK_STORE" "$@" > "$BATS_TEST_TMPDIR/job"
  in_image bash
}

in_image() {  # <shell>
  run_apart env PATH=/usr/bin:/bin TMPDIR="$BATS_TEST_TMPDIR/temp" CI_JOB_URL=the-job "$1" "$BATS_TEST_TMPDIR/job"
}

# Asserts that the job failed with one line, and has run nothing.
assert_not_installed() {  # <text>
  assert_status 1
  assert_equal "$output" ''
  [[ $stderr == "cannot install dlock from 'file://$BATS_TEST_TMPDIR/from': "$1 ]] || { echo "$stderr" >&2; return 1; }
  [[ ! -e $BATS_TEST_TMPDIR/ran ]]
}

@test "the GitLab component runs nothing of a release whose sum is another one" {
  local from=$BATS_TEST_TMPDIR/from name sum
  cp -r "$release" "$from"
  name=$(basename "$from"/*.tar.gz)
  read -r sum _ < "$from/SHA256SUMS"
  printf '#!/bin/sh\ntouch "%s"\n' "$BATS_TEST_TMPDIR/ran" > "$from/get.sh"
  run_job "release=file://$from" "sha256=${sum^^}"
  assert_equal "$status $output" '0 ran'

  run_job "release=file://$from" "sha256=${sum//[0-9]/0}"
  assert_not_installed "the sum of $name is wrong"

  mkdir -p "$BATS_TEST_TMPDIR/evil/${name%.tar.gz}/bin"
  cp "$from/get.sh" "$BATS_TEST_TMPDIR/evil/${name%.tar.gz}/bin/dlock"
  tar -C "$BATS_TEST_TMPDIR/evil" -czf "$from/$name" "${name%.tar.gz}"
  run_job "release=file://$from"
  assert_not_installed "the sum of $name is wrong"
  (cd "$from" && sha256sum "$name" > SHA256SUMS)
  run_job "release=file://$from" "sha256=$sum"
  assert_not_installed "the sum of $name is wrong"

  rm "$from/$name"
  run_job "release=file://$from"
  assert_not_installed "cannot get $name: *ouldn't open file*"
  echo > "$from/SHA256SUMS"
  run_job "release=file://$from"
  assert_not_installed 'its SHA256SUMS has no archive for this machine'
}

@test "a job of the GitLab component leaves no file behind, whatever becomes of it and in whatever shell" {
  local shell signal
  for shell in bash dash; do
    job 'exit 3' name=deploy "store=$DLOCK_STORE" "release=file://$release" > "$BATS_TEST_TMPDIR/job"
    [[ $shell == bash ]] || sed -i 's/^set -eo pipefail$/set -e/' "$BATS_TEST_TMPDIR/job"
    in_image "$shell"
    assert_status 3
    assert_equal "$(ls "$BATS_TEST_TMPDIR/temp")" ''
    is_free deploy

    # One that does not get the lock, and one without a release.
    hold deploy
    sed -i "s/^export LOCK_WAIT=.*/export LOCK_WAIT='0'/" "$BATS_TEST_TMPDIR/job"
    in_image "$shell"
    assert_status 75
    assert_equal "$(ls "$BATS_TEST_TMPDIR/temp")" ''
    let_go
    eventually is_free deploy
    sed -i "s|^export LOCK_RELEASE=.*|export LOCK_RELEASE='file:///nosuch'|" "$BATS_TEST_TMPDIR/job"
    in_image "$shell"
    assert_status 1
    assert_equal "$(ls "$BATS_TEST_TMPDIR/temp")" ''

    # One that loses the lock.
    job 'dlock release "$LOCK_NAME"' name=deploy "store=$DLOCK_STORE" "release=file://$release" > "$BATS_TEST_TMPDIR/job"
    [[ $shell == bash ]] || sed -i 's/^set -eo pipefail$/set -e/' "$BATS_TEST_TMPDIR/job"
    in_image "$shell"
    assert_status 76
    assert_equal "$(ls "$BATS_TEST_TMPDIR/temp")" ''

    # One that is cancelled.
    job 'sleep 60' name=deploy "store=$DLOCK_STORE" "release=file://$release" > "$BATS_TEST_TMPDIR/job"
    [[ $shell == bash ]] || sed -i 's/^set -eo pipefail$/set -e/' "$BATS_TEST_TMPDIR/job"
    setsid env PATH=/usr/bin:/bin TMPDIR="$BATS_TEST_TMPDIR/temp" CI_JOB_URL=the-job "$shell" "$BATS_TEST_TMPDIR/job" 3>&- &
    local cancelled=$!
    eventually is_in_job
    kill -TERM -- "-$cancelled"
    assert_exits 143 "$cancelled"
    assert_equal "$(ls "$BATS_TEST_TMPDIR/temp")" ''
    eventually is_free deploy
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
