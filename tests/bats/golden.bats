#!/usr/bin/env bats
# What is on disk, on the wire, on the command line and in each JSON document is as in the files
# in golden/, up to what varies from run to run.
# shellcheck disable=SC2119,SC2120  # dumps are of all locks, if none are named
# shellcheck disable=SC2034,SC2086  # locks.bash uses held_by; hold and queue set holder, command and waiter

setup() {
  load support
  load etcd
  load postgres
  load golden
  # Before use_private_store removes it.
  export UPDATE_GOLDEN=${DLOCK_UPDATE_GOLDEN:-}
  store=$BATS_TEST_TMPDIR/store
  cd "$BATS_TEST_TMPDIR" || return
}

# Holds a lock in the background until `let_go`. Sets $holder and $command to the pids of its dlock
# and its command, which from now on are shown by this name. What its command is called with is the
# same in each run.
hold_as() {  # <name> <lock> [<option>...]
  mkfifo "$1"
  dlock run --ttl 10m "${@:3}" "$2" -- sh -c 'exec 3<> $0; echo $$ > $0.pid; read -r _ <&3' "$1" 3>&- &
  holder=$!
  held_by["$holder"]=$1
  eventually test -s "$1.pid"
  command=$(< "$1.pid")
  [[ $DLOCK_STORE != local:* ]] || eventually is_stored "$command"
  call_pid "$1" "$holder"
  call_pid "$1-command" "$command"
}

# Starts a waiter, which from now on is shown by this name. On Redis, it then blocks on its list:
# otherwise, what is pushed there could stay.
declare -gA waiters=()
queue_as() {  # <name> <lock> [<option>...]
  # Longer than the test takes on a busy machine.
  dlock run --wait 1h --ttl 10m "${@:3}" "$2" -- true 3>&- &
  waiter=$!
  eventually is_queued "$2" "$waiter"
  call_pid "$1" "$waiter"
  waiters[$2]=$((${waiters[$2]:-0} + 1))
  [[ $DLOCK_STORE != redis+unix:* ]] || eventually has_blocked "$2" "${waiters[$2]}"
}
has_blocked() {  # <lock> <number of waiters>
  (($(grep -o "\"BLPOP\" \"dlock:{$1}:w:[0-9a-f]*" sent | sort -u | wc -l) >= $2))
}

