#include "lock/store.hpp"

#include <algorithm>

namespace dlock {
namespace {

template <typename Facet>
Facet& needed(Facet* facet, const Store& store, const char* what) {
  if (facet == nullptr) throw unsupported(store.url(), what);
  return *facet;
}

// Between attempts to reach an unavailable store.
constexpr milliseconds longest_pause{5'000};

}  // namespace

Failure unsupported(const std::string& url, const std::string& what) {
  return Failure::unsupported(url + " does not support " + what);
}

ValueStore& values_of(Store& store) { return needed(store.values(), store, "cache"); }

RateLimits& rates_of(Store& store) { return needed(store.rates(), store, "rate limits"); }

asio::awaitable<std::vector<LockHistory>> LockInspector::histories(
    const std::string& name_space, NameFilter matches, Wakeup& wakeup) {
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

asio::awaitable<void> keep_watching(NewWatchSession new_session, EventSink& sink,
                                    Wakeup& wakeup) {
  std::unique_ptr<WatchSession> session;
  bool has_begun = false;
  bool is_interrupted = false;
  Clock::time_point began;
  GrowingPause pause(longest_pause);
  while (!wakeup.gives_up()) {
    std::optional<Failure> failure;
    try {
      if (!session) {
        session = new_session();
        co_await session->begin();
        sink.began();
        began = Clock::now();
        has_begun = true;
        is_interrupted = false;
      }
      co_await session->go_on(sink);
      continue;
    } catch (const Failure& error) {
      failure = error;  // co_await is not allowed in a handler
    }
    if (!has_begun) throw *failure;
    if (failure->kind() == Failure::Kind::interrupted) co_return;
    if (!is_interrupted) sink.interrupted(failure->what());
    // A store that ends one session after the other is not asked without a pause.
    if (!is_interrupted && elapsed_since(began) > longest_pause) pause.reset();
    is_interrupted = true;
    session.reset();
    co_await wakeup.sleep_until(later(Clock::now(), pause.next()));
  }
}

Finding::Level worst_of(const std::vector<Finding>& findings) {
  auto worst = Finding::Level::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

}  // namespace dlock
