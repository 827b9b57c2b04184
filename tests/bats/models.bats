#!/usr/bin/env bats
# The models of dlock's protocols (tests/model): each keeps every promise, and no longer does so
# with a bug in it. tests/long/models.bats looks further.
# shellcheck disable=SC2086  # words

setup() {
  load support
  models=$DLOCK_SOURCE/tests/model
}

# What has to hold, and within which bounds.
kept=(
  "lease"
  "quorum -DFAULTS=1"
  "etcd -DSTALE_READS"
  "etcd -DCONFIRMED_BY_READ"
  "row -DFAULTS=1 -DSTEPS=2"
  "restore"
)

# The bugs, and the bounds within which they have to be found; -DBFS where that is sooner. Those of
# tests/chaos/bugs have the same name there, in small letters.
bugs=(
  "lease COUNTED_FROM_REPLY"
  "lease START_UNCHECKED"
  "lease NO_GUARDIAN"
  "lease PROMISE_UNCONFIRMED"
  "lease CONNECTION_REUSED -DFAULTS=3"
  "lease FENCE_BY_INCREMENT"
  "lease UNFENCED_DELETE"
  "lease UNCHECKED_RELEASE"
  "lease UNFENCED_RENEWAL"
  "lease NO_TOMBSTONE"
  "lease SECOND_ASLEEP -DRUNS=3"
  "quorum NO_UPTIME_RULE -DFAULTS=1"
  "quorum COUNTED_FROM_LAST_VOTE -DFAULTS=1"
  "quorum UNFENCED_RELEASE -DFAULTS=2"
  "quorum ONE_ROUND -DFAULTS=2 -DHELD=1 -DREQUESTS=1 -DFAILING=0"
  "etcd KEEPALIVE_ALONE"
  "etcd CONFIRMED_BY_READ -DSTALE_READS"
  "etcd OLD_LEASE_KEPT"
  "etcd TERM_OF_REPLY_BELIEVED"
  "row VERSION_NOT_COMPARED -DSTEPS=2"
  "row FORCED_WRITE_LEFT_OUT -DSTEPS=2"
  "row CONFLICT_ENDS_DOUBT -DSTEPS=2 -DBFS"
  "row COUNTED_FROM_REPLY -DSTEPS=2 -DBFS"
  "row GRANT_ASYNCHRONOUS -DSTEPS=2 -DBFS"
  "row WARNING_IGNORED -DSTEPS=2 -DBFS"
  "row NEW_ROW_AT_VERSION_ONE -DSTEPS=2"
  "restore FENCES_COMPARED"
  "restore FENCE_ALONE"
  "restore CLAIM_ALONE"
)

# What no model has: these bugs are not about the order of events, but about which server is asked,
# which clock counts, who listens, and what a run remembers.
not_of_order=(ask_followed first_sentinel clock_before_lock counted_from_read listen_after_asking
  front_not_told epoch_not_noted pause_overruns)

is_listed() {  # <model> <bug>
  printf '%s\n' "${bugs[@]}" "${kept[@]}" | grep -qE "^$1 (.*-D)?$2( |$)"
}

@test "each model keeps every promise" {
  local bounds
  for bounds in "${kept[@]}"; do
    QUICK=yes run "$models/check" $bounds
    assert_status 0 || return 1
  done
}

@test "each bug of the models breaks a promise" {
  local bug model name bounds
  for bug in "${bugs[@]}"; do
    read -r model name bounds <<< "$bug"
    QUICK=yes run "$models/check" "$model" "-D$name" $bounds
    assert_status 1 || { echo "$bug" >&2; return 1; }
    assert_output_contains BROKEN
  done
}

@test "every bug that a model can have is among these" {
  local file name
  for file in "$models"/*.pml; do
    # The names of bounds have no underscore.
    while read -r name; do
      is_listed "$(basename "$file" .pml)" "$name" || { echo "$file: $name" >&2; return 1; }
    done < <(grep -E '^#(if|elif)' "$file" | grep -oE '[A-Z]+(_[A-Z]+)+')
  done
}

@test "every bug of the chaos tests that is one of order is in a model" {
  local patch name
  for patch in "$DLOCK_SOURCE"/tests/chaos/bugs/*.patch; do
    name=$(basename "$patch" .patch)
    [[ " ${not_of_order[*]} " == *" $name "* ]] || is_listed '[a-z]*' "${name^^}" ||
      { echo "$name" >&2; return 1; }
  done
}
