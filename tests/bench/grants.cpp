// Prints how many microseconds a grant takes on a connection that is open, on average:
//
//   dlock_grants URL ROUNDS [runs]
//
// Each is released before the next one, which is not counted; with `runs` as a run that
// has succeeded, which the history of the lock keeps.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <variant>

#include "lock/claimant.hpp"
#include "lock/store.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "util/bits.hpp"

namespace dlock {
namespace {

asio::awaitable<double> micros_of_a_grant(Store& store, int rounds,
                                          const std::optional<RunEnd>& end,
                                          Wakeup& wakeup) {
  Clock::duration spent{};
  for (int i = -10; i < rounds; ++i) {
    Claim claim;
    claim.lock = {"dlock", "grants"};
    claim.token.bytes = random_bytes();
    const auto claimant = store.claimant(claim);
    const auto began = Clock::now();
    const auto answer = co_await claimant->ask(Queue::stay_out, wakeup);
    if (i >= 0) spent += Clock::now() - began;
    if (!std::holds_alternative<Grant>(answer)) throw std::runtime_error("not granted");
    co_await claimant->release(end, wakeup);
  }
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(spent);
  co_return static_cast<double>(micros.count()) / rounds;
}

}  // namespace
}  // namespace dlock

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 64;
  std::optional<dlock::RunEnd> end;
  if (argc == 4) {
    end.emplace();
    end->exit_code = 0;
    end->outcome = "ran";
    end->duration = dlock::milliseconds(1);
  }
  boost::asio::io_context context;
  dlock::Wakeup wakeup(context);
  const auto store = dlock::open_store(dlock::parsed_store_url(argv[1]),
                                       dlock::milliseconds(5000), context);
  const auto work = [&]() -> boost::asio::awaitable<double> {
    co_return co_await dlock::micros_of_a_grant(*store, std::atoi(argv[2]), end, wakeup);
  };
  std::printf("%.0f\n", dlock::run_blocking(context, work));
}
