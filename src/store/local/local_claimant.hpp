// A claim on a lock of the embedded store.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lock/claimant.hpp"
#include "store/local/files.hpp"
#include "store/local/local_waiting.hpp"

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

}  // namespace dlock::local
