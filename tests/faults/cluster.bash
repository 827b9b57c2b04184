# Helpers for tests with a private cluster: three primaries with a replica each. They need
# support.bash, redis.bash and sentinel.bash.
# shellcheck disable=SC2034  # some of what is set here is for the tests
# shellcheck disable=SC2154  # sentinel.bash sets ports, pids and fleet

# For `setup`, instead of use_private_store: starts the members 1 to 6, and makes them the
# store. A member that does not respond for a second is considered dead.
use_cluster_store() {
  use_private_store || return
  fleet=$BATS_TEST_TMPDIR/fleet
  first_sentinel=100 # there is none
  local i
  begin_to_use_ports
  read -ra ports <<< "$(free_pairs_of_ports 6)"
  ports=(0 "${ports[@]}")
  pids=()
  for i in 1 2 3 4 5 6; do
    mkdir -p "$fleet/$i"
    printf '%s\n' "port ${ports[i]}" 'bind 127.0.0.1' "dir $fleet/$i" 'save ""' \
      'cluster-enabled yes' 'cluster-node-timeout 1000' \
      'cluster-replica-validity-factor 0' 'repl-diskless-sync-delay 0' > "$fleet/$i/conf"
    start_member "$i"
  done
  ports_are_used
  redis-cli --cluster-yes --cluster create "127.0.0.1:${ports[1]}" "127.0.0.1:${ports[2]}" \
    "127.0.0.1:${ports[3]}" "127.0.0.1:${ports[4]}" "127.0.0.1:${ports[5]}" "127.0.0.1:${ports[6]}" \
    --cluster-replicas 1 > "$fleet/created"
  for i in 1 2 3 4 5 6; do eventually is_settled "$i"; done
  export DLOCK_STORE="redis+cluster://127.0.0.1:${ports[1]},127.0.0.1:${ports[2]},127.0.0.1:${ports[3]}"
}

# Chooses ports such that the port 10000 above each is free as well: members use it.
free_pairs_of_ports() {  # <number>
  perl -MIO::Socket::INET -e '
    my ($wanted, @kept, @ports) = shift;
    while (@ports < $wanted) {
      my $port = 10000 + int rand 10000;
      my @pair = map { IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:$_") } $port, $port + 10000;
      next if @pair != 2 || grep { !defined } @pair;
      push @kept, @pair;
      push @ports, $port;
    }
    print "@ports\n"' "$1"
}

is_settled() {
  member "$1" CLUSTER INFO | grep -q 'cluster_state:ok' &&
    [[ $(member "$1" CLUSTER NODES | grep -c slave) == 3 ]] &&
    { [[ $(member "$1" ROLE | head -n 1) == master ]] || member "$1" INFO replication | grep -q master_link_status:up; }
}

# Prints the number of the member that has the slot of a lock, according to another one.
owner_by() {  # <number of that one> <name>
  local slot port i
  slot=$(member "$1" CLUSTER KEYSLOT "dlock:{$2}") || return
  port=$(member "$1" CLUSTER NODES | awk -v slot="$slot" '{
    for (i = 9; i <= NF; i++) {
      if ($i ~ /^[0-9]/) {
        split($i, range, "-")
        last = range[2] == "" ? range[1] : range[2]
        if (slot >= range[1] && slot <= last) { sub(/@.*/, "", $2); sub(/.*:/, "", $2); print $2 }
      }
    }
  }')
  for i in 1 2 3 4 5 6; do
    [[ ${ports[i]} != "$port" ]] || echo "$i"
  done
}

# The same, according to the first member that replies.
owner_of() {  # <name>
  local i
  for i in 1 2 3 4 5 6; do
    if member_answers "$i"; then
      owner_by "$i" "$1"
      return
    fi
  done
}

# Prints a primary that does not have the slot of a lock.
other_than_owner_of() {  # <name>
  local i owner
  owner=$(owner_of "$1")
  for i in 1 2 3 4 5 6; do
    if [[ $i != "$owner" && $(member "$i" ROLE | head -n 1) == master ]]; then
      echo "$i"
      return
    fi
  done
}

id_of() { member "$1" CLUSTER MYID; }  # <number>

# Begins to migrate the slot of a lock. No key is moved yet.
begin_move() {  # <name>
  from=$(owner_of "$1")
  to=$(other_than_owner_of "$1")
  slot=$(member "$from" CLUSTER KEYSLOT "dlock:{$1}")
  member "$to" CLUSTER SETSLOT "$slot" IMPORTING "$(id_of "$from")"
  member "$from" CLUSTER SETSLOT "$slot" MIGRATING "$(id_of "$to")"
}

# Moves these keys of the slot, or all.
move_keys() {  # [<key>...]
  local keys=("$@")
  (($# > 0)) || mapfile -t keys < <(member "$from" CLUSTER GETKEYSINSLOT "$slot" 1000)
  ((${#keys[@]} == 0)) ||
    member "$from" MIGRATE 127.0.0.1 "${ports[to]}" '' 0 5000 KEYS "${keys[@]}"
}

end_move() {
  local i
  for i in "$to" "$from" 1 2 3 4 5 6; do
    [[ $(member "$i" ROLE | head -n 1) != master ]] ||
      member "$i" CLUSTER SETSLOT "$slot" NODE "$(id_of "$to")"
  done
}
