# shellcheck shell=bash
# Which tests of Bats may be skipped on this machine. tests/run and tests/settings source this file.

# Tests of Bats that ran, that were skipped, and that were skipped without a reason on this machine.
ran=0
skipped=0
needless_skips=0

# Counts those in a log.
note_skips() {  # <log>
  local line
  ((ran += $(grep -cE '^(ok|not ok) [0-9]+ ' "$1"))) || true
  while IFS= read -r line; do
    ((++skipped))
    skip_is_expected "${line##*# skip}" || { complain "skipped without need: $line"; ((++needless_skips)); }
  done < <(grep -E '^ok [0-9]+ .*# skip' "$1")
}

skip_is_expected() {  # <reason>
  local root
  case $1 in
    *'only root can'*) ((EUID != 0)) ;;
    *cgroup*) root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts) && [[ -z $root || ! -w $root ]] ;;
    *'user namespace'*) ! unshare --map-root-user true 2> /dev/null ;;
    *'choose pids'*) [[ ! -w /proc/sys/kernel/ns_last_pid ]] ;;
    *'fish is not installed'*) [[ ! -d /etc/fish ]] ;;
    # The same file has the test on another store.
    *' has it'* | *'no guardian'* | *'on a server'* | *'a server has'*) true ;;
    *) false ;;
  esac
}
