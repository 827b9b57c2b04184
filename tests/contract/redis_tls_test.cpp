// TLS to a Redis server: whom the client trusts, and that it sends nothing before that.

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>

#include "store/redis/redis_connection.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/certificates.hpp"
#include "tests/contract/peer.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace dlock::redis {
namespace {

using namespace std::string_literals;

const std::string login = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";

// A server with a certificate that accepts every client with the password.
class TlsServer {
 public:
  struct Plan {
    const Certificate& certificate;
    std::string address = "127.0.0.1";
    std::string clients_ca = "";  // a file; empty: clients need no certificate
    int newest = 0;               // protocol version; 0: any
  };

  explicit TlsServer(const Plan& plan)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
        server_([this](const Peer& peer) { talk(peer); }, plan.address) {
    SSL_CTX_set_security_level(context_.get(), 0);
    plan.certificate.use_in(context_.get());
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), plan.newest);
    if (!plan.clients_ca.empty()) {
      SSL_CTX_load_verify_locations(context_.get(), plan.clients_ca.c_str(), nullptr);
      SSL_CTX_set_verify(context_.get(),
                         SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
  }

  std::uint16_t port() const { return server_.port(); }
  bool has_read_anything() const { return has_read_anything_; }
  std::string name_asked_for() const { return name_asked_for_; }

 private:
  void talk(const Peer& peer) {
    const std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(session.get(), peer.fd());
    if (SSL_accept(session.get()) != 1) {
      // To close a socket with unread data would reset the connection, and the client
      // might lose what it was sent.
      ::shutdown(peer.fd(), SHUT_WR);
      peer.read_all();
      return;
    }
    const char* name = SSL_get_servername(session.get(), TLSEXT_NAMETYPE_host_name);
    if (name != nullptr) name_asked_for_ = name;
    std::string text;
    char bytes[4096];
    for (;;) {
      const int size = SSL_read(session.get(), bytes, sizeof bytes);
      if (size <= 0) return;
      has_read_anything_ = true;
      text.append(bytes, static_cast<std::size_t>(size));
      if (text == login || text == login + ping) {
        SSL_write(session.get(), text == login ? "+OK\r\n" : "+PONG\r\n",
                  text == login ? 5 : 7);
      }
    }
  }

  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::atomic<bool> has_read_anything_ = false;
  std::string name_asked_for_;  // written before the first reply
  PeerServer server_;           // last, because its thread uses the others
};

class RedisTls : public ::testing::Test {
 protected:
  RedisTls() { authority_.write(ca_file(), ""); }

  std::string ca_file() const { return directory_.file("ca.pem"); }

  Certificate issued(const std::string& alternative_names, long until = 3600,
                     long from = -3600) const {
    return Certificate({"localhost", alternative_names, false, from, until}, &authority_);
  }

  Target at(std::uint16_t port, const std::string& host = "localhost") const {
    Target target;
    target.host = host;
    target.port = port;
    target.tls.emplace().ca = ca_file();
    target.login.password = "secret";
    return target;
  }

  std::string pong(const Target& target) {
    RedisConnection connection(context_, target);
    return result_of(context_, connection.exchange(
                                   {{"PING"}}, wakeup_.within(std::chrono::seconds(5))))
        .at(0)
        .text;
  }

  Failure failure(const Target& target) {
    try {
      pong(target);
    } catch (const Failure& failure) {
      return failure;
    }
    ADD_FAILURE() << "no failure";
    return Failure(Failure::Kind::interrupted, "none");
  }

  // Asserts that the client rejects this certificate with this reason and sends nothing.
  void expect_distrust(const Certificate& certificate, const std::string& why,
                       const std::string& host = "localhost") {
    const TlsServer server({certificate});
    const auto failed = failure(at(server.port(), host));
    EXPECT_EQ(failed.kind(), Failure::Kind::rejected);
    EXPECT_EQ(std::string(failed.what())
                  .find(host + ":" + std::to_string(server.port()) +
                        ": certificate not trusted: "),
              0u)
        << failed.what();
    EXPECT_NE(std::string(failed.what()).find(why), std::string::npos) << failed.what();
    EXPECT_FALSE(server.has_read_anything());
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
  TemporaryDirectory directory_;
  Certificate authority_{{"authority", "", true}, nullptr};
};

TEST_F(RedisTls, trusts_a_server_with_the_configured_name_whatever_its_address) {
  const auto certificate = issued("DNS:db.example.org");
  const TlsServer server({certificate});
  auto target = at(server.port(), "127.0.0.1");
  target.tls->name = "db.example.org";

  EXPECT_EQ(pong(target), "PONG");
  EXPECT_EQ(server.name_asked_for(), "db.example.org");
}

TEST_F(RedisTls, does_not_trust_a_server_with_its_host_name_but_not_the_configured_name) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate});
  auto target = at(server.port());
  target.tls->name = "db.example.org";

  EXPECT_EQ(failure(target).kind(), Failure::Kind::rejected);
  EXPECT_FALSE(server.has_read_anything());
}

TEST_F(RedisTls, trusts_a_server_with_a_certificate_of_the_authority) {
  const auto certificate = issued("DNS:other,DNS:localhost");
  const TlsServer server({certificate});

  EXPECT_EQ(pong(at(server.port())), "PONG");
  EXPECT_EQ(server.name_asked_for(), "localhost");
}

TEST_F(RedisTls, trusts_a_server_by_its_address) {
  const auto certificate = issued("IP:127.0.0.1");
  const TlsServer server({certificate});

  EXPECT_EQ(pong(at(server.port(), "127.0.0.1")), "PONG");
  EXPECT_EQ(server.name_asked_for(), "");
}

