#include "store/postgres/pg_values.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/keeping.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A larger value is sent in pieces of this size.
constexpr std::size_t value_piece = 256u << 10;

// The value may be replaced between the read of its row and that of its pieces.
constexpr int most_looks = 3;

// The pieces of an abandoned value are removed after this time.
constexpr milliseconds abandoned_after{120'000};

// One in so many values that are stored removes what has expired.
constexpr std::uint64_t puts_per_sweep = 16;

std::size_t pieces_of(std::size_t size) {
  return std::max<std::size_t>(1, (size + value_piece - 1) / value_piece);
}

std::optional<std::string> from_hex_text(const std::string& text) {
  std::string bytes(text.size() / 2, '\0');
  const bool is_valid =
      from_hex(text, reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size());
  return is_valid ? std::optional(std::move(bytes)) : std::nullopt;
}

bool is_sweep_due() { return random_up_to(puts_per_sweep - 1) == 0; }

class PgValues final : public ValueStore {
 public:
  explicit PgValues(PgRows& rows) : rows_(rows), session_(rows.session()) {}

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override {
    for (int looks = 0; looks < most_looks; ++looks) {
      const auto kept = co_await look_up(lock, most, wakeup);
      if (!kept) co_return ValueLookup{};
      if (kept->size > most) co_return too_large(kept->size, most);
      auto bytes = co_await read_pieces(lock, *kept, wakeup);
      if (bytes.size() == kept->size && checksum_text(checksum(bytes)) == kept->sum) {
        ValueLookup found;
        found.value = Value{std::move(bytes), kept->is_fresh};
        co_return found;
      }
    }
    ValueLookup damaged;
    damaged.damage = session_.shown() + ": the stored value is incomplete";
    co_return damaged;
  }

  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override {
    const auto ms_from = [](const char* later_one, const char* earlier_one) {
      return "(pg.date_part('epoch', " + std::string(later_one) + " OP(-) " +
             earlier_one + ") OP(*) 1000)::pg.int8";
    };
    Statement look{"SELECT v.size, " + ms_from("c.now", "v.stored") + ", " +
                       ms_from("v.fresh_until", "c.now") + ", " +
                       ms_from("v.keep_until", "c.now") +
                       " FROM (SELECT pg.clock_timestamp() AS now) c, " +
                       session_.table("value") + " v WHERE " + key_is("v"),
                   {lock.name_space, lock.name}};
    const auto rows = co_await rows_of(std::move(look), wakeup);
    if (rows.empty()) co_return ValueLook{};
    const auto size = number_at(rows[0], 0);
    const auto age = number_at(rows[0], 1);
    const auto fresh_for = number_at(rows[0], 2);
    const auto expires_in = number_at(rows[0], 3);
    if (!size || *size < 0 || !expires_in || *expires_in <= 0) co_return ValueLook{};
    ValueInfo info;
    info.size = static_cast<std::size_t>(*size);
    if (age && *age >= 0) info.age = milliseconds(*age);
    info.fresh_for = milliseconds(std::max<std::int64_t>(fresh_for.value_or(0), 0));
    info.expires_in = milliseconds(*expires_in);
    co_return ValueLook{info, ""};
  }

  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override {
    constexpr int tries = 3;
    for (int i = 0; i < tries; ++i) {
      if (pieces_of(bytes.size()) > 1) {
        const auto written = co_await write_pieces(claim, bytes, wakeup);
        if (written == Storing::not_ours) co_return written;
      }
      const auto storing = co_await store(claim, bytes, lifetime, wakeup);
      if (!storing) continue;
      if (*storing == Storing::stored && is_sweep_due()) {
        for (const auto* table : {"value", "piece"})
          co_await session_.sweep(table, wakeup);
      }
      co_return *storing;
    }
    throw Failure::unreachable(session_.shown() +
                               ": pieces of the value vanish while it is stored");
  }

  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override {
    Statement forget{"WITH gone AS (DELETE FROM " + session_.table("value") +
                         " v WHERE " + key_is("v") + " RETURNING v.fence) DELETE FROM " +
                         session_.table("piece") + " p USING gone WHERE " + key_is("p") +
                         " AND p.fence OP(=) gone.fence",
                     {lock.name_space, lock.name}};
    co_await transact(std::move(forget), wakeup);
  }

 private:
  struct Kept {
    std::string fence;  // of the run that stored it; its pieces have it as well
    std::size_t size = 0;
    std::string sum;
    bool is_fresh = false;
    std::optional<std::string> first_piece;
  };

  struct New {
    Fence fence;
    const std::string& bytes;
    Lifetime lifetime;
  };

  asio::awaitable<std::vector<Row>> rows_of(Statement statement, Wakeup& wakeup) {
    const auto call = wakeup.within(session_.timeout());
    auto results = co_await session_.exchange(alone(std::move(statement)), call);
    co_return std::move(results.back().rows);
  }

  asio::awaitable<void> transact(Statement statement, Wakeup& wakeup) {
    const auto call = wakeup.within(session_.timeout());
    co_await session_.transact(std::move(statement), call);
  }

  // With the first piece, unless the value is larger than `most`.
  asio::awaitable<std::optional<Kept>> look_up(const LockName& lock, std::size_t most,
                                               Wakeup& wakeup) {
    Statement look{
        "SELECT v.fence, v.size, v.sum, v.fresh_until OP(>) pg.clock_timestamp(), CASE "
        "WHEN v.size OP(<=) $3::pg.int8 THEN pg.encode(p.data, 'hex') END FROM " +
            session_.table("value") + " v LEFT JOIN " + session_.table("piece") +
            " p ON p.namespace OP(=) v.namespace AND p.name OP(=) v.name AND p.fence "
            "OP(=) v.fence AND p.number OP(=) 0 WHERE " +
            key_is("v") + " AND v.keep_until OP(>) pg.clock_timestamp()",
        {lock.name_space, lock.name, std::to_string(most)}};
    const auto rows = co_await rows_of(std::move(look), wakeup);
    if (rows.empty()) co_return std::nullopt;
    const auto& row = rows.front();
    const auto size = number_at(row, 1);
    if (!size || *size < 0) co_return std::nullopt;
    Kept kept;
    const auto column = [&](std::size_t i) -> const auto& {
      return column_at(row, i, session_.shown());
    };
    kept.fence = column(0).value_or("");
    kept.size = static_cast<std::size_t>(*size);
    kept.sum = column(2).value_or("");
    kept.is_fresh = column(3) == "t";
    if (const auto& piece = column(4)) kept.first_piece = from_hex_text(*piece);
    co_return kept;
  }

  // As much as there is.
  asio::awaitable<std::string> read_pieces(const LockName& lock, const Kept& kept,
                                           Wakeup& wakeup) {
    auto bytes = kept.first_piece.value_or("");
    if (kept.size > value_piece) bytes.reserve(kept.size);
    for (std::size_t number = 1; number < pieces_of(kept.size); ++number) {
      if (bytes.size() != number * value_piece) break;
      Statement read{"SELECT pg.encode(p.data, 'hex') FROM " + session_.table("piece") +
                         " p WHERE " + key_is("p") +
                         " AND p.fence OP(=) $3::pg.int8 AND p.number OP(=) $4::pg.int4",
                     {lock.name_space, lock.name, kept.fence, std::to_string(number)}};
      const auto rows = co_await rows_of(std::move(read), wakeup);
      if (rows.empty()) break;  // it was removed, or is another one
      const auto& piece = column_at(rows[0], 0, session_.shown());
      bytes += from_hex_text(piece.value_or("")).value_or("");
    }
    co_return bytes;
  }

  // The fence of the grant; nothing if the claim does not hold the lock.
  asio::awaitable<std::optional<Fence>> renewed(const Claim& claim, Wakeup& wakeup) {
    const auto token = kept_token(claim.token);
    const stepped::Rule<std::optional<Fence>> rule =
        [&](const rules::Step& step,
            stepped::StateStore::Change& change) -> std::optional<Fence> {
      change.gives_a_right = true;
      const auto renewal = rules::renew(step, token, claim.ttl + claim.lock_delay);
      if (renewal != Renewal::confirmed) return std::nullopt;
      return rules::holder_of(step.state, token)->fence;
    };
    const auto call = wakeup.within(session_.timeout());
    auto step = co_await stepped::take(rows_, claim.lock, rule, call, unanswered_);
    co_return step.answer;
  }

  Statement to_write_piece(const LockName& lock, Fence fence, std::size_t number,
                           std::string_view bytes) const {
    return {
        "INSERT INTO " + session_.table("piece") +
            " (namespace, name, fence, number, data, keep_until) VALUES ($1, $2, "
            "$3::pg.int8, $4::pg.int4, pg.decode($5, 'hex'), pg.clock_timestamp() OP(+) "
            "pg.make_interval(secs => $6::pg.float8)) ON CONFLICT (namespace, name, "
            "fence, number) DO UPDATE SET data = excluded.data, keep_until = "
            "excluded.keep_until",
        {lock.name_space, lock.name, std::to_string(fence.number), std::to_string(number),
         hex(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
         std::to_string(abandoned_after.count() / 1000)}};
  }

  // In the transaction that has found the lease. The pieces of former values are removed.
  std::vector<Statement> to_store(const LockName& lock, const New& value,
                                  WallTime now) const {
    const auto fence = std::to_string(value.fence.number);
    const auto fresh_until = now + value.lifetime.ttl;
    const auto keep_until = seconds_text(fresh_until + value.lifetime.stale);
    const auto key = std::string(" WHERE namespace OP(=) $1 AND name OP(=) $2 ");
    std::vector<Statement> statements;
    if (pieces_of(value.bytes.size()) == 1) {
      statements.push_back(to_write_piece(lock, value.fence, 0, value.bytes));
    }
    statements.push_back(
        {"INSERT INTO " + session_.table("value") +
             " (namespace, name, fence, size, sum, stored, fresh_until, keep_until) "
             "VALUES ($1, $2, $3::pg.int8, $4::pg.int8, $5, "
             "pg.to_timestamp($6::pg.float8), pg.to_timestamp($7::pg.float8), "
             "pg.to_timestamp($8::pg.float8)) ON CONFLICT (namespace, name) DO UPDATE "
             "SET fence = excluded.fence, size = excluded.size, sum = excluded.sum, "
             "stored = excluded.stored, fresh_until = excluded.fresh_until, keep_until = "
             "excluded.keep_until",
         {lock.name_space, lock.name, fence, std::to_string(value.bytes.size()),
          checksum_text(checksum(value.bytes)), seconds_text(now),
          seconds_text(fresh_until), keep_until}});
    statements.push_back(
        {"DELETE FROM " + session_.table("piece") + key +
             "AND (fence OP(<>) $3::pg.int8 OR number OP(>=) $4::pg.int4)",
         {lock.name_space, lock.name, fence,
          std::to_string(pieces_of(value.bytes.size()))}});
    statements.push_back({"UPDATE " + session_.table("piece") +
                              " SET keep_until = pg.to_timestamp($3::pg.float8)" + key,
                          {lock.name_space, lock.name, keep_until}});
    // Whether all are there.
    statements.push_back({"SELECT pg.count(*), pg.sum(pg.octet_length(data)) FROM " +
                              session_.table("piece") + key,
                          {lock.name_space, lock.name}});
    return statements;
  }

  // Those that were written first are not abandoned, however long the others take.
  Statement to_keep_pieces(const LockName& lock, Fence fence) const {
    return {"UPDATE " + session_.table("piece") +
                " SET keep_until = pg.clock_timestamp() OP(+) pg.make_interval(secs => "
                "$4::pg.float8) WHERE namespace OP(=) $1 AND name OP(=) $2 AND fence "
                "OP(=) $3::pg.int8",
            {lock.name_space, lock.name, std::to_string(fence.number),
             std::to_string(abandoned_after.count() / 1000)}};
  }

  // In one transaction with the renewal of the lease. Nothing if there are pieces
  // missing, which another client has removed.
  asio::awaitable<std::optional<Storing>> store(const Claim& claim,
                                                const std::string& bytes,
                                                Lifetime lifetime, Wakeup& wakeup) {
    const auto call = wakeup.within(session_.timeout());
    const auto token = kept_token(claim.token);
    for (;;) {
      const auto read =
          co_await rows_.read(claim.lock, stepped::StateStore::Access::exclusive, call);
      stepped::StateStore::Change change;
      stepped::prepare(change, read);
      rules::Consequences then;
      const auto renewal =
          rules::renew({change.state, read.now, rules::ClockLiveness(read.now), then},
                       token, claim.ttl + claim.lock_delay);
      stepped::complete(change, read, then);
      if (renewal != Renewal::confirmed) {
        co_await session_.leave(wakeup);
        co_return std::optional(Storing::not_ours);
      }
      change.gives_a_right = true;
      const New value{rules::holder_of(change.state, token)->fence, bytes, lifetime};
      const auto results = co_await session_.go_on(
          alone(to_store(claim.lock, value, read.now.wall)), call);
      const auto& there = row_at(results.back(), 0, session_.shown());
      const auto count = static_cast<std::int64_t>(pieces_of(bytes.size()));
      const auto size = static_cast<std::int64_t>(bytes.size());
      if (number_at(there, 0) != count || number_at(there, 1) != size) {
        co_await session_.leave(wakeup);
        co_return std::nullopt;
      }
      if (co_await rows_.write(claim.lock, read, change, call)) {
        co_return std::optional(Storing::stored);
      }
    }
  }

  // The pieces of a large value, which are not read yet. A lease may last shorter than
  // that takes.
  asio::awaitable<Storing> write_pieces(const Claim& claim, const std::string& bytes,
                                        Wakeup& wakeup) {
    std::optional<Fence> fence;
    auto renew_at = Clock::now();
    for (std::size_t number = 0; number < pieces_of(bytes.size()); ++number) {
      if (Clock::now() >= renew_at) {
        renew_at = later(Clock::now(), std::min(claim.ttl, abandoned_after) / 3);
        fence = co_await renewed(claim, wakeup);
        if (!fence) co_return Storing::not_ours;
        if (number > 0) co_await transact(to_keep_pieces(claim.lock, *fence), wakeup);
      }
      const auto piece =
          std::string_view(bytes).substr(number * value_piece, value_piece);
      auto write = to_write_piece(claim.lock, *fence, number, piece);
      co_await transact(std::move(write), wakeup);
    }
    co_return Storing::stored;
  }

  PgRows& rows_;
  PgSession& session_;
  bool unanswered_ = false;  // see stepped::take()
};

}  // namespace

std::unique_ptr<ValueStore> value_store_of(PgRows& rows) {
  return std::make_unique<PgValues>(rows);
}

}  // namespace dlock::postgres
