// Runs coroutines from tests, which are plain functions.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "util/clock.hpp"

namespace dlock {

namespace asio = boost::asio;

// Runs `context` until `is_true`, for up to 20 s, which is more than a busy machine
// needs. Returns whether it became true.
inline bool eventually(asio::io_context& context, const std::function<bool()>& is_true) {
  const auto give_up_at = Clock::now() + std::chrono::seconds(20);
  while (!is_true()) {
    if (Clock::now() > give_up_at) return false;
    context.restart();
    context.run_one_for(milliseconds(10));
  }
  return true;
}

// A coroutine in progress, and its result.
template <typename T>
class Task {
 public:
  Task(asio::io_context& context, asio::awaitable<T> work)
      : context_(context), outcome_(std::make_shared<Outcome>()) {
    asio::co_spawn(context, std::move(work),
                   [outcome = outcome_](std::exception_ptr error, T value) {
                     outcome->error = error;
                     outcome->value = std::move(value);
                   });
  }

  bool is_done() const { return outcome_->value.has_value(); }

  // Waits for the coroutine. Returns what it returned, or throws what it threw.
  T result() {
    if (!eventually(context_, [this] { return is_done(); })) {
      throw std::runtime_error("a coroutine did not end");
    }
    if (outcome_->error) std::rethrow_exception(outcome_->error);
    return *outcome_->value;
  }

 private:
  struct Outcome {
    std::exception_ptr error;
    std::optional<T> value;
  };

  asio::io_context& context_;
  std::shared_ptr<Outcome> outcome_;
};

struct Nothing {};

// `work` as a coroutine that returns a value, as Task needs it.
inline asio::awaitable<Nothing> with_result(asio::awaitable<void> work) {
  co_await std::move(work);
  co_return Nothing{};
}

template <typename T>
T result_of(asio::io_context& context, asio::awaitable<T> work) {
  return Task<T>(context, std::move(work)).result();
}

// A call that takes as long as it needs.
inline Call endless(Wakeup& wakeup) { return wakeup.within(milliseconds::max()); }

inline void result_of(asio::io_context& context, asio::awaitable<void> work) {
  result_of(context, with_result(std::move(work)));
}

}  // namespace dlock
