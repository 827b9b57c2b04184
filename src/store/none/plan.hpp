// No store.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "lock/finding.hpp"
#include "lock/store.hpp"
#include "store/plan.hpp"

namespace dlock::none {

struct Plan {
  // Parses what follows the scheme and its colon. Throws Failure (misconfigured) if it is
  // invalid.
  static Plan parsed(std::string_view scheme, const std::string& rest);
};

// As open_store() and examine_store().
std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context);
asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup);

}  // namespace dlock::none
