#include "store/postgres/pg_store.hpp"

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "rules/limit.hpp"
#include "store/postgres/pg_limit.hpp"
#include "store/postgres/pg_primary.hpp"
#include "store/postgres/pg_schema.hpp"
#include "store/postgres/pg_target.hpp"
#include "store/postgres/pg_transaction.hpp"
#include "store/postgres/pg_values.hpp"
#include "store/stepped/stepped_store.hpp"
#include "util/bits.hpp"

namespace dlock::postgres {
namespace {

// One in so many changes of a limit removes limits that are out of use.
constexpr std::uint64_t changes_per_sweep = 64;

// The format of limits that this version writes.
constexpr std::int64_t limit_format = 1;

bool has_changed_a_row(const Result& result) {
  return result.tag == "UPDATE 1" || result.tag == "INSERT 0 1";
}

class PgRates final : public RateLimits {
 public:
  // `session` must outlive this.
  PgRates(asio::io_context& context, PgSession& session)
      : context_(context), session_(session) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    auto kept = claim;
    kept.token = kept_token(claim.token);
    RateAnswer answer;
    const Change change = [&](PgLimit& limit, WallTime now) {
      bool has_changed = false;
      answer = limit.admit(kept, now, has_changed);
      return has_changed;
    };
    const auto call = wakeup.within(session_.timeout());
    co_await step(claim.limit, change, call);
    co_return answer;
  }

  // Not `wakeup`, which may be interrupted.
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    const Change change = [&](PgLimit& limit, WallTime) {
      return limit.withdraw(kept_token(claim.token));
    };
    Wakeup own(context_);
    const Call call{wakeup.last_request_until(session_.timeout(), stepped::last_patience),
                    own};
    co_await step(claim.limit, change, call);
  }

  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override {
    const auto call = wakeup.within(session_.timeout());
    const auto kept = co_await read(limit, false, call);
    co_return rules::look(kept.limit.state(), Clock::time_point(kept.now));
  }

  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override {
    Statement forget{"DELETE FROM " + session_.table("rate") + " r WHERE " + key_is("r"),
                     {limit.name_space, limit.name}};
    const auto call = wakeup.within(session_.timeout());
    co_await session_.transact(std::move(forget), call);
  }

 private:
  struct Kept {
    PgLimit limit;
    WallTime now{};
    std::string version;  // empty: there is no row
  };
  // Whether the limit has changed.
  using Change = std::function<bool(PgLimit&, WallTime now)>;

  asio::awaitable<Kept> read(const LockName& limit, bool is_exclusive, Call call) {
    const std::vector<std::optional<std::string>> key{limit.name_space, limit.name};
    const auto table = session_.table("rate");
    Batch batch;
    if (is_exclusive) {
      batch = begin_exclusive(call.until);
      batch.push_back(
          {"SELECT 1 FROM " + table + " r WHERE " + key_is("r") + " FOR UPDATE", key});
    }
    batch.push_back({"SELECT r.version, r.format, r.state, " + std::string(clock_micros) +
                         " FROM (SELECT 1) one LEFT JOIN " + table + " r ON " +
                         key_is("r"),
                     key});
    const auto results = co_await session_.exchange(alone(std::move(batch)), call);
    const auto& row = row_at(results.back(), 0, session_.shown());
    Kept kept;
    kept.now = time_at(row, 3, session_.shown());
    if (!row[0]) co_return kept;
    kept.version = *row[0];
    const auto format = number_at(row, 1).value_or(0);
    auto found =
        format > limit_format ? std::nullopt : PgLimit::from(row[2].value_or(""));
    if (!found) throw session_.unreadable("rate", limit, format > limit_format);
    kept.limit = std::move(*found);
    co_return kept;
  }

