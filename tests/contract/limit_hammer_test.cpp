// Eight processes use one limit of the embedded store. The store's own timestamps show
// whether the limit held.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "lease/holding.hpp"
#include "record/states.hpp"
#include "store/local/record_file.hpp"
#include "store/local/state_folder.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/worlds.hpp"
#include "util/bits.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

constexpr Rate rate{5, milliseconds(800)};
constexpr seconds how_long{10};
// Often enough to see every timestamp, because the store keeps each for one period.
constexpr milliseconds read_every{50};
constexpr std::size_t allowed = 65;  // 5 at once, and 5 more after each of 12 periods

using Stamps = std::set<Clock::time_point>;

class Hammered {
 public:
  // Runs eight processes for ten seconds. Returns the timestamps of that time.
  Stamps stamps() {
    const auto end = Clock::now() + how_long + seconds(1);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) children.push_back(start(end));
    Stamps seen;
    while (Clock::now() < end) {
      look(seen);
      std::this_thread::sleep_for(read_every);
    }
    for (const pid_t child : children) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      EXPECT_EQ(status, 0);
    }
    return seen;
  }

 private:
  // A process that asks again as soon as it was admitted, and exits with 0. It inherits
  // no open connection.
  pid_t start(Clock::time_point end) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::alarm(60);
    try {
      while (Clock::now() < end) ask(end);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }

  // Adds the timestamps of the last period.
  void look(Stamps& seen) const {
    const auto directory =
        Directory::open(world_.path(), false, Directory::Missing::accept);
    if (!directory) return;
    if (const auto state = state_in(*directory)) {
      seen.insert(state->stamps.begin(), state->stamps.end());
    }
  }

  static std::optional<local::LimitState> state_in(const Directory& directory) {
    const auto folder = local::open_state_folder(directory);
    if (!folder) return std::nullopt;
    const auto key = local::key_of({"dlock", "api"}, local::StateKind::limit);
    const local::RecordFile file(*folder, key.file, local::RecordFile::Access::read);
    const auto named = local::named_in(file.payload());
    return named ? record::decoded_limit(named->value) : std::nullopt;
  }

  void ask(Clock::time_point until) {
    asio::io_context context;
    Wakeup wakeup(context);
    const auto store = world_.connect(context, seconds(10));
    RateClaim claim;
    claim.limit = {"dlock", "api"};
    claim.token.bytes = random_bytes();
    claim.rate = rate;
    TurnPatience patience;
    patience.until = until;
    result_of(context, await_admission(rates_of(*store), claim, patience, wakeup));
  }

  LocalWorld world_;
};

// The first is a promise. The second depends on how busy the machine is, so it is tried
// three times.
TEST(LimitHammer, no_window_holds_more_than_is_admitted_and_little_is_wasted) {
  std::size_t most_used = 0;
  for (int tries = 0; tries < 3 && most_used * 100 < allowed * 95; ++tries) {
    const auto stamps = Hammered().stamps();
    const std::vector<Clock::time_point> at(stamps.begin(), stamps.end());
    ASSERT_FALSE(at.empty());
    for (std::size_t i = rate.most; i < at.size(); ++i) {
      ASSERT_GE(at[i] - at[i - rate.most], rate.period) << "admission " << i;
    }
    const auto over = stamps.lower_bound(at.front() + how_long);
    most_used = std::max(most_used,
                         static_cast<std::size_t>(std::distance(stamps.begin(), over)));
  }
  EXPECT_GE(most_used * 100, allowed * 95);
  EXPECT_LE(most_used, allowed);
}

}  // namespace
}  // namespace dlock
