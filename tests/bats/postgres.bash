# shellcheck shell=bash
# Helpers for the tests with PostgreSQL: private servers, standbys, and PgBouncer. They need
# support.bash. The server's programs are the newest ones that the distribution installed.
#
# Each server has the database `app`, which belongs to the role `app`. The role `postgres` may do
# everything. On the unix socket no role needs a password; over TCP, all of them need one.
# shellcheck disable=SC2034,SC2154  # tests use variables that are set here, and the reverse

postgres_programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
postgres_password='only (us) %$:@/'

# initdb and the server refuse to run as root.
as_postgres=()
((EUID != 0)) || as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups --)

# For `setup`: starts a server and makes it the store, over its unix socket.
use_postgres_store() { use_private_store && start_first_postgres "$@"; }  # [<option of the server>...]

# Outside of all functions of a file, which has loaded only this one there: all of its tests have
# one server.
tests_share_postgres() {
  setup_file() { load support && share_postgres; }
  setup() { load support && use_shared_postgres; }
  teardown_file() { load support && end_shared_postgres; }
}

# For `setup_file` and `teardown_file`.
share_postgres() {
  start_first_postgres || return
  cp "$postgres_root/1/pg_hba.conf" "$BATS_FILE_TMPDIR/hba"
  declare -p postgres_root postgres_sockets postgres_port postgres_pid |
    sed 's/^declare /declare -g /' > "$BATS_FILE_TMPDIR/shared"
}
end_shared_postgres() { find_shared_postgres && stop_postgres; }
# shellcheck source=/dev/null
find_shared_postgres() { . "$BATS_FILE_TMPDIR/shared"; }

# For `setup`: makes that server the store, as it was at first.
use_shared_postgres() {
  use_private_store && find_shared_postgres || return
  postgres_is_shared=1
  reset_postgres || return
  export DLOCK_STORE
  DLOCK_STORE=$(postgres_url 1)
}

reset_postgres() {
  local before
  if grep -q '^[^#]' "$postgres_root/1/postgresql.auto.conf" || ! cmp -s "$BATS_FILE_TMPDIR/hba" "$postgres_root/1/pg_hba.conf"; then
    cat "$BATS_FILE_TMPDIR/hba" > "$postgres_root/1/pg_hba.conf"
    before=$(sql 'SELECT pg_conf_load_time()')
    sql 'SELECT pg_reload_conf()' -c 'ALTER SYSTEM RESET ALL' > /dev/null
    eventually postgres_has_reloaded "$before" || return
  fi
  sql "SET client_min_messages = warning; DO \$\$ DECLARE what text; BEGIN
    FOR what IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema\$)' LOOP
      EXECUTE format('DROP SCHEMA %I CASCADE', what);
    END LOOP;
    CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
    FOR what IN SELECT rolname FROM pg_roles WHERE rolname !~ '^(pg_.*|postgres|app)\$' LOOP
      EXECUTE format('DROP OWNED BY %I', what);
      EXECUTE format('DROP ROLE %I', what);
    END LOOP;
    ALTER ROLE app RESET ALL;
    ALTER ROLE app LOGIN CONNECTION LIMIT -1 PASSWORD '$postgres_password'; END \$\$"
}
postgres_has_reloaded() { [[ $(sql "SELECT pg_conf_load_time() > '$1'") == t ]]; }  # <before>

start_first_postgres() {  # [<option of the server>...]
  make_postgres_root || return
  begin_to_use_ports
  read -ra postgres_port <<< "0 $(free_ports 4)"
  make_postgres 1 && start_postgres 1 "$@" || return
  ports_are_used
  export DLOCK_STORE
  DLOCK_STORE=$(postgres_url 1)
}

# The servers' files are in memory if possible, in a directory that the servers' user can enter.
# stop_postgres removes it.
make_postgres_root() {
  [[ -z ${postgres_root:-} ]] || return 0
  local memory=/dev/shm
  [[ -d $memory && -w $memory ]] || memory=/tmp
  postgres_root=$(mktemp -d "$memory/dlock-postgres.XXXXXX") && chmod 755 "$postgres_root" || return
  postgres_sockets=$postgres_root/sockets
  mkdir "$postgres_sockets" && owned_by_postgres "$postgres_root" "$postgres_sockets"
  postgres_pid=()
}

owned_by_postgres() { ((EUID != 0)) || chown -R postgres:postgres "$@"; }  # <file>...

# Prints URLs of a server: over its unix socket, and over TCP.
postgres_url() {  # <number> [<role> [<database>]]
  echo "postgres://${2:-app}@/${3:-app}?host=$postgres_sockets&port=${postgres_port[$1]}"
}
postgres_tcp_url() {  # <number> [<role> [<database>]]
  echo "postgres://${2:-app}@127.0.0.1:${postgres_port[$1]}/${3:-app}"
}

