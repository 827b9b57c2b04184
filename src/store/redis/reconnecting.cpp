#include "store/redis/reconnecting.hpp"

#include <algorithm>

#include "net/refusal.hpp"
#include "util/random.hpp"

namespace dlock::redis {
namespace {

// Short enough for a failover that may complete any moment, long enough that a thousand
// clients do not keep a full server busy with refusing them.
constexpr milliseconds longest_pause{200};

}  // namespace

milliseconds patience_with(const Failure& failure, milliseconds timeout) {
  const auto* refusal = dynamic_cast<const net::Refusal*>(&failure);
  if (refusal == nullptr) return milliseconds(0);
  return refusal->reason() == net::Refusal::Reason::overloaded ? timeout : timeout / 4;
}

milliseconds Backoff::next() {
  const auto half = longest_ / 2;
  const auto pause =
      half + milliseconds(random_up_to(static_cast<std::uint64_t>(half.count())));
  longest_ = std::min(longest_ * 2, longest_pause);
  return pause;
}

}  // namespace dlock::redis
