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
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lock/claimant.hpp"
#include "lock/store.hpp"
#include "store/fan_out.hpp"
#include "store/redis/redis_claimant.hpp"
#include "store/redis/redis_facts.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_quorum/candidacy.hpp"
#include "store/redis_quorum/tally.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_quorum {

// One of the servers, and the request in progress there.
//
// A slow server must not delay the others: a request continues after its caller has moved
// on, until the server has replied or the budget is spent. A voter is therefore shared
// with every request that may still be in progress.
class Voter : public std::enable_shared_from_this<Voter> {
 public:
  using Work = std::function<asio::awaitable<void>(Wakeup&)>;

  Voter(asio::io_context& context, const redis::Target& target, milliseconds timeout,
        milliseconds max_ttl);

  asio::io_context& context() const { return context_; }
  const std::string& name() const { return route_->node().name(); }
  redis::Route& route() { return *route_; }
  Store& store() { return store_; }

  // Of the server that sent the last reply: its run id, and why it has no vote, if it has
  // none.
  const std::string& run_id() const { return route_->node().life().run_id; }
  std::optional<Failure> has_no_vote() const;

  bool is_idle() const { return !is_busy_; }
  // The Failure while an earlier request is still in progress.
  Failure still_busy() const;

  // Interrupts the request in progress, which ends with Failure (interrupted) and closes
  // its connection, and then performs `work`. Work that was scheduled but has not begun
  // is dropped.
  void perform(Work work);

  // Interrupts the request in progress.
  void give_up();

 private:
  static asio::awaitable<void> work_off(std::shared_ptr<Voter> self);

  asio::io_context& context_;
  milliseconds max_ttl_;
  redis::SoleRoute* route_;  // the store's
  redis::RedisStore store_;
  Wakeup wakeup_;
  Work next_;
  bool is_busy_ = false;
};

using Voters = std::vector<std::shared_ptr<Voter>>;

// For a FanOut.
inline void perform_at(const Voters& voters, std::size_t number, Voter::Work work) {
  voters[number]->perform(std::move(work));
}

// Passes each message on once.
class Complaints {
 public:
  void report_to(std::function<void(const std::string&)> warn) {
    warn_ = std::move(warn);
  }
  void note(const std::string& message) {
    if (warn_ && noted_.insert(message).second) warn_("not counted: " + message);
  }

 private:
  std::function<void(const std::string&)> warn_;
  std::set<std::string> noted_;
};

// The replies that arrive within `timeout`, in the order of the voters; it does not wait
// for servers that are much slower than the majority. Throws Failure if too few reply, or
// two of them are the same server. `complaints` about those that do not are noted.
template <typename T>
asio::awaitable<std::vector<T>> ask_majority(const Voters& voters,
                                             typename FanOut<T>::Ask ask,
                                             milliseconds timeout, Complaints& complaints,
                                             Wakeup& wakeup) {
  FanOut<T> round(voters, std::move(ask));
  const auto is_enough = [](const typename FanOut<T>::Answers& answers) {
    std::size_t count = 0;
    for (const auto& said : answers) {
      if (said && std::holds_alternative<T>(*said)) ++count;
    }
    return count >= needed(answers.size());
  };
  co_await round.wait_for_most(is_enough, wakeup.within(timeout));
  std::vector<T> said;
  std::vector<Failure> failures;
  std::vector<std::string> run_ids;
  for (std::size_t i = 0; i < voters.size(); ++i) {
    const auto& answer = round.answers()[i];
    if (!answer) continue;
    if (const auto* failure = std::get_if<Failure>(&*answer)) {
      failures.push_back(*failure);
    } else {
      said.push_back(std::get<T>(*answer));
      run_ids.push_back(voters[i]->run_id());
    }
  }
  if (const auto twins = same_server_in(std::move(run_ids))) throw *twins;
  if (said.size() < needed(voters.size())) {
    throw too_few(said.size(), voters.size(), failures);
  }
  for (const auto& failure : failures) {
    if (is_for_administrators(failure)) complaints.note(failure.what());
  }
  co_return said;
}

// Reports what a majority of servers shows (merge.hpp). Throws Failure if too few reply.
class QuorumInspector final : public LockInspector {
 public:
  QuorumInspector(const Voters& voters, milliseconds timeout,
                  std::shared_ptr<Complaints> complaints)
      : voters_(voters), timeout_(timeout), complaints_(std::move(complaints)) {}

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

