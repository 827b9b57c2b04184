// QuorumInspector::watch(): watches each server like a single one, and reports the events
// that a majority of them reports.
#include <set>

#include "store/redis_quorum/event_count.hpp"
#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/quorum_inspector.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

// The pause between attempts to watch a server that is unavailable.
constexpr milliseconds try_again_after{1000};

// Shared by the watches of all servers; `sink` outlives them.
struct Watch {
  Watch(EventSink& told, std::size_t servers)
      : sink(&told), count(servers), failures(servers) {}

  void began(std::size_t server) {
    listening.insert(server);
    failures[server].reset();
    count.begin_anew();
    if (sink == nullptr || is_on || listening.size() < needed(failures.size())) return;
    is_on = true;
    sink->began();
    if (awaited_by != nullptr) awaited_by->notify();
  }

  void interrupted(std::size_t server, const std::string& why) {
    listening.erase(server);
    if (sink == nullptr || !is_on || listening.size() >= needed(failures.size())) return;
    is_on = false;
    sink->interrupted(why);
  }

  void failed(std::size_t server, const Failure& failure) {
    interrupted(server, failure.what());
    failures[server] = failure;
    if (awaited_by != nullptr) awaited_by->notify();
  }

  EventSink* sink;
  EventCount count;
  std::set<std::size_t> listening;
  std::vector<std::optional<Failure>> failures;
  bool is_on = false;
  Wakeup* awaited_by = nullptr;
};

class OneServer final : public EventSink {
 public:
  OneServer(std::shared_ptr<Watch> watch, std::size_t number)
      : watch_(std::move(watch)), number_(number) {}

  void began() override { watch_->began(number_); }
  void interrupted(const std::string& why) override { watch_->interrupted(number_, why); }
  void happened(const Event& event) override {
    const bool is_news = watch_->count.take(number_, event, Clock::now());
    if (is_news && watch_->sink != nullptr) watch_->sink->happened(event);
  }

 private:
  std::shared_ptr<Watch> watch_;
  std::size_t number_;
};

asio::awaitable<void> watch_one(std::shared_ptr<Watch> watch, std::size_t number,
                                std::shared_ptr<Member> member, Watched watched,
                                Wakeup& wakeup) {
  OneServer sink(watch, number);
  while (watch->sink != nullptr && !wakeup.gives_up()) {
    try {
      co_await member->store().inspector().watch(watched, sink, wakeup);
    } catch (const Failure& failure) {
      watch->failed(number, failure);
    }
    const auto until = later(Clock::now(), try_again_after);
    co_await wakeup.sleep_until(until);
  }
}

// Why the watch cannot begin; nothing if it can.
std::optional<Failure> hopeless(const Watch& watch) {
  std::vector<Failure> failures;
  for (const auto& failure : watch.failures) {
    if (failure) failures.push_back(*failure);
  }
  const auto servers = watch.failures.size();
  if (servers - failures.size() >= needed(servers)) return std::nullopt;
  return too_few(watch.listening.size(), servers, failures);
}

}  // namespace

asio::awaitable<void> QuorumInspector::watch(const Watched& watched, EventSink& sink,
                                             Wakeup& wakeup) {
  // Throws if two of the servers are the same one, whose events would count twice.
  const LockName any{watched.name_space, "watch"};
  co_await inspect(any, wakeup);
  const auto watch = std::make_shared<Watch>(sink, members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto member = members_[i];
    member->perform([watch, i, member, watched](Wakeup& own) {
      return watch_one(watch, i, member, watched, own);
    });
  }
  watch->awaited_by = &wakeup;
  bool has_begun = false;
  std::optional<Failure> failure;
  while (!wakeup.gives_up() && !failure) {
    has_begun = has_begun || watch->is_on;
    if (!has_begun) failure = hopeless(*watch);
    if (!failure) co_await wakeup.wait_until(Clock::time_point::max());
  }
  watch->awaited_by = nullptr;
  watch->sink = nullptr;
  for (const auto& member : members_) member->give_up();
  if (failure) throw *failure;
}

}  // namespace dlock::redis_quorum
