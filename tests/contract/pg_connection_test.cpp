// The connection to a PostgreSQL server, with servers that behave in all possible ways.

#include "store/postgres/pg_connection.hpp"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>

#include "net/budget.hpp"
#include "store/open.hpp"
#include "store/postgres/pg_rows.hpp"
#include "store/postgres/pg_store.hpp"
#include "store/postgres/pg_values.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/certificates.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/peer.hpp"
#include "tests/unit/pg_messages.hpp"

namespace dlock::postgres {
namespace {

using namespace std::string_literals;
using namespace pg_messages;

const auto sync = message('S', "");

// That the owners of the schema are trusted, in front of a session's first statement
// there.
const auto trusted = accepted + done("SELECT 0");

std::string reply(const std::string& value = "1") {
  return accepted + row({value}) + done("SELECT 1") + ready();
}

// Logs each client in and answers every request with the same.
PeerServer::Talk replying(const std::string& text) {
  return [text](const Peer& peer) {
    if (!peer.read_until(sync)) return;
    peer.send(greeting() + text);
    while (peer.read_until(sync)) peer.send(text);
  };
}

// Sends this to each client at once, and nothing more.
PeerServer::Talk saying(const std::string& text) {
  return [text](const Peer& peer) {
    peer.send(text);
    peer.read_all();
  };
}

// The same once it has a request, and closes the connection.
PeerServer::Talk ending_with(const std::string& text) {
  return [text](const Peer& peer) {
    if (peer.read_until(sync)) peer.send(text);
  };
}

// Logs a client in over TLS, and answers two requests.
void talk_over_tls(SSL_CTX* context, const Peer& peer) {
  if (!peer.read_until(tls_request())) return;
  peer.send("S");
  const std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context), SSL_free);
  SSL_set_fd(session.get(), peer.fd());
  if (SSL_accept(session.get()) != 1) return;
  std::string text;
  char bytes[4096];
  for (int requests = 0; requests < 3;) {
    const int size = SSL_read(session.get(), bytes, sizeof bytes);
    if (size <= 0) return;
    text.append(bytes, static_cast<std::size_t>(size));
    if (!text.ends_with(sync)) continue;
    const auto answer = (requests++ == 0 ? greeting() : "") + reply();
    SSL_write(session.get(), answer.data(), static_cast<int>(answer.size()));
  }
  peer.read_all();
}

class PgConnections : public ::testing::Test {
 protected:
  static PgTarget at(const PeerServer& server, SslMode ssl = SslMode::disable) {
    PgTarget target;
    target.host = "127.0.0.1";
    target.port = server.port();
    target.user = "me";
    target.database = "app";
    target.application_name = "dlock nightly";
    target.ssl = ssl;
    return target;
  }

  static PgTarget with_password(PgTarget target) {
    target.password = [] { return "secret"; };
    return target;
  }

  std::vector<Result> ask(PgConnection& connection,
                          milliseconds budget = std::chrono::seconds(5)) {
    std::vector<Batch> batches(1, Batch(1, Statement{"SELECT 1", {}}));
    return result_of(context_,
                     connection.exchange(std::move(batches), wakeup_.within(budget)));
  }

  std::string value(PgConnection& connection) {
    return ask(connection).at(0).rows.at(0).at(0).value();
  }

  // The failure of an exchange that closes the connection.
  template <typename Kind = Failure>
  Kind failure(PgConnection& connection, milliseconds budget = std::chrono::seconds(5)) {
    try {
      ask(connection, budget);
    } catch (const Kind& failure) {
      EXPECT_FALSE(connection.is_open());
      return failure;
    }
    throw std::runtime_error("no failure");
  }

  std::string failure_text(const PeerServer& server, SslMode ssl = SslMode::disable) {
    PgConnection connection(context_, at(server, ssl));
    return failure(connection, milliseconds(200)).what();
  }

  std::string shown(const PeerServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }

