#!/usr/bin/env bats
# The examples, as they are in the tree: units for systemd, a crontab, files for containers, a
# playbook for Ansible, rules for agents, alerts and a dashboard. tests/long/examples.bats has the
# tools of others.
# shellcheck disable=SC2034  # for the helpers

setup() {
  load support
  load metrics
  load pages
  use_private_store
  examples=$DLOCK_SOURCE/examples
  units=$BATS_TEST_TMPDIR/units
  here=$BATS_TEST_TMPDIR
  notes=$BATS_TEST_TMPDIR/notes
  export notes
}

# Makes commands that record how they were called.
stand_in() {  # <command>...
  local command
  for command; do
    printf '#!/bin/sh\necho "${0##*/} $* under ${DLOCK_NAME:-nothing}" >> "$notes"\n' > "$here/bin/$command"
    chmod +x "$here/bin/$command"
  done
}

# --- systemd ---

# Copies the units, with programs that exist. Templates get an instance.
copy_units() {
  local unit
  mkdir "$units"
  cp "$examples"/*.{service,timer} "$units"
  for unit in "$units"/*@.service; do mv "$unit" "${unit/@/@one}"; done
  stand_in nightly maintain convert worker report
  sed -i -e "s|^ExecStart=dlock|ExecStart=$DLOCK_BIN|" -e "s|/usr/local/bin|$here/bin|" "$units"/*.service
}

verify() { SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$units"/*.{service,timer}; }

# Prints the command of a unit, as systemd would start it, with the server of this test.
command_of() {  # <unit>
  sed -n 's/^ExecStart=//p' "$units/$1" | sed -e 's/%i/one/g' -e "s|redis://db.example.org|${server:-}|"
}

setting() {  # <key>
  sed -n "s/^$1=//p" "$examples/dlock-nightly.service"
}

@test "systemd finds nothing wrong with the units, and would see an unknown setting and a missing program" {
  local expression
  copy_units
  run verify
  assert_equal "$status $output" '0 '

  echo 'RestrictEverything=yes' >> "$units/dlock-nightly.service"
  run verify
  assert_output_contains RestrictEverything

  sed -i "s|^ExecStart=$DLOCK_BIN|&-is-not-here|" "$units/dlock-nightly.service"
  run verify
  assert_output_contains is-not-here

  while IFS= read -r expression; do
    run systemd-analyze calendar "$expression"
    assert_status 0
  done < <(sed -n 's/^OnCalendar=//p' "$examples"/*.timer)
}

@test "every unit stops its command by way of dlock, and says why" {
  local unit
  for unit in "$examples"/*.service; do
    grep -B 4 '^KillMode=mixed$' "$unit" | grep -q 'systemd sends SIGTERM only to dlock'
  done
}

@test "the units run one at a time, N at a time, in a queue, and once on all hosts" {
  use_server_as_store
  server=$DLOCK_STORE
  copy_units

  # shellcheck disable=SC2046
  for unit in dlock-exclusive@one dlock-slots@one dlock-queue@one dlock-once dlock-once; do
    run $(command_of "$unit.service")
    assert_equal "$unit: $status $output" "$unit: 0 "
  done

  assert_equal "$(cat "$notes")" 'maintain one under maintenance
convert one under convert
worker one under worker
report  under report'
  hold maintenance
  hold convert --slots 2
  # shellcheck disable=SC2046
  run $(command_of dlock-slots@one.service)
  assert_status 0
  # shellcheck disable=SC2046  # in time: it waits for as long as it is let
  run timeout 1 $(command_of dlock-exclusive@one.service)
  assert_status 124
}

@test "the unit's command runs under the lock, and the unit counts as successful if it is held" {
  copy_units
  # shellcheck disable=SC2046
  run $(command_of dlock-nightly.service)
  assert_equal "$status $output" '0 '
  assert_equal "$(cat "$notes")" 'nightly  under nightly'

  hold nightly
  rm "$notes"
  # shellcheck disable=SC2046
  run $(command_of dlock-nightly.service)
  assert_equal "$status" "$(setting SuccessExitStatus)"
  [[ ! -e $notes ]]
}

@test "no unit takes an exit code that its job can have for that of dlock" {
  local unit code
  copy_units
  for unit in "$units"/*.service; do
    while IFS= read -r code; do
      # 200 is that of -E.
      [[ $code == 200 ]] || { echo "$unit: $code" >&2; return 1; }
      grep -q '^ExecStart=.* -E 200 ' "$unit"
    done < <(sed -n 's/^\(SuccessExitStatus\|RestartPreventExitStatus\)=//p' "$unit")
  done
  printf '#!/bin/sh\nexit 75\n' > "$here/bin/nightly"

  # shellcheck disable=SC2046
  run $(command_of dlock-nightly.service)

  assert_status 75
}

@test "the unit's state directory is root's store, and its settings leave it writable" {
  copy_units
  use_private_mounts
  grep -qF "/var/lib/$(setting StateDirectory)/" "$DLOCK_SOURCE/man/dlock.1"
  assert_equal "$(setting ProtectSystem)" strict
  local state
  state=/var/lib/$(setting StateDirectory)
  inside mkdir -p "$state"
  inside mount -t tmpfs -o "mode=$(setting StateDirectoryMode)" none "$state"
  inside mount -o remount,bind,ro / || inside mount --bind -o ro / /
  inside env -u DLOCK_STORE touch /usr/written && { echo 'still writable' >&2; return 1; }

  run inside env -u DLOCK_STORE -u XDG_STATE_HOME dlock run nightly -- true
  assert_equal "$status $output" '0 '

  run inside env -u DLOCK_STORE -u XDG_STATE_HOME dlock list --json
  assert_equal "$(json '.[0].name')" nightly
}

# --- cron ---

# Prints the commands of the crontab, as cron would pass them to a shell.
crontab_commands() {
  sed -nE 's/^([0-9*\/,-]+ +){5}//p' "$examples/crontab"
}

# Runs a command as cron does, with the server and the directory of this test.
as_cron() {  # <command>
  METRICS=$here/metrics sh -c \
    "$(sed -e "s|redis://db.example.org|${server:-}|" -e 's/--jitter [^ ]*/--jitter 1ms/' <<< "$1")"
}

