// `dlock break`, and `acquire` with `renew` and `release`, as actions of a schedule.
#include <boost/asio/co_spawn.hpp>
#include <string>

#include "cli/verbs/breaking.hpp"
#include "lease/holding.hpp"
#include "store/open.hpp"
#include "tests/simulation/world.hpp"
#include "util/bits.hpp"

namespace dlock::simulation {

Client& World::start_client(const std::string& verb,
                            asio::awaitable<void> (World::*work)(Client&)) {
  auto& client = *clients_.emplace_back(std::make_unique<Client>());
  client.name = verb + ' ' + std::to_string(clients_.size());
  client.process.pid = 2000 + static_cast<int>(clients_.size());
  client.common = &invocation(std::nullopt).common;
  kernel_.trace(client.name + " starts");
  kernel_.running = &client.process;
  client.context = std::make_unique<Run::Context>();
  client.store = open_store(client.common->store,
                            store_timeout(*client.common, std::nullopt), *client.context);
  client.wakeup.emplace(*client.context);
  asio::co_spawn(
      *client.context, [this, &client, work] { return (this->*work)(client); },
      [this, &client](std::exception_ptr thrown) {
        client.is_over = true;
        try {
          if (thrown) std::rethrow_exception(thrown);
        } catch (const Failure&) {
          if (client.asks) ++left_waiters_;
        } catch (const std::exception& error) {
          broken("P9", client.name + " ends by an exception: " + error.what());
        }
      });
  kernel_.running = nullptr;
  return client;
}

void World::start_break() {
  has_takers_ = true;
  const bool by_force = kernel_.random.chance(0.2);
  start_client(by_force ? "break by force" : "break", &World::break_lock).by_force =
      by_force;
}

// As the verb does it.
asio::awaitable<void> World::break_lock(Client& client) {
  const LockName lock{client.common->name_space, main_lock};
  const auto info = co_await client.store->inspector().inspect(lock, *client.wakeup);
  if (info.holders.empty()) co_return;
  for (const auto& holder : info.holders) {
    if (client.by_force) forced_.insert(holder.fence.number);
  }
  Breaking breaking(*client.context, *client.store, info, client.by_force,
                    *client.common);
  co_await breaking.take();
  co_await breaking.wait();
}

// As the verbs do it, each of which only knows the token. A lease that was renewed for a
// shorter time ends sooner.
asio::awaitable<void> World::hold_by_hand(Client& client) {
  constexpr milliseconds spans[] = {milliseconds(1000), milliseconds(5000),
                                    milliseconds(25'000)};
  auto& random = kernel_.random;
  auto& store = *client.store;
  Claim claim;
  claim.lock = {client.common->name_space, main_lock};
  claim.token.bytes = random_bytes();
  claim.attached = false;
  claim.slots = slots_;
  claim.ttl = spans[random.below(3)];
  const auto sleep = [&] {
    return client.wakeup->sleep_until(
        later(Clock::now(), milliseconds(random.below(4000))));
  };
  const std::optional<RunEnd> no_run;
  {
    Holding holding(*client.context, *client.wakeup, store, claim,
                    LeaseTiming(claim.ttl, {}, store_timeout(*client.common, claim.ttl)));
    Patience patience;
    patience.until = later(Clock::now(), milliseconds(random.below(10'000)));
    client.asks = true;
    co_await holding.obtain(patience);
    if (holding.grant()) client.fence = holding.grant()->fence.number;
    if (client.fence == 0) co_await holding.release(no_run);
    client.asks = false;
  }
  for (auto renewals = client.fence == 0 ? 0 : random.below(3); renewals > 0;
       --renewals) {
    co_await sleep();
    claim.ttl = spans[random.below(3)];
    kernel_.trace(client.name + " renews for " + for_people(claim.ttl));
    const auto claimant = store.claimant(claim);
    client.may_end = true;
    co_await claimant->renew(*client.wakeup);
    client.may_end = false;
    client.lease_seen_until = 0;  // until it is seen again
  }
  if (client.fence == 0 || random.chance(0.5)) co_return;
  co_await sleep();
  client.may_end = true;
  const auto claimant = store.claimant(claim);
  co_await claimant->release(no_run, *client.wakeup);
}

void World::step(Client& client) {
  kernel_.running = &client.process;
  if (client.context->poll() == 0) client.process.is_ready = false;
  kernel_.running = nullptr;
  if (!client.is_over) return;
  kernel_.trace(client.name + " has ended");
  free(client);
  kernel_.kill(client.process);
}

void World::free(Client& client) {
  if (!client.context) return;
  kernel_.running = &client.process;
  client.context->end();
  client.wakeup.reset();
  client.store.reset();
  client.context.reset();
  kernel_.running = nullptr;
}

}  // namespace dlock::simulation