# Makes the files of a server, as a copy: initdb takes ten times as long. All tests of a file
# copy the same.
make_postgres() {  # <number>
  local made=$BATS_FILE_TMPDIR/postgres
  [[ -e $made ]] || make_postgres_to_copy "$made" || return
  cp -a "$made" "$postgres_root/$1" && owned_by_postgres "$postgres_root/$1" &&
    chmod 700 "$postgres_root/$1"
}

make_postgres_to_copy() {  # <directory>
  local new=$postgres_root/new
  "${as_postgres[@]}" "$postgres_programs/initdb" --no-sync --no-instructions --auth trust \
    --username postgres --encoding UTF8 --locale C --wal-segsize 1 --pgdata "$new" \
    > "$BATS_FILE_TMPDIR/initdb.log" 2>&1 || { cat "$BATS_FILE_TMPDIR/initdb.log" >&2; return 1; }
  "${as_postgres[@]}" "$postgres_programs/postgres" --single -j -D "$new" postgres \
    > "$BATS_FILE_TMPDIR/initdb.log" 2>&1 << END
CREATE ROLE app LOGIN PASSWORD '$postgres_password';

CREATE DATABASE app OWNER app;

END
  cat > "$new/pg_hba.conf" << 'END'
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
END
  # Tests start and copy many of them.
  cat >> "$new/postgresql.conf" << END
listen_addresses = '127.0.0.1'
unix_socket_directories = '$postgres_sockets'
shared_buffers = 16MB
dynamic_shared_memory_type = mmap
max_wal_size = 16MB
min_wal_size = 2MB
wal_retrieve_retry_interval = 200ms
log_line_prefix = '%m [%p] %q%u@%d '
END
  mv "$new" "$1"
}

# Starts a server, for the first time or again. Returns when it serves requests, as a standby also
# may.
start_postgres() {  # <number> [<option>...]
  launch_postgres "$@"
  eventually postgres_serves "$1" || { tail -n 30 "$postgres_root/$1.log" >&2; return 1; }
}

# Does not wait. `postgres_environment` can hold assignments for the server.
launch_postgres() {  # <number> [<option>...]
  # The mark is removed because it is meant for processes that dlock starts.
  "${as_postgres[@]}" env -u DLOCK_TEST_ID "${postgres_environment[@]}" \
    "$postgres_programs/postgres" -D "$postgres_root/$1" -p "${postgres_port[$1]}" \
    -k "$postgres_sockets" "${@:2}" >> "$postgres_root/$1.log" 2>&1 3>&- &
  postgres_pid[$1]=$!
}

postgres_serves() { [[ $(postgres_sql "$1" 'SELECT 1' 2> /dev/null) == 1 ]]; }  # <number>

# Prints what a statement returns, without decoration. psql reads no settings of the user's.
postgres_sql() {  # <number> <statement> [<option of psql>...]
  env -u PGHOST -u PGUSER -u PGDATABASE -u PGPASSWORD -u PGOPTIONS PGCONNECT_TIMEOUT=5 \
    "$postgres_programs/psql" -XqAt -v ON_ERROR_STOP=1 -h "$postgres_sockets" \
    -p "${postgres_port[$1]}" -U postgres -d app "${@:3}" -c "$2"
}

# Does the same on the first server.
sql() { postgres_sql 1 "$@"; }  # <statement> [<option of psql>...]

# Prints when the lease of the first holder ends, in milliseconds since the epoch.
lease_end_on_postgres() {  # <number> <name>
  postgres_sql "$1" "SELECT (state::jsonb #>> '{holders,0,lives_until}')::bigint / 1000 FROM dlock.lock WHERE name = '$2'"
}

# Applies lines of pg_hba.conf, instead of those that it has, from the next login on.
postgres_admits() {  # <number> <line>...
  printf '%s\n' 'local all postgres trust' 'local replication all trust' "${@:2}" \
    > "$postgres_root/$1/pg_hba.conf"
  kill -HUP "${postgres_pid[$1]}"
  eventually postgres_has_read_hba "$1" "$(($# + 1))"
}
postgres_has_read_hba() {  # <number> <lines>
  grep -q 'reloading configuration' "$postgres_root/$1.log" &&
    [[ $(postgres_sql "$1" 'SELECT count(*) FROM pg_hba_file_rules WHERE error IS NULL') == "$2" ]]
}

# Changes a setting of a running server.
postgres_set() {  # <number> <setting> <value>
  postgres_sql "$1" "ALTER SYSTEM SET $2 = '$3'"
  postgres_sql "$1" 'SELECT pg_reload_conf()' > /dev/null
  eventually postgres_has "$@"
}
postgres_has() { [[ $(postgres_sql "$1" "SHOW $2") == "$3" ]]; }

