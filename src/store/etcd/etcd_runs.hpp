// The records of the runs in an etcd cluster.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_messages.hpp"

namespace dlock::etcd {

// A run that is over, and the revision of its end.
struct PastRun {
  std::string key;
  RunInfo info;
  bool is_shared = false;     // RunEnd::is_shared
  std::int64_t revision = 0;  // in which its end was written
};

// A grant that has not been released: a running run, or one that has vanished.
struct OpenRun {
  std::string key;
  std::string id;  // of its entry
  RunInfo info;
  bool attached = true;
  WallTime until{};  // end of a detached lease, as far as known
};

// All runs of a lock at one revision.
struct Runs {
  std::vector<PastRun> past;  // in order of their ends
  std::vector<OpenRun> open;
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
  // By the ids of the entries.
  std::vector<std::pair<std::string, Superseded>> told;
  std::vector<std::pair<std::string, Taker>> taken;
  std::vector<std::string> damaged;  // keys of records of runs
};

// `pairs` are those below runs_prefix(lock). Anyone may write there.
Runs runs_from(const std::vector<KeyValue>& pairs, std::string_view folder);

// Values of keys.
std::string open_run_text(const QueueEntry& holder, WallTime until);
std::string past_run_text(const RunInfo& run, bool is_shared);
std::string told_text(const Superseded& newer);
std::string taken_text(const Taker& taker);

// The open runs whose entry no longer exists, nor the lease: vanished, or released leases
// of acquire.
std::vector<RunInfo> vanished(const Runs& runs, const std::vector<QueueEntry>& entries,
                              WallTime now);

// The history of runs that are over: see lock/history.hpp.
std::vector<RunInfo> kept_runs(const Runs& runs, const std::vector<QueueEntry>& entries,
                               WallTime now);

// The keys of runs beyond the retention, once there are enough of them to delete.
std::vector<std::string> to_forget(const Runs& runs,
                                   const std::vector<QueueEntry>& entries, WallTime now);

}  // namespace dlock::etcd
