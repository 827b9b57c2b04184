// The connection to a Redis server, with servers that behave in all possible ways.

#include "store/redis/redis_connection.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "tests/contract/await.hpp"
#include "tests/contract/peer.hpp"
#include "tests/contract/redis_server.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace dlock::redis {
namespace {

using namespace std::string_literals;

// Answers every PING with PONG until the client disconnects.
void play_ping_pong(const Peer& peer) {
  while (peer.read_until(ping)) peer.send("+PONG\r\n");
}

void keep_silent(const Peer& peer) { peer.read_all(); }

// Sends this once it has such a request, and nothing more.
PeerServer::Talk answering(const std::string& bytes, const std::string& request = ping) {
  return [bytes, request](const Peer& peer) {
    peer.read_until(request);
    peer.send(bytes);
    peer.read_all();
  };
}

class RedisConnections : public ::testing::Test {
 protected:
  static Target at(const PeerServer& server, const std::string& host = "127.0.0.1") {
    Target target;
    target.host = host;
    target.port = server.port();
    return target;
  }

  static Target at(const RedisServer& server) {
    Target target;
    target.path = server.socket();
    return target;
  }

  std::vector<Reply> ask(RedisConnection& connection, std::vector<Command> commands,
                         milliseconds budget = std::chrono::seconds(5)) {
    return result_of(context_,
                     connection.exchange(std::move(commands), wakeup_.within(budget)));
  }

  std::string pong(RedisConnection& connection) {
    return ask(connection, {{"PING"}}).at(0).text;
  }

  // The failure of an exchange.
  Failure failure(RedisConnection& connection, std::vector<Command> commands = {{"PING"}},
                  milliseconds budget = std::chrono::seconds(5)) {
    try {
      ask(connection, std::move(commands), budget);
    } catch (const Failure& failure) {
      EXPECT_FALSE(connection.is_open());
      return failure;
    }
    ADD_FAILURE() << "no failure";
    return Failure(Failure::Kind::interrupted, "none");
  }