  std::optional<Notification> next_news(PgConnection& connection, milliseconds budget) {
    return result_of(context_, connection.notification(wakeup_.within(budget)));
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
};

TEST_F(PgConnections, send_the_first_request_behind_the_login_and_stay_open) {
  const PeerServer server(replying(reply()));
  PgConnection connection(context_, at(server));
  EXPECT_EQ(server.connections(), 0);

  EXPECT_EQ(value(connection), "1");
  EXPECT_EQ(value(connection), "1");

  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(connection.times_opened(), 1u);
  EXPECT_EQ(connection.server_facts().server_version, "15.18");
  EXPECT_EQ(connection.server_facts().in_hot_standby, false);
  EXPECT_EQ(connection.server_facts().pid, 4711);
  EXPECT_FALSE(connection.server_facts().is_proven);
}

TEST_F(PgConnections, tell_the_server_who_they_are_and_nothing_that_poolers_refuse) {
  const PeerServer server(replying(reply()));
  PgConnection connection(context_, at(server));

  ask(connection);

  const auto startup = startup_message({{"user", "me"},
                                        {"database", "app"},
                                        {"client_encoding", "UTF8"},
                                        {"application_name", "dlock nightly"}});
  EXPECT_EQ(server.received().substr(0, startup.size()), startup);
}

TEST_F(PgConnections, end_the_session_in_good_order) {
  const PeerServer server(replying(reply()));
  PgConnection connection(context_, at(server));
  ask(connection);

  connection.close();

  EXPECT_TRUE(eventually(
      context_, [&] { return server.received().ends_with(terminate_message()); }));
}

TEST_F(PgConnections, take_no_reply_that_ends_early_for_an_answer) {
  const auto whole = greeting() + reply();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const PeerServer server(ending_with(whole.substr(0, size)));
    PgConnection connection(context_, at(server));

    EXPECT_EQ(failure(connection).kind(), Failure::Kind::unreachable) << size;
  }
}

TEST_F(PgConnections, take_replies_in_pieces) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(sync);
    for (const auto byte : greeting() + reply()) {
      // As a separate piece, which takes a moment.
      peer.send(std::string_view(&byte, 1));
      std::this_thread::yield();
    }
    peer.read_all();
  });
  PgConnection connection(context_, at(server));

  EXPECT_EQ(value(connection), "1");
}

TEST_F(PgConnections, believe_neither_a_repeated_reply_nor_one_that_nobody_asked_for) {
  const PeerServer repeating(replying(reply() + reply()));
  PgConnection connection(context_, at(repeating));
  EXPECT_EQ(failure(connection).kind(), Failure::Kind::unreachable);

  // It comes between two exchanges.
  std::atomic<bool> has_sent = false;
  const PeerServer late([&has_sent](const Peer& peer) {
    peer.read_until(sync);
    peer.send(greeting() + reply("right"));
    peer.send(reply("wrong"));
    has_sent = true;
    peer.read_all();
  });
  PgConnection other(context_, at(late));
  try {
    EXPECT_EQ(value(other), "right");
    EXPECT_TRUE(eventually(context_, [&] { return has_sent.load(); }));
    EXPECT_EQ(value(other), "right");
    EXPECT_EQ(late.connections(), 2);
  } catch (const Failure&) {
    // Both replies came at once.
  }
}

TEST_F(PgConnections, are_not_used_again_after_a_reply_that_was_late) {
  std::atomic<int> requests = 0;
  const PeerServer server([&requests](const Peer& peer) {
    while (peer.read_until(sync)) {
      if (++requests > 1) peer.send(greeting() + reply("second"));
    }
  });
  PgConnection connection(context_, at(server));

  EXPECT_NO_THROW(failure<net::Timeout>(connection, milliseconds(100)));
  EXPECT_EQ(value(connection), "second");

  EXPECT_EQ(server.connections(), 2);
}

