#include "store/redis_sentinel/sentinel_route.hpp"

#include <algorithm>
#include <utility>

namespace dlock::redis_sentinel {
namespace {

// For how long the replies of sentinels count as current.
constexpr milliseconds fresh_for{500};

bool is_elected(const std::vector<Ballot>& ballots) {
  return elected(ballots).has_value();
}

class SentinelInquiry final : public redis::Inquiry {
 public:
  SentinelInquiry(asio::io_context& context, const Plan& plan, Address address,
                  unsigned& replicas, Clock::time_point until)
      : address_(std::move(address)),
        replicas_(replicas),
        discovery_(context, plan, plan.replicas.all, until) {}

  asio::awaitable<Opinion> opinion(Clock::time_point until, Wakeup& wakeup) override {
    const auto is_sure = [this](const std::vector<Ballot>& ballots) {
      return is_certain(address_, ballots);
    };
    co_await discovery_.wait(is_sure, until, wakeup);
    const auto opinion = opinion_on(address_, discovery_.ballots());
    if (opinion == Opinion::confirmed) {
      replicas_ = replicas_up(address_, discovery_.ballots());
    }
    co_return opinion;
  }

 private:
  Address address_;
  unsigned& replicas_;  // how many are up, for the next request
  Discovery discovery_;
};

}  // namespace

redis::Node& SentinelRoute::node_at(const Address& address) {
  auto& node = nodes_[address];
  if (!node) {
    auto target = plan_.server.at(address.host, address.port);
    target.announced_by = announced_by;
    node = std::make_unique<redis::Node>(context_, std::move(target), timeout(),
                                         redis::Role::primary);
  }
  return *node;
}

asio::awaitable<redis::Node*> SentinelRoute::node_for(const LockName&,
                                                      Clock::time_point until,
                                                      Wakeup& wakeup) {
  if (primary_ != nullptr && !primary_->is_suspect()) co_return primary_;
  const auto* last = std::exchange(primary_, nullptr);
  Discovery discovery(context_, plan_, plan_.replicas.all, until);
  // If there is a last primary to fall back on, it needs the rest of the time.
  const auto half = Clock::now() + (until - Clock::now()) / 2;
  co_await discovery.wait(is_elected, last == nullptr ? until : half, wakeup);
  if (plan_.replicas.all) {
    // Other sentinels may know more replicas, but a silent one must not use up the
    // budget.
    const auto never = [](const std::vector<Ballot>&) { return false; };
    const auto soon = later(Clock::now(), timeout() / 5);
    co_await discovery.wait(never, std::min(until, soon), wakeup);
  }
  std::vector<std::string> names;
  names.reserve(plan_.sentinels.size());
  for (const auto& sentinel : plan_.sentinels) names.push_back(sentinel.shown());
  if (const auto twins = same_sentinel(names, discovery.ballots())) throw *twins;
  const auto address = elected(discovery.ballots());
  if (!address) {
    // A healthy primary protects its locks even if the sentinels do not reply.
    if (last != nullptr &&
        !is_other_named(address_of(last->target()), discovery.ballots())) {
      primary_ = &node_at(address_of(last->target()));
      primary_->trust();
      co_return primary_;
    }
    throw no_primary_elected(plan_.master, names, discovery.ballots());
  }
  primary_ = &node_at(*address);
  primary_->trust();
  discovered_at_ = discovery.began();
  replicas_up_ = replicas_up(*address, discovery.ballots());
  co_return primary_;
}

asio::awaitable<std::vector<redis::Node*>> SentinelRoute::all(Clock::time_point until,
                                                              Wakeup& wakeup) {
  const LockName any;  // the primary has all locks
  auto* primary = co_await open(any, until, wakeup);
  co_return std::vector<redis::Node*>{primary};
}

std::unique_ptr<redis::Inquiry> SentinelRoute::inquire(const redis::Node& node,
                                                       Clock::time_point since,
                                                       Clock::time_point until) {
  const bool is_fresh = Clock::now() - discovered_at_ < fresh_for;
  if (&node == primary_ && discovered_at_ >= since && is_fresh) return nullptr;
  return std::make_unique<SentinelInquiry>(context_, plan_, address_of(node.target()),
                                           replicas_up_, until);
}

asio::awaitable<std::optional<Address>> SentinelRoute::owner_by_others(
    const LockName&, const redis::Node&, Clock::time_point until, Wakeup& wakeup) {
  Discovery discovery(context_, plan_, false, until);
  co_await discovery.wait(is_elected, until, wakeup);
  co_return elected(discovery.ballots());
}

// At least one: with none, no other server would know the lease.
asio::awaitable<unsigned> SentinelRoute::replicas_of(redis::Node&, Clock::time_point,
                                                     Wakeup&) {
  co_return plan_.replicas.all ? std::max(replicas_up_, 1U) : plan_.replicas.count;
}

redis::Route::Then SentinelRoute::then(const LockName&, redis::Node& node,
                                       const redis::Reply&) {
  return node.is_suspect() ? Then::ask_again : Then::done;
}

}  // namespace dlock::redis_sentinel
