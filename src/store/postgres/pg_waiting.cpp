// PgStates: whose turn it is to use the connection, and how waiters sleep and holders are
// told.

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <map>
#include <utility>

#include "loop/wakeup.hpp"
#include "net/budget.hpp"
#include "store/postgres/pg_news.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_states.hpp"

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

// Has the connection for one exchange. A listener that waits on it gives way.
class PgStates::Turn {
 public:
  explicit Turn(PgStates& states) : states_(states) {}
  ~Turn() {
    if (!is_mine_) return;
    // A transaction ends with an error.
    if (!is_well_) states_.is_exclusive_ = false;
    states_.end_turn();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  asio::awaitable<void> take(Call call);
  void has_ended_well() { is_well_ = true; }

 private:
  PgStates& states_;
  bool is_mine_ = false;
  bool is_well_ = false;
};

// Tells holders when their lease was broken, or the connection ended.
struct PgStates::Listener {
  Listener(asio::io_context& context, PgStates& of) : states(&of), wakeup(context) {}

  PgStates* states;  // null once it is destroyed
  std::map<rules::Session, std::function<void()>> told;
  Wakeup wakeup;
  bool is_waiting = false;  // on the connection, for a notification
};

class PgStates::News final : public LeaseNews {
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

PgStates::~PgStates() {
  if (!listener_) return;
  listener_->states = nullptr;
  listener_->wakeup.give_up(true);
}

asio::awaitable<void> PgStates::Turn::take(Call call) {
  if (states_.is_taken_) {
    if (states_.listener_ && states_.listener_->is_waiting) {
      states_.listener_->wakeup.give_up(true);
    }
    net::Budget budget(call, states_.shown_);
    states_.next_.push_back(&call.wakeup);
    std::exception_ptr failure;
    try {
      co_await budget.wait([this] { return !states_.is_taken_; });
      budget.check();
    } catch (const Failure&) {
      failure = std::current_exception();
    }
    states_.next_.erase(
        std::find(states_.next_.begin(), states_.next_.end(), &call.wakeup));
    budget.hand_on();
    if (failure) std::rethrow_exception(failure);
  }
  states_.is_taken_ = is_mine_ = true;
}

void PgStates::end_turn() {
  is_taken_ = false;
  for (auto* waiting : next_) waiting->notify();
  if (listener_ && !listener_->is_waiting) listener_->wakeup.notify();
}

asio::awaitable<std::vector<Result>> PgStates::exchange(std::vector<Batch> batches,
                                                        Call call) {
  Turn turn(*this);
  co_await turn.take(call);
  co_await tell_late(call);
  const auto connection = connection_;
  // A step that failed half-way: what is written now must not be a part of it.
  if (connection->is_in_transaction()) {
    connection->close();
    is_exclusive_ = false;
  }
  auto results = co_await exchange_in_schema(*connection, std::move(batches), call);
  turn.has_ended_well();
  co_return results;
}

asio::awaitable<std::vector<Result>> PgStates::go_on(std::vector<Batch> batches,
                                                     Call call) {
  Turn turn(*this);
  co_await turn.take(call);
  const auto connection = connection_;
  if (!connection->is_in_transaction() || connection->has_failed_transaction()) {
    throw Failure(Failure::Kind::unreachable, shown_ + " has ended the transaction");
  }
  auto results = co_await connection->exchange(std::move(batches), call);
  turn.has_ended_well();
  co_return results;
}

asio::awaitable<void> PgStates::post(Batch batch, Wakeup& wakeup) {
  std::vector<Batch> batches(1, std::move(batch));
  const auto connection = connection_;
  if (!connection->is_pooled()) co_return connection->post(batches);
  // A pooler gives up the session of a client that leaves in the middle of something.
  if (!connection->is_open()) co_return;
  const auto call = wakeup.within(bookkeeping_patience);
  try {
    Turn turn(*this);
    co_await turn.take(call);
    co_await connection->exchange(std::move(batches), call);
    turn.has_ended_well();
  } catch (const Failure&) {
    // It is as if it had not been sent.
  }
}

bool PgStates::polls() const {
  return !can_listen(connection_->target().listening, is_pooled_);
}

Batch PgStates::to_listen(rules::Session party) const {
  Batch batch;
  batch.push_back(for_listeners(connection_->session().server_version));
  batch.push_back({"LISTEN " + channel_of(party), {}});
  return batch;
}

bool PgStates::listens(rules::Session party) const {
  return connection_->is_open() && connection_->times_opened() == listening_since_ &&
         listening_.count(party) > 0;
}

void PgStates::note_listening(rules::Session party) {
  if (connection_->times_opened() != listening_since_) listening_.clear();
  listening_since_ = connection_->times_opened();
  listening_.insert(party);
}

// Those who are woken soon ask then whether there is a watcher.
asio::awaitable<std::optional<Notification>> PgStates::notified(Call call) {
  if (untold_) {
    const auto soon = call.within(tell_after);
    if (auto told = co_await connection_->notification(soon)) co_return told;
    co_await tell_late(call.wakeup.within(timeout_));
  }
  co_return co_await connection_->notification(call);
}

// A notification is a hint, and so is the end of the connection: the claim asks then.
asio::awaitable<bool> PgStates::sleep(rules::Session party, std::size_t place,
                                      Call call) {
  if (polls()) {
    co_await poll(place, call);
    co_return false;
  }
  bool is_in_front = false;
  bool has_failed = false;
  try {
    if (listens(party)) {
      Turn turn(*this);
      co_await turn.take(call);
      turn.has_ended_well();
      auto told = co_await notified(call);
      is_in_front = told && told->payload == in_front_payload;
    } else {
      std::vector<Batch> batches(1, to_listen(party));
      co_await exchange(std::move(batches), call.wakeup.within(timeout_));
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

// Whoever is next looks often, but not for long.
asio::awaitable<void> PgStates::poll(std::size_t place, Call call) {
  const auto now = Clock::now();
  if (place != 1) polls_since_.reset();
  if (place == 1 && !polls_since_) polls_since_ = now;
  const bool is_quick = polls_since_ && now < later(*polls_since_, quickly_for);
  const auto pause = is_quick ? poll_quickly : poll_slowly;
  co_await (place <= 2 ? call.by(later(now, pause)) : call).sleep();
}

void PgStates::park() {
  if (!is_taken_ && !listener_) connection_->close();
}

// Behind a pooler a session that waits costs the server nothing.
void PgStates::rest() {
  if (connection_->target().listening == Listening::off) park();
}

std::unique_ptr<LeaseNews> PgStates::listen(rules::Session party,
                                            std::function<void()> on_news) {
  if (polls()) return nullptr;
  const bool is_first = !listener_ || listener_->told.empty();
  if (is_first) {
    if (listener_) listener_->states = nullptr;
    listener_ = std::make_shared<Listener>(context_, *this);
  }
  // Before the coroutine, which may begin at once, and ends if there is no party to tell.
  listener_->told[party] = std::move(on_news);
  if (is_first) {
    asio::co_spawn(context_, keep_listening(listener_), [](const std::exception_ptr&) {});
  }
  return std::make_unique<News>(listener_, party);
}

asio::awaitable<void> PgStates::keep_listening(std::shared_ptr<Listener> listener) {
  auto& wakeup = listener->wakeup;
  GrowingPause pause;
  auto begin = Clock::now();
  for (;;) {
    if (Clock::now() < begin) co_await wakeup.sleep_until(begin);
    wakeup.give_up(false);
    auto* states = listener->states;
    if (states == nullptr || listener->told.empty()) co_return;
    if (states->polls()) co_return;
    if (states->is_taken_ || states->is_exclusive_ || !states->next_.empty()) {
      co_await wakeup.wait_until(later(Clock::now(), look_again_after));
      continue;
    }
    bool has_failed = false;
    states->is_taken_ = true;
    try {
      const bool has_told = co_await listen_once(listener);
      pause.reset();
      if (has_told) begin = later(Clock::now(), told_apart);
    } catch (const Failure& failure) {
      has_failed = failure.kind() != Failure::Kind::interrupted;
    }
    listener->is_waiting = false;
    if (listener->states != nullptr) listener->states->end_turn();
    if (!has_failed) continue;
    // The next renewal connects again, and finds out whether the lease holds.
    const auto told = listener->told;
    for (const auto& [party, on_news] : told) on_news();
    begin = later(Clock::now(), pause.next());
  }
}

// Whether a notification came.
asio::awaitable<bool> PgStates::listen_once(std::shared_ptr<Listener> listener) {
  auto& states = *listener->states;
  const auto connection = states.connection_;
  const auto told = listener->told;
  co_await states.tell_late(listener->wakeup.within(states.timeout_));
  if (listener->states == nullptr) co_return false;
  for (const auto& [party, on_news] : told) {
    if (states.listens(party)) continue;
    std::vector<Batch> batches(1, states.to_listen(party));
    const auto call = listener->wakeup.within(states.timeout_);
    co_await connection->exchange(std::move(batches), call);
    if (listener->states == nullptr) co_return false;
    states.note_listening(party);
    if (listener->told.count(party) > 0) on_news();  // it may have been told before
  }
  if (!states.next_.empty()) co_return false;
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

// After the wait the object may be destroyed.
asio::awaitable<void> PgStates::tell_late(Call call) {
  if (!untold_) co_return;
  const auto told = *std::exchange(untold_, std::nullopt);
  const auto connection = connection_;
  if (!connection->is_open()) co_return;
  std::vector<Batch> question(1);
  question.front().push_back(watcher_question(told.lock.name_space, told.at));
  const auto reply = co_await connection->exchange(std::move(question), call);
  if (!says_yes(reply.back())) co_return;
  const auto end = later(Clock::now(), bookkeeping_patience);
  connection->post({telling(told.lock, told.events, end)});
}

}  // namespace dlock::postgres
