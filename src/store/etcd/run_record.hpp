// What etcd keeps of the runs of a lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "store/etcd/entry.hpp"
#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// A run that is over, and when others could know.
struct PastRun {
  std::string key;
  RunInfo info;
  bool is_shared = false;     // RunEnd::is_shared
  std::int64_t revision = 0;  // in which its end was written
};

// A grant that has not been given back: a run that goes on, or one that has vanished.
struct OpenRun {
  std::string key;
  std::string id;  // of its entry
  RunInfo info;
  bool attached = true;
  WallTime until{};  // the lease of a detached one, as far as it is known
};

// All of one lock, as it is at one revision.
struct Runs {
  std::vector<PastRun> past;  // the first that ended first
  std::vector<OpenRun> open;
  std::uint64_t refused = 0;
  std::uint64_t superseded = 0;
  // By the ids of the entries.
  std::vector<std::pair<std::string, Superseded>> told;
  std::vector<std::pair<std::string, Taker>> taken;
};

// `pairs` are those below runs_of(lock). What cannot be read is left out: anybody may
// write there.
Runs runs_from(const std::vector<KeyValue>& pairs, std::string_view folder);

// Values of keys.
std::string open_run_text(const Entry& holder, WallTime until);
std::string past_run_text(const RunInfo& run, bool is_shared);
std::string told_text(const Superseded& newer);
std::string taken_text(const Taker& taker);

// The run of this holder, as one that has not ended ("running", or by hand), with an end,
// and of a lease that was held by hand until `ended`.
RunInfo run_of_holder(const Entry& holder);
RunInfo ended_run(const Entry& holder, const RunEnd& end, WallTime now);
RunInfo ended_by_hand(const Entry& holder, WallTime ended);

// Those open runs of which the entry has gone, and with it the lease, as they are told:
// vanished, or ended by hand.
std::vector<RunInfo> vanished(const Runs& runs, const std::vector<Entry>& entries,
                              WallTime now);

// What there is to tell of the runs that are over: see lock/history.hpp.
std::vector<RunInfo> kept_runs(const Runs& runs, const std::vector<Entry>& entries,
                               WallTime now);

// Keys of runs that are beyond what is kept, once there are enough of them.
std::vector<std::string> to_forget(const Runs& runs, const std::vector<Entry>& entries,
                                   WallTime now);

}  // namespace dlock::etcd
