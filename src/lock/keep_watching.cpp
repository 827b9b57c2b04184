#include "lock/keep_watching.hpp"

#include <optional>
#include <string>

#include "loop/retry.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

// Between attempts to reach an unavailable store.
constexpr milliseconds longest_pause{5'000};

}  // namespace

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

}  // namespace dlock
