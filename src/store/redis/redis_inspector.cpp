#include "store/redis/redis_inspector.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "store/redis/records.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// Keys per SCAN step, elements of the index per step, and locks per batch.
constexpr const char* scan_step = "1000";
constexpr std::size_t index_step = 10'000;
constexpr std::size_t inspect_step = 100;

// How many SCAN steps a look takes in a database that has an index of its locks. One that
// is read to its end in as many needs no index.
constexpr int few_steps = 20;

// More names than anyone can look at, and what a client can hold of them.
constexpr std::size_t most_names = 200'000;

// The budget for looking at all locks, in store timeouts.
constexpr int timeouts_for_all = 5;

Failure too_much(const Node& node, const std::string& what) {
  return Failure::unreachable(
      node.name() + ": " + what +
      "; keep locks in a separate database, or raise --store-timeout");
}

void check_time(const Node& node, Call call) {
  if (call.is_over()) {
    throw too_much(node, "reading the names of all locks takes too long");
  }
}

bool is_cursor(const std::string& text) {
  return !text.empty() && text.size() <= 20 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

// Finds the names of the locks of a namespace on one server, each once, though SCAN may
// return a key twice, and a lock has several keys. All within the call, and bounded in
// memory.
class RedisInspector::NameSearch {
 public:
  NameSearch(Node& node, std::string name_space, const NameFilter& matches, Call call)
      : node_(node), name_space_(std::move(name_space)), matches_(matches), call_(call) {}

  // Scans a small database to its end. In a large one that has an index, adds the names
  // in the index, and continues the scan of earlier looks for locks that the index lacks.
  asio::awaitable<std::set<LockName>> names() {
    auto cursor = co_await scan("0", few_steps);
    if (cursor != "0") {
      if (co_await read_index()) {
        co_await continue_scan(cursor);
      } else {
        co_await scan(cursor, std::numeric_limits<int>::max());
      }
    }
    co_return std::move(names_);
  }

 private:
  asio::awaitable<Reply> ask(Command command) {
    check_time(node_, call_);
    auto replies =
        co_await node_.exchange(alone(std::move(command)), node_.new_call(call_.wakeup));
    co_return std::move(replies.front());
  }

  void add(std::optional<LockName> lock) {
    if (!lock || lock->name_space != name_space_ || !matches_(lock->name)) return;
    names_.insert(std::move(*lock));
    if (names_.size() > most_names) {
      throw too_much(node_, "more than " + std::to_string(most_names) + " locks");
    }
  }

  // Takes at most so many steps. Returns the cursor to go on from, "0" at the end.
  asio::awaitable<std::string> scan(std::string cursor, int steps) {
    // A server never returns a cursor again before the end.
    std::set<std::string> seen;
    for (int step = 0; step < steps; ++step) {
      Command command{"SCAN",  cursor,   "MATCH", pattern_for(name_space_),
                      "COUNT", scan_step};
      const auto reply = co_await ask(std::move(command));
      if (reply.kind != Reply::Kind::array || reply.elements.size() != 2 ||
          reply.elements[1].kind != Reply::Kind::array) {
        throw node_.failure(reply);
      }
      cursor = reply.elements[0].text;
      if (!is_cursor(cursor) || !seen.insert(cursor).second) {
        throw Failure::unreachable(node_.name() + ": its SCAN does not come to an end");
      }
      for (const auto& key : reply.elements[1].elements) add(lock_of(key.text));
      if (cursor == "0") break;
    }
    co_return cursor;
  }

  // False if there is no index.
  asio::awaitable<bool> read_index() {
    for (std::size_t first = 0;; first += index_step) {
      Command command{"ZRANGE", index_of(name_space_), std::to_string(first),
                      std::to_string(first + index_step - 1)};
      const auto reply = co_await ask(std::move(command));
      if (reply.kind != Reply::Kind::array) co_return false;  // no such right or kind
      for (const auto& element : reply.elements) {
        auto lock = lock_in_index(name_space_, element.text);
        if (lock) indexed_.insert(*lock);
        add(std::move(lock));
      }
      if (reply.elements.size() < index_step) co_return first + reply.elements.size() > 0;
      if (first > most_names) throw too_much(node_, "too many locks");
    }
  }

  // From where the last look stopped, so that a number of looks scans the whole database.
  asio::awaitable<void> continue_scan(std::string cursor) {
    Command get{"GET", cursor_of(name_space_)};
    const auto last = co_await ask(std::move(get));
    if (is_cursor(last.text) && last.text != "0") cursor = last.text;
    cursor = co_await scan(std::move(cursor), few_steps);
    constexpr const char* one_day = "86400000";
    Command set{"SET", cursor_of(name_space_), cursor, "PX", one_day};
    co_await ask(std::move(set));
    // The next look then also finds these. A reader may lack the right.
    const auto period =
        std::chrono::duration_cast<std::chrono::seconds>(wall_now()).count() / 100'000;
    Command found{"ZADD", index_of(name_space_)};
    for (const auto& lock : names_) {
      if (indexed_.count(lock) > 0) continue;
      found.push_back(std::to_string(period));
      found.push_back(percent_encoded(lock.name));
    }
    if (found.size() > 2) co_await ask(std::move(found));
  }

  Node& node_;
  std::string name_space_;
  const NameFilter& matches_;
  Call call_;
  std::set<LockName> names_;
  std::set<LockName> indexed_;
};

asio::awaitable<LockInfo> RedisInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  const auto response = co_await route_.run(inspect_script, lock, {}, wakeup);
  co_return response.checked(lock_from(response.reply(), lock));
}

