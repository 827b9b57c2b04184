// The store that a verb works on, the lock that it requests there, and what its command
// gets to know of both.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/verb_table.hpp"
#include "cli/terminal/speaker.hpp"
#include "lease/holding.hpp"
#include "lock/store.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "util/json.hpp"

namespace dlock {

// Warns of the locks that list() or histories() has left out, if any. Then the
// status is that of a failure, so that no incomplete answer is taken for a complete one.
ExitStatus report_left_out(const std::vector<Failure>& left_out);

// What a look at several locks by name has found, in their order. If one of them could
// not be read, its error was reported on standard error, and the status is that of the
// first such failure.
struct SeenLocks {
  std::vector<LockInfo> locks;
  ExitStatus status = ExitStatus::success;
};

// Looks at each. Throws the first Failure if none can be read, with the name if there are
// several. A store that falls silent is asked for a few store timeouts altogether.
SeenLocks look_at_each(const CommonOptions& common, Store& store,
                       const std::vector<std::string>& names, asio::io_context& context);

// Opens the store of the options; contacts nothing yet. It warns of servers whose word
// does not count, in lines about the lock `name`.
std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context,
                                    const std::string& name = "");

// A store, and what is needed to call it step by step.
class StoreClient {
 public:
  // Opens the store of the options; with the name of a lock as opened_store() does.
  explicit StoreClient(const CommonOptions& common)
      : store_(open_store(common.store, store_timeout(common, {}), context_)) {}
  StoreClient(const CommonOptions& common, const std::string& name)
      : store_(opened_store(common, store_timeout(common, {}), context_, name)) {}

  // Makes the call that `work` makes with the store and a Wakeup.
  template <typename Work>
  auto call(Work work) {
    return run_blocking(context_, [&] { return work(*store_, wakeup_); });
  }

  Store* operator->() { return store_.get(); }

 private:
  EventLoop context_;
  Wakeup wakeup_{context_};
  std::unique_ptr<Store> store_;
};

// Whether the innermost run around this process is one of this lock in this store, and
// goes on without it (--on-outage run).
bool is_in_unprotected_run(const std::string& name, const std::string& store);

// A new claim on the lock, with what `run` and `acquire` have in common.
Claim new_claim(const CommonOptions& common, const ClaimOptions& options);

// The same, with what only `run` has.
Claim new_claim(const CommonOptions& common, const RunOptions& options);

// When the wait of these options ends that begins now; nothing: they do not wait.
std::optional<Clock::time_point> end_of_wait(const ClaimOptions& options);

// Requests the lock for as long as `patience` allows, and shows what it waits for, also
// to the listener, if any.
asio::awaitable<Answer> obtain(Holding& holding, Patience patience, Speaker& speaker,
                               WaitListener listener = {});

// Prints the fence and the slot of the grant, with --verbose.
void say_granted(const Holding& holding, const Speaker& speaker);

// The time that is certainly left of a span that began at `start` or later.
milliseconds left_of(milliseconds span, Clock::time_point start);

// The number of free slots of `lock`, for JSON output. Null if the store does not report
// it: the verb has already succeeded by then.
asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup);

// Whether a variable, "NAME=value", is a secret that dlock does not pass to commands.
bool is_secret(std::string_view entry);

// DLOCK_HELD with one more lock: see outer_fences_of().
std::string with_grant(const std::string& held, const std::string& name, Fence fence);

// A lock that a run holds.
struct HeldLock {
  std::string name;
  Grant grant;
  bool has_slots = false;  // as in ClaimOptions
};

struct CommandSettings {
  std::string name;
  std::vector<HeldLock> locks;  // those that the command runs under
  std::string store;
  std::string name_space;
  std::string run_id;
  std::string config;  // absolute, or empty
  std::string held;    // DLOCK_HELD as dlock found it
  std::vector<std::string>
      passed_on;  // "NAME=value": what a nested dlock needs to use the store
};

// The environment of the command: `inherited` plus the variables of this run, minus
// secrets.
std::vector<std::string> command_environment(const char* const* inherited,
                                             const CommandSettings& settings);

// Kills the remaining processes of broken runs whose dlock process has exited.
class OrphanedRuns {
 public:
  // Does what the run's own dlock can no longer do: sends SIGTERM first and SIGKILL
  // later. To be called repeatedly until none is left. Throws Failure (rejected) if
  // its processes cannot be reached.
  void end(const Broken& broken);

 private:
  struct Known {
    Clock::time_point found_at;   // when a process of it was last found
    Clock::time_point termed_at;  // max() until SIGTERM was sent
  };
  std::map<Fence, Known> runs_;
};

}  // namespace dlock