  // False, and nothing was done, if another step was faster.
  asio::awaitable<bool> write(const LockName& limit, const Kept& kept, bool is_exclusive,
                              Call call) {
    const auto table = session_.table("rate");
    Statement change;
    change.params = {limit.name_space, limit.name, kept.version, kept.limit.text(),
                     seconds_text(kept.limit.matters_until(kept.now))};
    if (kept.version.empty()) {
      change.params[2] = std::to_string(kept.now.count());
      change.sql =
          "INSERT INTO " + table +
          " (namespace, name, version, format, state, keep_until) VALUES ($1, $2, "
          "$3::pg.int8, 1, $4, pg.to_timestamp($5::pg.float8)) ON CONFLICT (namespace, "
          "name) DO NOTHING";
    } else {
      change.sql = "UPDATE " + table +
                   " r SET version = r.version OP(+) 1, format = 1, state = $4, "
                   "keep_until = pg.to_timestamp($5::pg.float8) WHERE " +
                   key_is("r") + " AND r.version OP(=) $3::pg.int8";
    }
    Result result;
    if (is_exclusive) {
      result = co_await session_.commit(std::move(change), call);
    } else {
      result = co_await session_.transact(std::move(change), call);
    }
    co_return has_changed_a_row(result);
  }

  // Repeats the step under the row's lock if another one was faster. As the next step
  // after one without an answer is always written, a request that arrives late changes
  // nothing.
  asio::awaitable<void> step(LockName limit, Change change, Call call) {
    for (bool is_exclusive = false;; is_exclusive = true) {
      auto kept = co_await read(limit, is_exclusive, call);
      const bool has_changed = change(kept.limit, kept.now);
      if (!has_changed && !unanswered_) {
        if (is_exclusive) co_await session_.leave(call.wakeup);
        co_return;
      }
      unanswered_ = true;
      const bool is_done = co_await write(limit, kept, is_exclusive, call);
      unanswered_ = false;
      if (!is_done) continue;
      if (random_up_to(changes_per_sweep - 1) == 0)
        co_await session_.sweep("rate", call.wakeup);
      co_return;
    }
  }

  asio::io_context& context_;
  PgSession& session_;
  bool unanswered_ = false;  // as in stepped::take()
};

class PgStore final : public stepped::SteppedStore {
 public:
  // It owns `rows`.
  PgStore(asio::io_context& context, std::string url, PgRows* rows)
      : SteppedStore(context, std::move(url), std::unique_ptr<PgRows>(rows)),
        session_(rows->session()),
        values_(value_store_of(*rows)),
        rates_(context, session_) {}

  void report_complaints(std::function<void(const std::string&)> warn) override {
    session_.connection()->hosts()->warn = std::move(warn);
  }
  void part() override { session_.connection()->part(); }
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    Statement admit{
        "INSERT INTO " + session_.table("fence") +
            " AS f (namespace, resource, greatest) VALUES ($1, $2, $3::pg.int8) ON "
            "CONFLICT (namespace, resource) DO UPDATE SET greatest = excluded.greatest "
            "WHERE f.greatest OP(<=) excluded.greatest",
        {resource.name_space, resource.name, std::to_string(fence.number)}};
    const auto call = wakeup.within(session_.timeout());
    const auto result = co_await session_.transact(std::move(admit), call);
    co_return has_changed_a_row(result) ? Admission::admitted : Admission::stale;
  }

  ValueStore* values() override { return values_.get(); }
  RateLimits* rates() override { return &rates_; }

 private:
  PgSession& session_;
  std::unique_ptr<ValueStore> values_;
  PgRates rates_;
};

}  // namespace

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  auto hosts = hosts_of(url, timeout);
  auto text = hosts->url;
  return store_of(context, std::move(text),
                  std::make_unique<PgRows>(context, std::move(hosts)));
}

std::string schema(const StoreUrl& url) {
  const auto target = targets_of(url).front();
  return schema_script(target.schema, target.user);
}

std::unique_ptr<Store> store_of(asio::io_context& context, std::string url,
                                std::unique_ptr<PgRows> rows) {
  return std::make_unique<PgStore>(context, std::move(url), rows.release());
}

}  // namespace dlock::postgres
