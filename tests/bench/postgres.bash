# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034,SC2154  # tests/bench/run reads all these files
# dlock on PostgreSQL: part postgres of tests/bench/run.

# Starts a server on a unix socket, which admits everyone, and on a port, where the role needs
# its password.
start_postgres() {
  local programs port
  programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
  psql=$programs/psql
  as_postgres=()
  ((EUID != 0)) || as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups --)
  postgres_root=$(mktemp -d /var/tmp/dlock-bench-postgres.XXXXXX)
  ((EUID != 0)) || chown postgres:postgres "$postgres_root"
  port=$(free_ports 1)
  postgres_port=$port
  "${as_postgres[@]}" "$programs/initdb" --no-sync --auth trust --username postgres --encoding UTF8 \
    --locale C --pgdata "$postgres_root/data" > /dev/null
  printf '%s\n' 'local all all trust' 'host all all 127.0.0.1/32 scram-sha-256' > "$postgres_root/data/pg_hba.conf"
  "${as_postgres[@]}" "$programs/postgres" -D "$postgres_root/data" -k "$postgres_root" -p "$port" \
    -c listen_addresses=127.0.0.1 > "$work/postgres.log" 2>&1 &
  postgres_pid=$!
  eventually ask_postgres 'SELECT 1' postgres
  ask_postgres "CREATE ROLE app LOGIN PASSWORD 'secret'" postgres
  ask_postgres 'CREATE DATABASE app OWNER app' postgres
  postgres_store="postgres://app@/app?host=$postgres_root&port=$port"
  postgres_over_tcp=postgres://app:secret@127.0.0.1:$port/app
}

ask_postgres() {  # <statement> [<database>]
  local socket
  socket=$(echo "$postgres_root"/.s.PGSQL.*[0-9])
  "$psql" -XqAt -h "$postgres_root" -p "${socket##*.}" -U postgres -d "${2:-app}" -c "$1"
}

start_pooler() {
  local socket port
  socket=$(echo "$postgres_root"/.s.PGSQL.*[0-9])
  port=$(free_ports 1)
  printf '%s\n' '[databases]' "app = host=$postgres_root port=${socket##*.} user=app" '[pgbouncer]' \
    'listen_addr = 127.0.0.1' "listen_port = $port" 'unix_socket_dir =' 'auth_type = any' \
    'pool_mode = transaction' > "$postgres_root/pgbouncer.ini"
  "${as_postgres[@]}" "$pgbouncer" "$postgres_root/pgbouncer.ini" > "$work/pgbouncer.log" 2>&1 &
  pooler_pid=$!
  pooled_store=postgres://app@127.0.0.1:$port/app
  eventually "$psql" -XqAt "$pooled_store" -c 'SELECT 1'
}

stop_postgres() {
  [[ -z ${pooler_pid:-} ]] || { kill "$pooler_pid"; wait "$pooler_pid" || true; }
  kill -INT "$postgres_pid"
  wait "$postgres_pid" || true
  rm -rf "$postgres_root"
}

# Prints in how many parts dlock sends a run's requests to the server; each is a round trip.
round_trips() {  # <store>
  local socket
  strace -f -qq -yy -e trace=connect,write,writev,sendto,sendmsg -o "$work/trace" \
    "$dlock" run --store "$1" trips -- /bin/true
  # dlock and its guardian share a separate unix socket.
  socket=$(sed -n 's/.*connect(.*UNIX-STREAM:\[\([0-9]*\)\]>.*PGSQL.*/\1/p' "$work/trace")
  # To say goodbye is none.
  grep -v -e ' connect(' -e '"X\\0\\0\\0\\4"' "$work/trace" | grep -c -e 'TCP:\[' -e "UNIX-STREAM:\[${socket:-none}" || true
}

# Adds a row: how long a grant takes on an open connection, and a function of the server that
# locks and writes a row.
grant_row() {
  local grants pgbench round count
  grants=$built/tests/dlock_grants
  pgbench=${psql%psql}pgbench
  [[ -x $grants && -x $pgbench ]] || return 0
  count=$(repeats 3 10)
  say "postgres, grants: $count rounds"
  ask_postgres 'CREATE TABLE peer (id int PRIMARY KEY, state text); INSERT INTO peer VALUES (1, repeat($$x$$, 700));
    CREATE FUNCTION take() RETURNS text LANGUAGE plpgsql AS $$ DECLARE s text; BEGIN
      SELECT state INTO s FROM peer WHERE id = 1 FOR UPDATE;
      UPDATE peer SET state = s WHERE id = 1; RETURN s; END $$'
  echo 'SELECT take()' > "$work/take.sql"
  for ((round = 0; round < count; ++round)); do
    printf '%s %s\n' "$("$grants" "$postgres_store" 300)" "$("$pgbench" -n -M prepared -h "$postgres_root" \
      -p "$postgres_port" -U postgres -t 300 -f "$work/take.sql" app 2> "$work/log" |
      awk '/^latency average/ { print $4 * 1000 }')"
  done > "$work/samples"
  add_ratio 'grant on an open connection; a function' ' ms' 1000 < "$work/samples"
}

