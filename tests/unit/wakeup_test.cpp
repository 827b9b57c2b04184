// Sleeping on the one timer of a context.

#include "loop/wakeup.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <string>

namespace dlock {
namespace {

class Sleepers : public ::testing::Test {
 protected:
  // Sleeps until `span` after the test began, and then records its name; ends early only
  // if it is told to.
  void sleep(Wakeup& wakeup, milliseconds span, char name) {
    asio::co_spawn(context_, slept({began_ + span, wakeup}, name), asio::detached);
  }

  asio::awaitable<void> slept(Call call, char name) {
    while (!call.is_over() && !call.wakeup.gives_up()) co_await call.wait();
    woken_ += name;
  }

  // The timer lives as long as the context, so the context never runs out of work.
  void run_until_woken(std::size_t count) {
    const auto patience = Clock::now() + milliseconds(10'000);
    while (woken_.size() < count && Clock::now() < patience) {
      context_.run_one_for(milliseconds(100));
    }
  }

  asio::io_context context_{1};
  Clock::time_point began_ = Clock::now();
  std::string woken_;
};

TEST_F(Sleepers, each_wake_at_their_own_time_whatever_their_order) {
  Wakeup first(context_);
  Wakeup second(context_);
  Wakeup third(context_);
  sleep(third, milliseconds(300), '3');
  sleep(first, milliseconds(100), '1');
  sleep(second, milliseconds(200), '2');

  run_until_woken(3);

  EXPECT_EQ(woken_, "123");
  EXPECT_GE(Clock::now() - began_, milliseconds(300));
}

TEST_F(Sleepers, wake_though_another_one_was_destroyed) {
  auto gone = std::make_unique<Wakeup>(context_);
  Wakeup stays(context_);
  sleep(*gone, milliseconds(10'000), 'x');
  sleep(stays, milliseconds(300), 's');
  context_.run_one();  // they sleep now
  context_.run_one();
  gone->give_up(true);
  run_until_woken(1);
  gone.reset();

  run_until_woken(2);

  EXPECT_EQ(woken_, "xs");
}

TEST_F(Sleepers, wake_in_time_after_an_earlier_moment_was_dropped) {
  Wakeup wakeup(context_);
  asio::co_spawn(
      context_,
      [&]() -> asio::awaitable<void> {
        // The timer is set for a moment that is dropped before it comes.
        asio::post(context_, [&] { wakeup.notify(); });
        co_await wakeup.wait_until(Clock::now() + milliseconds(15));
        const auto until = Clock::now() + milliseconds(30);
        while (Clock::now() < until) co_await wakeup.wait_until(until);
        woken_ = "yes";
      },
      asio::detached);

  run_until_woken(1);

  EXPECT_EQ(woken_, "yes");
}

}  // namespace
}  // namespace dlock
