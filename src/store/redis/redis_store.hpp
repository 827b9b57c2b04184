// Locks on a Redis or Valkey server, for many machines.
//
// The state of a lock and the rules of granting are the scripts' (scripts/common.lua says
// what is kept where); each call is one script. This class carries requests there and
// answers back.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "lock/store.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/scripts.hpp"
#include "store/redis/value_record.hpp"

namespace dlock::redis {

class RedisStore final : public Store {
 public:
  struct Options {
    Target target;
    std::string url;  // as users see it, without secrets
    milliseconds timeout{2000};
  };

  RedisStore(asio::io_context& context, Options options);
  ~RedisStore() override;

  std::string url() const override { return options_.url; }
  bool leases_run_out() const override { return true; }
  bool queues_at_once() const override { return true; }

  asio::awaitable<Answer> ask(const Claim& claim, Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(const Claim& claim, Wakeup& wakeup,
                                   Clock::time_point until) override;
  asio::awaitable<Release> release(const Claim& claim, const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLookup> get_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put_value(const Claim& claim, const std::string& bytes,
                                     Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget_value(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(const Claim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> started(const Claim& claim, const CommandProcess& process,
                                Wakeup& wakeup) override;
  void start_keeping(const Claim& claim, const Grant& grant, LeaseTiming timing,
                     LeaseWatcher& watcher) override;
  void stop_keeping() override;
  asio::awaitable<void> keeping_ends(Wakeup& wakeup) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const std::vector<Fence>& fences,
                                                    Wakeup& wakeup) override;
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  class Watching;
  struct Keeping;
  class Renewing;

  asio::awaitable<Release> give_back(const Claim& claim, const std::optional<RunEnd>& end,
                                     Wakeup& wakeup);
  asio::awaitable<Reply> run(const Script& script, const LockName& lock,
                             std::vector<std::string> args, Clock::time_point until,
                             Wakeup& wakeup);
  asio::awaitable<void> open(Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<std::vector<Reply>> exchange(std::vector<Command> commands,
                                               Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<Renewal> renew(Claim claim, Grant grant, Wakeup& wakeup);
  asio::awaitable<Reply> reclaim(const Claim& claim, const Grant& grant,
                                 Clock::time_point until, Wakeup& wakeup);
  asio::awaitable<std::optional<ValueRecord>> look_up(const LockName& lock,
                                                      Wakeup& wakeup);
  asio::awaitable<std::string> read_pieces(const LockName& lock,
                                           const ValueRecord& record, Wakeup& wakeup);
  asio::awaitable<Storing> write_pieces(const Claim& claim, const std::string& bytes,
                                        Wakeup& wakeup);
  asio::awaitable<std::optional<Reply>> listen(const Claim& claim, Wakeup& wakeup,
                                               Clock::time_point end);
  asio::awaitable<void> nap(Wakeup& wakeup, Clock::time_point until);
  void watch_for(const Busy& busy, std::int64_t blocked_for);
  Failure failure(const Reply& reply) const;
  Clock::time_point budget_end() const;
  void expect_answer();

  asio::io_context& context_;
  Options options_;
  std::string server_;  // for messages
  Connection connection_;
  Clock::time_point opened_at_;  // this connection
  bool is_named_ = false;        // on the server

  // What the server may know of our claim.
  enum class Known { nothing, answered, unanswered };
  Known known_ = Known::nothing;
  bool may_come_late_ = false;  // a request before the last one, which had no answer
  std::string waiter_id_;       // names the list on which we are told of a promise
  std::int64_t arrived_ = 0;    // when we got our place in the queue, by the server
  Clock::time_point ask_again_;
  Clock::time_point asked_at_;   // what was answered last
  std::optional<Grant> handed_;  // that came on the list
  Grant grant_;                  // ours, until it is given back

  std::shared_ptr<Keeping> keeping_;
};

}  // namespace dlock::redis