TEST_F(PgConnections, blame_a_slow_login_only_for_the_operation_that_it_was_part_of) {
  const auto logging_in_slowly = [](const Peer& peer) {
    if (!peer.read_until(sync)) return;
    std::this_thread::sleep_for(milliseconds(150));
    peer.send(greeting() + reply());
    peer.read_all();
  };
  const PeerServer server(logging_in_slowly);
  const auto says = [&](PgConnection& connection, Clock::time_point until) {
    try {
      std::vector<Batch> batches(1, Batch(1, Statement{"SELECT 1", {}}));
      result_of(context_, connection.exchange(std::move(batches), {until, wakeup_}));
    } catch (const net::Timeout& timeout) {
      return std::string(timeout.what());
    }
    return std::string();
  };
  for (const bool is_same : {true, false}) {
    PgConnection connection(context_, at(server));
    const auto until = Clock::now() + milliseconds(250);
    EXPECT_EQ(says(connection, until), "");

    const auto end = is_same ? until : Clock::now() + milliseconds(50);
    const bool is_blamed = says(connection, end).find("the login") != std::string::npos;
    EXPECT_EQ(is_blamed, is_same);
  }
}

TEST_F(PgConnections, stay_open_after_a_refused_statement) {
  const PeerServer server(
      replying(error("ERROR", "42501", "Permission denied") + ready()));
  PgConnection connection(context_, at(server));

  for (int i = 0; i < 2; ++i) {
    try {
      ask(connection);
      ADD_FAILURE() << "no failure";
    } catch (const SqlError& refused) {
      EXPECT_EQ(refused.code(), "42501");
      EXPECT_EQ(refused.kind(), Failure::Kind::rejected);
      EXPECT_EQ(refused.what(), shown(server) + ": permission denied");
    }
    EXPECT_TRUE(connection.is_open());
  }
  EXPECT_EQ(server.connections(), 1);
}

std::vector<Batch> posted(std::size_t size) {
  return {{{"SELECT $1", {std::string(size, 'x')}}}};
}

TEST_F(PgConnections, post_over_tls_what_is_larger_than_a_record) {
  const Certificate certificate({"localhost", "IP:127.0.0.1"}, nullptr);
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(
      SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  certificate.use_in(context.get());
  const PeerServer server(
      [&context](const Peer& peer) { talk_over_tls(context.get(), peer); });
  PgConnection connection(context_, at(server, SslMode::prefer));
  ask(connection);

  connection.post(posted(100'000));

  EXPECT_TRUE(connection.is_open());
  EXPECT_EQ(value(connection), "1");
  EXPECT_EQ(server.connections(), 1);
}

// Does not read what is posted until it may.
class SlowReader {
 public:
  explicit SlowReader(const std::string& news = "")
      : server_([this, news](const Peer& peer) {
          peer.read_until(sync);
          peer.send(greeting() + reply());
          may_read_.wait(false);
          while (peer.read_until(sync)) peer.send(reply() + news);
        }) {}

  const PeerServer& server() const { return server_; }
  void read() {
    may_read_ = true;
    may_read_.notify_all();
  }

 private:
  std::atomic<bool> may_read_ = false;
  PeerServer server_;
};

TEST_F(PgConnections, send_first_what_did_not_fit_when_it_was_posted) {
  SlowReader reader;
  PgConnection connection(context_, at(reader.server()));
  ask(connection);

  connection.post(posted(16u << 20));
  reader.read();

  EXPECT_EQ(value(connection), "1");
  EXPECT_EQ(reader.server().connections(), 1);
}

TEST_F(PgConnections, send_what_did_not_fit_before_they_wait_for_news) {
  SlowReader reader(notification("dlock_1", "news"));
  PgConnection connection(context_, at(reader.server()));
  ask(connection);

  connection.post(posted(16u << 20));
  reader.read();

  EXPECT_EQ(next_news(connection, std::chrono::seconds(5)).value().payload, "news");
}

// Whether the reply has been read when the next exchange begins.
TEST_F(PgConnections, are_not_used_again_if_what_was_posted_leaves_a_transaction_behind) {
  for (const bool is_read_before : {true, false}) {
    std::atomic<bool> may_fail = false;
    const PeerServer server([&may_fail, connections = 0](const Peer& peer) mutable {
      if (++connections > 1) {
        replying(reply())(peer);
        return;
      }
      peer.read_until(sync);
      peer.send(greeting() + reply());
      peer.read_until(sync);
      may_fail.wait(false);
      peer.send(error("ERROR", "55P03", "lock timeout") + ready('E'));
      peer.read_all();
    });
    PgConnection connection(context_, at(server));
    ask(connection);

    connection.post(posted(10));
    may_fail = true;
    may_fail.notify_all();
    if (is_read_before) {
      EXPECT_TRUE(eventually(context_, [&] {
        return connection.is_still_open() && connection.is_in_transaction();
      }));
    }

    EXPECT_EQ(value(connection), "1");
    EXPECT_EQ(server.connections(), 2);
  }
}

TEST_F(PgConnections, roll_back_what_a_refused_statement_leaves_behind) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(sync);
    peer.send(greeting() + error("ERROR", "55P03", "lock timeout") + ready('E'));
    peer.read_until(sync);
    peer.send(accepted + done("ROLLBACK") + ready());
    peer.read_until(sync);
    peer.send(reply());
  });
  PgConnection connection(context_, at(server));

  EXPECT_THROW(ask(connection), SqlError);
  EXPECT_EQ(value(connection), "1");

  EXPECT_NE(server.received().find("ROLLBACK"), std::string::npos);
}

