// Cached values: a row in the table `value`, and the bytes in pieces in the table
// `piece`.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/store.hpp"
#include "store/postgres/pg_rows.hpp"

namespace dlock::postgres {

class PgValues final : public ValueStore {
 public:
  // `rows` must outlive this.
  explicit PgValues(PgRows& rows) : rows_(rows), session_(rows.session()) {}

  asio::awaitable<ValueLookup> get(const LockName& lock, std::size_t most,
                                   Wakeup& wakeup) override;
  asio::awaitable<ValueLook> describe(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<Storing> put(const Claim& claim, const std::string& bytes,
                               Lifetime lifetime, Wakeup& wakeup) override;
  asio::awaitable<void> forget(const LockName& lock, Wakeup& wakeup) override;

 private:
  struct Kept {
    std::string fence;  // of the run that stored it; its pieces have it as well
    std::size_t size = 0;
    std::string sum;
    bool is_fresh = false;
    std::optional<std::string> first_piece;
  };
  struct New;  // a value to be stored

  asio::awaitable<std::vector<Row>> rows_of(Statement statement, Wakeup& wakeup);
  asio::awaitable<void> transact(Statement statement, Wakeup& wakeup);
  asio::awaitable<std::optional<Kept>> look_up(const LockName& lock, std::size_t most,
                                               Wakeup& wakeup);
  asio::awaitable<std::string> read_pieces(const LockName& lock, const Kept& kept,
                                           Wakeup& wakeup);
  asio::awaitable<std::optional<Fence>> renewed(const Claim& claim, Wakeup& wakeup);
  Statement to_write_piece(const LockName& lock, Fence fence, std::size_t number,
                           std::string_view bytes) const;
  std::vector<Statement> to_store(const LockName& lock, const New& value,
                                  WallTime now) const;
  Statement to_keep_pieces(const LockName& lock, Fence fence) const;
  asio::awaitable<std::optional<Storing>> store(const Claim& claim,
                                                const std::string& bytes,
                                                Lifetime lifetime, Wakeup& wakeup);
  asio::awaitable<Storing> write_pieces(const Claim& claim, const std::string& bytes,
                                        Wakeup& wakeup);

  PgRows& rows_;
  PgSession& session_;
  bool unanswered_ = false;  // see stepped::take()
};

}  // namespace dlock::postgres
