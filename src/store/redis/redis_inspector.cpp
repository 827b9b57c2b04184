#include "store/redis/redis_inspector.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/records.hpp"

namespace dlock::redis {
namespace {

// Keys that SCAN looks at in one step, and locks that are asked for in one.
constexpr const char* scan_step = "500";
constexpr std::size_t inspect_step = 100;

}  // namespace

asio::awaitable<LockInfo> RedisInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  auto& node = *co_await route_.node_for(lock, wakeup);
  std::vector<std::string> none;
  const auto reply = co_await node.run(inspect_script, lock, std::move(none), wakeup);
  const auto info = lock_from(reply, lock);
  if (!info) throw node.failure(reply);
  co_return *info;
}

// Each once, though SCAN may tell of a key more than once, and a lock has several keys.
asio::awaitable<std::set<LockName>> RedisInspector::names_on(
    Node& node, const std::string& name_space,
    const std::function<bool(const std::string&)>& matches, Wakeup& wakeup) {
  std::set<LockName> names;
  std::string cursor = "0";
  do {
    Command scan{"SCAN", cursor, "MATCH", pattern_for(name_space), "COUNT", scan_step};
    const auto replies =
        co_await node.exchange(alone(std::move(scan)), node.budget_end(), wakeup);
    const auto& reply = replies.front();
    if (reply.kind != Reply::Kind::array || reply.elements.size() != 2 ||
        reply.elements[1].kind != Reply::Kind::array) {
      throw node.failure(reply);
    }
    cursor = reply.elements[0].text;
    for (const auto& key : reply.elements[1].elements) {
      auto lock = lock_of(key.text);
      if (lock && lock->name_space == name_space && matches(lock->name)) {
        names.insert(std::move(*lock));
      }
    }
  } while (cursor != "0");
  co_return names;
}

asio::awaitable<void> RedisInspector::look_at(Node& node, const std::set<LockName>& names,
                                              std::vector<LockInfo>& locks,
                                              Wakeup& wakeup) {
  for (auto next = names.begin(); next != names.end();) {
    // The first one alone, for the server may not know the script yet.
    const bool is_first = next == names.begin();
    const auto most = is_first ? 1 : inspect_step;
    std::vector<Command> commands;
    auto name = next;
    for (; next != names.end() && commands.size() < most; ++next) {
      commands.push_back({is_first ? "EVAL" : "EVALSHA",
                          is_first ? inspect_script.text : inspect_script.sha1, "1",
                          key_of(*next)});
    }
    const auto replies =
        co_await node.exchange(std::move(commands), node.budget_end(), wakeup);
    for (const auto& reply : replies) {
      const auto& lock = *name++;
      // Somebody's key that only looks like a lock's.
      if (reply.text.find("WRONGTYPE") != std::string::npos) continue;
      auto info = lock_from(reply, lock);
      if (!info) throw node.failure(reply);
      locks.push_back(std::move(*info));
    }
  }
}

asio::awaitable<std::vector<LockInfo>> RedisInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockInfo> locks;
  const auto nodes = co_await route_.all(wakeup);
  for (auto* node : nodes) {
    const auto names = co_await names_on(*node, name_space, matches, wakeup);
    co_await look_at(*node, names, locks, wakeup);
  }
  std::erase_if(locks, [](const LockInfo& lock) {
    return lock.holders.empty() && lock.waiters.empty() && !lock.last_run;
  });
  std::sort(locks.begin(), locks.end(), [](const LockInfo& one, const LockInfo& other) {
    return one.lock < other.lock;
  });
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> RedisInspector::history(const LockName& lock,
                                                              Wakeup& wakeup) {
  auto& node = *co_await route_.node_for(lock, wakeup);
  std::vector<std::string> none;
  const auto reply = co_await node.run(history_script, lock, std::move(none), wakeup);
  const auto runs = history_from(reply);
  if (!runs) throw node.failure(reply);
  co_return *runs;
}

}  // namespace dlock::redis
