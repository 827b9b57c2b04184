// How waiters sleep until a step wakes them, and holders learn that their lease is
// broken.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "lock/claimant.hpp"
#include "rules/state.hpp"
#include "store/postgres/pg_session.hpp"

namespace dlock::postgres {

// By LISTEN on the connection of the session, or behind a pooler by looking again.
class PgWaking {
 public:
  // `session` must outlive this.
  PgWaking(asio::io_context& context, PgSession& session)
      : context_(context), session_(session) {}
  ~PgWaking();
  PgWaking(const PgWaking&) = delete;
  PgWaking& operator=(const PgWaking&) = delete;

  // Whether there are no notifications.
  bool polls() const;
  // As those of StateStore.
  asio::awaitable<bool> sleep(rules::Session party, std::size_t place, Call call);
  void park();
  void rest();
  std::unique_ptr<LeaseNews> listen(rules::Session party, std::function<void()> on_news);

  // For a step that lets the party listen with what it writes: the statements, whether
  // the session listens already, and that it does from now on.
  Batch to_listen(rules::Session party) const;
  bool listens(rules::Session party) const;
  void note_listening(rules::Session party);

 private:
  class News;
  struct Listener;

  asio::awaitable<std::optional<Notification>> notified(Call call);
  asio::awaitable<void> poll(std::size_t place, Call call);
  static asio::awaitable<void> keep_listening(std::shared_ptr<Listener> listener);
  static asio::awaitable<bool> listen_once(std::shared_ptr<Listener> listener);

  asio::io_context& context_;
  PgSession& session_;
  std::shared_ptr<Listener> listener_;  // of holders
  std::set<rules::Session> listening_;  // on the connection as it was opened then:
  std::uint64_t listening_since_ = 0;
  std::optional<Clock::time_point> polls_since_;
};

}  // namespace dlock::postgres
