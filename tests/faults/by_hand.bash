# Helpers for the tests of acquire and the verbs that go with it. They need support.bash.
# shellcheck disable=SC2034  # what is set here is for the tests

# A token that belongs to no lease.
some_token=000102030405060708090a0b0c0d0e0f

# Acquires a lock for a process that does nothing. Sets $beneficiary to the pid of that
# process, $token, and $keeper to the pid of the process that renews the lease.
for_a_process() {  # [<option>...] <name>
  sleep 600 3>&- &
  beneficiary=$!
  token=$(dlock acquire --for-pid "$beneficiary" "$@") || return
  keeper=$(keepers)
  [[ -n $keeper ]]
}

# Prints the processes that renew a lease for $beneficiary, or are about to.
keepers() { pgrep -f "^dlock acquire .*--for-pid $beneficiary\b"; }

no_keeper() { ! keepers; }
