// Lost updates: many contenders change one file or one number, protected by the lock
// alone, or use a limit.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include "lease/holding.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/contender.hpp"
#include "util/bits.hpp"

namespace dlock {
namespace {

// No limit: alarm(2) ends what hangs.
Patience without_end() {
  Patience patience;
  patience.until = Clock::time_point::max();
  return patience;
}

class HammerOfProcesses : public ::testing::TestWithParam<Kind> {
 protected:
  // Fewer where no one is told of changes: until a waiter asks again takes longer than
  // all else.
  static int rounds_of(int usual) { return GetParam().watches ? usual : usual / 20; }

  int count() const {
    int number = 0;
    std::ifstream(file()) >> number;
    return number;
  }
  void set_count(int number) const { std::ofstream(file()) << number << '\n'; }

  // Has five processes do this as often, which inherit no open connection. Returns how
  // often it returned true.
  template <typename Work>
  static int successes(int rounds, Work work) {
    std::vector<pid_t> children;
    for (int i = 0; i < 5; ++i) {
      const pid_t child = children.emplace_back(::fork());
      if (child != 0) continue;
      ::alarm(60);
      try {
        int done = 0;
        for (int round = 0; round < rounds; ++round) done += work() ? 1 : 0;
        ::_exit(done);
      } catch (...) {
        ::_exit(255);
      }
    }
    int all = 0;
    for (const pid_t child : children) {
      int status = 0;
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= rounds) << status;
      all += WEXITSTATUS(status);
    }
    return all;
  }

  bool strike() const {
    asio::io_context context;
    Contender contender(context, *world_, claim_of("job"));
    const auto patience = without_end();
    Task answer(context, acquire(contender.claimant(), patience, contender.wakeup));
    while (!answer.is_done()) context.run_one();
    if (!std::holds_alternative<Grant>(answer.result())) return false;
    const int before = count();
    ::sched_yield();
    set_count(before + 1);
    contender.release();
    return true;
  }

  bool enter_limit(const Rate& rate) const {
    asio::io_context context;
    Wakeup wakeup(context);
    const auto store = world_->connect(context, usual_timeout);
    RateClaim claim;
    claim.limit = {"dlock", "api"};
    claim.token.bytes = random_bytes();
    claim.rate = rate;
    return std::holds_alternative<Admitted>(
        result_of(context, rates_of(*store).admit(claim, wakeup)));
  }

  std::unique_ptr<World> world_ = GetParam().make();

 private:
  std::string file() const { return scratch_.file("count"); }

  TemporaryDirectory scratch_;
};

TEST_P(HammerOfProcesses, no_update_is_lost) {
  const int rounds = rounds_of(40);
  set_count(0);
  EXPECT_EQ(successes(rounds, [&] { return strike(); }), 5 * rounds);

  EXPECT_EQ(count(), 5 * rounds);
}

class HammerOfLimits : public HammerOfProcesses {};

TEST_P(HammerOfLimits, as_many_are_admitted_as_it_says) {
  const Rate rate{60, std::chrono::hours(1)};

  EXPECT_EQ(successes(20, [&] { return enter_limit(rate); }), 60);
}

INSTANTIATE_TEST_SUITE_P(stores, HammerOfProcesses,
                         ::testing::ValuesIn(kinds_with(&Kind::is_shared_by_processes)),
                         name_of);

std::vector<Kind> kinds_with_limits() {
  auto some = kinds_with(&Kind::keeps_rates);
  std::erase_if(some, [](const Kind& kind) { return !kind.is_shared_by_processes; });
  return some;
}

INSTANTIATE_TEST_SUITE_P(stores, HammerOfLimits, ::testing::ValuesIn(kinds_with_limits()),
                         name_of);

}  // namespace
}  // namespace dlock
