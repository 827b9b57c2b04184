# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Starts and stops holders and waiters of dlock and of its peers.

# Runs a command under the lock that WORDS take, and waits until it has started. let_go ends
# it.
hold() {  # <words>...
  local name=$work/hold.$((++holders))
  mkfifo "$name"
  "$@" "$work/section" last "$name.end" "$name" &
  holder=$!
  fifo_of[holder]=$name
  eventually test -e "$name.end"
}
holders=0
fifo_of=()

let_go() {  # <pid of a holder>
  : > "${fifo_of[$1]}"
  wait "$1"
}

# Prints when that holder's command ended.
end_of() { cat "${fifo_of[$1]}.end"; }

dlock_waiters_are() {  # <number>
  [[ $(timeout 2 "$dlock" status --json "$lock" | grep -o '"waiting_ms"' | wc -l) == "$1" ]]
}
flock_waiters_are() {
  # "1: -> FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE ..."
  [[ $(grep -c -e "-> FLOCK .*:$(stat -c %i "$file.wait") " /proc/locks) == "$1" ]]
}
# The queue contains the holder as well.
etcdctl_waiters_are() {
  [[ $("$etcdctl" get --prefix --keys-only "$lock/" | grep -c .) == $(($1 + 1)) ]]
}
is_asleep() { grep -q '^State:.S' "/proc/$1/status"; }

# Starts a waiter that writes its start time to a file, and waits until it is the last of
# NUMBER waiters and asleep.
await_turn() {  # <tool> <file> <number>
  case $1 in
    dlock | redis | etcd | postgres) "$dlock" run -w forever "$lock" -- "$work/section" first "$2" & ;;
    flock) "$flock" "$file.wait" "$work/section" first "$2" & ;;
    redis-cli | etcdctl) "${under[@]}" "$work/section" first "$2" & ;;
  esac
  waiter=$!
  case $1 in
    redis-cli) ;; # neither a server nor the kernel counts these waiters
    redis | etcd | postgres) eventually dlock_waiters_are "$3" ;;
    *) eventually "$1_waiters_are" "$3" ;;
  esac
  eventually is_asleep "$waiter"
}

hold_for() {  # <tool>
  DLOCK_STORE=$local_store
  case $1 in
    redis) DLOCK_STORE=$redis_store; hold "$dlock" run "$lock" -- ;;
    etcd) DLOCK_STORE=$etcd_store; hold "$dlock" run "$lock" -- ;;
    postgres) DLOCK_STORE=$postgres_store; hold "$dlock" run "$lock" -- ;;
    dlock) hold "$dlock" run "$lock" -- ;;
    flock) : >> "$file.wait"; hold "$flock" "$file.wait" ;;
    redis-cli | etcdctl) set_under "$1" handover; hold "${under[@]}" ;;
  esac
}
