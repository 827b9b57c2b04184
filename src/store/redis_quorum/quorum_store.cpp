#include "store/redis_quorum/quorum_store.hpp"

#include <algorithm>

#include "store/redis_quorum/ask_majority.hpp"
#include "store/redis_quorum/merge.hpp"
#include "store/redis_quorum/quorum_claimant.hpp"

namespace dlock::redis_quorum {
namespace {

Members members_of(asio::io_context& context, const Plan& plan, milliseconds timeout) {
  Members members;
  for (const auto& server : plan.servers) {
    members.push_back(
        std::make_shared<Member>(context, server, timeout, plan.terms.max_ttl));
  }
  return members;
}

}  // namespace

asio::awaitable<Admission> QuorumRegisters::admit_fence(const LockName& resource,
                                                        Fence fence, Wakeup& wakeup) {
  const auto members = members_;
  const auto admit = [members, resource, fence](std::size_t number, Wakeup& own) {
    return members[number]->store().registers()->admit_fence(resource, fence, own);
  };
  const auto said =
      co_await ask_majority<Admission>(members_, admit, timeout_, *complaints_, wakeup);
  const auto stale =
      static_cast<std::size_t>(std::count(said.begin(), said.end(), Admission::stale));
  const auto servers = members_.size();
  if (stale == 0) co_return Admission::admitted;
  const auto unheard = servers - said.size();
  if (stale + unheard >= needed(servers) || said.size() - stale < needed(servers)) {
    co_return Admission::stale;
  }
  complaints_->note(std::to_string(stale) + " of " + std::to_string(servers) +
                    " servers report a greater fence, which most do not know");
  co_return Admission::admitted;
}

QuorumStore::QuorumStore(asio::io_context& context, const Plan& plan,
                         milliseconds timeout)
    : context_(context),
      plan_(plan),
      timeout_(timeout),
      members_(members_of(context, plan, timeout)),
      inspector_(members_, timeout, complaints_),
      registers_(members_, timeout, complaints_) {}

QuorumStore::~QuorumStore() {
  for (const auto& member : members_) member->give_up();
}

std::unique_ptr<Claimant> QuorumStore::claimant(const Claim& claim) {
  if (claim.slots > 1) {
    throw Failure(Failure::Kind::unsupported,
                  "a quorum does not support --slots: if each of three servers granted " +
                      std::to_string(claim.slots) +
                      " leases, any two of them could admit one more holder");
  }
  return std::make_unique<QuorumClaimant>(context_, members_, plan_.terms, timeout_,
                                          claim, complaints_);
}

asio::awaitable<std::vector<Broken>> QuorumStore::break_leases(const LockName& lock,
                                                               const Break& order,
                                                               Wakeup& wakeup) {
  const auto members = members_;
  using Holders = std::vector<HolderInfo>;
  const auto break_one = [members, lock, order](std::size_t number,
                                                Wakeup& own) -> asio::awaitable<Holders> {
    auto broken = co_await members[number]->store().break_leases(lock, order, own);
    Holders holders;
    for (auto& one : broken) holders.push_back(std::move(one.holder));
    co_return holders;
  };
  const auto said =
      co_await ask_majority<Holders>(members_, break_one, timeout_, *complaints_, wakeup);
  std::vector<Broken> broken;
  for (auto& holder : told_by_most(said, members_.size())) {
    broken.push_back({std::move(holder), {}});
  }
  co_return broken;
}

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<QuorumStore>(context, plan, timeout);
}

}  // namespace dlock::redis_quorum
