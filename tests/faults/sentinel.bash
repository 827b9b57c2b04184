# Helpers for tests with servers that fail over: a private primary with two replicas and three
# sentinels. They need support.bash, redis.bash and partition.bash.
# shellcheck disable=SC2034  # some of what is set here is for the tests
# shellcheck disable=SC2154  # redis.bash sets redis_program

# The side of the partition on which each of them is (partition.bash); empty without a partition.
side_of=()

host_of() { echo "${side_address[${side_of[$1]:-both}]}"; }  # <number>

# The settings of the sentinels: they notice a failure within a second, and act quickly. An election
# without a winner, which happens on a busy machine, is repeated after twice the failover-timeout.
sentinel_settings() {  # <number of the primary>
  cat << END
sentinel monitor main $(host_of "$1") ${ports[$1]} 2
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 2500
sentinel parallel-syncs main 2
END
}

# What a sentinel would otherwise learn from the primary and from the others within seconds.
known_to() {  # <number of the sentinel>
  local i
  echo "sentinel myid $(id_of_sentinel "$1")"
  for i in 2 3; do echo "sentinel known-replica main $(host_of "$i") ${ports[i]}"; done
  for i in 4 5 6; do
    ((i == $1)) ||
      echo "sentinel known-sentinel main $(host_of "$i") ${ports[i]} $(id_of_sentinel "$i")"
  done
}

id_of_sentinel() { printf '%040d' "$1"; }  # <number>

# For `setup`, instead of use_private_store: starts all of them, and makes them the store.
# Servers are 1 to 3, and 1 is the first primary; sentinels are 4 to 6.
use_sentinel_store() {
  use_private_store || return
  start_fleet
}

start_fleet() {
  fleet=$BATS_TEST_TMPDIR/fleet
  first_sentinel=4
  begin_to_use_ports
  read -ra ports <<< "$(free_ports 6)"
  ports=(0 "${ports[@]}")
  pids=()
  local i
  for i in 1 2 3 4 5 6; do
    mkdir -p "$fleet/$i"
    { printf '%s\n' "bind $(host_of "$i")" "dir $fleet/$i" 'protected-mode no'
      port_settings "$i"; } > "$fleet/$i/conf"
  done
  for i in 1 2 3; do
    # Replicas synchronise at once, without the five seconds that wait for more replicas.
    printf '%s\n' 'save ""' 'repl-diskless-sync yes' 'repl-diskless-sync-delay 0' \
      'repl-timeout 60' >> "$fleet/$i/conf"
    ((i == 1)) || echo "replicaof $(host_of 1) ${ports[1]}" >> "$fleet/$i/conf"
    start_member "$i"
  done
  eventually is_replicated_to 2
  for i in 4 5 6; do
    { sentinel_settings 1; known_to "$i"; } >> "$fleet/$i/conf"
    start_member "$i"
  done
  ports_are_used
  for i in 4 5 6; do eventually reaches_all "$i"; done
  local sentinels
  sentinels=$(for i in 4 5 6; do echo "$(host_of "$i"):${ports[i]}"; done | paste -sd ,)
  export DLOCK_STORE=redis+sentinel://$sentinels/main
}

start_member() {  # <number>
  local as=()
  (($1 < first_sentinel)) || as=(--sentinel)
  set_way_to "$1"
  "${way[@]}" "$redis_program" "$fleet/$1/conf" "${as[@]}" >> "$fleet/$1/log" 2>&1 3>&- &
  pids[$1]=$!
  eventually member_answers "$1"
}

member_answers() { [[ $(member "$1" PING) == PONG ]]; }

# Uses TLS for the members with these numbers, with the certificates that they and the servers
# show. Sentinels connect to servers as these require, whether or not they use TLS themselves.
over_tls=()
certificate='' sentinel_certificate=''
is_over_tls() { [[ " ${over_tls[*]} " == *" $1 "* ]]; }  # <number>

port_settings() {  # <number>
  local shown=$certificate
  (($1 < first_sentinel)) || shown=$sentinel_certificate
  if is_over_tls "$1"; then
    printf '%s\n' 'port 0' "tls-port ${ports[$1]}"
  else
    echo "port ${ports[$1]}"
  fi
  [[ -z $shown ]] || printf '%s\n' 'tls-replication yes' 'tls-auth-clients no' \
    "tls-cert-file $shown.crt" "tls-key-file $shown.key" "tls-ca-cert-file $DLOCK_TLS_CA"
}

# Sets $way to the prefix of a command that runs on the side of a member.
set_way_to() {  # <number>
  way=()
  [[ -z ${side_of[$1]:-} ]] || way=(nsenter --target "${side_pid[${side_of[$1]}]}" --net --)
}

# Without a command, these are read from standard input.
member() {  # <number> [<command>...]
  local tls=()
  if is_over_tls "$1"; then
    tls=(--tls --cacert "$DLOCK_TLS_CA")
  elif [[ -z ${side_of[$1]:-} && ${2:-MONITOR} != MONITOR ]]; then
    ask_port "${ports[$1]}" "${@:2}"
    return
  fi
  set_way_to "$1"
  "${way[@]}" timeout 5 redis-cli "${tls[@]}" -h "$(host_of "$1")" -p "${ports[$1]}" "${@:2}" 2> /dev/null
}

is_replicated_to() { [[ $(member 1 INFO replication | grep -c 'state=online') == "$1" ]]; }

# Whether a sentinel has had replies of both replicas and of the other sentinels.
reaches_all() {  # <number>
  local replicas sentinels
  replicas=$(member "$1" SENTINEL REPLICAS main)
  [[ $replicas == *$'master-link-status\nok'*$'master-link-status\nok'* ]] || return
  # They use TLS among themselves as well, if the servers do. Sentinels without it cannot reach
  # each other.
  [[ " ${over_tls[*]:-} " != *' 1 '* || " ${over_tls[*]:-} " == *' 4 '* ]] || return 0
  sentinels=$(member "$1" SENTINEL SENTINELS main)
  [[ $sentinels == *$'flags\nsentinel\n'*$'flags\nsentinel\n'* ]]
}

# Prints the number of the server that a sentinel names.
primary_by() {  # <number of the sentinel>
  local port i
  port=$(member "$1" SENTINEL GET-MASTER-ADDR-BY-NAME main | tail -n 1)
  for i in 1 2 3; do
    [[ ${ports[i]} != "$port" ]] || echo "$i"
  done
}

# Whether two sentinels name another server than 1, and that server is a primary.
has_failed_over() {
  local new
  new=$(primary_by 4)
  [[ -n $new && $new != 1 && $(primary_by 5) == "$new" ]] &&
    [[ $(member "$new" ROLE | head -n 1) == master ]]
}

freeze() { local i; for i; do halt "${pids[i]}"; done; }  # <number>...
go_on() { local i; for i; do kill -CONT "${pids[i]}"; done; }  # <number>...
crash() {  # <number>...
  local i
  for i; do
    kill -KILL "${pids[i]}"
    wait "${pids[i]}" 2> /dev/null || true
  done
}

# For `teardown`.
stop_fleet() {
  [[ -n ${pids[*]:-} ]] || return 0
  end_processes "${pids[@]}"
  wait "${pids[@]}" 2> /dev/null || true
}