# Makes a server a copy of another that follows it under the name s<number>.
start_standby() {  # <number> <number of the primary> [<option>...]
  "${as_postgres[@]}" "$postgres_programs/pg_basebackup" --no-sync --checkpoint fast \
    --wal-method stream --write-recovery-conf --pgdata "$postgres_root/$1" \
    --dbname "host=$postgres_sockets port=${postgres_port[$2]} user=postgres application_name=s$1" || return
  start_postgres "$1" "${@:3}"
  eventually follows "$1" "$2"
}
follows() {  # <number of the standby> <number of the primary>
  [[ $(postgres_sql "$2" "SELECT state FROM pg_stat_replication WHERE application_name = 's$1'") == streaming ]]
}

# Makes the commits of a server wait for standbys, as synchronous_standby_names says.
commits_wait_for() {  # <number> <synchronous_standby_names> <number of standbys>
  postgres_set "$1" synchronous_standby_names "$2"
  eventually so_many_are_synchronous "$1" "$3"
}
so_many_are_synchronous() {
  [[ $(postgres_sql "$1" "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')") == "$2" ]]
}

promote_postgres() {  # <number>
  "${as_postgres[@]}" "$postgres_programs/pg_ctl" promote --wait --silent -D "$postgres_root/$1" \
    > /dev/null
}

# All processes of a server. The stopped postmaster forks no further ones.
processes_of_postgres() {  # <number>
  echo "${postgres_pid[$1]}"
  pgrep -P "${postgres_pid[$1]}" || true
}

# Until postgres_goes_on, a server accepts connections but does not reply.
freeze_postgres() {  # <number>
  local pid
  halt "${postgres_pid[$1]}"
  # A process may have exited since it was listed.
  for pid in $(processes_of_postgres "$1"); do kill -STOP "$pid" 2> /dev/null || true; done
}
postgres_goes_on() {  # <number>
  local pid
  for pid in $(processes_of_postgres "$1"); do kill -CONT "$pid" 2> /dev/null || true; done
}

# Kills a server as a power failure would. Its other processes notice it, and exit.
crash_postgres() {  # <number>
  local pid pids
  # One that is stopped forks no further processes, which would still use the shared memory.
  kill -STOP "${postgres_pid[$1]}" 2> /dev/null || true
  eventually has_halted "${postgres_pid[$1]}" || true
  mapfile -t pids < <(processes_of_postgres "$1")
  end_processes "${pids[@]}"
  wait "${postgres_pid[$1]}" 2> /dev/null || true
  for pid in "${pids[@]}"; do eventually has_ended "$pid" || return; done
  unset "postgres_pid[$1]"
}

# Stops a server within a moment. Unlike SIGKILL, this frees its shared memory. With INT it writes
# to its disk first what it has, such as releases, for which no client waits.
end_postgres() {  # <number> [<signal>]
  kill -"${2:-QUIT}" "${postgres_pid[$1]}" 2> /dev/null || true
  postgres_goes_on "$1"
  eventually has_ended "${postgres_pid[$1]}" || crash_postgres "$1"
  wait "${postgres_pid[$1]}" 2> /dev/null || true
  unset "postgres_pid[$1]"
}

# Starts PgBouncer before the first server, and sets $pooled to the URL of the database there.
use_pgbouncer() {  # [<setting>...]
  pgbouncer_port=${postgres_port[4]}
  echo '"app" ""' > "$postgres_root/users"
  printf '%s\n' '[databases]' "app = host=$postgres_sockets port=${postgres_port[1]} user=app" \
    '[pgbouncer]' 'listen_addr = 127.0.0.1' "listen_port = $pgbouncer_port" \
    "unix_socket_dir = $postgres_sockets" 'auth_type = trust' "auth_file = $postgres_root/users" \
    'admin_users = app' 'pool_mode = transaction' "$@" > "$postgres_root/pgbouncer.ini"
  owned_by_postgres "$postgres_root/users" "$postgres_root/pgbouncer.ini"
  "${as_postgres[@]}" env -u DLOCK_TEST_ID "$(command -v pgbouncer || echo /usr/sbin/pgbouncer)" \
    "$postgres_root/pgbouncer.ini" >> "$postgres_root/pgbouncer.log" 2>&1 3>&- &
  pgbouncer_pid=$!
  eventually accepts_connections "$pgbouncer_port" || { cat "$postgres_root/pgbouncer.log" >&2; return 1; }
  pooled=postgres://app@127.0.0.1:$pgbouncer_port/app
}

# For `teardown`, before kill_leftovers.
stop_postgres() {
  local i
  if [[ -n ${pgbouncer_pid:-} ]]; then
    end_processes "$pgbouncer_pid"
    wait "$pgbouncer_pid" 2> /dev/null || true
    pgbouncer_pid=
  fi
  [[ -z ${postgres_is_shared:-} ]] || return 0
  for i in "${!postgres_pid[@]}"; do end_postgres "$i"; done
  # The shared memory of those that were killed.
  for i in "${postgres_root:-}"/*/postmaster.pid; do
    [[ ! -e $i ]] || ipcrm -m "$(awk 'NR == 7 { print $2 }' "$i")" 2> /dev/null || true
  done
  [[ -z ${postgres_root:-} ]] || rm -rf --one-file-system "$postgres_root" 2> /dev/null || true
}