  static std::string shown(const PeerServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
  TemporaryDirectory directory_;
};

TEST_F(RedisConnections, carries_commands_and_replies) {
  const RedisServer server;
  RedisConnection connection(context_, at(server));
  const auto binary = "\0\r\n$\xFF"s;

  const auto replies =
      ask(connection, {{"SET", "key", binary}, {"GET", "key"}, {"NONSENSE"}});

  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[0].text, "OK");
  EXPECT_EQ(replies[1].text, binary);
  EXPECT_EQ(replies[2].error_code(), "ERR");
  EXPECT_TRUE(connection.is_open());
}

TEST_F(RedisConnections, carries_more_than_a_socket_holds_at_a_time) {
  const RedisServer server;
  RedisConnection connection(context_, at(server));
  const std::string large(4u << 20, 'x');

  const auto replies = ask(connection, {{"SET", "key", large}, {"GET", "key"}});

  EXPECT_TRUE(replies.at(1).text == large);
}

TEST_F(RedisConnections, is_opened_when_it_is_used_and_stays_open) {
  const PeerServer server(play_ping_pong);
  RedisConnection connection(context_, at(server));
  EXPECT_FALSE(connection.is_open());
  EXPECT_EQ(server.connections(), 0);

  pong(connection);
  pong(connection);

  EXPECT_EQ(server.connections(), 1);
}

TEST_F(RedisConnections, is_not_opened_again_for_a_request_to_a_checked_server) {
  // It closes each connection after one reply.
  const PeerServer server([](const Peer& peer) {
    if (peer.read_until(ping)) peer.send("+PONG\r\n");
  });
  RedisConnection connection(context_, at(server));
  const auto ask_again = [&] {
    result_of(context_, connection.exchange(alone({"PING"}),
                                            wakeup_.within(std::chrono::seconds(5)),
                                            RedisConnection::Reopening::refused));
  };
  pong(connection);

  EXPECT_THROW(ask_again(), Failure);
  EXPECT_THROW(ask_again(), Failure);

  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(pong(connection), "PONG");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(RedisConnections, works_over_ipv6) {
  std::unique_ptr<PeerServer> server;
  try {
    server = std::make_unique<PeerServer>(play_ping_pong, "::1");
  } catch (const std::runtime_error&) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  const auto target = at(*server, "::1");
  RedisConnection connection(context_, target);

  EXPECT_EQ(pong(connection), "PONG");
  EXPECT_EQ(target.shown(), "[::1]:" + std::to_string(server->port()));
}

TEST_F(RedisConnections, works_over_a_unix_socket_and_with_a_name_of_the_hosts_file) {
  const PeerServer at_socket(play_ping_pong, directory_.file("socket"));
  Target target;
  target.path = directory_.file("socket");
  RedisConnection to_socket(context_, target);
  const PeerServer server(play_ping_pong);
  RedisConnection by_name(context_, at(server, "localhost"));

  EXPECT_EQ(pong(to_socket), "PONG");
  EXPECT_EQ(pong(by_name), "PONG");
}

TEST_F(RedisConnections, reports_an_unknown_host_within_its_budget) {
  Target target;
  target.host = "no-such-host.invalid";
  RedisConnection connection(context_, target);
  const auto began = Clock::now();

  const auto failed = failure(connection, {{"PING"}}, milliseconds(1500));

  // Without a name server it cannot know, and its message says so.
  EXPECT_EQ(failed.kind(), Failure::Kind::unreachable);
  EXPECT_NE(std::string(failed.what()).find("no-such-host.invalid:6379"),
            std::string::npos);
  EXPECT_LT(Clock::now() - began, milliseconds(1800));
}

TEST_F(RedisConnections, reports_why_a_server_cannot_be_reached) {
  Target refused;
  refused.host = "127.0.0.1";
  refused.port = PeerServer(keep_silent).port();
  Target missing;
  missing.path = directory_.file("none");
  const std::pair<Target, std::string> targets[] = {
      {refused, refused.shown() + ": connection refused"},
      {missing, missing.path + ": no such file or directory"}};
  for (const auto& [target, why] : targets) {
    RedisConnection connection(context_, target);
    const auto failed = failure(connection);
    EXPECT_EQ(failed.kind(), Failure::Kind::unreachable);
    EXPECT_EQ(failed.what(), "cannot reach " + why);
  }
  Target too_long;
  too_long.path = "/" + std::string(200, 'x');
  RedisConnection connection(context_, too_long);
  EXPECT_EQ(failure(connection).kind(), Failure::Kind::misconfigured);
}

TEST_F(RedisConnections, ends_at_its_deadline_when_the_server_is_silent) {
  const PeerServer server(keep_silent);
  RedisConnection connection(context_, at(server));
  const auto began = Clock::now();

  const auto failed = failure(connection, {{"PING"}}, milliseconds(300));

  const auto took = Clock::now() - began;
  EXPECT_EQ(failed.kind(), Failure::Kind::unreachable);
  EXPECT_EQ(failed.what(), shown(server) + " did not reply within 300ms");
  EXPECT_GE(took, milliseconds(300));
  EXPECT_LT(took, milliseconds(400));
}

TEST_F(RedisConnections, ends_at_its_deadline_when_the_reply_arrives_byte_by_byte) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(ping);
    for (const char c : "$1000\r\n"s + std::string(100, 'x')) {
      if (!peer.send({&c, 1})) return;
      ::usleep(50'000);
    }
  });
  RedisConnection connection(context_, at(server));
  const auto began = Clock::now();

  failure(connection, {{"PING"}}, milliseconds(400));

  EXPECT_LT(Clock::now() - began, milliseconds(500));
}

TEST_F(RedisConnections, accepts_a_reply_in_pieces) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(ping);
    for (const char c : "$4\r\nPONG\r\n"s) {
      peer.send({&c, 1});
      ::usleep(5'000);
    }
    peer.read_all();
  });
  RedisConnection connection(context_, at(server));

  EXPECT_EQ(pong(connection), "PONG");
}

