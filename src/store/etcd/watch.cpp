#include <algorithm>
#include <utility>

#include "store/etcd/calls.hpp"
#include "store/etcd/cluster.hpp"
#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

constexpr std::string_view watch_path = "/etcdserverpb.Watch/Watch";

Outcome nonsense() { return {Code::internal, "not a valid etcd watch reply", false}; }

// Why a watch was canceled before it was created. Versions before 3.5 report an expired
// login as missing permissions.
CallFailure refusal(const WatchAnswer& answer, const std::string& server) {
  const bool lacks_permission =
      answer.reason.find("permission denied") != std::string::npos;
  auto failed_call = call_failure(
      Outcome{lacks_permission ? Code::permission_denied : Code::unavailable,
              answer.reason.empty() ? "the watch was canceled" : answer.reason, true},
      server);
  if (lacks_permission) failed_call.remedy = CallFailure::Remedy::login;
  return failed_call;
}

}  // namespace

// The stream, bound to the connection on which it was begun.
class Watch::Feed {
 public:
  explicit Feed(Connection& connection)
      : connection_(connection), opened_(connection.times_opened()) {}

  bool is_on_connection() const {
    return connection_.is_open() && connection_.times_opened() == opened_;
  }

  // Begins the stream; returns when all watches are created.
  asio::awaitable<std::optional<CallFailure>> begin(
      const Cluster& cluster, const std::vector<WatchRequest>& requests,
      net::Budget& budget) {
    auto start = cluster.start_of(watch_path, encoded(requests.front(), 1), true);
    start.is_last = false;
    call_ = connection_.begin(start);
    std::int64_t id = 1;
    for (auto next = requests.begin() + 1; next != requests.end(); ++next) {
      connection_.send(call_, encoded(*next, ++id));
    }
    for (std::size_t created = 0; created < requests.size();) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      const auto ended = connection_.outcome(call_);
      if (!bytes && !ended) throw budget.timeout(connection_.shown());
      if (!bytes) co_return call_failure(*ended, connection_.shown());
      auto answer = decoded_watch(*bytes);
      if (!answer) co_return call_failure(nonsense(), connection_.shown());
      if (answer->created) ++created;
      if (answer->created) revision_ = std::max(revision_, answer->revision);
      if (answer->canceled && answer->compact_revision == 0) {
        co_return refusal(*answer, connection_.shown());
      }
      take(*answer);
      if (update_.events.size() > most_elements) {
        co_return call_failure(nonsense(), connection_.shown());
      }
    }
    co_return std::nullopt;
  }

  std::int64_t revision() const { return revision_; }

  asio::awaitable<WatchUpdate> next(net::Budget& budget) {
    while (is_on_connection() && !has_news()) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      if (!bytes && !connection_.outcome(call_)) co_return WatchUpdate{};
      const auto answer = bytes ? decoded_watch(*bytes) : std::nullopt;
      if (!answer) break;
      take(*answer);
      if (answer->canceled && answer->compact_revision == 0) break;
    }
    if (has_news()) co_return std::exchange(update_, {});
    drop();
    WatchUpdate deaf;
    deaf.kind = WatchUpdate::Kind::broken;
    co_return deaf;
  }

  bool is_broken() const {
    return !has_news() &&
           (is_dropped_ || !is_on_connection() || connection_.outcome(call_).has_value());
  }

  // The member is notified with the next output.
  void drop() {
    if (is_on_connection()) connection_.drop(call_);
    is_dropped_ = true;
  }

 private:
  bool has_news() const { return update_.kind != WatchUpdate::Kind::nothing; }

  void take(const WatchAnswer& answer) {
    if (answer.compact_revision != 0) {
      update_ = {WatchUpdate::Kind::compacted, {}, answer.compact_revision};
      return;
    }
    if (answer.events.empty() || update_.kind == WatchUpdate::Kind::compacted) return;
    update_.kind = WatchUpdate::Kind::events;
    update_.events.insert(update_.events.end(), answer.events.begin(),
                          answer.events.end());
    update_.revision = std::max(update_.revision, answer.revision);
  }

  Connection& connection_;
  std::uint64_t opened_;
  CallId call_ = 0;
  std::int64_t revision_ = 0;
  WatchUpdate update_;
  bool is_dropped_ = false;
};

Watch::Watch(Calls& calls) : calls_(calls) {}

Watch::~Watch() {
  if (feed_) feed_->drop();
}

asio::awaitable<std::int64_t> Watch::start(std::vector<WatchRequest> requests,
                                           Clock::time_point until, Wakeup& wakeup) {
  auto& cluster = *calls_.cluster_;
  Cluster::Try once = [&](net::Budget& budget) {
    if (feed_) feed_->drop();
    feed_ = std::make_unique<Feed>(cluster.member());
    return feed_->begin(cluster, requests, budget);
  };
  try {
    co_await cluster.retry_on_members(std::move(once), Repeat::freely, until, wakeup);
  } catch (const Failure&) {
    if (feed_) feed_->drop();
    throw;
  }
  co_return feed_->revision();
}

asio::awaitable<WatchUpdate> Watch::next(Clock::time_point until, Wakeup& wakeup) {
  WatchUpdate update;
  update.kind = WatchUpdate::Kind::broken;
  if (!feed_ || feed_->is_broken()) co_return update;
  net::Budget budget(until, wakeup, calls_.name());
  std::optional<Failure> failure;
  try {
    update = co_await feed_->next(budget);
  } catch (const Failure& error) {
    failure = error;
  }
  budget.hand_on();
  const bool is_lost = failure && failure->kind() == Failure::Kind::unreachable;
  if (failure && !is_lost) throw *failure;
  co_return update;
}

bool Watch::is_broken() const { return !feed_ || feed_->is_broken(); }

}  // namespace dlock::etcd
