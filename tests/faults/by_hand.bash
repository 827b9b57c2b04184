# Helpers for the tests of locks that are held by hand. They go with support.bash.
# shellcheck disable=SC2034  # what is set here is for the tests

# A token that nobody was given.
some_token=000102030405060708090a0b0c0d0e0f

# Acquires a lock for a process that does nothing, and sets $beneficiary to its pid, $token,
# and $keeper to the pid of the process that keeps it.
for_a_process() {  # [<option>...] <name>
  sleep 600 3>&- &
  beneficiary=$!
  token=$(dlock acquire --for-pid "$beneficiary" "$@") || return
  keeper=$(keepers)
  [[ -n $keeper ]]
}

# Prints the processes that keep, or are to keep, a lock for $beneficiary.
keepers() { pgrep -f "^dlock acquire .*--for-pid $beneficiary\b"; }

no_keeper() { ! keepers; }