only_command() {  # <word in it>
  local found
  found=$(crontab_commands | grep -F -e "$1" | head -n 1)
  [[ -n $found ]] || { echo "no line with $1" >&2; return 1; }
  printf '%s\n' "$found"
}

@test "each line of the crontab is empty, a comment, a setting or a job, without a percent sign, a newline for cron" {
  run grep -vE '^$|^# |^[A-Z]+=|^([0-9*/,-]+ +){5}[a-z]' "$examples/crontab"
  assert_equal "$output" ''
  run grep % "$examples/crontab"
  assert_equal "$status $output" '1 '
}

@test "every command of the crontab works" {
  stand_in sync-mail backup.sh report.sh convert.sh disk-is-full mail-about-disk
  mkdir "$here/metrics"
  local store=$DLOCK_STORE line count=0
  use_server_as_store
  server=$DLOCK_STORE
  export DLOCK_STORE=$store

  while IFS= read -r line; do
    run as_cron "$line"
    assert_equal "$line: $status $output" "$line: 0 " || return
    count=$((count + 1))
  done < <(crontab_commands)

  ((count >= 8))
  assert_equal "$(cat "$notes")" 'sync-mail --all under sync-mail
backup.sh  under backup
report.sh  under report
convert.sh photos under convert
convert.sh films under convert
disk-is-full  under nothing
mail-about-disk  under nothing'
  run cat "$here/metrics/dlock.prom"
  assert_metrics
}

@test "the crontab's metrics say that the store is down, and cron has nothing to mail" {
  mkdir "$here/metrics"

  DLOCK_STORE=redis+unix:/nowhere run as_cron "$(only_command prometheus)"

  assert_equal "$output" ''
  assert_equal "$(tail -n 1 "$here/metrics/dlock.prom")" 'dlock_up{namespace="dlock"} 0'
}

@test "the crontab's jobs: nothing if the lock is held, once on many hosts, one mail per hour" {
  stand_in sync-mail report.sh disk-is-full mail-about-disk
  hold sync-mail
  run as_cron "$(only_command sync-mail)"
  assert_equal "$status $output" '0 '
  [[ ! -e $notes ]]

  as_cron "$(only_command mail-about-disk)"
  run as_cron "$(only_command mail-about-disk)"
  assert_equal "$status $output" '75 '
  assert_equal "$(grep -c '^mail' "$notes")" 1

  use_server_as_store
  server=$DLOCK_STORE
  as_cron "$(only_command report)"
  as_cron "$(only_command report)"
  assert_equal "$(grep -c '^report' "$notes")" 1
}

# --- Monitoring ---

# Prints the names of the metrics of dlock in a file, without the suffixes of a histogram.
metrics_in() {  # <file>
  grep -oE '\bdlock_[a-z_]+' "$1" | sed -E 's/_(bucket|sum|count)$//' | sort -u
}

