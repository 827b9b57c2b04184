// What only stores on a server promise: leases that run out.

#include "store/redis/redis_store.hpp"

#include <gtest/gtest.h>

#include <list>

#include "tests/contract/contender.hpp"

namespace dlock::redis {
namespace {

class Witness final : public LeaseWatcher {
 public:
  void extend(Clock::time_point until) override { deadline = until; }
  void forfeit(Loss loss) override { lost = loss; }

  std::optional<Clock::time_point> deadline;
  std::optional<Loss> lost;
};

class RedisStores : public ::testing::Test {
 protected:
  // One whose lease is renewed several times a second.
  Contender& contender() {
    auto claim = claim_of("job");
    claim.ttl = milliseconds(600);
    return contenders_.emplace_back(context_, world_, claim);
  }

  void keep(Contender& holder, const Grant& grant, Witness& witness) {
    holder.store->start_keeping(holder.claim, grant, timing_of(holder.claim), witness);
  }
  bool comes_true(const std::function<bool()>& is_true) {
    return eventually(context_, is_true);
  }

  asio::io_context context_;
  RedisWorld world_;
  std::list<Contender> contenders_;
};

// Lock delay

TEST_F(RedisStores, a_renewal_sets_the_ttl_and_the_lock_delay_and_promises_the_ttl) {
  auto& holder = contender();
  holder.claim.lock_delay = std::chrono::seconds(100);
  Witness witness;
  keep(holder, holder.granted(), witness);

  ASSERT_TRUE(comes_true([&] { return witness.deadline.has_value(); }));
  holder.store->stop_keeping();

  EXPECT_LT(*witness.deadline, Clock::now() + holder.claim.ttl);
  EXPECT_GT(contender().inspect().holders.at(0).expires_in, std::chrono::seconds(100));
}

}  // namespace
}  // namespace dlock::redis
