// Option values, checked and turned into plain structs.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "lock/outage.hpp"
#include "lock/value.hpp"
#include "store/open.hpp"
#include "supervise/ladder.hpp"

namespace dlock {

// A word of the user's that dlock cannot take: exit 64, or 78 where a configuration
// file said it. The message is one line.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message, bool from_file = false)
      : std::runtime_error(message), from_file_(from_file) {}
  bool from_file() const { return from_file_; }

 private:
  bool from_file_;
};

// "1h30m", "250ms", "0.5s", "30": rounded up to whole milliseconds. Units from large to
// small, each once. Throws UsageError for anything else, and for more than 100 years.
milliseconds parsed_duration(std::string_view text);

// A whole number from `least` to `most`. Throws UsageError.
unsigned parsed_number(std::string_view text, unsigned least, unsigned most);

// "16MiB", "500KB", or plain bytes, up to 512MiB. Throws UsageError.
std::size_t parsed_size(std::string_view text);

// "5/800ms", "100/1m", "1/s": a number from 1 to 10,000, and a duration or only its unit.
// Throws UsageError.
Rate parsed_rate(std::string_view text);

// A name of a lock or namespace: 1 to 255 bytes of printable UTF-8. Throws UsageError.
std::string parsed_name(const std::string& text);

// Where a value came from, for messages and for what is a fault of a file.
struct Setting {
  enum class Source { command_line, environment, file };
  std::string value;
  Source source = Source::command_line;
  std::string origin;  // "--wait", "DLOCK_STORE", "/etc/dlock/config.toml: run.wait"
};

// By the long option's name, only those that were set. Flags are "true" or "false".
// "password" is there too, which is no option: only the environment can set it.
using Settings = std::map<std::string, Setting, std::less<>>;

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

struct RunOptions : ClaimOptions {
  std::vector<std::string> command;
  int conflict_exit_code = 75;
  bool waits_for_store = true;  // for as long as for the lock
  std::optional<Dedupe> dedupe;
  milliseconds min_hold{0};
  milliseconds jitter{0};
  bool reclaim = false;
  milliseconds lock_delay{0};
  std::string report;  // a path, or empty
  OnOutage on_outage = OnOutage::stop;
  SupervisionPlan supervision;
};

struct AcquireOptions : ClaimOptions {
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

struct ListOptions {
  enum class Form { table, json, metrics, live };
  std::string pattern = "*";
  Form form = Form::table;
};

struct HistoryOptions {
  std::string name;
  unsigned limit = 20;
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
  Lifetime lifetime{milliseconds(300'000), milliseconds(0)};
  std::size_t max_size = std::size_t{16} << 20;
  milliseconds wait = milliseconds::max();  // for others who compute
  bool waits_for_store = false;             // only if that was asked for
  int conflict_exit_code = 75;
};

struct LimitOptions {
  std::string name;
  Rate rate;
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

// A fence as a user gives it: a whole number from 1 to 2^63-1. Throws UsageError.
Fence parsed_fence(std::string_view text);

// Checks that there is a command, or none where there is nothing to run.
CacheOptions cache_options(const Settings& settings, const std::string& key,
                           std::vector<std::string> command);

// Of --json, --prometheus and --live the command line's beats the file's.
ListOptions list_options(const Settings& settings,
                         const std::vector<std::string>& operands);

HistoryOptions history_options(const Settings& settings, const std::string& name);

BreakOptions break_options(const Settings& settings, const std::string& name);
LimitOptions limit_options(const Settings& settings, const std::string& name,
                           const std::string& rate, std::vector<std::string> command);

// The budget of one operation on the store: what --store-timeout says, else 2 s, and
// no more than a tenth of the ttl where leases can run out.
milliseconds store_timeout(const CommonOptions& common, std::optional<milliseconds> ttl);

}  // namespace dlock
