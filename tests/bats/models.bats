#!/usr/bin/env bats
# The models of dlock's protocols (tests/model): each keeps every promise, and no longer does so
# with a bug in it. tests/long/models.bats looks further.

setup() {
  load support
  models=$DLOCK_SOURCE/tests/model
}

# The bugs, and the bounds within which Spin has to find them. Those of tests/chaos/bugs have the
# same name there, in small letters.
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
)

# What no model has: these bugs are not about the order of events, but about which server is asked.
not_of_order=(ask_followed first_sentinel)

is_listed() { printf '%s\n' "${bugs[@]}" | grep -qE "^$1 $2( |$)"; }  # <model> <bug>

@test "each model keeps every promise" {
  local bounds
  for bounds in "lease" "lease -DRUNS=3 -DFAULTS=1" "quorum -DFAULTS=1" \
    "quorum -DFAULTS=1 -DHELD=1 -DREQUESTS=1" \
    "quorum -DFAULTS=1 -DSERVERS=5 -DREQUESTS=1"; do
    # shellcheck disable=SC2086  # the words of a row
    run "$models/check" $bounds
    assert_status 0 || return 1
  done
}

@test "each bug of the models breaks a promise" {
  local bug model name bounds
  for bug in "${bugs[@]}"; do
    read -r model name bounds <<< "$bug"
    # shellcheck disable=SC2086  # none, or one
    SHORTEST=no run "$models/check" "$model" "-D$name" $bounds
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
