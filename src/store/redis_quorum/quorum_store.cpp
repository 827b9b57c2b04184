#include "store/redis_quorum/quorum_store.hpp"

#include <algorithm>
#include <map>

#include "store/redis_quorum/ask_majority.hpp"
#include "store/redis_quorum/party.hpp"
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
  const auto said = co_await ask_majority<Admission>(members_, admit, timeout_, wakeup);
  const bool is_stale =
      std::find(said.begin(), said.end(), Admission::stale) != said.end();
  co_return is_stale ? Admission::stale : Admission::admitted;
}

QuorumStore::QuorumStore(asio::io_context& context, const Plan& plan,
                         milliseconds timeout)
    : context_(context),
      plan_(plan),
      timeout_(timeout),
      members_(members_of(context, plan, timeout)),
      inspector_(members_, timeout),
      registers_(members_, timeout) {}

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
                                          claim);
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
  const auto said = co_await ask_majority<Holders>(members_, break_one, timeout_, wakeup);
  std::map<Party, HolderInfo> all;
  for (const auto& holders : said) {
    for (const auto& holder : holders) all.emplace(party_of(holder), holder);
  }
  std::vector<Broken> broken;
  broken.reserve(all.size());
  for (auto& [party, holder] : all) broken.push_back({std::move(holder), {}});
  co_return broken;
}

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<QuorumStore>(context, plan, timeout);
}

}  // namespace dlock::redis_quorum