TEST_F(PgConnections, are_not_opened_again_in_the_middle_of_a_transaction) {
  const PeerServer server(
      ending_with(greeting() + accepted + done("BEGIN") + ready('T')));
  PgConnection connection(context_, at(server));
  std::vector<Batch> begin(1, Batch(1, Statement{"BEGIN", {}}));
  result_of(context_, connection.exchange(std::move(begin),
                                          wakeup_.within(std::chrono::seconds(5))));
  EXPECT_TRUE(eventually(context_, [&] { return server.received().size() > 0; }));

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::unreachable);

  EXPECT_EQ(server.connections(), 1);
}

TEST_F(PgConnections, whose_session_is_ended_do_not_tell_what_became_of_the_request) {
  const PeerServer server(ending_with(greeting() + accepted +
                                      error("FATAL", "57P01", "terminating connection") +
                                      ready()));
  PgConnection connection(context_, at(server));

  const auto ended = failure(connection);

  EXPECT_EQ(ended.what(), shown(server) + ": terminating connection");
  EXPECT_THROW(failure<SqlError>(connection), Failure);
}

TEST_F(PgConnections, tell_servers_that_have_no_room_from_those_that_refuse) {
  const PeerServer full(ending_with(error("FATAL", "53300", "too many clients")));
  const PeerServer starting(ending_with(error("FATAL", "57P03", "starting up")));
  const PeerServer refusing(ending_with(error("FATAL", "28P01", "wrong password")));
  PgConnection to_full(context_, at(full));
  PgConnection to_starting(context_, at(starting));
  PgConnection to_refusing(context_, at(refusing));

  using Reason = net::Refusal::Reason;
  EXPECT_EQ(failure<net::Refusal>(to_full).reason(), Reason::overloaded);
  EXPECT_EQ(failure<net::Refusal>(to_starting).reason(), Reason::absent);
  EXPECT_EQ(failure<SqlError>(to_refusing).kind(), Failure::Kind::rejected);
}

TEST_F(PgConnections, are_not_held_up_by_what_never_ends) {
  for (const auto& endless : {notice("NOTICE", "00000", "again"),
                              parameter("name", "value"), notification("channel", "")}) {
    const PeerServer server([&endless](const Peer& peer) {
      peer.read_until(sync);
      peer.send(greeting());
      std::string many;
      while (many.size() < 64u << 10) many += endless;
      while (peer.send(many)) {
      }
    });
    PgConnection connection(context_, at(server));
    const auto began = Clock::now();

    EXPECT_EQ(failure(connection, milliseconds(300)).kind(), Failure::Kind::unreachable);

    EXPECT_LT(Clock::now() - began, std::chrono::seconds(3));
  }
}

