// The verbs, one function each: run the verb, and return how dlock ends. They throw
// UsageError for settings and operands that they refuse, and Failure. Then what the verbs
// have in common, and what they show.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/args/app.hpp"
#include "cli/args/options.hpp"
#include "cli/args/verb_table.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock {

Exit run_verb(const Invocation& invocation);
Exit acquire_verb(const Invocation& invocation);
Exit renew_verb(const Invocation& invocation);
Exit release_verb(const Invocation& invocation);
Exit check_verb(const Invocation& invocation);
Exit fence_verb(const Invocation& invocation);
Exit status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);
Exit watch_verb(const Invocation& invocation);
Exit history_verb(const Invocation& invocation);
Exit break_verb(const Invocation& invocation);
Exit doctor_verb(const Invocation& invocation);
Exit config_verb(const Invocation& invocation);
Exit limit_verb(const Invocation& invocation);
Exit cache_verb(const Invocation& invocation);

// list --live: a table of the locks, kept up to date until a signal arrives or the output
// is closed. Throws Failure if the first look at the store fails.
Exit list_live(const CommonOptions& common, const ListOptions& options);

// Returns what `work` returns. If it throws a Failure, throws one of the same kind whose
// message begins with `name`, in the form that Speaker uses for every other line.
template <typename Work>
auto about(const std::string& name, Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), printable_name(name) + ": " + failure.what());
  }
}

// The time that is certainly left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// The number of free slots of `lock`, for JSON output. Null if the store does not report
// it: the verb has already succeeded by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

// status and list

// Returns the locks that `options` select, in the order that they ask for. With --live,
// held locks come first, then locks with waiters, because the window may be too small for
// all of them.
std::vector<LockInfo> selected(std::vector<LockInfo> locks, const ListOptions& options);

// What `dlock list --prometheus` prints, in the text format of Prometheus (0.0.4):
// whether the store replies, and the metrics of each lock with the labels `name` and
// `namespace`. A sample that does not apply to a lock is left out, and so is a metric
// without samples. `histories` have the runs of which the durations are counted. If the
// store did not reply, `found` is empty and only dlock_up is printed.
std::string metrics_text(const std::string& name_space,
                         const std::optional<std::vector<LockInfo>>& found,
                         const std::vector<LockHistory>& histories = {});

// list --live

// The locks as they would be after `by` if nothing else happened.
std::vector<LockInfo> aged(std::vector<LockInfo> locks, milliseconds by);

// A text that is the same for two lists of locks whose tables differ only in durations.
std::string fingerprint_of(const std::vector<LockInfo>& locks);

// When to query the store again after a query that ended at `last`; sooner if an event
// has arrived since.
Clock::time_point next_look(Clock::time_point last, bool has_changed);

// The last line while the store is unavailable.
std::string trouble_text(milliseconds age, const std::string& why);

// history

// How the text is formatted.
struct HistoryFormat {
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0 if the output is not a terminal
  bool blocks = false;      // whether the output can show block characters
};

// The format for standard output.
HistoryFormat format_of_output(bool color);

struct RunOfLock {
  std::string lock;
  RunInfo run;
};

// Whether each run is shown with the name of its lock.
enum class Names { shown, left_out };

Json json_of(const RunOfLock& run, Names names);

// One line per run, as of `now`. On a wide terminal each line has a bar that shows the
// run's duration relative to the longest one. On a narrow one the start time and the
// owner are left out.
std::string history_text(const std::vector<RunOfLock>& runs, WallTime now,
                         const HistoryFormat& format, Names names);

// Whether the last successful run of a lock ended within `span`.
struct SuccessWithin {
  milliseconds span{};
  bool is_within = false;
  std::optional<RunInfo> last;
  std::string progress;  // "; now held by root@web1 (pid 7, x) for 3h; 1 waits"
  WallTime now{};
};

SuccessWithin success_within(const LockInfo& lock, milliseconds span);
Json json_of(const SuccessWithin& answer, const std::string& lock,
             const std::string& store);

// "job succeeded 3m12s ago, at 2026-11-21T04:00:00.250Z on web1", "job never succeeded in
// local:/var/lib/dlock"; if it did not, also what is in progress.
std::string text_of(const SuccessWithin& answer, const std::string& lock,
                    const std::string& store);

// The same as the line of a monitoring plugin (--nagios): "DLOCK OK - ... |
// age=192s;;3600;0 duration=2.25s". Nothing in it but dlock's own bar begins the
// performance data.
std::string plugin_line(const SuccessWithin& answer, const std::string& lock,
                        const std::string& store);

// doctor

// "warning"
const char* name_of(Finding::Level level);

Json json_of(const Examination& examination, const std::string& store);

// How the text is formatted.
struct DoctorFormat {
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0 if the output is not a terminal
  bool only_trouble = false;
};

// `store` is the URL of the store. Lines are wrapped at `format.columns`.
std::string examination_text(const Examination& examination, const std::string& store,
                             const DoctorFormat& format);

// break

// Describes a holder that is to lose the lock, and what happens to it.
std::string described_for_break(const HolderInfo& holder);

class Breaking {
 public:
  // From the holders in `info`: one that is granted the lock later is not meant.
  Breaking(asio::io_context& context, Store& store, const LockInfo& info, bool by_force,
           const CommonOptions& common);

  // Tells them. They are those in taken() then.
  asio::awaitable<bool> take();
  // Waits until they have released it.
  asio::awaitable<bool> wait();

  const std::vector<HolderInfo>& taken() const { return taken_; }
  const LockName& lock() const { return lock_; }
  const Speaker& speaker() const { return speaker_; }

 private:
  asio::awaitable<std::vector<HolderInfo>> left_of(const std::vector<Fence>& fences);
  asio::awaitable<std::vector<Broken>> tell(const std::vector<Fence>& fences);
  void warn_of_long_wait(const HolderInfo& holder);

  Wakeup wakeup_;
  Store& store_;
  LockName lock_;
  std::vector<Fence> fences_;
  bool by_force_;
  Speaker speaker_;
  std::vector<HolderInfo> taken_;
  Clock::time_point began_ = Clock::now();
  OrphanedRuns orphans_;
  bool warned_ = false;
};

}  // namespace dlock
