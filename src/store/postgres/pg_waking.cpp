#include "store/postgres/pg_waking.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <map>
#include <utility>

#include "net/budget.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"

namespace dlock::postgres {
namespace {

// A listener that has to wait for an exchange is notified at its end, or looks again.
constexpr milliseconds look_again_after{1000};

// What a waiter has not told, because it did not know of a watcher, is told by then.
constexpr milliseconds tell_after{1000};

// A holder that waits for a notification looks at its connection after this time.
constexpr milliseconds longest_silence{60'000};

// Anyone who knows the channel can notify a holder, and each time it renews its lease.
constexpr milliseconds told_apart{500};

// Without notifications.
constexpr milliseconds poll_quickly{250};
constexpr milliseconds quickly_for{5'000};
constexpr milliseconds poll_slowly{1000};
constexpr milliseconds pause_after_error{300};

}  // namespace

// Tells holders when their lease was broken, or the connection ended.
struct PgWaking::Listener : PgIdler {
  Listener(asio::io_context& context, PgWaking& of) : PgIdler(context), waking(&of) {}

  PgWaking* waking;  // null once it is destroyed
  std::map<rules::Session, std::function<void()>> told;
  bool is_running = false;  // keep_listening()
};

class PgWaking::News final : public LeaseNews {
 public:
  News(std::shared_ptr<Listener> listener, rules::Session party)
      : listener_(std::move(listener)), party_(party) {}
  ~News() override { News::stop(); }

  void stop() override {
    listener_->told.erase(party_);
    if (listener_->told.empty()) listener_->wakeup.give_up(true);
  }

 private:
  std::shared_ptr<Listener> listener_;
  rules::Session party_;
};

PgWaking::~PgWaking() {
  if (!listener_) return;
  session_.set_idler(nullptr);
  listener_->waking = nullptr;
  listener_->wakeup.give_up(true);
}

bool PgWaking::polls() const {
  return !can_listen(session_.connection()->target().listening, session_.is_pooled());
}

Batch PgWaking::to_listen(rules::Session party) const {
  return {for_listeners(session_.connection()->server_facts().server_version),
          {"LISTEN " + channel_of(party), {}}};
}

bool PgWaking::listens(rules::Session party) const {
  return session_.connection()->is_open() &&
         session_.times_opened() == listening_since_ && listening_.count(party) > 0;
}

void PgWaking::note_listening(rules::Session party) {
  if (session_.times_opened() != listening_since_) listening_.clear();
  listening_since_ = session_.times_opened();
  listening_.insert(party);
}

// Those who are woken soon ask then whether there is a watcher.
asio::awaitable<std::optional<Notification>> PgWaking::notified(Call call) {
  const auto connection = session_.connection();
  if (session_.untold()) {
    const auto soon = call.within(tell_after);
    if (auto told = co_await connection->notification(soon)) co_return told;
    co_await session_.tell(call.wakeup.within(session_.timeout()));
  }
  co_return co_await connection->notification(call);
}

// A notification is a hint, and so is the end of the connection: the claim asks then.
asio::awaitable<bool> PgWaking::sleep(rules::Session party, std::size_t place,
                                      Call call) {
  if (polls()) {
    co_await poll(place, call);
    co_return false;
  }
  bool is_in_front = false;
  bool has_failed = false;
  try {
    if (listens(party)) {
      PgSession::Turn turn(session_);
      co_await turn.take(call);
      auto told = co_await notified(call);
      is_in_front = told && told->payload == in_front_payload;
    } else {
      co_await session_.exchange(alone(to_listen(party)),
                                 call.wakeup.within(session_.timeout()));
      note_listening(party);
    }
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
    has_failed = true;
  }
  if (!has_failed) co_return is_in_front;
  co_await call.within(pause_after_error).sleep();
  co_return false;
}

// Whoever is next looks often, but not for long. Those behind move up without being told:
// each looks again before half of those in front can have had their turn.
asio::awaitable<void> PgWaking::poll(std::size_t place, Call call) {
  const auto now = Clock::now();
  if (place != 1) polls_since_.reset();
  if (place == 1 && !polls_since_) polls_since_ = now;
  const bool is_quick = polls_since_ && now < later(*polls_since_, quickly_for);
  const auto pause =
      is_quick ? poll_quickly : poll_slowly * std::max<std::int64_t>(place / 2, 1);
  co_await call.by(later(now, pause)).sleep();
}

void PgWaking::park() {
  if (!session_.is_taken() && !listener_) session_.connection()->close();
}

// Behind a pooler a session that waits costs the server nothing.
void PgWaking::rest() {
  if (session_.connection()->target().listening == Listening::off) park();
}

std::unique_ptr<LeaseNews> PgWaking::listen(rules::Session party,
                                            std::function<void()> on_news) {
  if (polls()) return nullptr;
  if (!listener_) {
    listener_ = std::make_shared<Listener>(context_, *this);
    session_.set_idler(listener_.get());
  }
  // Before the coroutine, which may begin at once, and ends if there is no party to tell.
  listener_->told[party] = std::move(on_news);
  if (!std::exchange(listener_->is_running, true)) {
    asio::co_spawn(context_, keep_listening(listener_), [](const std::exception_ptr&) {});
  }
  return std::make_unique<News>(listener_, party);
}

asio::awaitable<void> PgWaking::keep_listening(std::shared_ptr<Listener> listener) {
  auto& wakeup = listener->wakeup;
  GrowingPause pause;
  auto begin = Clock::now();
  for (;;) {
    wakeup.give_up(false);
    if (listener->waking == nullptr || listener->told.empty()) break;
    if (listener->waking->polls()) break;
    auto& session = listener->waking->session_;
    bool has_turn = false;
    bool has_failed = false;
    try {
      if (Clock::now() < begin) {
        co_await wakeup.sleep_until(begin);
        continue;
      }
      if (session.is_needed()) {
        co_await wakeup.wait_until(later(Clock::now(), look_again_after));
        continue;
      }
      session.begin_turn();
      has_turn = true;
      const bool has_told = co_await listen_once(listener);
      pause.reset();
      if (has_told) begin = later(Clock::now(), told_apart);
    } catch (const Failure& failure) {
      has_failed = failure.kind() != Failure::Kind::interrupted;
    }
    listener->is_waiting = false;
    if (has_turn && listener->waking != nullptr) session.end_turn();
    if (!has_failed) continue;
    // The next renewal connects again, and finds out whether the lease holds.
    const auto told = listener->told;
    for (const auto& [party, on_news] : told) on_news();
    begin = later(Clock::now(), pause.next());
  }
  listener->is_running = false;
}

// Whether a notification came.
asio::awaitable<bool> PgWaking::listen_once(std::shared_ptr<Listener> listener) {
  auto& waking = *listener->waking;
  auto& session = waking.session_;
  const auto connection = session.connection();
  const auto told = listener->told;
  const auto soon = [&] { return listener->wakeup.within(session.timeout()); };
  co_await session.tell(soon());
  if (listener->waking == nullptr) co_return false;
  for (const auto& [party, on_news] : told) {
    if (waking.listens(party)) continue;
    co_await connection->exchange(alone(waking.to_listen(party)), soon());
    if (listener->waking == nullptr) co_return false;
    waking.note_listening(party);
    if (listener->told.count(party) > 0) on_news();  // it may have been told before
  }
  if (session.is_wanted()) co_return false;
  listener->is_waiting = true;
  const auto call = listener->wakeup.within(longest_silence);
  const auto found = co_await connection->notification(call);
  if (!found) co_return false;
  if (found->payload == in_front_payload) co_return true;
  for (const auto& [party, on_news] : told) {
    const bool is_there = listener->told.count(party) > 0;
    if (is_there && found->channel == channel_of(party)) on_news();
  }
  co_return true;
}

}  // namespace dlock::postgres