TEST_F(PgConnections, say_what_kind_of_server_does_not_speak_the_protocol) {
  const PeerServer web(saying("HTTP/1.1 400 Bad Request\r\n\r\n"));
  const PeerServer shell(saying("SSH-2.0-OpenSSH_9.2\r\n"));
  const PeerServer redis(saying("-ERR unknown command\r\n"));
  const PeerServer silent([](const Peer& peer) { peer.read_all(); });
  const PeerServer closing([](const Peer&) {});

  for (const auto ssl : {SslMode::disable, SslMode::prefer}) {
    EXPECT_NE(failure_text(web, ssl).find("; it looks like an HTTP server"),
              std::string::npos);
    EXPECT_NE(failure_text(shell, ssl).find("; it looks like an SSH server"),
              std::string::npos);
    EXPECT_NE(failure_text(redis, ssl).find("; it looks like a Redis server"),
              std::string::npos);
    EXPECT_EQ(failure_text(silent, ssl),
              shown(silent) + " did not reply within 200ms; is it PostgreSQL?");
  }
  EXPECT_NE(failure_text(closing).find("; does it require TLS"), std::string::npos);
}

TEST_F(PgConnections, send_no_password_in_plain_text) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(tls_request());
    peer.send("N");
    peer.read_until("\0\0"s);
    peer.send(authentication(3));
    peer.read_all();
  });
  PgConnection connection(context_, with_password(at(server, SslMode::prefer)));

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::rejected);

  EXPECT_EQ(server.received().find("secret"), std::string::npos);
}

TEST_F(PgConnections, send_nothing_to_a_server_without_tls_if_they_have_to_use_it) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(tls_request());
    peer.send("N");
    peer.read_all();
  });
  for (const auto ssl : {SslMode::require, SslMode::verify}) {
    PgConnection connection(context_, at(server, ssl));

    EXPECT_EQ(failure(connection).kind(), Failure::Kind::unreachable);
  }
  EXPECT_EQ(server.received(), tls_request() + tls_request());
}

TEST_F(PgConnections, do_without_tls_where_the_server_has_none) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(tls_request());
    peer.send("N");
    replying(reply())(peer);
  });
  PgConnection connection(context_, at(server, SslMode::prefer));

  EXPECT_EQ(value(connection), "1");
  EXPECT_FALSE(connection.server_facts().is_encrypted);
}

TEST_F(PgConnections, read_nothing_that_comes_before_the_handshake) {
  for (const auto& early : {"S" + greeting() + reply(), "N" + greeting() + reply()}) {
    const PeerServer server(saying(early));
    PgConnection connection(context_, at(server, SslMode::prefer));

    EXPECT_NE(std::string(failure(connection).what()).find("does not speak"),
              std::string::npos);
  }
}

TEST_F(PgConnections, do_not_fall_back_to_plain_text_after_a_failed_handshake) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(tls_request());
    peer.send("S");
  });
  PgConnection connection(context_, at(server, SslMode::prefer));

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::unreachable);

  EXPECT_EQ(server.connections(), 1);
}

TEST_F(PgConnections, that_are_told_of_an_error_before_tls_do_not_repeat_it) {
  const PeerServer server(saying(error("FATAL", "53300", "Send money to ...")));
  PgConnection connection(context_, at(server, SslMode::prefer));

  const auto refusal = failure<net::Refusal>(connection);

  EXPECT_EQ(refusal.reason(), net::Refusal::Reason::overloaded);
  EXPECT_EQ(std::string(refusal.what()).find("money"), std::string::npos);
}

TEST_F(PgConnections, take_notifications_also_between_exchanges) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(sync);
    peer.send(greeting() + reply() + notification("dlock_1", "first"));
    peer.send(notification("dlock_1", "second"));
    peer.read_all();
  });
  PgConnection connection(context_, at(server));
  ask(connection);

  EXPECT_EQ(next_news(connection, std::chrono::seconds(5)).value().payload, "first");
  EXPECT_EQ(next_news(connection, std::chrono::seconds(5)).value().payload, "second");
  EXPECT_FALSE(next_news(connection, milliseconds(50)));
  EXPECT_TRUE(connection.is_open());
}

