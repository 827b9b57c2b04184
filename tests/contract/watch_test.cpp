// The events that every store reports to those who watch its locks.

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/contract/ended_process.hpp"
#include "tests/run_end.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using std::chrono::hours;
using Lines = std::vector<std::string>;

// The events of some locks from its construction on.
class Watch final : private EventSink {
 public:
  Watch(asio::io_context& context, World& world, Watched watched)
      : context_(context),
        store_(world.connect(context, usual_timeout)),
        wakeup_(context),
        watched_(std::move(watched)),
        task_(context, with_result(store_->inspector().watch(watched_, *this, wakeup_))) {
    if (!eventually(context_, [&] { return begun_ || task_.is_done(); }) || !begun_) {
      throw std::runtime_error("did not begin to watch");
    }
  }
  ~Watch() override {
    wakeup_.give_up(true);
    eventually(context_, [&] { return task_.is_done(); });
  }

  // "granted a 0" for an event of the claim with the label `a` that leaves no slot free.
  Lines lines() const {
    Lines lines;
    for (const auto& event : events) {
      lines.push_back(std::string(event_name(event.kind)) + " " + event.label + " " +
                      std::to_string(event.free));
    }
    return lines;
  }
  // The events once there are as many as expected, or enough time has passed.
  Lines seen(std::size_t count) {
    eventually(context_, [&] { return events.size() >= count; });
    return lines();
  }

  std::vector<Event> events;

 private:
  void began() override { begun_ = true; }
  void happened(const Event& event) override { events.push_back(event); }
  void interrupted(const std::string&) override {}

  asio::io_context& context_;
  std::unique_ptr<Store> store_;
  Wakeup wakeup_;
  Watched watched_;
  bool begun_ = false;
  Task<Nothing> task_;
};

class Watching : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& exclusive(const std::string& label, const std::string& name = "job") {
    auto& added = contenders_.emplace_back(context_, *world_, claim_of(name));
    added.claim.label = label;
    return added;
  }
  Contender& detached(const std::string& label, milliseconds ttl) {
    auto& added = exclusive(label);
    added.claim.attached = false;
    added.claim.ttl = ttl;
    return added;
  }
  Watch& watch(std::set<std::string> names = {}) {
    return watches_.emplace_back(context_, *world_, Watched{"dlock", std::move(names)});
  }

  // As if its process had been killed.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }
  void break_lease(Fence fence) {
    auto& breaker = exclusive("breaker");
    const auto broken = [&]() -> asio::awaitable<Nothing> {
      const Break order{{fence}};
      co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
      co_return Nothing{};
    };
    result_of(context_, broken());
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
  std::list<Watch> watches_;
};

// A service that lives within one process has no other to tell.
INSTANTIATE_TEST_SUITE_P(stores, Watching,
                         ::testing::ValuesIn(kinds_with(&Kind::is_shared_by_processes,
                                                        &Kind::watches)),
                         name_of);

TEST_P(Watching, a_grant_and_the_end_of_its_run_are_reported) {
  auto& watched = watch();
  auto& runner = exclusive("a");
  const auto fence = runner.granted().fence;
  runner.release(exit_with(3));

  ASSERT_EQ(watched.seen(2), (Lines{"granted a 0", "released a 1"}));
  for (const auto& event : watched.events) {
    EXPECT_EQ(event.lock, runner.claim.lock);
    EXPECT_EQ(event.fence, fence);
    EXPECT_EQ(event.pid, ::getpid());
    EXPECT_EQ(event.command, runner.claim.command);
    EXPECT_EQ(event.host, host_name());
    EXPECT_FALSE(event.user.empty());
  }
  EXPECT_FALSE(watched.events[0].run);
  ASSERT_TRUE(watched.events[1].run);
  EXPECT_EQ(watched.events[1].run->exit_code, 3);
  EXPECT_LE(watched.events[0].time, watched.events[1].time);
}

TEST_P(Watching, a_waiter_is_reported_as_queued_and_then_as_granted) {
  auto& holder = exclusive("a");
  holder.granted();
  auto& watched = watch();
  auto& waiter = exclusive("b");
  waiter.queued();
  holder.release();
  waiter.granted();

  EXPECT_EQ(watched.seen(3), (Lines{"queued b 0", "released a 1", "granted b 0"}));
}

TEST_P(Watching, a_waiter_that_gives_up_has_left) {
  exclusive("a").granted();
  auto& watched = watch();
  auto& waiter = exclusive("b");
  waiter.queued();
  waiter.release();

  EXPECT_EQ(watched.seen(2), (Lines{"queued b 0", "left b 0"}));
}

TEST_P(Watching, a_waiter_that_is_deduplicated_has_left) {
  auto& holder = exclusive("a");
  holder.granted();
  auto& watched = watch();
  auto& waiter = exclusive("b");
  waiter.claim.dedupe = Dedupe{hours(1), true};
  waiter.queued();
  holder.release(exit_with(0));
  EXPECT_TRUE(std::holds_alternative<Deduplicated>(waiter.ask(Queue::join)));

  EXPECT_EQ(watched.seen(3), (Lines{"queued b 0", "released a 1", "left b 1"}));
}

