// Looks at the locks of the embedded store.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/local/files.hpp"

namespace dlock::local {

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

}  // namespace dlock::local