TEST_F(PgConnections, tell_a_listener_that_its_session_has_ended) {
  const PeerServer server(ending_with(greeting() + reply()));
  PgConnection connection(context_, at(server));
  ask(connection);

  EXPECT_THROW(next_news(connection, std::chrono::seconds(5)), Failure);
  EXPECT_FALSE(connection.is_open());
  EXPECT_THROW(next_news(connection, std::chrono::seconds(5)), Failure);
}

TEST_F(PgConnections, cancel_with_the_key_of_the_login_also_when_they_are_closed) {
  std::atomic<int> connections = 0;
  const PeerServer server([&connections](const Peer& peer) {
    if (++connections == 2) {
      peer.read_until("KEY!");
      return;
    }
    peer.read_until(sync);
    peer.send(greeting() + reply());
    peer.read_until(sync);
    peer.read_until(sync);  // until the client gives up
  });
  PgConnection connection(context_, at(server));
  ask(connection);
  EXPECT_NO_THROW(failure<net::Timeout>(connection, milliseconds(100)));

  result_of(context_, connection.cancel(wakeup_.within(std::chrono::seconds(5))));

  EXPECT_TRUE(server.received().ends_with(cancel_request(number(4711, 4) + "KEY!")));
}

TEST_F(PgConnections, are_interrupted_when_the_caller_wants_to_stop) {
  const PeerServer server([](const Peer& peer) { peer.read_all(); });
  PgConnection connection(context_, at(server));
  wakeup_.give_up(true);

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::interrupted);
}

TEST_F(PgConnections, name_a_product_that_is_not_postgresql) {
  const PeerServer server(ending_with(greeting("1.18.0/bouncer") + reply()));
  PgConnection connection(context_, at(server));

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::misconfigured);
}

TEST_F(PgConnections, take_no_reply_that_lacks_what_was_asked_for) {
  const auto call = wakeup_.within(std::chrono::seconds(60));
  const LockName lock{"dlock", "a"};
  const auto read = [&](PgRows& rows) -> asio::awaitable<void> {
    co_await rows.read(lock, stepped::StateStore::Access::optimistic, call);
  };
  const auto look_up = [&](PgRows& rows) -> asio::awaitable<void> {
    co_await value_store_of(rows)->get(lock, 100, wakeup_);
  };
  const auto list_overdue = [&](PgRows& rows) -> asio::awaitable<void> {
    co_await rows.overdue("dlock", call);
  };
  using Request = std::function<asio::awaitable<void>(PgRows&)>;
  const std::pair<Request, std::string> replies[] = {
      {read, ""},
      {read, row({})},
      {read, row({std::nullopt, std::nullopt})},
      {read, row({"1", "1", "{}", "[]", "0", std::nullopt, "f"})},
      {read, row({"1", "1", "{}", "[]", "0", "x", "f"})},
      {read, row({"1", "1", "{}", "[]", "0", "1700000000000000"})},
      {look_up, row({"1", "5"})},
      {look_up, row({"1", "5", "sum", "t"})},
      {list_overdue, row({})},
  };
  for (const auto& [request, reply] : replies) {
    const PeerServer server([text = reply](const Peer& peer) {
      peer.read_until(sync);
      peer.send(greeting() + trusted + accepted + text + done("SELECT 1") + ready() +
                accepted + row({"f", "00000001", "1", "4711", "off"}) + done("SELECT 1") +
                ready());
      peer.read_all();
    });
    auto hosts = std::make_shared<PgHosts>();
    hosts->targets = {at(server)};
    hosts->timeout = std::chrono::seconds(5);
    PgRows rows(context_, hosts);
    try {
      result_of(context_, request(rows));
      ADD_FAILURE() << "no failure";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
      EXPECT_EQ(std::string(failure.what()).find(shown(server)), 0u) << failure.what();
    }
  }
}

// What a server says of its standing.
std::string standing_reply(const Row& columns) {
  return accepted + row(columns) + done("SELECT 1") + ready();
}

// The reply to the read of a step.
const auto read_reply =
    accepted + row({"1", "1", R"({"format":1})", "[]", "0", "1700000000000000", "f"}) +
    done("SELECT 1") + ready();

