// Validated option values as plain structs. The defaults are in the table of options.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/option_table.hpp"
#include "cli/args/settings.hpp"
#include "lease/keeper.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/open.hpp"
#include "supervise/ladder.hpp"
#include "util/clock.hpp"

namespace dlock {

enum class Color { automatic, always, never };

struct CommonOptions : VerbOptions {
  StoreUrl store;     // with `login`
  Credentials login;  // and TLS files, from all sources
  std::string name_space;
  std::optional<milliseconds> store_timeout;  // only if set: see below
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  Color color{};
};

// What run and acquire request.
struct ClaimOptions : VerbOptions {
  std::string name;
  std::optional<milliseconds> wait;  // max(): forever
  milliseconds ttl{};
  unsigned slots = 1;
  bool has_slots = false;  // --slots was set, perhaps to 1
  bool shared = false;
  int priority = 0;
  bool spread = false;
  Description description;
};

// Who speaks systemd's readiness protocol.
enum class Notify { off, dlock, command };

// The command lines of the hooks after a run, each for /bin/sh -c; empty if not set.
struct HookLines {
  std::string on_success;
  std::string on_failure;
  std::string on_busy;
};

// What --dedupe asks for: a time span, or a calendar period.
struct DedupeWindow {
  milliseconds span{};  // 0: off
  std::string period;   // as the user wrote it: "day@Europe/Berlin"; empty for a span
  std::optional<Clock::time_point> began;  // the period
  WallTime began_at{};                     // the same for text
};

// Where the output of a command goes (--output): neither of these means to dlock's own.
struct OutputChoice {
  bool on_failure = false;  // kept, and printed if the command fails
  std::string file;

  bool is_own() const { return on_failure || !file.empty(); }
};

struct RunOptions : ClaimOptions {
  std::vector<std::string> command;
  std::vector<AlsoLock> also;
  std::string run_id;  // a UUID, set by the verb
  int conflict_exit_code = 0;
  bool waits_for_store = true;  // as long as it waits for the lock
  DedupeWindow dedupe_window;
  bool retry_failed = false;
  std::optional<Dedupe> dedupe;  // of these two
  bool replace = false;
  bool supersede = false;
  std::optional<unsigned> max_queue;
  milliseconds min_hold{};
  milliseconds jitter{};
  milliseconds splay{};
  bool reclaim = false;
  milliseconds lock_delay{};
  std::string report;    // a path, or empty
  std::string on_start;  // for /bin/sh -c, or empty
  HookLines hooks;
  Notify notify{};
  OutputChoice output;
  std::size_t keep_output = 0;  // bytes
  OnOutage on_outage{};
  SupervisionPlan supervision;
};

struct AcquireOptions : ClaimOptions {
  enum class Form { token, json, variables };
  bool exports = false;
  Form form = Form::token;  // of `exports` and --json
  std::optional<pid_t> for_pid;
};

// A lease of acquire, and its new ttl for renew.
struct LeaseOptions : VerbOptions {
  std::string name;
  Token token;
  std::string token_file;
  std::optional<milliseconds> ttl;  // nothing: that of the lease
};

struct CheckOptions : VerbOptions {
  std::string name;
  Fence fence;
  milliseconds min_validity{};
};

// What `check` reads from the environment besides its options.
struct RunAbove {
  std::string name;  // DLOCK_NAME
  std::string held;  // DLOCK_HELD
};

// By name; or by age: the longest held first, then free locks, the last run first.
enum class ListOrder { name, age };

// Which holders, waiters and runs are meant.
struct PartyOptions : VerbOptions {
  std::string host;
  std::string owner;
  bool mine = false;  // those of this user on this host
  std::string label;  // a glob; what has no label is not meant then

