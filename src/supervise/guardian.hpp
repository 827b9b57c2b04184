// dlock's side of the guardian process: creates it, notifies it, and reaps it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervise/guardian_page.hpp"
#include "supervise/ladder.hpp"
#include "supervise/launch.hpp"
#include "supervise/own_cgroup.hpp"
#include "supervise/process_tree.hpp"
#include "util/fd.hpp"

namespace dlock {

// A fork of this process that starts the command and ends it before its lease ends, even
// if this process is stopped, stuck or killed (docs/internals.md, "The guardian").
class Guardian {
 public:
  struct Task {
    std::vector<std::string> argv;
    SignalState signals;
    SupervisionPlan plan;
    std::size_t environment_size = 0;  // upper bound of the command's, in bytes
    int output = -1;                   // the command's standard output; -1: dlock's
    int output_reader = -1;  // the other end, which the guardian must not keep open
  };

  // Forks. Call it before any socket or database is open, which the guardian would
  // inherit, and with all signals blocked. Throws Failure (exhausted).
  explicit Guardian(const Task& task);

  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  GuardianPage& page() { return *page_; }

  // The command's processes that become ours if the guardian is killed.
  ProcessTree& tree() { return tree_; }

  // The socket to the guardian; the caller watches and closes it. It becomes readable
  // when the page has changed, and reports end of file when the guardian is gone.
  Fd take_channel() { return std::move(channel_); }

  // The command's cgroup, if it has one of its own. Reads files.
  const OwnCgroup& cgroup();

  // Copies the environment to the shared page; false if it does not fit.
  bool set_environment(const std::vector<std::string>& environment);

  // Lets the command start in the environment that was set; the page reports the result.
  // False, and nothing starts, if the guardian cannot be notified.
  bool start_command();

  // Why the command could not be started, once the phase is `failed`.
  SpawnFailure failure() const;

  // Kills the guardian unconditionally, and a process that was still waiting to become
  // the command, and reaps both.
  void kill();

  // Ends the guardian's work; the destructor does so, too. A guardian without a running
  // command is killed here. One with a command ends that first, once the channel is
  // closed.
  void dismiss();

 private:
  ProcessTree tree_;  // before the fork, so that the guardian counts as a descendant
  GuardianPage* page_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::string> argv_;
  std::vector<std::string> paths_;
  Fd channel_;
  Fd timer_;  // shared with the guardian, which waits for it
  pid_t pid_ = 0;
  pid_t original_pid_ = 0;
  std::optional<OwnCgroup> cgroup_;
};

}  // namespace dlock
