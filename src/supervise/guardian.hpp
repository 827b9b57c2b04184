// The process between dlock and the command: made, spoken to, and mourned.
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
// if this process is stopped, stuck or killed (ARCHITECTURE.md, "The guardian").
class Guardian {
 public:
  struct Task {
    std::vector<std::string> argv;
    SignalState signals;
    SupervisionPlan plan;
    std::size_t environment_size = 0;  // in bytes, of what it will have to hold at most
    int output = -1;         // to be the command's standard output; -1: that of dlock
    int output_reader = -1;  // what reads that, and is to be open nowhere but here
  };

  // Forks; before any socket or database is open, which the guardian would have too, and
  // with all signals blocked. Throws Failure (exhausted).
  explicit Guardian(const Task& task);

  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  GuardianPage& page() { return *page_; }

  // What there will be of the command's processes if the guardian is killed.
  ProcessTree& tree() { return tree_; }

  // The socket to it, to be watched and closed by the caller. Readable when something in
  // the page has changed; end of file when the guardian is gone.
  Fd take_channel() { return std::move(channel_); }

  // What the command may be in with all its processes. Reads files.
  const OwnCgroup& cgroup();

  // Puts the environment where the guardian finds it; false if there is no room.
  bool set_environment(const std::vector<std::string>& environment);

  // Lets the command start, in the environment set before; what becomes of that stands in
  // the page. False, and nothing starts, if the guardian would not hear of it.
  bool start_command();

  // Why there is no command, once the phase is `failed`.
  SpawnFailure failure() const;

  // Ends it whatever it does, with a process that was not to start yet, and waits for
  // that.
  void kill();

  // The end of its work, as the destructor sees to it, too: one that has nothing to
  // guard, or no longer, ends. One that has ends its command first, once `channel` is
  // closed.
  void dismiss();

 private:
  ProcessTree tree_;  // before the fork, or the guardian were a stranger to it
  GuardianPage* page_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::string> argv_;
  std::vector<std::string> paths_;
  Fd channel_;
  Fd timer_;  // the guardian's, which waits for it
  pid_t pid_ = 0;
  pid_t born_as_ = 0;
  std::optional<OwnCgroup> cgroup_;
};

}  // namespace dlock
