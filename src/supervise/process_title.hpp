// What lists of processes show of this one.
#pragma once

namespace dlock {

// Notes where the arguments of this process lie, as main() got them.
void note_arguments(int argc, char** argv);

// From now on the process has this name in lists (ps, pgrep, pkill), also for those that
// look at its arguments (pkill -f), which are overwritten. Allocates nothing.
void rename_process(const char* name);

}  // namespace dlock
