#include "lock/store.hpp"

namespace dlock {
namespace {

template <typename Facet>
Facet& needed(Facet* facet, const Store& store, const char* what) {
  if (facet == nullptr) throw unsupported(store.url(), what);
  return *facet;
}

}  // namespace

Failure unsupported(const std::string& url, const std::string& what) {
  return Failure(Failure::Kind::unsupported, url + " does not support " + what);
}

ValueStore& values_of(Store& store) { return needed(store.values(), store, "cache"); }

RateLimits& rates_of(Store& store) { return needed(store.rates(), store, "rate limits"); }

FenceRegisters& registers_of(Store& store) {
  return needed(store.registers(), store, "fence registers");
}

asio::awaitable<std::vector<LockHistory>> LockInspector::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockHistory> found;
  const auto locks = co_await list(name_space, std::move(matches), wakeup);
  for (const auto& info : locks) {
    auto runs = co_await history(info.lock, wakeup);
    if (!runs.empty()) found.push_back({info.lock, std::move(runs), info.now});
  }
  co_return found;
}

asio::awaitable<void> LockInspector::watch(const Watched&, EventSink& sink,
                                           Wakeup& wakeup) {
  sink.began();
  while (!wakeup.gives_up()) co_await wakeup.wait_until(Clock::time_point::max());
}

}  // namespace dlock
