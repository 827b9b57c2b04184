#include "store/postgres/pg_store.hpp"

#include "lock/store.hpp"

namespace dlock::postgres {
namespace {

Failure not_yet() {
  return Failure(Failure::Kind::unsupported, "PostgreSQL is not supported yet");
}

}  // namespace

std::unique_ptr<Store> open(const StoreUrl&, milliseconds, asio::io_context&) {
  throw not_yet();
}

asio::awaitable<Examination> examine(const StoreUrl&, const std::string&, milliseconds,
                                     asio::io_context&, Wakeup&) {
  throw not_yet();
  co_return Examination{};
}

}  // namespace dlock::postgres
