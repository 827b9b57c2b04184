// The states of locks in the rows of a PostgreSQL table.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rules/state.hpp"
#include "store/postgres/pg_session.hpp"
#include "store/postgres/pg_waking.hpp"
#include "store/stepped/state_store.hpp"
#include "store/stepped/stepped_claimant.hpp"

namespace dlock::postgres {

using stepped::kept_token;

// A step reads the row, and writes it if it still has the version that was read. If
// another step was faster, the step is repeated under the lock of the row.
class PgRows final : public stepped::StateStore {
 public:
  PgRows(asio::io_context& context, std::shared_ptr<PgHosts> hosts)
      : context_(context), session_(context, std::move(hosts)) {}

  // For what else is kept in the schema.
  PgSession& session() { return session_; }

  milliseconds timeout() const override { return session_.timeout(); }
  asio::awaitable<Snapshot> read(const LockName& lock, Access access, Call call) override;
  asio::awaitable<bool> write(const LockName& lock, const Snapshot& read,
                              const Change& change, Call call) override;
  asio::awaitable<void> leave(Wakeup& wakeup) override { return session_.leave(wakeup); }
  asio::awaitable<void> count_refused(LockName lock, Wakeup& wakeup) override;
  asio::awaitable<void> read_all(const std::string& name_space, bool with_runs,
                                 const Taken& take, Call call) override;
  bool is_copy() const override { return session_.connection()->hosts()->is_copy; }
  std::vector<Failure> left_out() const override { return left_out_; }
  asio::awaitable<bool> sleep(rules::Session party, std::size_t place,
                              Call call) override {
    return waking_.sleep(party, place, call);
  }
  // Who is not woken must ask to notice that it is near the front.
  rules::SafetyNet safety_net() const override {
    return waking_.polls() ? rules::SafetyNet() : rules::wide_safety_net;
  }
  bool parks() const override { return true; }
  void park() override { waking_.park(); }
  void rest() override { waking_.rest(); }
  std::unique_ptr<LeaseNews> listen(rules::Session party,
                                    std::function<void()> on_news) override {
    return waking_.listen(party, std::move(on_news));
  }
  NewWatchSession watch(const Watched& watched, Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockName>> overdue(std::string name_space,
                                                 Call call) override;

 private:
  struct Writing;

  Failure dropped_write() const;
  Writing writing_of(const LockName& lock, const Snapshot& read, const Change& change,
                     const std::vector<Event>& events, Clock::time_point until) const;
  Snapshot snapshot_from(const LockName& lock, const Row& row,
                         Clock::time_point sent_at) const;

  asio::io_context& context_;
  PgSession session_;
  PgWaking waking_{context_, session_};
  std::optional<LockName> lost_row_;  // a new one that was not made, nor found since
  std::vector<Failure> left_out_;
};

}  // namespace dlock::postgres
