#include <algorithm>
#include <utility>

#include "store/etcd/calls.hpp"
#include "store/etcd/cluster.hpp"
#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

constexpr std::string_view watch_path = "/etcdserverpb.Watch/Watch";

Outcome nonsense() { return {Code::internal, "not a valid etcd watch reply", false}; }

// Why a watch is canceled that was not even created. A login that has lapsed is told as
// a lack of rights, by versions before 3.5.
Trouble refusal(const WatchAnswer& answer, const std::string& server) {
  const bool lacks_rights = answer.reason.find("permission denied") != std::string::npos;
  auto trouble = trouble_of(
      Outcome{lacks_rights ? Code::permission_denied : Code::unavailable,
              answer.reason.empty() ? "the watch was canceled" : answer.reason, true},
      server);
  if (lacks_rights) trouble.cure = Trouble::Cure::login;
  return trouble;
}

}  // namespace

// The stream, on the connection that it was begun on.
class Watch::Feed {
 public:
  explicit Feed(Connection& connection)
      : connection_(connection), opened_(connection.times_opened()) {}

  bool is_on_connection() const {
    return connection_.is_open() && connection_.times_opened() == opened_;
  }

  // Begins the stream, and returns when all watches are created.
  asio::awaitable<std::optional<Trouble>> begin(const Cluster& cluster,
                                                const std::vector<WatchRequest>& requests,
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
      if (!bytes) co_return trouble_of(*ended, connection_.shown());
      auto answer = decoded_watch(*bytes);
      if (!answer) co_return trouble_of(nonsense(), connection_.shown());
      if (answer->created) ++created;
      if (answer->created) revision_ = std::max(revision_, answer->revision);
      if (answer->canceled && answer->compact_revision == 0) {
        co_return refusal(*answer, connection_.shown());
      }
      take(*answer);
      if (heard_.events.size() > most_elements) {
        co_return trouble_of(nonsense(), connection_.shown());
      }
    }
    co_return std::nullopt;
  }

  std::int64_t revision() const { return revision_; }

  asio::awaitable<Heard> next(net::Budget& budget) {
    while (is_on_connection() && !has_news()) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      if (!bytes && !connection_.outcome(call_)) co_return Heard{};
      const auto answer = bytes ? decoded_watch(*bytes) : std::nullopt;
      if (!answer) break;
      take(*answer);
      if (answer->canceled && answer->compact_revision == 0) break;
    }
    if (has_news()) co_return std::exchange(heard_, {});
    drop();
    Heard deaf;
    deaf.kind = Heard::Kind::deaf;
    co_return deaf;
  }

  bool is_deaf() const {
    return !has_news() &&
           (is_dropped_ || !is_on_connection() || connection_.outcome(call_).has_value());
  }

  // The member is told when something is sent next.
  void drop() {
    if (is_on_connection()) connection_.drop(call_);
    is_dropped_ = true;
  }

 private:
  bool has_news() const { return heard_.kind != Heard::Kind::nothing; }

  void take(const WatchAnswer& answer) {
    if (answer.compact_revision != 0) {
      heard_ = {Heard::Kind::compacted, {}, answer.compact_revision};
      return;
    }
    if (answer.events.empty() || heard_.kind == Heard::Kind::compacted) return;
    heard_.kind = Heard::Kind::events;
    heard_.events.insert(heard_.events.end(), answer.events.begin(), answer.events.end());
    heard_.revision = std::max(heard_.revision, answer.revision);
  }

  Connection& connection_;
  std::uint64_t opened_;
  CallId call_ = 0;
  std::int64_t revision_ = 0;
  Heard heard_;
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
    co_await cluster.persist(std::move(once), Repeat::freely, until, wakeup);
  } catch (const Failure&) {
    if (feed_) feed_->drop();
    throw;
  }
  co_return feed_->revision();
}

asio::awaitable<Heard> Watch::next(Clock::time_point until, Wakeup& wakeup) {
  Heard heard;
  heard.kind = Heard::Kind::deaf;
  if (!feed_ || feed_->is_deaf()) co_return heard;
  net::Budget budget(until, wakeup, calls_.name());
  std::optional<Failure> failure;
  try {
    heard = co_await feed_->next(budget);
  } catch (const Failure& error) {
    failure = error;
  }
  budget.hand_on();
  const bool is_lost = failure && failure->kind() == Failure::Kind::unreachable;
  if (failure && !is_lost) throw *failure;
  co_return heard;
}

bool Watch::is_deaf() const { return !feed_ || feed_->is_deaf(); }

}  // namespace dlock::etcd