exported_metrics() {
  dlock run damaged -- true
  truncate -s 20 "${DLOCK_STORE#local:}"/state-*/*.lock
  dlock run job -- true
  hold lost
  dlock break --yes lost > /dev/null
  assert_exits 76 "$holder"
  hold job
  queue job -- true
  { dlock list --prometheus || [[ $? == 78 ]]; } | sed -n 's/^# TYPE \(.*\) [a-z]*$/\1/p' | sort
}

@test "the alerts and the dashboard use metrics that dlock exports, the dashboard all of them" {
  exported_metrics > "$here/exported"

  run comm -23 <(metrics_in "$examples/alerts.yml") "$here/exported"
  assert_equal "$output" ''
  assert_equal "$(metrics_in "$examples/grafana.json")" "$(cat "$here/exported")"
}

@test "the alerts are rules with an absent metric, and the dashboard is one for any Prometheus" {
  run /usr/bin/python3 -c 'import json, sys, yaml
rules = yaml.safe_load(open(sys.argv[1]))["groups"][0]["rules"]
assert all(set(rule) <= {"alert", "expr", "for", "labels", "annotations"} for rule in rules)
assert any(rule["expr"].startswith("absent(max_over_time(dlock_last_success_timestamp_seconds{name=\"backup\"}[7d]))") for rule in rules)
panels = json.load(open(sys.argv[2]))["panels"]
assert len({panel["id"] for panel in panels}) == len(panels)
assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)' \
    "$examples/alerts.yml" "$examples/grafana.json"

  assert_equal "$status $output" '0 '
}

# --- Ansible ---

@test "the tasks for Ansible acquire the lock, work under it, and release it whatever happened" {
  use_server_as_store
  stand_in deploy
  # Runs their command lines in order; the second one fails.
  run /usr/bin/python3 -c 'import os, subprocess, sys, yaml
play = yaml.safe_load(open(sys.argv[1]))[0]
acquire, stop, deploy = play["tasks"]
def argv(task):
    values = dict(play["vars"], lock_store=sys.argv[2], inventory_hostname="web1")
    words = task["ansible.builtin.command"]["argv"]
    return [next((str(values[name]) for name in values if name in word), word) if "{{" in word else str(word) for word in words]
assert acquire["run_once"] and stop["run_once"] and acquire["no_log"] and acquire["register"] == "lock_lease"
token = subprocess.run(argv(acquire), check=True, capture_output=True, text=True).stdout.strip()
work, release = deploy["block"][0], deploy["always"][0]
assert argv(work) == ["/usr/local/bin/deploy", "web1"]
assert subprocess.run(["dlock", "status", "deploy"], stdout=subprocess.DEVNULL).returncode == 0
assert list(release["environment"]) == ["DLOCK_TOKEN"] and release["run_once"]
subprocess.run(argv(release), check=True, env=dict(os.environ, DLOCK_TOKEN=token))
assert subprocess.run(["dlock", "status", "deploy"], stdout=subprocess.DEVNULL).returncode == 1' \
    "$examples/ansible.yml" "$DLOCK_STORE"

  assert_equal "$status $output" '0 '
}

# --- Agents ---

@test "the commands for agents work, and have the exit codes that the page explains" {
  prepare_pages
  docs=$examples

  run_page agents.md

  local code
  for code in $(sed -nE 's/^\| ([0-9, ]+) \|.*/\1/p' "$examples/agents.md" | tr -d ','); do
    grep -qx "\.It $code" "$DLOCK_SOURCE/man/dlock.1"
  done
  hold phone
  run dlock run phone -- true
  assert_status 75
}

@test "systemd finds dlock where install.sh and the packages put it" {
  # The directories in which systemd looks for a program without a path.
  run systemd-path search-binaries-default

  assert_equal "$(setting ExecStart | cut -d ' ' -f 1)" dlock
  [[ :$output: == *:/usr/local/bin:* && :$output: == *:/usr/bin:* ]]
}

# --- Containers ---

# Prints the documents of a YAML file as an array in JSON.
documents() {  # <file>
  /usr/bin/python3 -c 'import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))' < "$examples/$1"
}

# Runs a command in the place where an image has its programs, and asserts that it says nothing.
run_in_image() {  # <command>...
  run env -C "$here/bin" "$@"
  assert_equal "$status $output" '0 '
}

