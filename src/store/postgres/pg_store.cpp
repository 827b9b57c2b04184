#include "store/postgres/pg_store.hpp"

#include "lock/store.hpp"
#include "store/postgres/pg_states.hpp"
#include "store/stepped/stepped_store.hpp"

namespace dlock::postgres {
namespace {

Failure not_yet() {
  return Failure(Failure::Kind::unsupported, "PostgreSQL is not supported yet");
}

}  // namespace

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  auto hosts = hosts_of(url, timeout);
  auto text = hosts->url;
  return std::make_unique<stepped::SteppedStore>(
      context, std::move(text), std::make_unique<PgStates>(context, std::move(hosts)));
}

asio::awaitable<Examination> examine(const StoreUrl&, const std::string&, milliseconds,
                                     asio::io_context&, Wakeup&) {
  throw not_yet();
  co_return Examination{};
}

}  // namespace dlock::postgres
