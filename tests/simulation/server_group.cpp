#include "tests/simulation/server_group.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/simulation/redis_server.hpp"

namespace dlock::simulation {
namespace {

using redis::Reply;

Reply text_reply(std::string text) {
  return {Reply::Kind::string, 0, std::move(text), {}};
}

Reply error_reply(std::string text) {
  return {Reply::Kind::error, 0, std::move(text), {}};
}

Reply list_of(std::vector<std::string> texts) {
  Reply all{Reply::Kind::array, 0, {}, {}};
  for (auto& text : texts) all.elements.push_back(text_reply(std::move(text)));
  return all;
}

bool is_script(const std::vector<std::string>& words) {
  return words[0] == "EVAL" || words[0] == "EVALSHA";
}

// The keys by which a member decides whether a command is for it.
std::vector<std::string> keys_in(const std::vector<std::string>& words) {
  const std::string_view name = words[0];
  if (is_script(words)) {
    const auto count = std::strtol(words[2].c_str(), nullptr, 10);
    return {words.begin() + 3, words.begin() + 3 + count};
  }
  if (name == "BLPOP") return {words.begin() + 1, words.end() - 1};
  if (name == "EXISTS") return {words[1]};
  return {};
}

}  // namespace

void ServerGroup::add(RedisServer& member, const std::string& address) {
  members_.push_back(&member);
  addresses_.push_back(address);
  if (members_.size() == 2) follows_.insert(&member);
}

std::size_t ServerGroup::index_of(const RedisServer& member) const {
  const auto found = std::find(members_.begin(), members_.end(), &member);
  return static_cast<std::size_t>(found - members_.begin());
}

// The replica is a little behind.
void ServerGroup::has_written(RedisServer& server) {
  if (&server != &primary()) return;
  auto& kernel = *Kernel::current();
  copied_ = std::max(copied_, kernel.now + kernel.delay());
  auto data = std::make_shared<RedisServer::Data>(server.data());
  kernel.at(copied_, [this, data, from = primary_] {
    auto& replica = *members_[1 - from];
    if (primary_ == from && is_replica(replica)) replica.take(*data);
  });
}

void ServerGroup::is_absent(RedisServer& server) {
  if (&server != &primary()) return;
  auto& kernel = *Kernel::current();
  kernel.at(kernel.now + kernel.random.spread(second, 4 * second), [this, &server] {
    if (!server.runs() && &server == &primary()) fail_over();
  });
}

// The former primary goes on until it learns of it.
void ServerGroup::fail_over() {
  auto& kernel = *Kernel::current();
  auto& former = primary();
  auto& next = *members_[1 - primary_];
  if (!is_replica(next) || !next.is_up || !can_fail_over()) return;
  kernel.trace("the replica becomes the primary");
  primary_ = 1 - primary_;
  follows_.erase(&next);
  next.drop_clients();
  kernel.at(tell(primary_), [this, &former, &next] {
    if (&next != &primary()) return;
    follows_.insert(&former);
    former.take(next.data());
    former.drop_clients();
  });
}

std::optional<Reply> SentinelGroup::reply(RedisServer& by,
                                          const std::vector<std::string>& words,
                                          bool /*asks*/) const {
  if (words[0] == "ROLE" && is_replica(by)) {
    return list_of({"slave", addresses_[primary_], "6379", "connected", "1"});
  }
  if (is_script(words) && is_replica(by)) {
    return error_reply("READONLY You can't write against a read only replica.");
  }
  const auto index = index_of(by);
  if (index < 2 || words[0] != "SENTINEL") return std::nullopt;
  if (words[1] == "MYID") return text_reply("sentinel" + std::to_string(index));
  if (words[1] == "GET-MASTER-ADDR-BY-NAME") {
    const auto seen = seen_.find(index);
    return list_of({addresses_[seen == seen_.end() ? 0 : seen->second], "6379"});
  }
  throw std::runtime_error("the simulation has no command SENTINEL " + words[1]);
}

// The sentinels learn of it one after another.
Time SentinelGroup::tell(std::size_t primary) {
  auto& kernel = *Kernel::current();
  std::vector<Time> known;
  for (std::size_t sentinel = 2; sentinel < members_.size(); ++sentinel) {
    const bool is_late = kernel.random.chance(0.3);
    known.push_back(kernel.now +
                    kernel.random.spread(millisecond, is_late ? 8 * second : second / 4));
    kernel.at(known.back(), [this, sentinel, primary] {
      if (primary_ == primary) seen_[sentinel] = primary;
    });
  }
  std::sort(known.begin(), known.end());
  observer_.replaced(known[known.size() / 2]);
  return known.back() + kernel.random.spread(millisecond, 10 * second);
}

ClusterGroup::ClusterGroup(Observer observer)
    : ServerGroup(std::move(observer)),
      tries_again_(Kernel::current()->random.chance(0.5)) {}

Reply ClusterGroup::pointing_to(const char* code, std::size_t member) const {
  return error_reply(std::string(code) + " 1 " + addresses_[member] + ":6379");
}

// As Redis decides: only who has all keys executes a command while they move.
std::optional<Reply> ClusterGroup::reply(RedisServer& by,
                                         const std::vector<std::string>& words,
                                         bool asks) const {
  const auto index = index_of(by);
  if (words[0] == "CLUSTER") return text_reply("member" + std::to_string(index));
  const auto keys = keys_in(words);
  if (keys.empty()) return std::nullopt;
  const auto missing = std::count_if(keys.begin(), keys.end(),
                                     [&](const auto& key) { return !by.has(key); });
  const bool has_none = missing == static_cast<std::ptrdiff_t>(keys.size());
  const auto again = error_reply("TRYAGAIN Multiple keys request during rehashing");
  if (moves_to_ && members_[*moves_to_] == &by && asks) {
    return keys.size() > 1 && missing > 0 ? std::optional(again) : std::nullopt;
  }
  const auto seen = seen_.find(index);
  const auto owner = seen == seen_.end() ? 0 : seen->second;
  if (owner != index) return pointing_to("MOVED", owner);
  if (!moves_to_ || missing == 0) return std::nullopt;
  return tries_again_ && !has_none ? again : pointing_to("ASK", *moves_to_);
}

void ClusterGroup::disturb() {
  if (Kernel::current()->random.chance(0.4)) return fail_over();
  begin_to_move();
}

// The third member learns of it, and then the former primary, which is asked until then.
Time ClusterGroup::tell(std::size_t primary) {
  auto& kernel = *Kernel::current();
  owner_ = seen_[primary] = primary;
  const auto known = kernel.now + kernel.random.spread(millisecond, second);
  kernel.at(known, [this, primary] {
    if (owner_ == primary) seen_[other] = primary;
  });
  const auto noticed = known + kernel.random.spread(millisecond, 5 * second);
  kernel.at(noticed, [this, primary] { seen_[1 - primary] = primary; });
  observer_.replaced(noticed);
  return noticed;
}

void ClusterGroup::begin_to_move() {
  const auto former = 1 - primary_;
  const bool is_settled = is_replica(*members_[former]) && !moves_to_;
  if (!is_settled) return;
  moves_to_ = owner_ == other ? primary_ : other;
  auto& kernel = *Kernel::current();
  kernel.trace("the slot moves to " + addresses_[*moves_to_]);
  observer_.unavailable(kernel.now + second);
  kernel.at(kernel.now + kernel.delay(), [this] { move_some(); });
}

// Some keys at a time, each at once.
void ClusterGroup::move_some() {
  auto& kernel = *Kernel::current();
  auto &from = *members_[owner_], &to = *members_[*moves_to_];
  observer_.unavailable(kernel.now + 2 * second);
  const auto pause = kernel.random.spread(100 * microsecond, second);
  if (from.runs() && to.runs()) {
    const bool is_all = from.move_keys(to, 1 + kernel.random.below(4));
    has_written(from);
    has_written(to);
    if (is_all) return end_move();
  }
  kernel.at(kernel.now + pause, [this] { move_some(); });
}

// The new owner is told first, and the others last.
void ClusterGroup::end_move() {
  auto& kernel = *Kernel::current();
  const auto from = owner_, to = *moves_to_;
  owner_ = seen_[to] = to;
  kernel.at(kernel.now + kernel.random.spread(millisecond, 100 * millisecond),
            [this, from, to] {
              moves_to_.reset();
              seen_[from] = to;
              members_[from]->end_waits(pointing_to("MOVED", to));
            });
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (member == from || member == to) continue;
    kernel.at(kernel.now + kernel.random.spread(millisecond, 2 * second),
              [this, member, to] {
                if (owner_ == to) seen_[member] = to;
              });
  }
}

}  // namespace dlock::simulation