// A server with which one step goes well: its replies to the read and to the write. Of
// the standing behind each, `standbys` are those that are connected.
std::pair<std::string, std::string> step_replies(const std::string& standbys_at_write) {
  const auto standing = [](const std::string& standbys) {
    return standing_reply({"f", "00000001", "1", "4711", "off", "s1", standbys});
  };
  const auto write = accepted + row({"on", "1"}) + done("SELECT 1") + accepted +
                     row({"1"}) + done("UPDATE 1") + ready() +
                     standing(standbys_at_write);
  return {greeting() + trusted + read_reply + standing("ss1"), write};
}

// Servers before version 14 do not report this default at the login.
TEST_F(PgConnections, count_a_refusal_for_a_role_that_is_read_only_by_default) {
  for (const std::string is_read_only : {"on", "off"}) {
    const PeerServer server([&](const Peer& peer) {
      peer.read_until(sync);
      peer.send(greeting() + trusted + read_reply +
                standing_reply({"f", "00000001", "1", "4711", is_read_only}));
      peer.read_all();
    });
    auto hosts = std::make_shared<PgHosts>();
    hosts->targets = {at(server)};
    hosts->timeout = std::chrono::seconds(5);
    PgRows rows(context_, hosts);
    const LockName lock{"dlock", "job"};
    const auto call = wakeup_.within(std::chrono::seconds(5));
    const auto read = [&]() -> asio::awaitable<void> {
      co_await rows.read(lock, stepped::StateStore::Access::optimistic, call);
      co_await rows.count_refused(lock, wakeup_);
    };
    result_of(context_, read());

    EXPECT_TRUE(eventually(context_, [&] {
      return server.received().find("SKIP LOCKED") != std::string::npos;
    }));
    const bool says_so = server.received().find("READ WRITE") != std::string::npos;
    EXPECT_EQ(says_so, is_read_only == "on");
  }
}

class PgStepReplies : public PgConnections {
 protected:
  std::unique_ptr<Store> store_at(const PeerServer& server) {
    auto hosts = std::make_shared<PgHosts>();
    hosts->targets = {at(server)};
    hosts->timeout = std::chrono::seconds(5);
    hosts->replicas.count = 1;
    return store_of(context_, "postgres:", std::make_unique<PgRows>(context_, hosts));
  }

  // Asks for the lock with --replicas 1. The server closes the connection after these.
  Answer ask(const std::string& read, const std::string& write) {
    const PeerServer server([&](const Peer& peer) {
      if (!peer.read_until(sync)) return;
      peer.send(read);
      if (!write.empty() && peer.read_until(sync)) peer.send(write);
    });
    const auto store = store_at(server);
    const auto claimant = store->claimant(claim_of("job"));
    return result_of(context_, claimant->ask(Queue::stay_out, wakeup_));
  }
};

TEST_F(PgStepReplies, that_end_after_any_byte_grant_nothing) {
  const auto [read, write] = step_replies("ss1");
  EXPECT_TRUE(std::holds_alternative<Grant>(ask(read, write)));

  for (std::size_t size = 0; size < read.size() + write.size(); ++size) {
    const auto first = read.substr(0, size);
    const auto second = size > read.size() ? write.substr(0, size - read.size()) : "";
    try {
      const auto answer = ask(first, second);
      ADD_FAILURE() << "granted after " << size << " bytes of " << read.size() << " and "
                    << write.size() << ": answer " << answer.index();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), Failure::Kind::unreachable) << size;
    }
  }
}

TEST_F(PgStepReplies, tell_that_a_standby_was_missing_at_the_commit) {
  const auto [read, write] = step_replies("");
  try {
    ask(read, write);
    ADD_FAILURE() << "granted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
    EXPECT_NE(std::string(failure.what()).find("--replicas 1"), std::string::npos);
  }
}