TEST_P(Watching, a_waiter_that_is_superseded_has_left) {
  exclusive("a").granted();
  auto& older = exclusive("b");
  older.claim.supersedes = true;
  older.queued();
  auto& watched = watch();
  auto& newer = exclusive("c");
  newer.claim.supersedes = true;
  newer.queued();

  auto lines = watched.seen(2);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Lines{"left b 0", "queued c 0"}));
}

TEST_P(Watching, an_event_has_the_number_of_free_slots_after_it) {
  auto& watched = watch();
  for (const auto* label : {"a", "b"}) {
    auto& holder = exclusive(label);
    holder.claim.slots = 3;
    holder.granted();
  }
  contenders_.front().release();
  contenders_.back().release();

  EXPECT_EQ(watched.seen(4),
            (Lines{"granted a 2", "granted b 1", "released a 2", "released b 3"}));
}

TEST_P(Watching, a_lock_is_not_free_until_the_last_reader_has_released_it) {
  auto& watched = watch();
  for (const auto* label : {"a", "b"}) {
    auto& holder = exclusive(label);
    holder.claim.mode = Mode::shared;
    holder.granted();
  }
  contenders_.front().release();
  contenders_.back().release();

  EXPECT_EQ(watched.seen(4),
            (Lines{"granted a 0", "granted b 0", "released a 0", "released b 1"}));
}

TEST_P(Watching, a_detached_lease_is_reported_as_expired_though_nobody_asks) {
  detached("old", milliseconds(1'500)).granted();
  auto& watched = watch();

  EXPECT_EQ(watched.seen(1), Lines{"expired old 1"});
  detached("new", milliseconds(300)).granted();
  EXPECT_EQ(watched.seen(3), (Lines{"expired old 1", "granted new 0", "expired new 1"}));
}

TEST_P(Watching, a_renewed_lease_is_reported_as_released_and_not_as_expired) {
  auto& watched = watch();
  auto& holder = detached("a", milliseconds(1'000));
  holder.granted();
  holder.claim.ttl = hours(1);
  ASSERT_EQ(holder.renew(), Renewal::confirmed);
  auto& other = exclusive("b", "other");
  other.claim.attached = false;
  other.claim.ttl = milliseconds(1'200);
  other.granted();
  EXPECT_EQ(watched.seen(3), (Lines{"granted a 0", "granted b 0", "expired b 1"}));

  holder.release();

  EXPECT_EQ(watched.seen(4).back(), "released a 1");
}

TEST_P(Watching, a_run_whose_process_is_gone_is_reported_as_expired) {
  auto& watched = watch();
  auto& holder = exclusive("a");
  holder.claim.ttl = milliseconds(500);
  holder.granted();
  holder.start(ended_process());
  kill(holder);

  EXPECT_EQ(watched.seen(2), (Lines{"granted a 0", "expired a 1"}));
}

TEST_P(Watching, a_broken_lease_is_reported_once_and_then_as_released) {
  auto& holder = exclusive("a");
  const auto fence = holder.granted().fence;
  auto& watched = watch();
  break_lease(fence);
  break_lease(fence);
  auto end = exit_with(76);
  end.outcome = "lost";
  end.lost = Loss::broken;
  holder.release(end);

  ASSERT_EQ(watched.seen(2), (Lines{"broken a 0", "released a 1"}));
  ASSERT_TRUE(watched.events[0].taken_by);
  EXPECT_EQ(watched.events[0].taken_by->host, host_name());
  ASSERT_TRUE(watched.events[1].run);
  EXPECT_EQ(watched.events[1].run->outcome, "lost");
}

TEST_P(Watching, a_broken_detached_lease_is_free_at_once) {
  const auto fence = detached("a", hours(1)).granted().fence;
  auto& watched = watch();
  break_lease(fence);

  EXPECT_EQ(watched.seen(1), Lines{"broken a 1"});
}

TEST_P(Watching, a_lock_kept_by_min_hold_is_reported_as_released_when_that_is_over) {
  auto& watched = watch();
  auto& runner = exclusive("a");
  runner.claim.min_hold = milliseconds(1'500);
  runner.granted();
  const auto granted = Clock::now();
  runner.release(exit_with(0));
  EXPECT_TRUE(exclusive("b").is_busy());

  EXPECT_EQ(watched.seen(2), (Lines{"granted a 0", "released a 1"}));
  EXPECT_GE(Clock::now() - granted, milliseconds(1'400));
}

TEST_P(Watching, only_the_named_locks_of_the_namespace_are_watched) {
  auto& watched = watch({"one", "two words"});
  exclusive("a", "other").granted();
  auto& elsewhere = exclusive("b", "one");
  elsewhere.claim.lock.name_space = "elsewhere";
  elsewhere.granted();
  exclusive("c", "one").granted();
  exclusive("d", "two words").granted();

  EXPECT_EQ(watched.seen(2), (Lines{"granted c 0", "granted d 0"}));
}

}  // namespace
}  // namespace dlock