TEST_F(RedisConnections, fails_at_once_when_its_deadline_is_past) {
  const PeerServer server(play_ping_pong);
  RedisConnection connection(context_, at(server));

  EXPECT_EQ(failure(connection, {{"PING"}}, milliseconds(-1)).kind(),
            Failure::Kind::unreachable);
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(RedisConnections, refuses_another_protocol) {
  const PeerServer server(
      [](const Peer& peer) { peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"); });
  RedisConnection connection(context_, at(server));

  const auto failed = failure(connection);

  EXPECT_EQ(failed.kind(), Failure::Kind::unreachable);
  EXPECT_EQ(failed.what(), shown(server) +
                               " does not speak the Redis protocol: "
                               "got \"H\" as reply type byte; it looks like an HTTP "
                               "server");
}

TEST_F(RedisConnections, fails_when_a_reply_is_truncated) {
  for (const char* begun : {"", "$", "$4\r\n", "$4\r\nPO", "$4\r\nPONG\r"}) {
    const PeerServer server([begun](const Peer& peer) {
      peer.read_until(ping);
      peer.send(begun);
    });
    RedisConnection connection(context_, at(server));

    const auto failed = failure(connection);

    EXPECT_EQ(failed.kind(), Failure::Kind::unreachable) << begun;
    const bool has_replied = *begun != '\0';
    EXPECT_EQ(failed.what(),
              shown(server) + " closed the connection" +
                  (has_replied ? "" : "; does it require TLS (rediss://)?"))
        << begun;
  }
}

TEST_F(RedisConnections, reports_why_a_server_rejected_it) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(ping);
    peer.send("-ERR max number of clients reached\r\n");
  });
  RedisConnection connection(context_, at(server));

  const auto failed = failure(connection, {{"ECHO", "1"}, {"PING"}});

  EXPECT_EQ(failed.what(),
            "cannot reach " + shown(server) + ": ERR max number of clients reached");
}

TEST_F(RedisConnections, does_not_use_a_second_reply_for_the_next_request) {
  for (const char* answer : {"+PONG\r\n+LATE\r\n", "+PONG\r\n$4\r\nLA"}) {
    const PeerServer server(answering(answer));
    RedisConnection connection(context_, at(server));

    EXPECT_EQ(failure(connection).what(),
              shown(server) + " sent more replies than requested");
  }
}

