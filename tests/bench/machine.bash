# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Prepares the machine: finds the peers, compiles the helpers, makes a working directory.

# Prints how often to repeat a step that takes TIMES as long as one command; at least LEAST.
repeats() {  # <times> <least>
  local count=$((runs / $1))
  echo $((count > $2 ? count : $2))
}

dlock=$(realpath -e "$DLOCK_BIN" 2> /dev/null) || fail "not built: $DLOCK_BIN"
built=${dlock%/*} # where its helpers are, if they are built
for tool in cc flock awk; do
  command -v "$tool" > /dev/null || fail "$tool is not installed"
done
flock=$(command -v flock)
missing=()
# Prints the path of a peer's program, or nothing if it is not installed.
find_peer() { command -v "$1" || true; }
setlock=$(find_peer setlock)
lckdo=$(find_peer lckdo)
sem=$(find_peer sem)
server=$(find_peer redis-server)
redis_cli=$(find_peer redis-cli)
etcdctl=
if command -v etcd > /dev/null; then etcdctl=$(find_peer etcdctl); fi
# The first python3 in PATH may lack the module that the distribution's python3 has.
python=
for python_candidate in python3 /usr/bin/python3; do
  "$python_candidate" -c 'import redis' 2> /dev/null || continue
  python=$("$python_candidate" -c 'import sys; print(sys.executable)')
  break
done
pgbouncer=
if [[ -n $(compgen -G '/usr/lib/postgresql/*/bin/postgres') ]]; then
  pgbouncer=$(PATH=$PATH:/usr/sbin find_peer pgbouncer)
fi
[[ -n $server && -n $redis_cli ]] || server='' redis_cli='' python=''
for peer in setlock lckdo sem etcdctl pgbouncer server redis_cli python; do
  [[ -n ${!peer} ]] || missing+=("$peer")
done
missing=("${missing[@]/python/redis-py}")
missing=("${missing[@]/redis_cli/redis-cli}")
missing=("${missing[@]/#server/redis-server}")

# Stores are on a disk; /tmp may be in memory.
work=$(mktemp -d "${TMPDIR:-/var/tmp}/dlock-bench.XXXXXX")
clean_up() {
  local left
  mapfile -t left < <(jobs -pr)
  # The commands under their locks end with them.
  ((${#left[@]} == 0)) || kill -KILL "${left[@]}" 2> /dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for helper in measure section floor; do
  cc -std=gnu11 -O2 -static -o "$work/$helper" "$here/$helper.c" ||
    fail 'the helpers cannot be compiled'
done
# Measures a copy, as installing makes one: the linker writes a file in pieces, which is then
# mapped page by page, and that costs each start about 0.04 ms.
install -D "$dlock" "$work/bin/dlock"
dlock=$work/bin/dlock
for variable in "${!DLOCK_@}" XDG_RUNTIME_DIR; do unset "$variable"; done
local_store=local:$work/store
redis_store=redis+unix:$work/redis.sock
export DLOCK_STORE=$local_store PARALLEL_HOME=$work/parallel
mkdir "$PARALLEL_HOME"
file=$work/file
: > "$file"

say() { printf '%s\n' "$*" >&2; }

# Waits until a command succeeds, at most 10 s.
eventually() {
  local try
  for ((try = 0; try < 5000; try++)); do
    if "$@" > /dev/null 2>&1; then return 0; fi
    sleep 0.002
  done
  fail "timed out after 10 s: $*"
}
