// `dlock break` as an action of a schedule.
#include <boost/asio/co_spawn.hpp>
#include <string>

#include "cli/verbs/breaking.hpp"
#include "store/open.hpp"
#include "tests/simulation/world.hpp"

namespace dlock::simulation {

void World::start_break() {
  auto& breaker = *breakers_.emplace_back(std::make_unique<Breaker>());
  breaker.number = static_cast<int>(breakers_.size());
  breaker.by_force = kernel_.random.chance(0.2);
  breaker.process.pid = 2000 + breaker.number;
  kernel_.trace("break " + std::to_string(breaker.number) +
                (breaker.by_force ? " by force" : "") + " starts");
  kernel_.running = &breaker.process;
  const auto& common = invocation(std::nullopt).common;
  breaker.context = std::make_unique<Run::Context>();
  breaker.store =
      open_store(common.store, store_timeout(common, std::nullopt), *breaker.context);
  breaker.wakeup.emplace(*breaker.context);
  asio::co_spawn(
      *breaker.context, [this, &breaker] { return break_lock(breaker); },
      [this, &breaker](std::exception_ptr thrown) {
        breaker.is_over = true;
        try {
          if (thrown) std::rethrow_exception(thrown);
        } catch (const Failure&) {
        } catch (const std::exception& error) {
          broken("P9", std::string("a break ends by an exception: ") + error.what());
        }
      });
  kernel_.running = nullptr;
}

// As the verb does it.
asio::awaitable<void> World::break_lock(Breaker& breaker) {
  const auto& common = invocation(std::nullopt).common;
  const LockName lock{common.name_space, "job"};
  const auto info = co_await breaker.store->inspector().inspect(lock, *breaker.wakeup);
  if (info.holders.empty()) co_return;
  for (const auto& holder : info.holders) {
    if (breaker.by_force) forced_.insert(holder.fence.number);
  }
  Breaking breaking(*breaker.context, *breaker.store, info, breaker.by_force, common);
  co_await breaking.take();
  co_await breaking.wait();
}

void World::step(Breaker& breaker) {
  kernel_.running = &breaker.process;
  if (breaker.context->poll() == 0) breaker.process.is_ready = false;
  kernel_.running = nullptr;
  if (!breaker.is_over) return;
  kernel_.trace("break " + std::to_string(breaker.number) + " has ended");
  free(breaker);
  kernel_.kill(breaker.process);
}

void World::free(Breaker& breaker) {
  if (!breaker.context) return;
  kernel_.running = &breaker.process;
  breaker.context->end();
  breaker.wakeup.reset();
  breaker.store.reset();
  breaker.context.reset();
  kernel_.running = nullptr;
}

}  // namespace dlock::simulation