TEST_F(RedisConnections, does_not_use_data_that_came_between_requests_as_a_reply) {
  std::atomic<bool> has_sent = false;
  const PeerServer server([&](const Peer& peer) {
    peer.read_until(ping);
    peer.send("+PONG\r\n");
    if (!has_sent) {
      ::usleep(20'000);
      peer.send("+LATE\r\n");
      has_sent = true;
    }
    play_ping_pong(peer);
  });
  RedisConnection connection(context_, at(server));
  pong(connection);
  ASSERT_TRUE(eventually(context_, [&] { return has_sent.load(); }));

  EXPECT_EQ(pong(connection), "PONG");
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(RedisConnections, is_opened_again_after_a_failure) {
  std::atomic<int> clients = 0;
  const PeerServer server([&](const Peer& peer) {
    if (++clients == 1) {
      keep_silent(peer);
    } else {
      play_ping_pong(peer);
    }
  });
  RedisConnection connection(context_, at(server));
  failure(connection, {{"PING"}}, milliseconds(50));

  EXPECT_EQ(pong(connection), "PONG");
}

TEST_F(RedisConnections, is_opened_again_when_the_server_closed_it_meanwhile) {
  std::atomic<int> closed = 0;
  const PeerServer server([&](const Peer& peer) {
    peer.read_until(ping);
    peer.send("+PONG\r\n");
    ::shutdown(peer.fd(), SHUT_RDWR);
    ++closed;
  });
  RedisConnection connection(context_, at(server));
  pong(connection);
  ASSERT_TRUE(eventually(context_, [&] { return closed == 1; }));

  EXPECT_EQ(pong(connection), "PONG");
}

TEST_F(RedisConnections, is_interrupted_at_once) {
  const PeerServer server(keep_silent);
  RedisConnection connection(context_, at(server));
  Task<std::vector<Reply>> task(context_,
                                connection.exchange({{"PING"}}, endless(wakeup_)));
  ASSERT_TRUE(eventually(context_, [&] { return server.received() == ping; }));
  const auto began = Clock::now();

  wakeup_.give_up(true);

  try {
    task.result();
    ADD_FAILURE() << "not given up";
  } catch (const Failure& failed) {
    EXPECT_EQ(failed.kind(), Failure::Kind::interrupted);
  }
  EXPECT_LT(Clock::now() - began, milliseconds(100));
  EXPECT_FALSE(connection.is_open());
}

TEST_F(RedisConnections, is_not_opened_when_the_caller_gives_up) {
  const PeerServer server(play_ping_pong);
  RedisConnection connection(context_, at(server));
  wakeup_.give_up(true);

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::interrupted);
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(RedisConnections, passes_on_notifications_meant_for_others) {
  std::atomic<bool> may_answer = false;
  const PeerServer server([&](const Peer& peer) {
    peer.read_until(ping);
    while (!may_answer) ::usleep(1000);
    peer.send("+PONG\r\n");
    peer.read_all();
  });
  RedisConnection connection(context_, at(server));
  Task<std::vector<Reply>> task(context_,
                                connection.exchange({{"PING"}}, endless(wakeup_)));
  ASSERT_TRUE(eventually(context_, [&] { return server.received() == ping; }));
  wakeup_.notify();
  context_.restart();
  context_.poll();
  may_answer = true;
  task.result();

  EXPECT_NO_THROW(result_of(context_, wakeup_.wait_until(Clock::time_point::max())));
}

TEST_F(RedisConnections, leaves_no_notification_of_its_own_behind) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(ping);
    ::usleep(10'000);
    peer.send("+PONG\r\n");
    peer.read_all();
  });
  RedisConnection connection(context_, at(server));
  pong(connection);

  const Task<Nothing> sleep(context_,
                            with_result(wakeup_.wait_until(Clock::time_point::max())));

  context_.restart();
  context_.poll();
  EXPECT_FALSE(sleep.is_done());
}