// 80 ms there and back are usual between continents, and a step takes two such trips.
TEST_F(PgStepReplies, that_take_long_are_awaited_by_a_claim_that_ends) {
  const auto [read, write] = step_replies("ss1");
  const PeerServer server([read = read, write = write](const Peer& peer) {
    peer.read_until(sync);
    peer.send(read);
    peer.read_until(sync);
    peer.send(write);
    peer.read_until(sync);
    std::this_thread::sleep_for(milliseconds(160));
    peer.send(read.substr(greeting().size() + trusted.size()));
    peer.read_all();
  });
  const auto store = store_at(server);
  const auto claimant = store->claimant(claim_of("job"));
  EXPECT_TRUE(std::holds_alternative<Grant>(
      result_of(context_, claimant->ask(Queue::stay_out, wakeup_))));
  wakeup_.give_up(true);

  EXPECT_NO_THROW(result_of(context_, claimant->release({}, wakeup_)));
}

class PgSteps : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<PostgresServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  // Holds the lock.
  PgSteps() {
    const auto hosts = hosts_of(parsed_store_url(server_->url()), milliseconds(5000));
    store_ = store_of(context_, "postgres:", std::make_unique<PgRows>(context_, hosts));
    holder_ = store_->claimant(claim_of("job"));
    EXPECT_TRUE(std::holds_alternative<Grant>(ask(*holder_, Queue::stay_out)));
  }
  ~PgSteps() override { result_of(context_, holder_->release({}, wakeup_)); }

  Answer ask(Claimant& claimant, Queue queue) {
    return result_of(context_, claimant.ask(queue, wakeup_));
  }
  std::string sql(const std::string& statement) {
    return server_->session().command(statement);
  }

  static inline std::unique_ptr<PostgresServer> server_;
  asio::io_context context_;
  Wakeup wakeup_{context_};
  std::unique_ptr<Store> store_;
  std::unique_ptr<Claimant> holder_;
};

TEST_F(PgSteps, a_refusal_does_not_wait_until_it_is_counted) {
  const auto refused = store_->claimant(claim_of("job"));
  ask(*refused, Queue::refuse);
  EXPECT_TRUE(
      eventually(context_, [&] { return sql("SELECT refused FROM dlock.lock") == "1"; }));
  auto other = server_->session();
  other.command("BEGIN; LOCK TABLE dlock.lock IN EXCLUSIVE MODE");
  const auto began = Clock::now();

  EXPECT_TRUE(std::holds_alternative<Busy>(ask(*refused, Queue::refuse)));

  EXPECT_LT(Clock::now() - began, milliseconds(150));
  other.command("ROLLBACK");
  EXPECT_TRUE(eventually(context_, [&] {
    ask(*refused, Queue::refuse);
    return sql("SELECT refused FROM dlock.lock") >= "2";
  }));
}

// Pieces that are thrown away while the value is stored.
TEST_F(PgSteps, a_value_is_stored_whole_or_not_at_all) {
  sql("CREATE TABLE gone AS SELECT 1 AS times; GRANT ALL ON gone TO app; "
      "CREATE FUNCTION sweep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "DELETE FROM gone WHERE ctid = (SELECT ctid FROM gone LIMIT 1); IF FOUND THEN "
      "DELETE FROM dlock.piece WHERE number = 0; END IF; RETURN NULL; END $$; "
      "CREATE TRIGGER sweep AFTER INSERT OR UPDATE OF data ON dlock.piece FOR EACH ROW "
      "WHEN (NEW.number = "
      "2) EXECUTE FUNCTION sweep()");
  const std::string bytes(700'000, 'x');
  const LockName lock{"dlock", "job"};
  auto* values = store_->values();
  const Lifetime lifetime{std::chrono::minutes(1), milliseconds(0)};

  EXPECT_EQ(result_of(context_, values->put(holder_->claim(), bytes, lifetime, wakeup_)),
            Storing::stored);
  const auto found = result_of(context_, values->get(lock, 1u << 20, wakeup_));
  EXPECT_EQ(found.value.value().bytes, bytes);

  sql("INSERT INTO gone SELECT generate_series(1, 20)");
  const std::string other(700'000, 'y');
  EXPECT_THROW(
      result_of(context_, values->put(holder_->claim(), other, lifetime, wakeup_)),
      Failure);
}

}  // namespace
}  // namespace dlock::postgres
