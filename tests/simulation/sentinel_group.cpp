#include "tests/simulation/sentinel_group.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/simulation/redis_server.hpp"

namespace dlock::simulation {
namespace {

using redis::Reply;

Reply text_reply(std::string text) {
  return {Reply::Kind::string, 0, std::move(text), {}};
}

Reply list_of(std::vector<std::string> texts) {
  Reply all{Reply::Kind::array, 0, {}, {}};
  for (auto& text : texts) all.elements.push_back(text_reply(std::move(text)));
  return all;
}

}  // namespace

void SentinelGroup::add(RedisServer& member, const std::string& address) {
  addresses_.push_back(address);
  if (servers_.size() == 2) {
    sentinels_.push_back(&member);
    seen_[&member] = 0;
    return;
  }
  servers_.push_back(&member);
  if (servers_.size() == 2) follows_.insert(&member);
}

bool SentinelGroup::is_sentinel(const RedisServer& member) const {
  return seen_.count(&member) > 0;
}

std::optional<Reply> SentinelGroup::reply(const RedisServer& by,
                                          const std::vector<std::string>& words) const {
  if (words[0] == "ROLE" && is_replica(by)) {
    return list_of({"slave", addresses_[primary_], "6379", "connected", "1"});
  }
  const bool is_script = words[0] == "EVAL" || words[0] == "EVALSHA";
  if (is_script && is_replica(by)) {
    return Reply{Reply::Kind::error,
                 0,
                 "READONLY You can't write against a read only replica.",
                 {}};
  }
  if (!is_sentinel(by) || words[0] != "SENTINEL") return std::nullopt;
  if (words[1] == "MYID") {
    const auto found = std::find(sentinels_.begin(), sentinels_.end(), &by);
    return text_reply("sentinel" + std::to_string(found - sentinels_.begin()));
  }
  const auto named = seen_.at(&by);
  if (words[1] == "GET-MASTER-ADDR-BY-NAME") return list_of({addresses_[named], "6379"});
  throw std::runtime_error("the simulation has no command SENTINEL " + words[1]);
}

// The replica is a little behind.
void SentinelGroup::has_written(RedisServer& server) {
  if (!is_primary(server)) return;
  auto& kernel = *Kernel::current();
  copied_ = std::max(copied_, kernel.now + kernel.delay());
  auto data = std::make_shared<RedisServer::Data>(server.data());
  kernel.at(copied_, [this, data, from = primary_] {
    auto& replica = *servers_[1 - from];
    if (primary_ == from && is_replica(replica)) replica.take(*data);
  });
}

void SentinelGroup::is_absent(RedisServer& server) {
  if (!is_primary(server)) return;
  auto& kernel = *Kernel::current();
  kernel.at(kernel.now + kernel.random.spread(second, 4 * second), [this, &server] {
    const bool is_back = server.is_up && server.paused_until <= Kernel::current()->now;
    if (!is_back && is_primary(server)) fail_over();
  });
}

// The sentinels learn of it one after another, and so does the former primary, which goes
// on until then.
void SentinelGroup::fail_over() {
  auto& kernel = *Kernel::current();
  auto& next = *servers_[1 - primary_];
  if (!is_replica(next) || !next.is_up) return;
  kernel.trace("the replica becomes the primary");
  auto& former = *servers_[primary_];
  primary_ = 1 - primary_;
  follows_.erase(&next);
  next.drop_clients();
  std::vector<Time> known;
  for (auto* sentinel : sentinels_) {
    const bool is_late = kernel.random.chance(0.3);
    known.push_back(kernel.now +
                    kernel.random.spread(millisecond, is_late ? 8 * second : second / 4));
    kernel.at(known.back(), [this, sentinel, named = primary_] {
      if (primary_ == named) seen_[sentinel] = named;
    });
  }
  std::sort(known.begin(), known.end());
  replaced_(known[known.size() / 2]);
  const auto noticed = known.back() + kernel.random.spread(millisecond, 10 * second);
  kernel.at(noticed, [this, &former, &next] {
    if (!is_primary(next)) return;
    follows_.insert(&former);
    former.take(next.data());
    former.drop_clients();
  });
}

}  // namespace dlock::simulation