TEST_F(RedisConnections,
       is_not_used_again_once_it_was_abandoned_in_the_middle_of_a_request) {
  const PeerServer server([](const Peer& peer) {
    peer.read_until(ping);
    ::usleep(30'000);
    peer.send("+LATE\r\n");
    play_ping_pong(peer);
  });
  {
    asio::io_context context;
    Wakeup wakeup(context);
    RedisConnection connection(context, at(server));
    const Task<std::vector<Reply>> task(context,
                                        connection.exchange({{"PING"}}, endless(wakeup)));
    ASSERT_TRUE(eventually(context, [&] { return server.received() == ping; }));
  }
  EXPECT_TRUE(eventually(context_, [&] { return server.connections() == 1; }));
}

TEST_F(RedisConnections, sends_nothing_after_a_login_that_was_not_accepted) {
  const struct {
    const char* reply;
    Failure::Kind kind;
    const char* said;
  } replies[] = {
      {"-WRONGPASS invalid \x1b[2J pair\r\n", Failure::Kind::rejected,
       ": login refused: WRONGPASS invalid \\x1b[2J pair"},
      {"+PONG\r\n", Failure::Kind::unreachable, ""},
      // It may be tried again.
      {"-ERR max number of clients reached\r\n", Failure::Kind::unreachable, ""}};
  for (const auto& [reply, kind, said] : replies) {
    const PeerServer server(answering(reply, "secret\r\n"));
    auto target = at(server);
    target.login.user = "alice";
    target.login.password = "secret";
    RedisConnection connection(context_, target);

    const auto failed = failure(connection);

    EXPECT_EQ(failed.kind(), kind) << reply;
    EXPECT_NE(std::string(failed.what()).find(said), std::string::npos) << failed.what();
    EXPECT_EQ(server.received(), "*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\nsecret\r\n");
  }
}

TEST_F(RedisConnections, logs_in_and_selects_the_database_in_one_write) {
  const auto login =
      "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n"s;
  const PeerServer server([&](const Peer& peer) {
    peer.read_until(login);
    peer.send("+OK\r\n+OK\r\n");
    play_ping_pong(peer);
  });
  auto target = at(server);
  target.login.password = "secret";
  target.database = 5;
  RedisConnection connection(context_, target);

  EXPECT_EQ(pong(connection), "PONG");
  EXPECT_EQ(server.received(), login + ping);
}

TEST_F(RedisConnections, logs_in_as_a_user_of_the_acl) {
  const RedisServer server;
  ASSERT_EQ(server.command("ACL SETUSER alice on >secret ~* +@all"), "+OK\r\n");
  ASSERT_EQ(server.command("ACL SETUSER default off"), "+OK\r\n");
  auto target = at(server);
  RedisConnection stranger(context_, target);
  target.login.user = "alice";
  target.login.password = "secret";
  target.database = 3;
  RedisConnection alice(context_, target);
  target.login.password = "wrong";
  RedisConnection mallory(context_, target);

  EXPECT_EQ(ask(alice, {{"ACL", "WHOAMI"}}).at(0).text, "alice");
  EXPECT_NE(ask(alice, {{"CLIENT", "LIST"}}).at(0).text.find(" db=3 "),
            std::string::npos);
  EXPECT_EQ(ask(stranger, {{"PING"}}).at(0).error_code(), "NOAUTH");
  EXPECT_EQ(failure(mallory).kind(), Failure::Kind::rejected);
}

TEST_F(RedisConnections, reports_a_database_that_does_not_exist) {
  const RedisServer server;
  auto target = at(server);
  target.database = 99;
  RedisConnection connection(context_, target);

  const auto failed = failure(connection);

  EXPECT_EQ(failed.kind(), Failure::Kind::misconfigured);
  EXPECT_EQ(failed.what(),
            server.socket() + ": no database 99: ERR DB index is out of range");
}

TEST_F(RedisConnections, does_not_log_in_as_the_default_user_when_a_user_is_named) {
  const PeerServer server(play_ping_pong);
  auto target = at(server);
  target.login.user = "alice";
  RedisConnection connection(context_, target);

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::misconfigured);
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(RedisConnections, reads_the_password_file_at_each_login) {
  const RedisServer server;
  ASSERT_EQ(server.command("ACL SETUSER alice on >new ~* +@all"), "+OK\r\n");
  auto target = at(server);
  target.login.user = "alice";
  target.login.password = "not this one";
  target.login.password_file = directory_.file("password");
  RedisConnection connection(context_, target);
  const auto write = [&](const std::string& text) {
    std::ofstream(target.login.password_file) << text;
    ::chmod(target.login.password_file.c_str(), 0640);
  };

  write("old\n");
  EXPECT_EQ(failure(connection).kind(), Failure::Kind::rejected);
  write("new\n");
  EXPECT_EQ(pong(connection), "PONG");
}

TEST_F(RedisConnections, refuses_an_invalid_password_file) {
  const PeerServer server(play_ping_pong);
  auto target = at(server);
  target.login.password_file = directory_.file("password");
  RedisConnection connection(context_, target);
  const auto refusal = [&](const std::string& text, mode_t mode) {
    std::ofstream(target.login.password_file) << text;
    ::chmod(target.login.password_file.c_str(), mode);
    return failure(connection).kind();
  };

  EXPECT_EQ(failure(connection).kind(), Failure::Kind::misconfigured);
  EXPECT_EQ(refusal("secret\n", 0602), Failure::Kind::rejected);
  EXPECT_EQ(refusal("secret\nand a remark\n", 0600), Failure::Kind::misconfigured);
  EXPECT_EQ(refusal("\nsecret\n", 0600), Failure::Kind::misconfigured);
  EXPECT_EQ(refusal(std::string(1u << 20, 'x'), 0600), Failure::Kind::misconfigured);
  std::remove(target.login.password_file.c_str());
  ASSERT_EQ(::mkfifo(target.login.password_file.c_str(), 0600), 0);
  EXPECT_EQ(failure(connection).kind(), Failure::Kind::misconfigured);
  EXPECT_EQ(server.connections(), 0);
}

}  // namespace
}  // namespace dlock::redis
