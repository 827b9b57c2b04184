#include "store/redis/redis_inspector.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/keys.hpp"
#include "store/redis/records.hpp"

namespace dlock::redis {
namespace {

// Keys per SCAN step, and locks per batch.
constexpr const char* scan_step = "500";
constexpr std::size_t inspect_step = 100;

}  // namespace

asio::awaitable<LockInfo> RedisInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  std::vector<std::string> none;
  const auto response =
      co_await route_.run(inspect_script, lock, std::move(none), wakeup);
  const auto info = lock_from(response.reply(), lock);
  if (!info) throw response.failure();
  co_return *info;
}

// Each lock once, though SCAN may return a key twice, and a lock has several keys.
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

// Calls `take` with the script's reply for each of the locks.
asio::awaitable<void> RedisInspector::look_at(
    Node& node, const std::set<LockName>& names, const Script& script,
    std::function<bool(const LockName&, const Reply&)> take, Wakeup& wakeup) {
  std::set<LockName> moving;  // being migrated to another server
  for (auto next = names.begin(); next != names.end();) {
    // The first one separately: the server may not have cached the script yet.
    const bool is_first = next == names.begin();
    const auto most = is_first ? 1 : inspect_step;
    std::vector<Command> commands;
    auto name = next;
    for (; next != names.end() && commands.size() < most; ++next) {
      const auto keys = route_.keys_for(script, *next);
      Command command{is_first ? "EVAL" : "EVALSHA", is_first ? script.text : script.sha1,
                      std::to_string(keys.size())};
      command.insert(command.end(), keys.begin(), keys.end());
      commands.push_back(std::move(command));
    }
    const auto replies =
        co_await node.exchange(std::move(commands), node.budget_end(), wakeup);
    for (const auto& reply : replies) {
      const auto& lock = *name++;
      // A foreign key that only looks like a lock's.
      if (reply.text.find("WRONGTYPE") != std::string::npos) continue;
      const auto sort = class_of(reply);
      if (sort == ReplyClass::moved || sort == ReplyClass::ask) {
        moving.insert(lock);
        continue;
      }
      if (!take(lock, reply)) throw node.failure(reply);
    }
  }
  for (const auto& lock : moving) {
    std::vector<std::string> none;
    const auto response = co_await route_.run(script, lock, std::move(none), wakeup);
    if (!take(lock, response.reply())) throw response.failure();
  }
}

// The same for each lock of a namespace, on all servers.
asio::awaitable<void> RedisInspector::look_at_all(
    const std::string& name_space, const std::function<bool(const std::string&)>& matches,
    const Script& script, const std::function<bool(const LockName&, const Reply&)>& take,
    Wakeup& wakeup) {
  std::set<LockName> told;
  const auto nodes = co_await route_.all(route_.budget_end(), wakeup);
  for (auto* node : nodes) {
    auto names = co_await names_on(*node, name_space, matches, wakeup);
    // While a lock is being migrated, two servers report it.
    std::erase_if(names, [&](const LockName& lock) { return !told.insert(lock).second; });
    co_await look_at(*node, names, script, take, wakeup);
  }
}

asio::awaitable<std::vector<LockInfo>> RedisInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockInfo> locks;
  const std::function<bool(const LockName&, const Reply&)> take =
      [&](const LockName& lock, const Reply& reply) {
        auto info = lock_from(reply, lock);
        if (info) locks.push_back(std::move(*info));
        return info.has_value();
      };
  co_await look_at_all(name_space, matches, inspect_script, take, wakeup);
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
  std::vector<std::string> none;
  const auto response =
      co_await route_.run(history_script, lock, std::move(none), wakeup);
  auto history = history_from(response.reply(), lock);
  if (!history) throw response.failure();
  co_return std::move(history->runs);
}

asio::awaitable<std::vector<LockHistory>> RedisInspector::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockHistory> found;
  const std::function<bool(const LockName&, const Reply&)> take =
      [&](const LockName& lock, const Reply& reply) {
        auto history = history_from(reply, lock);
        if (history && !history->runs.empty()) found.push_back(std::move(*history));
        return history.has_value();
      };
  co_await look_at_all(name_space, matches, history_script, take, wakeup);
  co_return found;
}

}  // namespace dlock::redis
