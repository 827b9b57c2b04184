// Locks on a quorum of independent servers.
//
// Each server runs the scripts of the single-server store and has one vote. tally.hpp and
// candidacy.hpp decide on the votes; the code here sends requests to all servers at once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "store/redis_quorum/voter.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_quorum {

// Reports what a majority of servers shows (merge.hpp). Throws Failure if too few reply.
class QuorumStore final : public Store, private LockInspector {
 public:
  QuorumStore(asio::io_context& context, const StoreUrl& url, milliseconds timeout);
  ~QuorumStore() override;

  std::string url() const override { return url_.text(); }
  bool leases_expire() const override { return true; }
  // Throws Failure: unsupported for slots, misconfigured for a lease longer than
  // --max-ttl, the time for which a restarted server does not vote.
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  // A fence is admitted if a majority admits it, and a majority cannot have admitted a
  // greater one.
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  void report_complaints(std::function<void(const std::string&)> warn) override {
    complaints_->report_to(std::move(warn));
  }
  LockInspector& inspector() override { return *this; }

 private:
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override;
  // Reports the events that a majority of servers reports.
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

  // As ask_majority(), with what to ask of each server's store.
  template <typename T>
  asio::awaitable<std::vector<T>> ask(
      std::function<asio::awaitable<T>(Store&, Wakeup&)> question, milliseconds timeout,
      Wakeup& wakeup) {
    return ask_majority<T>(
        voters_,
        [voters = voters_, question = std::move(question)](std::size_t number,
                                                           Wakeup& own) {
          return question(voters[number]->store(), own);
        },
        timeout, *complaints_, wakeup);
  }

  asio::io_context& context_;
  StoreUrl url_;
  milliseconds timeout_;
  Voters voters_;
  std::shared_ptr<Complaints> complaints_ = std::make_shared<Complaints>();
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_quorum
