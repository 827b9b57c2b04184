# Helpers for the tests of dlock doctor. They need support.bash.
# shellcheck disable=SC2154  # output is from `run`

# Asserts that `run dlock doctor` printed this finding.
assert_found() {  # <level> <check> <part of the message> [<part of the advice>]
  local found
  found=$(grep -A 1 -E "^$1 +$2 " <<< "$output") || found=''
  [[ -z $found || ${found%%$'\n'*} != *"$3"* || ${found##*$'\n'} != *"${4:+-> $4}"* ]] || return 0
  printf 'no %s of %s with "%s" and "%s":\n%s\n' "$1" "$2" "$3" "${4:-}" "$output" >&2
  return 1
}

# Runs dlock doctor, and asserts its exit code and a finding.
assert_doctor_finds() {  # <exit code> <level> <check> <part of the message> [<part of the advice>]
  run timeout 60 dlock doctor
  assert_status "$1"
  assert_found "${@:2}"
}

# Runs dlock doctor with a time limit of 4 s for an answer, and asserts that it waits for all
# silent servers together, and so for less than two time limits.
run_doctor_for_one_time_limit() {
  local begin
  begin=$(now_ms)
  run dlock doctor --store-timeout 4s
  assert_between $(($(now_ms) - begin)) 3900 7900
}