  bool means_all() const {
    return host.empty() && owner.empty() && !mine && label.empty();
  }
  // Whether it means one of this owner that is described so.
  bool means(const Owner& owner_of_it, const Description& description) const;
};

struct ListOptions : PartyOptions {
  enum class Form { table, json, metrics, live };
  std::string pattern = "*";
  bool prometheus = false;
  bool live = false;
  Form form = Form::table;  // of these two and --json
  bool held = false;
  ListOrder order{};
};

struct HistoryOptions : PartyOptions {
  std::string pattern = "*";
  std::optional<std::string> name;  // set if the pattern matches exactly one name
  unsigned limit = 0;
  bool failed = false;
  std::optional<milliseconds> since;
  std::optional<milliseconds> succeeded_within;
  bool nagios = false;
};

struct BreakOptions : VerbOptions {
  std::vector<std::string> names;     // without repetitions
  std::vector<std::string> patterns;  // that match more than one name
  std::optional<Fence> fence;         // only the holder with this fence
  std::string host;                   // only holders there; empty: any
  bool force = false;                 // Break::by_force
  bool yes = false;
};

struct CacheOptions : VerbOptions {
  std::string name;  // of the lock: "cache:KEY"
  std::vector<std::string> command;
  bool forget = false;
  bool show = false;
  Lifetime lifetime{};
  std::size_t max_size = 0;
  milliseconds wait{};           // for another call that runs the command
  bool waits_for_store = false;  // only if --wait was set
  int conflict_exit_code = 0;
};

struct DoctorOptions : VerbOptions {
  bool schema = false;
};

struct LimitOptions : VerbOptions {
  std::string name;
  bool show = false;
  bool reset = false;
  Rate rate;                         // the requested rate, unless `show` or `reset`
  std::vector<std::string> command;  // empty: only report whether it is admitted
  std::optional<milliseconds> wait;  // max(): forever
};

// These functions throw UsageError, and Failure for an invalid store URL or a token file
// that cannot be read.
CommonOptions common_options(const Settings& settings);

// A warning for each file with a secret for the store that every user of this machine can
// read, and that the caller cannot change (util/path_trust.hpp).
std::vector<std::string> exposed_secrets(const CommonOptions& common,
                                         const Settings& settings);

// Throws Failure (unsupported) for an option on the command line that this store has no
// use for. From a file or a variable it is ignored, because these are for several stores,
// and so are settings of connections and logins for a store without any.
void refuse_useless_options(const Settings& settings, const StoreUrl& store);

RunOptions run_options(const Settings& settings, const std::string& name,
                       std::vector<std::string> command);
AcquireOptions acquire_options(const Settings& settings, const std::string& name);
LeaseOptions lease_options(const Settings& settings, const std::string& name);

// The lock is `name`, or the lock of the outer run. The fence comes from --fence, or is
// that of the outer run that holds this lock.
CheckOptions check_options(const Settings& settings,
                           const std::optional<std::string>& name, const RunAbove& above);

// Throws UsageError if the command is missing, or is given where nothing is run.
CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command);

// Of --json, --prometheus and --live, one on the command line takes precedence over one
// in the file.
ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands);

HistoryOptions history_options(const Settings& settings,
                               const std::vector<std::string>& operands);

// `operands`: names and patterns.
BreakOptions break_options(const Settings& settings,
                           const std::vector<std::string>& operands);

DoctorOptions doctor_options(const Settings& settings);

// `operands`: the name, and the rate unless --show or --reset is set.
LimitOptions limit_options(const Settings& settings,
                           const std::vector<std::string>& operands,
                           std::vector<std::string> command);

// The fences of the outer runs that hold the lock `name`. `held`: DLOCK_HELD, which has
// "NAME=FENCE" for each lock that an outer run holds, outermost first, separated by
// spaces, with percent-encoded names. Malformed entries are ignored, because the variable
// may come from anywhere.
std::vector<Fence> outer_fences_of(std::string_view held, const std::string& name);

// A duration of up to 30 days, or a calendar period: see current_period(). Throws
// UsageError.
DedupeWindow parsed_dedupe_window(const std::string& text);

// The part of `most` that a host sleeps before it asks for a lock (--splay): the same
// each time for the same two names.
milliseconds splay_for(const std::string& host, const std::string& lock,
                       milliseconds most);

// The time limit of one operation on the store: --store-timeout if it is set, else what
// the URL says (connect_timeout), but no more than a fifth of the ttl where leases can
// expire, else 2 s, but no more than a tenth of it.
milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl);

}  // namespace dlock
