// The embedded store: small files hold the state, kernel locks prove who is alive. Rate
// limits and fence registers need no more than its files.
#pragma once

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
#include "store/local/files.hpp"
#include "store/local/local_values.hpp"
#include "store/local/local_waiting.hpp"
#include "store/store_url.hpp"

namespace dlock::local {

// An attached lease ends when the last process that holds its session open ends; a
// detached lease expires by the clock.
class LocalClaimant final : public Claimant {
 public:
  // `files` must outlive this.
  LocalClaimant(Files& files, const Claim& claim);
  ~LocalClaimant() override;

  asio::awaitable<Answer> ask(Queue queue, Wakeup& wakeup) override;
  asio::awaitable<void> await_turn(Call call) override { return waiting_.sleep(call); }
  asio::awaitable<Release> release(const std::optional<RunEnd>& end,
                                   Wakeup& wakeup) override;
  asio::awaitable<Renewal> renew(Wakeup& wakeup) override;
  std::optional<Taker> taken_by() const override { return taken_by_; }
  std::unique_ptr<LeaseNews> listen(std::function<void()> on_news) override;
  int session() const override;
  std::optional<StartNote> start_note() override;
  asio::awaitable<void> started(const CommandProcess& process, Wakeup& wakeup) override;

 private:
  asio::awaitable<Files::Change> begin_claim(Wakeup& wakeup);
  asio::awaitable<Answer> ask_once(Queue queue, Wakeup& wakeup);
  asio::awaitable<Release> release_once(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<void> log_unreleased(const std::optional<RunEnd>& end, Wakeup& wakeup);
  asio::awaitable<Renewal> renew_once(Wakeup& wakeup);
  void open_session();
  void close();
  std::optional<Loss> loss();
  std::optional<Loss> loss_in(const State& state);
  const Party& own_party();

  Files& files_;
  std::optional<SessionLock> session_;
  Party party_;
  std::optional<Holder> holder_;  // what we were granted, for the log
  std::optional<Taker> taken_by_;
  bool noted_start_ = false;
  bool opens_session_late_ = false;  // see ask_once()
  LocalWaiting waiting_;
};

// Takes no mutex, so that readers do not delay changes to a lock, nor wait for them.
class LocalInspector final : public LockInspector {
 public:
  // `files` must outlive this.
  explicit LocalInspector(Files& files) : files_(files) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override;
  std::vector<Failure> left_out() const override { return left_out_; }
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  void read_each(const std::string& name_space, const NameFilter& matches,
                 const std::function<void(const LockName&)>& read);
  LockInfo info_of_lock(const LockName& lock) const;
  std::vector<RunInfo> runs_of_lock(const LockName& lock, const std::string& log) const;
  asio::awaitable<void> watch_for_a_while(const Watched& watched, EventSink& sink,
                                          Wakeup& wakeup);
  bool has_holders(const LockName& lock) const;
  std::set<LockName> locks_with_holders(const Watched& watched, EventSink& sink) const;
  asio::awaitable<void> remove_ended(std::set<LockName>& held, EventSink& sink,
                                     Wakeup& wakeup);
  asio::awaitable<void> remove_ended_holders(LockName lock, Wakeup& wakeup);

  Files& files_;
  bool is_watching_ = false;
  std::vector<Failure> left_out_;
};

// Adds what the rules do not know: account names, and whether dlock still runs.
void complete(std::vector<HolderInfo>& holders, const State& state);

// Replaces a user id by the account's name.
void name_user(std::string& user);

class LocalRates final : public RateLimits {
 public:
  // `files` must outlive this.
  explicit LocalRates(Files& files) : files_(files) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

 private:
  RecordFile file_to_admit(const RateClaim& claim, const std::string& name) const;

  Files& files_;
  std::optional<std::pair<Token, RateAnswer>>
      admitted_;  // the last one, in case it is repeated
};

class LocalRegisters final : public FenceRegisters {
 public:
  explicit LocalRegisters(Files& files) : files_(files) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Files& files_;
};

class LocalStore final : public Store {
 public:
  // As Files. Throws Failure (misconfigured) if there is no default directory.
  LocalStore(asio::io_context& context, std::string path, milliseconds timeout);

  std::string url() const override;
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override;
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override;
  LockInspector& inspector() override { return inspector_; }
  ValueStore* values() override { return made(values_); }
  RateLimits* rates() override { return made(rates_); }
  FenceRegisters* registers() override { return made(registers_); }

 private:
  // Most runs need none of these.
  template <typename Facet>
  Facet* made(std::optional<Facet>& facet) {
    if (!facet) facet.emplace(files_);
    return &*facet;
  }

  Files files_;
  LocalInspector inspector_;
  std::optional<LocalValues> values_;
  std::optional<LocalRates> rates_;
  std::optional<LocalRegisters> registers_;
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::local
