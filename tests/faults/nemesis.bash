# Random faults of servers that fail over, while many claims request one lock. It needs
# sentinel.bash and cluster.bash.
# shellcheck disable=SC2034,SC2154  # those set pids and ports, and tests show $harm

# Waits for a condition whose check starts many processes, on a busy machine.
patiently() {  # <command>...
  local give_up_at=$((SECONDS + 180))
  until "$@"; do
    ((SECONDS < give_up_at)) || { echo "did not come true: $*" >&2; return 1; }
    sleep 0.3
  done
}

# Injects a fault into a fleet with sentinels, and waits until it has recovered.
harm_fleet() {
  local primary replica
  primary=$(primary_by 5)
  replica=$((primary % 3 + 1))
  case $((RANDOM % 5)) in
    0) harm="kill of primary $primary"; crash "$primary"; await_other_primary "$primary"; start_member "$primary" ;;
    1) harm="pause of primary $primary"; freeze "$primary"; await_other_primary "$primary"; go_on "$primary" ;;
    2) harm="manual failover"; member 5 SENTINEL FAILOVER main > /dev/null; await_other_primary "$primary" ;;
    3) harm="kill of replica $replica"; crash "$replica"; start_member "$replica" ;;
    4) harm="kill of a sentinel"; crash 4; start_member 4 ;;
  esac
  patiently is_whole
}

await_other_primary() {  # <number of the one before>
  before_that=$1
  patiently another_is_primary
}

another_is_primary() {
  local now
  now=$(primary_by 5)
  [[ -n $now && $now != "$before_that" && $(member "$now" ROLE | head -n 1) == master ]]
}

# Whether all sentinels agree, and the primary has two replicas that are up.
is_whole() {
  local primary
  primary=$(primary_by 5)
  [[ -n $primary && $(primary_by 4) == "$primary" && $(primary_by 6) == "$primary" ]] &&
    [[ $(member "$primary" INFO replication | grep -c 'state=online') == 2 ]]
}

# The same for a cluster. The lock is `job`.
harm_cluster() {
  local owner
  owner=$(owner_of job)
  case $((RANDOM % 4)) in
    0) harm="kill of member $owner"; crash "$owner"; await_other_owner "$owner"; start_member "$owner" ;;
    1) harm="pause of member $owner"; freeze "$owner"; await_other_owner "$owner"; go_on "$owner" ;;
    *) harm="move of the slot"; begin_move job; move_keys; move_keys; end_move ;;
  esac > /dev/null
  patiently cluster_is_whole
}

await_other_owner() {  # <number of the one before>
  before_that=$1
  witness=$(($1 == 1 ? 2 : 1))
  patiently another_is_owner
}

another_is_owner() {
  local now
  now=$(owner_by "$witness" job)
  [[ -n $now && $now != "$before_that" ]]
}

cluster_is_whole() {
  local i
  for i in 1 2 3 4 5 6; do is_settled "$i" || return; done
}
