# A helper for the tests of dlock doctor. It needs support.bash.
# shellcheck disable=SC2154  # output is from `run`

# Asserts that `run dlock doctor` printed this finding.
assert_found() {  # <level> <check> <part of the message> [<part of the advice>]
  local found
  found=$(grep -A 1 -E "^$1 +$2 " <<< "$output") || found=''
  [[ -z $found || ${found%%$'\n'*} != *"$3"* || ${found##*$'\n'} != *"${4:+-> $4}"* ]] || return 0
  printf 'no %s of %s with "%s" and "%s":\n%s\n' "$1" "$2" "$3" "${4:-}" "$output" >&2
  return 1
}