 private:
  Voters voters_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
};

// A fence is admitted if a majority admits it, and a majority cannot have admitted a
// greater one.
class QuorumRegisters final : public FenceRegisters {
 public:
  QuorumRegisters(const Voters& voters, milliseconds timeout,
                  std::shared_ptr<Complaints> complaints)
      : voters_(voters), timeout_(timeout), complaints_(std::move(complaints)) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Voters voters_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
};

class QuorumStore final : public Store {
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
  void report_complaints(std::function<void(const std::string&)> warn) override {
    complaints_->report_to(std::move(warn));
  }
  LockInspector& inspector() override { return inspector_; }
  FenceRegisters* registers() override { return &registers_; }

 private:
  asio::io_context& context_;
  StoreUrl url_;
  milliseconds timeout_;
  Voters voters_;
  std::shared_ptr<Complaints> complaints_ = std::make_shared<Complaints>();
  QuorumInspector inspector_;
  QuorumRegisters registers_;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

// The findings of dlock doctor about all servers together, then one for each check of the
// servers: the most severe, with the server's name.
std::vector<Finding> findings_of(const std::vector<redis::RedisFacts>& servers,
                                 const QuorumTerms& terms);

// It carries out the decisions of Candidacy and tally(): it asks all servers at once,
// counts the votes, and releases them if they are too few.
class QuorumClaimant final : public Claimant {
 public:
  QuorumClaimant(asio::io_context& context, const Voters& voters,
                 const QuorumTerms& terms, milliseconds timeout, const Claim& claim,
                 std::shared_ptr<Complaints> complaints);
  ~QuorumClaimant() override;

  bool queues_at_once() const override { return true; }
  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override;
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;

 private:
  // The claim on one server. It lives as long as a request is in progress there.
  struct Seat {
    Seat(std::shared_ptr<Voter> of, const Claim& claim)
        : voter(std::move(of)), claimant(voter->context(), voter->route(), claim) {}

    std::shared_ptr<Voter> voter;
    redis::RedisClaimant claimant;
  };
  using Seats = std::vector<std::shared_ptr<Seat>>;

  // Throws Failure if a restarted server could vote before the lease ends.
  void require_short_lease() const;
  Call new_call(Wakeup& wakeup) const { return wakeup.within(timeout_); }
  // The part of a call that waits for votes. The rest is for releasing those that were of
  // no use.
  Call votes_of_call(Call call) const;
  static Vote vote_of(const Seat& seat, const MaybeReply<Answer>& said);
  Votes votes_of(const FanOut<Answer>::Answers& answers) const;
  FanOut<Answer>::Answers failures_of_busy_voters() const;
  asio::awaitable<Votes> vote(Queue queue, Call call);
  asio::awaitable<void> give_back_votes(Call call);
  asio::awaitable<Grant> completed(Grant grant, std::size_t servers, Call call);
  bool is_enough(std::size_t servers) const;  // for --min-strength
  std::size_t count_repaired(const std::vector<bool>& has_it,
                             const FanOut<Answer>::Answers& answers) const;
  std::unique_ptr<FanOut<Answer>> repair(const std::vector<bool>& has_it);
  asio::awaitable<void> leave_lines(const ReleaseReplies& returns,
                                    Clock::time_point until);
  asio::awaitable<Release> release_until(Clock::time_point until,
                                         const std::optional<RunEnd>& end);
  asio::awaitable<void> undo(Call call);
  template <typename T>
  void note_silent(const std::vector<MaybeReply<T>>& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      is_silent_[i] = !answers[i] || std::holds_alternative<Failure>(*answers[i]);
    }
  }
  milliseconds least_ttl(const FanOut<Renewal>::Answers& answers) const;
  asio::awaitable<RenewalReplies> renew_everywhere(Call call);
  std::vector<std::size_t> where_to_listen() const;
  Clock::time_point ask_again_at() const;

  asio::io_context& context_;
  Voters voters_;
  QuorumTerms terms_;
  milliseconds timeout_;
  std::shared_ptr<Complaints> complaints_;
  Seats seats_;
  Candidacy candidacy_;
  Votes votes_;                  // of the last round
  std::vector<bool> is_silent_;  // did not reply to the last request
  bool has_joined_ = false;      // a queue on some server
  std::optional<Grant> grant_;
  std::optional<Taker> taken_by_;
};

}  // namespace dlock::redis_quorum