// Calls `take` with the script's reply for each of the locks. Leaves out those of which
// it, or the script, says that the record is damaged.
asio::awaitable<void> RedisInspector::look_at(
    Node& node, const std::set<LockName>& names, const Script& script,
    std::function<bool(const LockName&, const Reply&)> take, Call call) {
  std::set<LockName> moving;  // being migrated to another server
  for (auto next = names.begin(); next != names.end();) {
    // The first one separately: the server may not have cached the script yet.
    const bool is_first = next == names.begin();
    const auto most = is_first ? 1 : inspect_step;
    std::vector<Command> commands;
    auto name = next;
    for (; next != names.end() && commands.size() < most; ++next) {
      commands.push_back(command_of(script, is_first ? Sent::in_full : Sent::by_hash,
                                    route_.keys_for(script, *next)));
    }
    check_time(node, call);
    const auto replies =
        co_await node.exchange(std::move(commands), node.new_call(call.wakeup));
    for (const auto& reply : replies) {
      const auto& lock = *name++;
      // A foreign key that only looks like a lock's.
      if (reply.text.find("WRONGTYPE Operation") != std::string::npos) continue;
      const auto sort = class_of(reply);
      if (sort == ReplyClass::moved || sort == ReplyClass::ask) {
        moving.insert(lock);
        continue;
      }
      if (take(lock, reply)) continue;
      const auto failure = node.failure(reply);
      const bool is_damaged = reply.text.find("WRONGTYPE") != std::string::npos;
      if (reply.is_error() && !is_damaged) throw failure;
      left_out_.push_back(
          Failure::unreachable(printable_name(lock.name) + ": " + failure.what()));
    }
  }
  for (const auto& lock : moving) {
    const auto response = co_await route_.run(script, lock, {}, call.wakeup);
    if (!take(lock, response.reply())) throw response.failure();
  }
}

// The same for each lock of a namespace, on all servers.
asio::awaitable<void> RedisInspector::look_at_all(
    const std::string& name_space, const NameFilter& matches, const Script& script,
    const std::function<bool(const LockName&, const Reply&)>& take, Wakeup& wakeup) {
  std::set<LockName> told;
  left_out_.clear();
  const auto call = wakeup.within(route_.timeout() * timeouts_for_all);
  const auto nodes = co_await route_.all(route_.new_call(wakeup));
  for (auto* node : nodes) {
    NameSearch search(*node, name_space, matches, call);
    auto names = co_await search.names();
    // While a lock is being migrated, two servers report it.
    std::erase_if(names, [&](const LockName& lock) { return !told.insert(lock).second; });
    co_await look_at(*node, names, script, take, call);
  }
}

asio::awaitable<std::vector<LockInfo>> RedisInspector::list(const std::string& name_space,
                                                            NameFilter matches,
                                                            Wakeup& wakeup) {
  std::vector<LockInfo> locks;
  const std::function<bool(const LockName&, const Reply&)> take =
      [&](const LockName& lock, const Reply& reply) {
        auto info = lock_from(reply, lock);
        if (info) locks.push_back(std::move(*info));
        return info.has_value();
      };
  co_await look_at_all(name_space, matches, inspect_script, take, wakeup);
  std::erase_if(locks, [](const LockInfo& lock) { return !lock.is_listed(); });
  std::ranges::sort(locks, [](const LockInfo& one, const LockInfo& other) {
    return one.lock < other.lock;
  });
  co_return locks;
}

void RedisInspector::note_damage(const LockHistory& history) {
  if (history.damaged == 0) return;
  left_out_.push_back(Failure::unreachable(
      printable_name(history.lock.name) + ": damaged records of runs in " +
      printable(key_of(history.lock), 600) + ":r: " + std::to_string(history.damaged)));
}

asio::awaitable<std::vector<RunInfo>> RedisInspector::history(const LockName& lock,
                                                              Wakeup& wakeup) {
  left_out_.clear();
  const auto response = co_await route_.run(history_script, lock, {}, wakeup);
  auto history = response.checked(history_from(response.reply(), lock));
  note_damage(history);
  co_return std::move(history.runs);
}

asio::awaitable<std::vector<LockHistory>> RedisInspector::histories(
    const std::string& name_space, NameFilter matches, Wakeup& wakeup) {
  std::vector<LockHistory> found;
  const std::function<bool(const LockName&, const Reply&)> take =
      [&](const LockName& lock, const Reply& reply) {
        auto history = history_from(reply, lock);
        if (!history) return false;
        note_damage(*history);
        if (!history->runs.empty()) found.push_back(std::move(*history));
        return true;
      };
  co_await look_at_all(name_space, matches, history_script, take, wakeup);
  co_return found;
}

}  // namespace dlock::redis
