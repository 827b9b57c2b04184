#include "store/postgres/pg_store.hpp"

#include <memory>
#include <utility>

#include "lock/store.hpp"
#include "store/postgres/pg_states.hpp"
#include "store/stepped/stepped_store.hpp"

namespace dlock::postgres {

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  auto hosts = hosts_of(url, timeout);
  auto text = hosts->url;
  auto states = std::make_unique<PgStates>(context, std::move(hosts));
  return std::make_unique<stepped::SteppedStore>(context, std::move(text),
                                                 std::move(states));
}

asio::awaitable<Examination> examine(const StoreUrl&, const std::string&, milliseconds,
                                     asio::io_context&, Wakeup&) {
  co_return Examination{};
}

}  // namespace dlock::postgres