# Stops a process while it sleeps: then it has no mutex of the store.
halt_asleep() {  # <pid>
  eventually is_asleep "$1"
  halt "$1"
}
is_asleep() {
  local stat
  read -r stat < "/proc/$1/stat"
  [[ ${stat##*) } == S* ]]
}

# Runs a command for its output, and prints its exit code if that is not 0.
shown() { "$@" || echo "exit code $?"; }  # <command>...

# The first part: ended runs of every kind, and what is not a lock.
play_past() {
  local token
  dlock run past --label 'the "past"' --report report.ran -- true
  dlock run past --report report.failed -- sh -c 'exit 3' || true
  dlock run past --report report.signal -- sh -c 'kill -HUP $$' 2> /dev/null || true
  dlock run past --timeout 10ms --report report.timeout -- sleep 60 2> /dev/null || true
  dlock run past --report report.missing -- /no/such/command 2> /dev/null || true
  token=$(dlock acquire past --ttl 10m --label 'by hand')
  dlock check past --fence "$(look past '.holders[0].fence')" --min-validity 1m
  dlock renew past --token "$token" --json > renew.json
  dlock release past --token "$token" --json > release.json
  dlock acquire past --json > acquire.json
  dlock release past --token "$(jq -r .token acquire.json)"
  # One that is notified, and one that loses the lock at once.
  hold_as broken past --report report.broken
  dlock break past --yes --json > break.json
  wait "$holder" || true
  hold_as forced past --report report.forced --ttl 6s
  if [[ $DLOCK_STORE == local:* ]]; then
    # Its processes are killed instead, which the next run notices.
    kill -KILL "$holder" "$command"
    wait "$holder" 2> /dev/null || true
    eventually has_ended "$command"
  else
    dlock break past --yes --force --json > force.json
    assert_exits 76 "$holder"
  fi
  dlock run past --dedupe 1h --retry-failed --report report.succeeded -- true 2> /dev/null || true
  dlock run past --dedupe 1h --report report.deduplicated -- true 2> /dev/null || true

  dlock fence 'disk 1' 41 
  dlock fence disk 7
  dlock fence disk 6 --json > fence-refused.json 2> /dev/null || true
  if [[ $DLOCK_STORE != etcd:* ]]; then
    dlock limit api 2/1h
    dlock limit api 2/1h
    dlock limit api 2/1h --json > limit-refused.json 2> /dev/null || true
    dlock limit api 2/1h --wait 1h > /dev/null 2>&1 3>&- &
    call_pid turn $!
    limit_waits() { [[ $(dlock limit api --show --json) != *'"waiters":[]'* ]]; }
    eventually limit_waits
    dlock cache --ttl 20m --stale 10m small -- echo 'a value' > /dev/null
    dlock cache --ttl 20m large -- perl -e 'print "x" x 300000' > /dev/null
  fi
}

# The second part: holders and waiters of every kind.
play_present() {
  # One holder, and waiters that differ.
  hold_as job job --lock-delay 10m --label 'a "label"' --timeout 1h
  dlock run job --report report.busy -- true 2> /dev/null || true
  dlock run job --json -- true > busy.json 2>&1 || true
  queue_as retries job --dedupe 1h --retry-failed --label first
  queue_as older job --supersede --report report.superseded
  queue_as newer job --supersede
  queue_as shares job --shared
  dlock acquire job --wait 1h --ttl 10m --for-pid "$command" > /dev/null 2>&1 3>&- &
  eventually is_queued job "$command"
  # A run by hand does not count as another one.
  dlock acquire hand --ttl 10m > /dev/null
  queue_as skips hand --dedupe 2h

  # Slots, and leases of acquire.
  dlock acquire sem --slots 3 --ttl 10m --label 'by hand' > /dev/null
  dlock acquire sem --slots 3 --ttl 10m --for-pid "$command" > /dev/null
  hold_as third sem --slots 3
  queue_as fourth sem --slots 3

  hold_as reader pool --shared
  hold_as reader2 pool --shared
  queue_as writer pool

  # A run that has ended, and locks that are taken from their holders.
  dlock run kept --min-hold 1h --label ended -- true
  hold_as stays cut
  halt_asleep "$holder"
  # It returns when the holder has ended.
  dlock break cut --yes > /dev/null 2>&1 3>&- &
  is_broken() { [[ $(dlock status cut) == *'(broken)'* ]]; }
  eventually is_broken
  hold_as loses taken
  halt_asleep "$holder"
  queue_as taker taken --replace
}

# The third part: waiters that have an answer but have not read it.
play_answers() {
  hold_as went join
  queue_as joiner join --dedupe 1h --retry-failed
  halt_asleep "$waiter"
  let_go
  assert_exits 0 "$holder"
  hold_as holds old
  queue_as first old --supersede
  halt_asleep "$waiter"
  queue_as second old --supersede
  # A promise holds for three seconds.
  hold_as promises late
  queue_as promised late
  halt_asleep "$waiter"
  let_go
  assert_exits 0 "$holder"
  golden_now=${EPOCHREALTIME/[.,]/}
}
names=(free past job hand sem pool kept cut taken)

# Puts the lines of JSON about the same lock together.
by_name() { perl -e 'my %of; /"name":"(.*?)"/ && ($of{$1} .= $_) while <>; print map { $of{$_} } sort keys %of'; }

# Masks what doctor says of the machine and the versions of servers.
of_any_machine() {
  perl -0777 -pe '
    s/^(\S+ +file-system  ).*\n( +->.*\n)?/$1<any>\n/gm;
    s/^(\S+ +version  ).*\n( +->.*\n)?/<level>  version  <any>\n/gm;
    s/^((<level>  version  <any>\n)+)/<level>  version  <any>\n/gm;
    s/^.*(?=in (redis|etcd|local)\S*$)/<summary> /gm;
    s/\{"check":"(version|file-system)".*?"checked":(true|false)\}/{"check":"$1"}/g;
    s/(\{"check":"version"\},)+/$1/g;
    s/"level":"\w+",(?="not_checked")/"level":<level>,/g;
    s/[\d.]+(?= (?:[KMG]iB|ms, the median|of \d+ connections|connections|waiters|holders))/<n>/g;
    s/(?<="round_trip_ms":)[\d.]+/<ms>/g'
}

# Plays all parts, and compares what can be seen of them.
show_all() {  # <kind of store>
  dlock watch -v --json > events 2> watching 3>&- &
  eventually grep -q 'watching$' watching
  play_past
  play_present
  {
    part status; for lock in "${names[@]}"; do shown dlock status --json "$lock"; done
    part list; shown dlock list --json
    part history; shown dlock history --json
    for file in *.json report.*; do part "${file##*/}"; cat "$file"; done
    if [[ $1 != etcd ]]; then
      part limit; shown dlock limit api --show --json
      part cache; shown dlock cache small --show --json; shown dlock cache large --show --json
    fi
  } > documents
  masked "$1" < documents | golden "$1-json"
  {
    for lock in "${names[@]}"; do part "$lock"; shown dlock status "$lock"; done
    part list; shown dlock list
    part history; shown dlock history
    if [[ $1 != etcd ]]; then
      part limit; shown dlock limit api --show
      part cache; shown dlock cache small --show
    fi
  } 2>&1 | masked table "$1" | golden "$1-tables"
  { dlock doctor; part as JSON; dlock doctor --json; } | of_any_machine | masked table | golden "$1-doctor"
  dlock list --prometheus | masked | golden "$1-metrics"
  "dump_$1" > present
  play_answers
  "dump_$1" join old late > answers
  golden_now=
  { part in use; cat present; part unread answers; cat answers; } | golden "$1-store"
  eventually grep -q '"released","name":"late"' events
  # Events of different locks are in the order of the locks.
  by_name < events | masked "$1" | golden "$1-events"
  assert_golden
}

# The files of an embedded store, or only the records of some locks.
dump_local() {  # [<lock>...]
  local file records=(store/state-*/*)
  if (($# == 0)); then
    part files
    find store -printf '%y %m %P\n' | sed -E 's/wake-.*/wake-<id>/' | LC_ALL=C sort -u | masked
    for file in store/runs.jsonl store/events; do
      part "${file#*/}"
      by_name < "$file" | masked
    done
    part fences
    masked < store/fences
    for file in store/cache/*/*; do
      part "${file#*/}"
      head -n 1 "$file" | masked
    done
  else
    mapfile -t records < <(grep -laE "dlock.($(IFS='|'; echo "$*"))" "${records[@]}")
  fi
  for file in "${records[@]}"; do
    printf '\n== %s, ' "${file##*/}"
    masked bytes < "$file"
  done
}

# The keys of the Redis server to which `server` leads, with their values.
dump_redis() {  # [<lock>...]
  redis-cli "${server[@]}" --raw EVAL '
    local lines = {}
    local function add(key, ...) 
      lines[#lines + 1] = string.gsub(key .. " | " .. table.concat({...}, " | "), "\n", "\\n")
    end
    for _, key in ipairs(redis.call("KEYS", "*")) do
      local kind, left = redis.call("TYPE", key).ok, redis.call("PTTL", key)
      -- Events stay for ten seconds.
      if kind ~= "stream" then add(key, kind, left < 0 and "stays" or "expires in " .. math.ceil(left / 100000) .. "00s") end
      if kind == "string" then
        local value = redis.call("GET", key)
        add(key, #value < 1000 and value or #value .. " bytes")
      elseif kind == "hash" then
        local all = redis.call("HGETALL", key)
        for i = 1, #all, 2 do 
          add(key, all[i], #all[i + 1] < 1000 and all[i + 1] or #all[i + 1] .. " bytes")
        end
      elseif kind == "list" then
        for i, value in ipairs(redis.call("LRANGE", key, 0, -1)) do add(key, i, value) end
      elseif kind == "zset" then
        local all = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
        for i = 1, #all, 2 do add(key, (i + 1) / 2, all[i], all[i + 1]) end
      end
    end
    return lines' 0 | {
    if (($#)); then grep -E "\\{($(IFS='|'; echo "$*"))\\}"; else cat; fi
  } | masked sorted
}

# The keys of etcd with their values, and the ttls of their leases.
dump_etcd() {  # [<lock>...]
  local key value version lease
  # The id of a lease is too large for jq.
  etcdctl get --prefix '' -w json | sed -E 's/"lease":([0-9]+)/"lease":"\1"/g' |
    jq -r '.kvs[] | [(.key | @base64d), (.value // "" | @base64d), .version, .lease // "0"] | join("\t")' |
    tr '\t' '\037' > kvs
  while IFS=$'\037' read -r key value version lease; do
    ((lease == 0)) || lease=$(etcdctl lease timetolive "$(printf %x "$lease")" -w json | jq '.["granted-ttl"]')
    printf '%s | version %s, ttl %s | %s\n' "$key" "$version" "$lease" "$value"
  done < kvs | {
    if (($#)); then grep -E "/($(IFS='|'; echo "$*"))/"; else cat; fi
  } | masked sorted etcd
}

# The rows of PostgreSQL.
dump_postgres() {  # [<lock>...]
  sql "CREATE OR REPLACE FUNCTION pg_temp.us(t timestamptz) RETURNS text LANGUAGE sql AS
      'SELECT coalesce((extract(epoch FROM t) * 1000000)::bigint::text, ''-'')';
    SELECT concat_ws(' | ', 'lock', name, 'format ' || format, 'refused ' || refused, 'due ' || pg_temp.us(due),
      'until ' || pg_temp.us(keep_until)) FROM dlock.lock UNION ALL
    SELECT concat_ws(' | ', 'lock', name, 'state', state) FROM dlock.lock UNION ALL
    SELECT concat_ws(' | ', 'lock', name, 'runs', runs) FROM dlock.lock UNION ALL
    SELECT concat_ws(' | ', 'fence', resource, greatest) FROM dlock.fence UNION ALL
    SELECT concat_ws(' | ', 'rate', name, 'format ' || format, 'until ' || pg_temp.us(keep_until),
      regexp_replace(replace(state, E'\\n', ' / '), '[0-9]+:[0-9a-f]{12}', '<time>:<token>', 'g')) FROM dlock.rate UNION ALL
    SELECT concat_ws(' | ', 'value', name, fence, size, sum, pg_temp.us(stored), pg_temp.us(fresh_until), pg_temp.us(keep_until))
      FROM dlock.value UNION ALL
    SELECT concat_ws(' | ', 'piece', name, fence, number, octet_length(data), pg_temp.us(keep_until)) FROM dlock.piece UNION ALL
    SELECT 'watcher | until ' || pg_temp.us(until) FROM dlock.watcher" | {
    if (($#)); then grep -E "^lock \\| ($(IFS='|'; echo "$*")) "; else cat; fi
  } | masked sorted
}

saw() { grep -qF "$1" sent; }

# The first, because the others are compared with it.
@test "a Redis server is as before" {
  DLOCK_TEST_STORE=redis use_private_store
  socket=$BATS_TEST_TMPDIR/server.socket
  server=(-s "$socket")
  # Fences count up from that of a grant in the past.
  for lock in "${names[@]}" join old late cache:small cache:large; do
    redis-cli -s "$socket" HSET "dlock:{$lock}:s" fence "$golden_fence" > /dev/null
  done
  redis-cli -s "$socket" MONITOR > sent 3>&- &
  eventually saw OK
  show_all redis
}

@test "the embedded store is as before" {
  use_private_store
  mkdir -m 700 "$store"
  # Fences count up from that of a run in the past.
  printf '{"event":"end","namespace":"dlock","name":"before","fence":%s,"started":"2026-01-01T00:00:00.000Z","ended":"2026-01-01T00:00:01.000Z","duration_ms":1000,"exit_code":0,"signal":null,"host":"h","uid":0,"outcome":"ran","counts":true}\n' \
    "$golden_fence" > "$store/runs.jsonl"
  chmod 600 "$store/runs.jsonl"
  show_all local
}

@test "PostgreSQL is as before" {
  use_postgres_store
  # Fences count up from that of a grant in the past.
  for lock in "${names[@]}" join old late; do dlock run "$lock" -- true; done
  sql "UPDATE dlock.lock SET runs = '[]', state = '{\"fence\":$golden_fence}'"
  show_all postgres
}

# What dlock sends to the server for each verb, without what the scripts do there.
sent() {  # <heading> <command>...
  redis-cli -s "$socket" ECHO "-- $1" > /dev/null
  "${@:2}" > /dev/null 2>&1 || true
}

@test "the members of a quorum are as before" {
  load ../faults/redis
  load ../faults/partition
  load ../faults/sentinel
  load ../faults/quorum
  use_quorum_store 3
  for i in 1 2 3; do
    for lock in past job pool hand; do member "$i" HSET "dlock:{$lock}:s" fence "$golden_fence" > /dev/null; done
  done
  dlock watch -v --json > events 2> watching 3>&- &
  eventually grep -q 'watching$' watching
  dlock run past --label 'the "past"' --report report.ran --ttl 10m -- true
  dlock run past --ttl 10m -- sh -c 'exit 3' || true
  hold_as job job --label 'a "label"' --lock-delay 10m
  queue_as waits job --label first
  hold_as reader pool --shared
  dlock acquire hand --ttl 10m --label 'by hand' > /dev/null
  dlock fence disk 7
  # Members that answer later than the majority count neither for the strength of a grant nor for
  # that of an answer.
  every_member_answers() {
    {
      for lock in past job pool hand; do part "$lock"; shown dlock status --json "$lock"; done
      part list; shown dlock list --json
      part history; shown dlock history --json
    } > documents
    ! grep -q '"strength":0' documents
  }
  eventually every_member_answers
  {
    cat documents
    part report; sed 's/"strength":[01],/"strength":<strength>,/' report.ran
    part events; by_name < events
  } | masked | golden quorum-json
  # What a member answers later than the majority is not awaited.
  dumps_are_equal() {
    for i in 1 2 3; do
      server=(-p "${ports[i]}")
      dump_redis > "member.$i"
    done
    cmp member.1 member.2 && cmp member.1 member.3
  }
  eventually dumps_are_equal
  golden quorum-store < member.1
  assert_golden
}

@test "etcd is as before" {
  use_etcd_store
  show_all etcd
}

@test "the commands to a Redis server are as before" {
  DLOCK_TEST_STORE=redis use_private_store
  socket=$BATS_TEST_TMPDIR/server.socket
  redis-cli -s "$socket" MONITOR > sent 3>&- &
  eventually saw OK
  # Each script is sent as a whole once.
  sent 'the first run' dlock run job -- true
  sent run dlock run job --label 'a "label"' --ttl 10m --lock-delay 1m --min-hold 1ms -- true
  sent shared dlock run pool --shared -- true
  sent slots dlock run sem --slots 3 --reclaim -- true
  sent dedupe dlock run job --dedupe 1h --retry-failed -- true
  sent supersede dlock run job --supersede -- true
  sent replace dlock run job --replace -- true
  sent 'max-queue' dlock run job --max-queue 3 --wait 1s -- true
  sent acquire dlock acquire job --ttl 10m --label 'by hand'
  sent 'acquire for a process' dlock acquire hand --ttl 10m --for-pid $$ --export
  has_renewed() { grep -q '"EVAL" .*{hand}.* "600000" "0"$' sent; }
  eventually has_renewed
  sent refused dlock run job -- true
  sent check dlock check job --fence 1
  sent status dlock status job
  sent list dlock list
  sent history dlock history
  sent 'history of one' dlock history job
  sent prometheus dlock list --prometheus
  sent 'break by force' dlock break job --yes --force
  token=$(dlock acquire job)
  sent renew dlock renew job --token "$token" --ttl 10m
  sent release dlock release job --token "$token"
  sent limit dlock limit api 2/1h
  sent 'show a limit' dlock limit api --show
  sent 'reset a limit' dlock limit api --reset
  sent cache dlock cache key -- echo value
  sent 'cached' dlock cache key -- echo value
  sent 'show a value' dlock cache key --show
  sent 'forget a value' dlock cache key --forget
  sent 'large value' dlock cache large -- perl -e 'print "x" x 300000'
  sent fence dlock fence disk 7
  redis-cli -s "$socket" ECHO '-- a waiter' > /dev/null
  hold_as holder job
  dlock run job --wait 1h --ttl 10m --label waits -- true 3>&- &
  waiter=$!
  call_pid waiter "$waiter"
  eventually saw '"BLPOP"'
  let_go
  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"
  redis-cli -s "$socket" ECHO '-- end' > /dev/null
  eventually saw '"-- end"'
  grep -v ' lua\] ' sent | perl -ne '
    s/^[\d.]+ \[[^]]*\] // or next;
    s/^"EVAL" "(?:[^"\\]|\\.)*"/"EVAL" "<script>"/;
    s/"([^"\\]{600,})"/"<" . length($1) . " bytes>"/ge;
    s/"\d+\.\d+"$/"<seconds>"/;
    # A connection names itself once it has been open for a while.
    print unless /^"CLIENT" "SETNAME"/;' | sed -E 's/\\"/"/g' | masked | golden redis-commands
  assert_golden
}

@test "--help and --version are as before" {
  use_private_store
  {
    for arguments in --help {run,acquire,renew,release,check,fence,status,list,watch,history,break,doctor,config,limit,cache}' --help' 'help options' run nonsense '' --help=x; do
      part "dlock $arguments"
      shown dlock $arguments 2>&1
    done
    dlock help run | diff <(dlock run --help) -
    part dlock --version
    dlock --version | sed -E 's/^dlock [0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?(\+g[0-9a-f]+(\.dirty)?)?$/dlock <version>/'
  } | golden help
  assert_golden
}

# Prints the lines of a table that another one has not, and the number of all.
what_differs_from() {  # <file>
  cat > shown
  sed -E 's/ {2,}/  /g' "$1" > before
  sed -E 's/ {2,}/  /g' shown | diff --unchanged-line-format= --old-line-format= --new-line-format=%L before - || true
  echo "lines: $(wc -l < shown)"
}

@test "dlock config is as before" {
  use_private_store
  export DLOCK_HOST=golden.example
  cat > rich.toml << 'END'
store = "redis://host:7000/2"
namespace = "shop"
store-timeout = "3s"
user = "me"
password-file = "password"
replicas = 2
sentinel-user = "watcher"
sentinel-password-file = "sentinel-password"
sentinel-tls = false
min-strength = 1
max-ttl = "2m"
tls-ca = "ca.pem"
tls-cert = "cert.pem"
tls-key = "key.pem"
tls-key-password-file = "key-password"
tls-name = "db"
tls-insecure = true
color = "never"
[address-map]
"a:1" = "b:2"
[run]
wait = "10m"
ttl = "40s"
conflict-exit-code = 7
dedupe = "1h"
retry-failed = true
max-queue = 4
min-hold = "5s"
timeout = "1h30m"
kill-after = "250ms"
jitter = "2s"
on-outage = "run"
reclaim = true
lock-delay = "1s"
stragglers = "kill"
label = "a \"label\""
report = "report.json"
on-success = "echo good"
on-failure = "echo bad"
on-busy = "echo busy"
[acquire]
wait = "forever"
ttl = "1m"
slots = 2
label = "by hand"
[renew]
ttl = "2d"
[check]
min-validity = "3s"
[list]
sort = "age"
[history]
limit = 7
since = "1d"
[limit]
wait = "9s"
[cache]
ttl = "10m"
stale = "1m"
max-size = "3MiB"
wait = "4s"
conflict-exit-code = 8
[lock.job]
ttl = "50s"
wait = 0
[lock."nightly-*"]
dedupe = 0
retry-failed = false
slots = 3
END
  variables=(DLOCK_NAMESPACE=other DLOCK_STORE_TIMEOUT=4s DLOCK_USER=you DLOCK_PASSWORD_FILE=secret DLOCK_REPLICAS=all
    DLOCK_SENTINEL_USER=guard DLOCK_SENTINEL_PASSWORD_FILE=sentinel-secret DLOCK_SENTINEL_TLS=true DLOCK_MIN_STRENGTH=2
    DLOCK_MAX_TTL=3m 'DLOCK_ADDRESS_MAP=c:3=d:4,e=f' DLOCK_TLS_CA=other.pem DLOCK_TLS_CERT=c.pem DLOCK_TLS_KEY=k.pem
    DLOCK_TLS_KEY_PASSWORD_FILE=pass-phrase DLOCK_TLS_NAME=cache DLOCK_TLS_INSECURE=false DLOCK_FENCE=12
    DLOCK_TOKEN=0123456789abcdef0123456789abcdef DLOCK_STORE=rediss://a:1)
  {
    part without a configuration; shown dlock config
    part as JSON; shown dlock config --json
    dlock config > default
    part with a file; shown dlock config --config rich.toml --store local:/nowhere | what_differs_from default
    cp shown with-file
    part of a lock; shown dlock config --config rich.toml job | what_differs_from with-file
    part with variables; shown env "${variables[@]}" dlock config --config rich.toml | what_differs_from with-file
    part with variables, as JSON; shown env "${variables[@]}" DLOCK_CONFIG=rich.toml dlock config --json
    part of a pattern; shown dlock config --config rich.toml nightly-1 --json
  } 2>&1 | masked columns | golden config
  assert_golden
}