@test "what services of compose.yaml use is defined in it" {
  run documents compose.yaml

  for kind in secrets configs volumes; do
    assert_equal "$(json "[.[0].services[].$kind // [] | .[] | .source? // (. | tostring | split(\":\")[0])] | unique | .[]")" \
      "$(json ".[0].$kind | keys[]")"
  done
  assert_equal "$(json '.[0].services | map(.image) | unique | join(" ")')" 'app postgres:17'
  assert_equal "$(json '.[0].services.app.deploy.replicas')" 2
}

@test "the jobs of compose.yaml run under their locks" {
  stand_in sync report
  use_server_as_store
  run documents compose.yaml
  jobs=$(json '.[0].configs.jobs.content')

  while read -r line; do
    run_in_image sh -c "${line/--jitter 30s/--jitter 1ms}"
  done < <(sed -nE 's/^([0-9*\/,-]+ +){5}//p' <<< "$jobs")

  assert_equal "$(< "$notes")" 'sync  under sync
report  under report'
  # Each line is a comment or a job, and Compose would replace what follows a dollar sign.
  run grep -vE '^# |^([0-9*/,-]+ +){5}dlock ' <<< "$jobs"
  assert_equal "$output" ''
  [[ $jobs != *'$'* ]]
}

@test "the objects of kubernetes.yaml fit together" {
  run documents kubernetes.yaml

  assert_equal "$(json '.[] | "\(.apiVersion) \(.kind) \(.metadata.name)"')" 'v1 ConfigMap locks
apps/v1 Deployment web
apps/v1 Deployment api
batch/v1 CronJob report
apps/v1 Deployment worker'
  assert_equal "$(json '.[] | select(.kind == "Deployment") | .spec | .selector.matchLabels == .template.metadata.labels' |
    sort -u)" true
  # What runs dlock has the store and the password, and may run under the strictest policy for pods.
  assert_equal "$(json '[.. | objects | select(.command? | .[0]? == "dlock")] |
    map([(.envFrom | map(.[].name) | join(" ")), .securityContext.capabilities.drop[0],
         .securityContext.readOnlyRootFilesystem, .securityContext.allowPrivilegeEscalation] | join(" ")) | unique[]')" \
    'locks locks ALL true false'
  assert_equal "$(json '[.. | objects | select(has("containers")) | .securityContext.runAsNonRoot] | unique | join(" ")')" true
}

@test "the commands of kubernetes.yaml run under their locks" {
  local commands
  stand_in migrate report work
  use_server_as_store
  run documents kubernetes.yaml

  mapfile -t commands < <(json '.. | objects | .command? // empty | select(.[0] == "dlock") | @sh')
  assert_equal "${#commands[@]}" 3
  for command in "${commands[@]}"; do run_in_image sh -c "$command"; done

  assert_equal "$(< "$notes")" 'migrate  under migrate
report  under report
work  under worker'
}

# Prints a number of seconds.
seconds() {  # <duration of dlock or Compose>
  case $1 in
    *s) echo "${1%s}" ;;
    *m) echo $((${1%m} * 60)) ;;
    *h) echo $((${1%h} * 3600)) ;;
  esac
}

@test "a probe of what migrates in its entrypoint begins after --wait and a migration, that of an init container never" {
  local wait
  wait=$(seconds "$(sed -n 's/^dlock run --wait \([^ ]*\) migrate .*/\1/p' "$examples/entrypoint.sh")")
  ((wait > 0))
  run documents compose.yaml
  (($(seconds "$(json '.[0].services.app.healthcheck.start_period')") >= wait + 600))
  run documents kubernetes.yaml
  # Containers of the image whose entrypoint migrates are those without a command.
  assert_equal "$(json '[.. | objects | select(.args?) | .name] | join(" ")')" api
  (($(json '.. | objects | .startupProbe? // empty | .periodSeconds * .failureThreshold') >= wait + 600))
  # What waits in dlock itself has no probe.
  assert_equal "$(json '[.. | objects | select(.command?[0] == "dlock" and (.livenessProbe or .readinessProbe))] | length')" 0
}

# Runs the entrypoint of the example as process 1 of a container.
entrypoint() {  # <command>...
  env -C "$here/bin" unshare --pid --fork --kill-child --mount-proc sh "$examples/entrypoint.sh" "$@"
}

@test "the entrypoint migrates under the lock and then becomes the service, or fails as the migration does" {
  needs_root
  stand_in migrate serve
  run entrypoint ./serve now
  assert_equal "$status $output" '0 '
  assert_equal "$(< "$notes")" 'migrate  under migrate
serve now under nothing'

  rm "$notes"
  printf '#!/bin/sh\nexit 3\n' > "$here/bin/migrate"
  run entrypoint ./serve
  assert_equal "$status" 3
  [[ ! -e $notes ]]
}

@test "a platform that stops the entrypoint stops the migration, and the lock is free" {
  needs_root
  stand_in serve
  printf '#!/bin/sh\ntrap "exit 4" TERM\ntouch started\nwhile :; do sleep 0.1; done\n' > "$here/bin/migrate"
  chmod +x "$here/bin/migrate"
  entrypoint ./serve 3>&- &
  outside=$!
  eventually test -e "$here/bin/started"

  kill -TERM "$(pgrep -P "$(pgrep -P "$outside")")"

  assert_exits 4 "$outside"
  is_free migrate
  [[ ! -e $notes ]]
}
