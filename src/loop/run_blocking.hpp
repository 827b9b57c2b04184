// Runs a coroutine from a plain function.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "loop/wakeup.hpp"

namespace dlock {

// Runs `work` to completion. Returns what it returns, or throws what it throws.
template <typename Work>
auto run_blocking(asio::io_context& context, Work work) {
  using Result = typename decltype(work())::value_type;
  std::optional<Result> result;
  std::exception_ptr error;
  asio::co_spawn(context, std::move(work), [&](std::exception_ptr thrown, Result value) {
    error = thrown;
    result = std::move(value);
    // A timer of the store may still be armed.
    context.stop();
  });
  context.run();
  // The caller may run the context again.
  context.restart();
  if (error) std::rethrow_exception(error);
  return std::move(*result);
}

}  // namespace dlock
