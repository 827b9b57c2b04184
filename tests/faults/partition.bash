# Helpers for tests with a network partition: `west` and `east` are two network namespaces
# with one link between them. They need support.bash.

declare -gA side_pid=()
declare -gA side_address=([west]=10.211.0.1 [east]=10.211.0.2 [both]=127.0.0.1)

use_two_sides() {
  needs_root
  local side
  for side in west east; do
    unshare --net sleep 600 3>&- &
    side_pid[$side]=$!
    eventually has_own_network "${side_pid[$side]}"
    on_side "$side" ip link set lo up
  done
  on_side west ip link add wire type veth peer name wire netns "${side_pid[east]}"
  for side in west east; do
    on_side "$side" ip address add "${side_address[$side]}/24" dev wire
    on_side "$side" ip link set wire up
  done
}

has_own_network() { ! [[ /proc/$1/ns/net -ef /proc/self/ns/net ]]; }

on_side() {  # <side> <command>...
  nsenter --target "${side_pid[$1]}" --net -- "${@:2}"
}

# From then on all packets between the sides are dropped, without an error.
cut_the_link() { on_side west ip link set wire down; }
