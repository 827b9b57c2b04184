// Locks in a PostgreSQL database, shared by many machines: the rules in this process, and
// the state of each lock in a row. Rate limits and fence registers are rows as well.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lock/store.hpp"
#include "store/postgres/pg_limit.hpp"
#include "store/postgres/pg_rows.hpp"
#include "store/stepped/stepped_store.hpp"
#include "store/store_url.hpp"

namespace dlock::postgres {

class PgRates final : public RateLimits {
 public:
  // `session` must outlive this.
  PgRates(asio::io_context& context, PgSession& session)
      : context_(context), session_(session) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

 private:
  struct Kept {
    PgLimit limit;
    WallTime now{};
    std::string version;  // empty: there is no row
  };
  // Whether the limit has changed.
  using Change = std::function<bool(PgLimit&, WallTime now)>;

  asio::awaitable<Kept> read(const LockName& limit, bool is_exclusive, Call call);
  asio::awaitable<bool> write(const LockName& limit, const Kept& kept, bool is_exclusive,
                              Call call);
  asio::awaitable<void> step(LockName limit, Change change, Call call);

  asio::io_context& context_;
  PgSession& session_;
  bool unanswered_ = false;  // as in stepped::take()
};

class PgStore final : public stepped::SteppedStore {
 public:
  // `url` as users see it, without secrets.
  PgStore(asio::io_context& context, std::string url, std::unique_ptr<PgRows> rows);

  void report_complaints(std::function<void(const std::string&)> warn) override {
    session_.connection()->hosts()->warn = std::move(warn);
  }
  void part() override { session_.connection()->part(); }
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;
  ValueStore* values() override { return values_.get(); }
  RateLimits* rates() override { return &rates_; }

 private:
  PgStore(asio::io_context& context, std::string url, PgRows* rows);

  PgSession& session_;
  std::unique_ptr<ValueStore> values_;
  PgRates rates_;
};

// As open_store() and examine_store(). All servers of the URL are examined at the same
// time, and nothing is changed there.
OpenStore open;
ExamineStore examine;

// The SQL that makes the schema, and grants the user of the URL what locks need.
SchemaText schema;

}  // namespace dlock::postgres
