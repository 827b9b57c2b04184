// Keeps passwords out of what the kernel shows of this process.
#pragma once

namespace dlock {

// Overwrites passwords and tokens in the memory in which the kernel shows the environment
// of this process (/proc/PID/environ) to every process of the user, and so to the
// command. The variables themselves stay: they point to copies from then on. To be called
// first of all, because processes that are forked have a copy of that memory.
void hide_secrets(char** environment);

}  // namespace dlock