TEST_F(RedisTls, speaks_version_1_2) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate, "127.0.0.1", "", TLS1_2_VERSION});

  EXPECT_EQ(pong(at(server.port())), "PONG");
}

TEST_F(RedisTls, does_not_speak_version_1_1) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate, "127.0.0.1", "", TLS1_1_VERSION});

  EXPECT_EQ(failure(at(server.port())).kind(), Failure::Kind::unreachable);
  EXPECT_FALSE(server.has_read_anything());
}

TEST_F(RedisTls, distrusts_another_authority) {
  const Certificate other({"authority", "", true}, nullptr);
  expect_distrust(Certificate({"localhost", "DNS:localhost"}, &other), "");
}

TEST_F(RedisTls, distrusts_a_self_signed_certificate) {
  expect_distrust(Certificate({"localhost", "DNS:localhost"}, nullptr), "self");
}

TEST_F(RedisTls, distrusts_an_expired_certificate) {
  expect_distrust(issued("DNS:localhost", -60), "certificate has expired");
}

TEST_F(RedisTls, distrusts_a_certificate_that_is_not_valid_yet) {
  expect_distrust(issued("DNS:localhost", 3600, 600), "certificate is not yet valid");
}

TEST_F(RedisTls, distrusts_the_certificate_of_another_host) {
  expect_distrust(issued("DNS:other.example"), "ostname mismatch");
  expect_distrust(issued("DNS:localhost"), "IP address mismatch", "127.0.0.1");
  expect_distrust(issued("DNS:127.0.0.1"), "IP address mismatch", "127.0.0.1");
}

TEST_F(RedisTls, distrusts_a_name_that_is_only_in_the_subject) {
  expect_distrust(issued(""), "ostname mismatch");
}

TEST_F(RedisTls, distrusts_a_wildcard_for_part_of_a_label) {
  expect_distrust(issued("DNS:local*"), "ostname mismatch");
}

TEST_F(RedisTls, distrusts_an_unknown_authority_when_none_is_configured) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate});
  auto target = at(server.port());
  target.tls->ca = "";

  EXPECT_EQ(failure(target).kind(), Failure::Kind::rejected);
  EXPECT_FALSE(server.has_read_anything());
}

TEST_F(RedisTls, trusts_any_server_if_insecure) {
  const Certificate certificate({"other", "DNS:other", false, -7200, -3600}, nullptr);
  const TlsServer server({certificate});
  auto target = at(server.port());
  target.tls->insecure = true;

  EXPECT_EQ(pong(target), "PONG");
}

TEST_F(RedisTls, presents_its_own_certificate_to_a_server_that_requires_one) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate, "127.0.0.1", ca_file()});
  auto target = at(server.port());
  target.tls->certificate = directory_.file("client.pem");
  target.tls->key = directory_.file("client.key");
  issued("").write(target.tls->certificate, target.tls->key);

  EXPECT_EQ(pong(target), "PONG");
}

TEST_F(RedisTls, is_rejected_when_the_server_does_not_accept_its_certificate) {
  const auto certificate = issued("DNS:localhost");
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const TlsServer server({certificate, "127.0.0.1", ca_file(), version});
    auto target = at(server.port());
    target.tls->certificate = directory_.file("client.pem");
    target.tls->key = directory_.file("client.key");
    Certificate({"stranger", ""}, nullptr)
        .write(target.tls->certificate, target.tls->key);

    EXPECT_EQ(failure(target).kind(), Failure::Kind::rejected) << version;
    EXPECT_FALSE(server.has_read_anything());
  }
}

TEST_F(RedisTls, refuses_missing_files) {
  const auto certificate = issued("DNS:localhost");
  const TlsServer server({certificate});
  auto target = at(server.port());
  target.tls->certificate = directory_.file("none.pem");
  const auto without_certificate = failure(target);
  target.tls->ca = directory_.file("none.pem");
  const auto without_ca = failure(target);

  EXPECT_EQ(without_certificate.kind(), Failure::Kind::misconfigured);
  EXPECT_EQ(without_certificate.what(), "cannot use the certificate " +
                                            directory_.file("none.pem") +
                                            ": No such file or directory");
  EXPECT_EQ(without_ca.kind(), Failure::Kind::misconfigured);
}

TEST_F(RedisTls, refuses_a_server_without_tls) {
  const PeerServer server([](const Peer& peer) {
    peer.send("-ERR Protocol error: unauthenticated\r\n");
    peer.read_all();
  });
  const auto target = at(server.port());

  EXPECT_EQ(failure(target).kind(), Failure::Kind::unreachable);
  EXPECT_EQ(server.received().find("AUTH"), std::string::npos);
  EXPECT_EQ(server.received().find("secret"), std::string::npos);
}

TEST_F(RedisTls, fails_when_the_server_closes_during_the_handshake) {
  const PeerServer server([](const Peer&) {});

  EXPECT_EQ(failure(at(server.port())).kind(), Failure::Kind::unreachable);
}

TEST_F(RedisTls, ends_at_its_deadline_when_the_server_is_silent) {
  const PeerServer server([](const Peer& peer) { peer.read_all(); });
  RedisConnection connection(context_, at(server.port()));
  const auto began = Clock::now();

  EXPECT_THROW(result_of(context_, connection.open(wakeup_.within(milliseconds(200)))),
               Failure);

  EXPECT_LT(Clock::now() - began, milliseconds(300));
}

}  // namespace
}  // namespace dlock::redis
