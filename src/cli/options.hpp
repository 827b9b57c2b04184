// Option values, checked and turned into plain structs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "lock/outage.hpp"
#include "lock/value.hpp"
#include "store/open.hpp"
#include "supervise/ladder.hpp"

namespace dlock {

enum class Color { automatic, always, never };

struct CommonOptions {
  StoreUrl store;  // with the login and the TLS files, wherever they were set
  std::string name_space = "dlock";
  std::optional<milliseconds> store_timeout;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  Color color = Color::automatic;
};

// What is asked for, whatever is done with it.
struct ClaimOptions {
  std::string name;
  std::optional<milliseconds> wait;  // max(): forever
  milliseconds ttl{30'000};
  unsigned slots = 1;
  bool shared = false;
  std::string label;
};

// What is to be run when all is over, each for /bin/sh -c; empty: nothing.
struct HookLines {
  std::string on_success;
  std::string on_failure;
  std::string on_busy;

  bool are_empty() const {
    return on_success.empty() && on_failure.empty() && on_busy.empty();
  }
};

struct RunOptions : ClaimOptions {
  std::vector<std::string> command;
  int conflict_exit_code = 75;
  bool waits_for_store = true;  // for as long as for the lock
  std::optional<Dedupe> dedupe;
  bool replace = false;
  bool supersede = false;
  std::optional<unsigned> max_queue;
  milliseconds min_hold{0};
  milliseconds jitter{0};
  bool reclaim = false;
  milliseconds lock_delay{0};
  std::string report;  // a path, or empty
  HookLines hooks;
  OnOutage on_outage = OnOutage::stop;
  SupervisionPlan supervision;
};

struct AcquireOptions : ClaimOptions {
  enum class Form { token, json, variables };
  Form form = Form::token;
  std::optional<pid_t> for_pid;
};

// A lease that somebody was granted by hand, and what to make it last.
struct LeaseOptions {
  std::string name;
  Token token;
  milliseconds ttl{30'000};
};

struct CheckOptions {
  std::string name;
  Fence fence;
  milliseconds min_validity{0};
};

// What `check` finds in the environment besides its options.
struct RunAbove {
  std::string name;  // DLOCK_NAME
  std::string held;  // DLOCK_HELD
};

// By name; or those first that have been held the longest, then those that nobody holds,
// the last that ran first.
enum class ListOrder { name, age };

struct ListOptions {
  enum class Form { table, json, metrics, live };
  std::string pattern = "*";
  Form form = Form::table;
  bool held = false;
  ListOrder order = ListOrder::name;
};

struct HistoryOptions {
  std::string pattern = "*";
  std::optional<std::string> name;  // if the pattern is that of one lock
  unsigned limit = 20;
  bool failed = false;
  std::optional<milliseconds> since;
  std::optional<milliseconds> succeeded_within;
};

struct BreakOptions {
  std::string name;
  std::optional<Fence> fence;  // only the holder with this one
  bool yes = false;
};

struct CacheOptions {
  std::string name;  // of the lock: "cache:KEY"
  std::vector<std::string> command;
  bool forget = false;
  bool show = false;
  Lifetime lifetime{milliseconds(300'000), milliseconds(0)};
  std::size_t max_size = std::size_t{16} << 20;
  milliseconds wait = milliseconds::max();  // for others who compute
  bool waits_for_store = false;             // only if that was asked for
  int conflict_exit_code = 75;
};

struct LimitOptions {
  enum class Action { admit, show, reset };
  Action action = Action::admit;
  std::string name;
  Rate rate;                         // to be admitted
  std::vector<std::string> command;  // empty: only answer
  std::optional<milliseconds> wait;  // max(): forever
};

// They throw UsageError, and Failure for a store URL that is none or a token's file that
// cannot be read.
CommonOptions common_options(const Settings& settings);
RunOptions run_options(const Settings& settings, const std::string& name,
                       std::vector<std::string> command);
AcquireOptions acquire_options(const Settings& settings, const std::string& name);
LeaseOptions lease_options(const Settings& settings, const std::string& name);

// The lock is `name`, or without it that of the run above; the fence, unless an option
// says it, that of the run above that holds this lock.
CheckOptions check_options(const Settings& settings,
                           const std::optional<std::string>& name, const RunAbove& above);

// Checks that there is a command, or none where there is nothing to run.
CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command);

// Of --json, --prometheus and --live the command line's beats the file's.
ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands);

HistoryOptions history_options(const Settings& settings,
                               const std::vector<std::string>& operands);

BreakOptions break_options(const Settings& settings, const std::string& name);

// `operands`: the name, and the rate unless something else is done with the limit.
LimitOptions limit_options(const Settings& settings,
                           const std::vector<std::string>& operands,
                           std::vector<std::string> command);

// The budget of one operation on the store: what --store-timeout says, else 2 s, and
// no more than a tenth of the ttl where leases can run out.
milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl);

}  // namespace dlock