# Adds rows: how many transactions a minute a waiter begins, as the server logs them, from the tenth
# place on and up to the fourth; with a length of the run before, those from the tenth on are parked.
idle_transactions_rows() {  # <seconds> [<milliseconds>]
  local i waiters=() what=idle first others name
  [[ -z ${2:-} ]] || what=parked
  say "postgres, $what: $1 s"
  lock=idle
  "$dlock" run "$lock" -- /bin/true
  if [[ -n ${2:-} ]]; then
    ask_postgres "UPDATE dlock.lock SET runs = regexp_replace(runs, '\"duration_ms\":[0-9]+', '\"duration_ms\":$2', 'g')"
  fi
  ask_postgres "ALTER SYSTEM SET log_line_prefix = '%a %v '"
  ask_postgres "ALTER ROLE app SET log_statement = 'all'"
  ask_postgres 'SELECT pg_reload_conf()' > "$work/log"
  hold_for postgres
  for ((i = 1; i <= 17; i++)); do
    name=front
    ((i < 5)) || name=middle
    ((i < 10)) || name=back
    "$dlock" run --store "$DLOCK_STORE&application_name=$name" -w forever "$lock" -- /bin/true &
    waiters+=($!)
    eventually dlock_waiters_are "$i"
  done
  first=$(logged_transactions front) others=$(logged_transactions back)
  sleep "$1"
  first=$(($(logged_transactions front) - first)) others=$(($(logged_transactions back) - others))
  ask_postgres 'ALTER ROLE app RESET log_statement'
  add_row "transactions a minute of each of 8 $what waiters" \
    "$(awk -v n="$others" -v s="$1" 'BEGIN { printf "%.1f", n * 60 / s / 8 }')"
  [[ -n ${2:-} ]] || add_row 'transactions a minute of each of the 4 before them' \
    "$(awk -v n="$first" -v s="$1" 'BEGIN { printf "%.1f", n * 60 / s / 4 }')"
  # Those that are parked come back after minutes.
  kill "${waiters[@]}"
  let_go "$holder"
  wait "${waiters[@]}" || true
}
logged_transactions() { grep -ao "^$1 [0-9]*/[0-9]*" "$work/postgres.log" | sort -u | wc -l; }  # <name>

bench_postgres() {
  local under seconds=180
  [[ -n $pgbouncer ]] || return 0
  ((runs >= 200)) || seconds=60
  start_postgres
  start_pooler
  DLOCK_STORE=$postgres_store
  "$dlock" run x -- /bin/true
  say "postgres: $(repeats 3 20) rounds"
  "$work/measure" time "$(repeats 3 20)" "$dlock" run -w forever x -- /bin/true ::: \
    "$here/psql_lock" "$psql" "$postgres_store" 1 /bin/true ::: \
    "$dlock" run --store "$postgres_over_tcp" -w forever x -- /bin/true ::: \
    "$here/psql_lock" "$psql" "$postgres_over_tcp" 1 /bin/true ::: \
    "$dlock" run --store "$pooled_store" -w forever x -- /bin/true > "$work/samples"
  add_ratio 'run on PostgreSQL; psql with an advisory lock' ' ms' 1000 < <(columns 1 4)
  add_ratio 'run on PostgreSQL, SCRAM over TCP; psql' ' ms' 1000 < <(columns 7 10)
  add_ratio 'run through PgBouncer; direct' ' ms' 1000 < <(columns 13 1)
  add_ratio 'run on PostgreSQL; psql: resident memory' ' MiB' 1024 < <(columns 3 6)
  crowd_row '8 workers on PostgreSQL; psql' 8 3 "$here/psql_lock" "$psql" "$postgres_store" 2
  if [[ -n $server ]]; then
    start_server
    handover_row 'hand-off on PostgreSQL; on Redis' postgres redis "$(repeats 6 10)" 0.1
    stop_server
  fi
  DLOCK_STORE=$postgres_store
  add_row 'round trips of a run' "$(round_trips "$postgres_store")"
  add_row 'round trips of a run, SCRAM' "$(round_trips "$postgres_over_tcp")"
  grant_row
  idle_transactions_rows "$seconds"
  idle_transactions_rows "$seconds" 60000
  stop_postgres
  DLOCK_STORE=$local_store
}
