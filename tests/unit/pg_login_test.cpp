// The login to a PostgreSQL server: what is sent to whom, and what proves the server.

#include "store/postgres/pg_login.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "store/postgres/pg_errors.hpp"
#include "tests/unit/pg_messages.hpp"

namespace dlock::postgres {
namespace {

using namespace std::string_literals;
using namespace pg_messages;

constexpr auto rejected = Failure::Kind::rejected;
constexpr auto misconfigured = Failure::Kind::misconfigured;
constexpr auto unreachable = Failure::Kind::unreachable;

// RFC 7677, 3.
const std::string server_first =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,"
    "i=4096";
const std::string server_final = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

Scram rfc_client() { return {"db", "n,,", "", "user", "rOprNGfwEbeRWgbNEkqO"}; }

template <typename Work>
Failure failure_of_work(Work work) {
  try {
    work();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "no failure";
  return Failure(Failure::Kind::interrupted, "");
}

TEST(PgScram, computes_the_example_of_the_standard) {
  auto client = rfc_client();
  SaltedPassword salted;

  EXPECT_EQ(client.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
  EXPECT_EQ(client.final_message(server_first, "pencil", salted),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  EXPECT_NO_THROW(client.check_server(server_final));
  EXPECT_EQ(salted.iterations, 4096u);
}

TEST(PgScram, derives_the_key_of_a_password_once) {
  SaltedPassword salted;
  rfc_client().final_message(server_first, "pencil", salted);
  salted.key[0] = static_cast<char>(salted.key[0] ^ 1);  // shows that it is used

  auto client = rfc_client();
  EXPECT_EQ(client.final_message(server_first, "pencil", salted).find("p=dHzb"),
            std::string::npos);

  auto other = rfc_client();
  other.final_message(server_first, "crayon", salted);
  EXPECT_EQ(salted.password, "crayon");
}

TEST(PgScram, refuses_first_messages_that_are_not_what_they_should_be) {
  const auto nonce = "rOprNGfwEbeRWgbNEkqO"s;
  const std::string all[] = {
      "",
      "r=" + nonce + ",s=QUJD,i=4096",            // does not continue ours
      "r=" + nonce.substr(1) + "xyz,s=QUJD,i=1",  // another one
      "r=x" + nonce + "x,s=QUJD,i=1",
      "s=QUJD,r=" + nonce + "x,i=4096",
      "m=ext,r=" + nonce + "x,s=QUJD,i=4096",
      "r=" + nonce + "x,s=QUJD",
      "r=" + nonce + "x,s=,i=4096",
      "r=" + nonce + "x,s=Q,i=4096",
      "r=" + nonce + "x,s=QUJ$,i=4096",
      "r=" + nonce + "x,s=QQ=a,i=4096",
      "r=" + nonce + "x,s=QUJD,i=",
      "r=" + nonce + "x,s=QUJD,i=0",
      "r=" + nonce + "x,s=QUJD,i=-1",
      "r=" + nonce + "x,s=QUJD,i=4096x",
      "r=" + nonce + "x,s=QUJD,i=99999999999",
      "r=" + nonce + "x,s=QUJD,i=200001",
      "r=" + nonce + "x,s=QUJD,i=4096,x=y",
      "e=other-error",
  };
  for (const auto& message : all) {
    SaltedPassword salted;
    const auto failure =
        failure_of_work([&] { rfc_client().final_message(message, "pencil", salted); });

    EXPECT_EQ(failure.kind(), unreachable) << message;
    EXPECT_EQ(salted.key, "") << message;
  }
}

TEST(PgScram, says_how_many_iterations_are_too_many) {
  SaltedPassword salted;
  const auto failure = failure_of_work([&] {
    rfc_client().final_message("r=rOprNGfwEbeRWgbNEkqOx,s=QUJD,i=10000000", "p", salted);
  });

  EXPECT_STREQ(failure.what(),
               "db: SCRAM login failed: the server demands 10000000 iterations; 200000 "
               "are the most allowed");
}

TEST(PgScram, believes_no_server_without_the_right_signature) {
  auto client = rfc_client();
  EXPECT_THROW(client.check_server(server_final), Failure) << "before anything was sent";
  SaltedPassword salted;
  client.final_message(server_first, "pencil", salted);
  const std::pair<std::string, Failure::Kind> all[] = {
      {"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", rejected},
      {"v=6rri", rejected},
      {"v=", unreachable},
      {"", unreachable},
      {"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", unreachable},
      {server_final + ",x=y", unreachable},
      {"e=invalid-proof", rejected},
  };
  for (const auto& [message, kind] : all) {
    const auto failure = failure_of_work([&] { client.check_server(message); });

    EXPECT_EQ(failure.kind(), kind) << message;
  }
}

TEST(PgScram, prepares_passwords_as_the_server_does) {
  EXPECT_EQ(prepared_password("pencil"), "pencil");
  EXPECT_EQ(prepared_password("a\xC2\xA0"
                              "b\xC2\xAD"
                              "c"),
            "a bc");                                   // a no-break space, a soft hyphen
  EXPECT_EQ(prepared_password("\xE2\x85\xA8"), "IX");  // one character
  EXPECT_EQ(prepared_password("e\xCC\x81"), "\xC3\xA9");  // composed
  EXPECT_EQ(prepared_password("\xFF\xFE"), "\xFF\xFE");   // no UTF-8
  EXPECT_EQ(prepared_password("\xE2\x85\xA8\xC2\x85"), "\xE2\x85\xA8\xC2\x85");
  EXPECT_EQ(prepared_password("\xC2\xAD"), "\xC2\xAD");  // nothing would be left
  EXPECT_EQ(prepared_password("\xE2\x85\xA8\xD7\x90"), "\xE2\x85\xA8\xD7\x90");
}

// The server's side of SCRAM.
class ScramServer {
 public:
  explicit ScramServer(std::string password) : password_(std::move(password)) {}

  // The answer to the client's first message.
  std::string first(const std::string& from_client) {
    const auto bare = from_client.find("n=,");
    header_ = from_client.substr(0, bare);
    client_first_ = from_client.substr(bare);
    first_ =
        "r=" + client_first_.substr(client_first_.find("r=") + 2) + "server,s=QUJD,i=10";
    return first_;
  }

  // The answer to the client's last message.
  std::string last(const std::string& from_client) const {
    std::string key(32, '\0');
    PKCS5_PBKDF2_HMAC(password_.data(), static_cast<int>(password_.size()),
                      bytes("ABC").data(), 3, 10, EVP_sha256(), 32, data(key));
    const auto all = client_first_ + "," + first_ + "," +
                     from_client.substr(0, from_client.find(",p="));
    const auto signature = code(code(key, "Server Key"), all);
    std::string text(45, '\0');
    EVP_EncodeBlock(data(text), bytes(signature).data(), 32);
    text.pop_back();
    return "v=" + text;
  }

  const std::string& header() const { return header_; }

 private:
  static unsigned char* data(std::string& text) {
    return static_cast<unsigned char*>(static_cast<void*>(text.data()));
  }
  static std::vector<unsigned char> bytes(const std::string& text) {
    return {text.begin(), text.end()};
  }
  static std::string code(const std::string& key, const std::string& text) {
    std::string result(32, '\0');
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes(text).data(),
         text.size(), data(result), nullptr);
    return result;
  }

  std::string password_;
  std::string header_;
  std::string client_first_;
  std::string first_;
};

LoginChannel plain_text() {
  LoginChannel channel;
  channel.distrust = [] { return "not encrypted"; };
  return channel;
}
LoginChannel socket_channel() {
  LoginChannel channel;
  channel.is_trusted = true;
  channel.distrust = [] { return ""; };
  return channel;
}
LoginChannel tls(const std::string& distrust = "self-signed certificate") {
  LoginChannel channel;
  channel.is_encrypted = true;
  channel.binding = "BINDING";
  channel.distrust = [distrust] { return distrust; };
  return channel;
}
// sslmode=require with such a certificate.
LoginChannel demanding(const std::string& distrust = "self-signed certificate") {
  auto channel = tls(distrust);
  channel.needs_proof = true;
  return channel;
}

class PgLogins : public ::testing::Test {
 protected:
  PgLogin login(LoginChannel channel, std::optional<std::string> password = "secret") {
    target_.user = "me";
    return {"db", target_, std::move(password), std::move(channel), salted_};
  }

  // The answer to a request.
  static PgLogin::Answer answer(PgLogin& login, std::size_t kind,
                                const std::string& data = "") {
    return login.answer(number(kind, 4) + data);
  }

  static Failure refusal(PgLogin login, std::size_t kind, const std::string& data = "") {
    return failure_of_work([&] { answer(login, kind, data); });
  }

  // Logs in with SCRAM; returns how the client began.
  std::string log_in(PgLogin& login, const std::string& mechanisms) {
    ScramServer server("secret");
    const auto begun = answer(login, 10, mechanisms).bytes;
    const auto name_end = begun.find('\0', 5);
    mechanism_ = begun.substr(5, name_end - 5);
    const auto first = server.first(begun.substr(name_end + 5));
    const auto last = answer(login, 11, first);
    EXPECT_TRUE(last.is_last);
    answer(login, 12, server.last(last.bytes.substr(5)));
    answer(login, 0);
    return server.header();
  }

  const std::string plain_ = "SCRAM-SHA-256\0\0"s;
  const std::string both_ = "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s;
  PgTarget target_;
  SaltedPassword salted_;
  std::string mechanism_;
};

TEST_F(PgLogins, without_a_password_end_when_the_server_accepts) {
  auto trusted = login(plain_text(), std::nullopt);

  EXPECT_EQ(answer(trusted, 0).bytes, "");

  EXPECT_TRUE(trusted.is_done());
  EXPECT_FALSE(trusted.is_bound());
  EXPECT_EQ(trusted.method(), "trust");
}

TEST_F(PgLogins, send_a_digest_of_the_password_for_md5) {
  auto with_md5 = login(plain_text());

  const auto sent = answer(with_md5, 5, "SALT");

  EXPECT_EQ(sent.bytes, message('p', "md5c5382e6255ab774c0918ad24694c8a64\0"s));
  EXPECT_TRUE(sent.is_last);
  answer(with_md5, 0);
  EXPECT_EQ(with_md5.method(), "md5");
}

TEST_F(PgLogins, send_the_password_itself_only_where_no_other_can_read_it) {
  for (auto& channel : {socket_channel(), tls("")}) {
    auto open = login(channel);
    EXPECT_EQ(answer(open, 3).bytes, message('p', "secret\0"s));
  }
  for (auto& channel : {plain_text(), tls()}) {
    EXPECT_EQ(refusal(login(channel), 3).kind(), rejected);
  }
}

TEST_F(PgLogins, bind_scram_to_the_channel_if_both_can) {
  auto bound = login(demanding());
  EXPECT_EQ(log_in(bound, both_), "p=tls-server-end-point,,");
  EXPECT_EQ(mechanism_, "SCRAM-SHA-256-PLUS");
  EXPECT_TRUE(bound.is_bound());
  EXPECT_EQ(bound.method(), "scram-sha-256-plus");

  // This tells a server that could bind that its offer was removed on the way.
  auto unbound = login(tls());
  EXPECT_EQ(log_in(unbound, plain_), "y,,");
  EXPECT_FALSE(unbound.is_bound());

  auto over_plain_text = login(plain_text());
  EXPECT_EQ(log_in(over_plain_text, plain_), "n,,");

  // Certificates with Ed25519 have no binding.
  auto without_binding = tls();
  without_binding.binding.clear();
  auto other = login(without_binding);
  EXPECT_EQ(log_in(other, both_), "n,,");

  target_.channel_binding = ChannelBinding::disable;
  auto disabled = login(tls());
  EXPECT_EQ(log_in(disabled, both_), "n,,");
  EXPECT_EQ(mechanism_, "SCRAM-SHA-256");
}

TEST_F(PgLogins, demand_channel_binding_before_they_send_anything) {
  target_.channel_binding = ChannelBinding::require;

  EXPECT_EQ(refusal(login(tls("")), 10, plain_).kind(), rejected);
  EXPECT_EQ(refusal(login(plain_text()), 10, both_).kind(), rejected);
  EXPECT_EQ(refusal(login(socket_channel()), 5, "SALT").kind(), rejected);
  EXPECT_EQ(refusal(login(socket_channel()), 3).kind(), rejected);
  EXPECT_EQ(refusal(login(tls("")), 0).kind(), rejected);
  auto bound = login(tls());
  log_in(bound, both_);
  EXPECT_TRUE(bound.is_done());
}

TEST_F(PgLogins, demand_a_proof_of_the_server_before_they_send_anything) {
  EXPECT_EQ(refusal(login(demanding()), 10, plain_).kind(), rejected);
  EXPECT_EQ(refusal(login(demanding()), 5, "SALT").kind(), rejected);
  EXPECT_EQ(refusal(login(demanding()), 3).kind(), rejected);
  const auto failure = refusal(login(demanding()), 0);
  EXPECT_EQ(failure.kind(), rejected);
  EXPECT_NE(std::string(failure.what()).find("self-signed certificate"),
            std::string::npos);

  auto trusted = login(demanding(""));
  EXPECT_NO_THROW(answer(trusted, 0));
}

TEST_F(PgLogins, do_not_verify_a_certificate_that_nothing_depends_on) {
  auto channel = demanding();
  channel.distrust = []() -> std::string {
    ADD_FAILURE() << "verified";
    return "";
  };
  auto bound = login(channel);
  log_in(bound, both_);
  channel.needs_proof = false;
  auto unbound = login(channel);
  log_in(unbound, plain_);
}

TEST_F(PgLogins, believe_no_acceptance_before_the_server_has_proven_itself) {
  ScramServer server("secret");
  auto begun = login(plain_text());
  const auto first = answer(begun, 10, plain_).bytes;
  EXPECT_THROW(answer(begun, 0), Failure);

  const auto from_server = server.first(first.substr(first.find('\0', 5) + 5));
  answer(begun, 11, from_server);
  EXPECT_THROW(answer(begun, 0), Failure);
  EXPECT_FALSE(begun.is_done());
}

TEST_F(PgLogins, believe_no_server_that_knows_another_password) {
  ScramServer server("other");
  auto begun = login(plain_text());
  const auto first = answer(begun, 10, plain_).bytes;
  const auto from_server = server.first(first.substr(first.find('\0', 5) + 5));
  const auto last = answer(begun, 11, from_server).bytes;

  const auto failure = refusal(begun, 12, server.last(last.substr(5)));

  EXPECT_EQ(failure.kind(), rejected);
}

TEST_F(PgLogins, say_what_they_lack) {
  EXPECT_STREQ(refusal(login(plain_text(), std::nullopt), 10, plain_).what(),
               "db: password required: use --password-file, DLOCK_PASSWORD or ~/.pgpass");
  EXPECT_EQ(refusal(login(plain_text(), ""), 5, "SALT").kind(), rejected);
  for (const std::size_t method : {2, 7, 9}) {
    EXPECT_EQ(refusal(login(plain_text()), method).kind(), misconfigured);
  }
  EXPECT_EQ(refusal(login(plain_text()), 10, "OAUTHBEARER\0\0"s).kind(), misconfigured);
}

TEST_F(PgLogins, take_no_requests_that_make_no_sense) {
  EXPECT_EQ(failure_of_work([&] { login(plain_text()).answer(""); }).kind(), unreachable);
  EXPECT_EQ(failure_of_work([&] { login(plain_text()).answer("\0\0"s); }).kind(),
            unreachable);
  EXPECT_EQ(refusal(login(plain_text()), 4711).kind(), unreachable);
  EXPECT_EQ(refusal(login(plain_text()), 5, "SAL").kind(), unreachable);
  EXPECT_EQ(refusal(login(plain_text()), 11, server_first).kind(), unreachable);
  EXPECT_EQ(refusal(login(plain_text()), 12, server_final).kind(), unreachable);
  auto twice = login(plain_text());
  answer(twice, 5, "SALT");
  EXPECT_EQ(refusal(twice, 5, "SALT").kind(), unreachable);
  EXPECT_EQ(refusal(twice, 10, plain_).kind(), unreachable);
  auto done = login(plain_text());
  answer(done, 0);
  EXPECT_EQ(refusal(done, 0).kind(), unreachable);
}

TEST(PgErrors, mean_what_their_code_says) {
  const std::pair<std::string, Failure::Kind> all[] = {
      {"28P01", rejected},      {"28000", rejected},      {"42501", rejected},
      {"3D000", misconfigured}, {"0A000", misconfigured}, {"22P05", misconfigured},
      {"42P01", misconfigured}, {"53300", unreachable},   {"57P01", unreachable},
      {"25006", unreachable},   {"55P03", unreachable},   {"25P03", unreachable},
      {"53100", unreachable},   {"08006", unreachable},   {"40001", unreachable},
      {"57014", unreachable},   {"XX000", unreachable},   {"", unreachable},
  };
  for (const auto& [code, kind] : all) EXPECT_EQ(kind_of_error(code), kind) << code;
}

TEST(PgErrors, of_poolers_mean_what_their_text_says) {
  const std::pair<std::string, Failure::Kind> all[] = {
      {"no such database: nope", misconfigured},
      {"database \"nope\" does not exist", misconfigured},
      {"unsupported startup parameter: options", misconfigured},
      {"no such user: me", rejected},
      {"\"trust\" authentication failed", rejected},
      {"SASL authentication failed", rejected},
      {"role \"nope\" does not exist", rejected},
      {"server login has been failing, cached error: role \"nope\" does not exist "
       "(server_login_retry)",
       rejected},
      {"role \"me\" is not permitted to log in", rejected},
      {"server login failed: wrong password type", rejected},
      {"no pg_hba.conf entry for host \"::1\", user \"me\"", rejected},
      {"login rejected", rejected},
      {"SSL required", rejected},
      {"not allowed", rejected},
      {"permission denied for database \"app\"", rejected},
      {"bouncer config error", misconfigured},
      {"unsupported options startup parameter: only '-c config=val'", misconfigured},
      {"No pool configured for database: \"app\", user: \"me\"", misconfigured},
      {"query_wait_timeout", unreachable},
      {"too many connections for role \"me\"", unreachable},
      {"the database system is starting up", unreachable},
  };
  for (const auto& [text, kind] : all) {
    const auto error = session_error({"FATAL", "08P01", text});
    EXPECT_EQ(kind_of_error(error.code), kind) << text;
  }
  for (const char* text :
       {"no more connections allowed (x)", "too many connections for role \"me\"",
        "sorry, too many clients already",
        "client connections exceeded (max_db_client_connections)"}) {
    const auto full = session_error({"FATAL", "08P01", text});
    EXPECT_EQ(refusal_of(full), net::Refusal::Reason::overloaded) << text;
  }
  const auto down = session_error({"FATAL", "08P01", "database \"app\" is disabled"});
  EXPECT_EQ(refusal_of(down), net::Refusal::Reason::absent);
  const auto unknown = session_error({"FATAL", "XX000", "Tenant or user not found"});
  EXPECT_EQ(kind_of_error(unknown.code), rejected);
  EXPECT_EQ(session_error({"FATAL", "58000", "Pool down for x"}).code, "57P03");
  EXPECT_EQ(session_error({"FATAL", "XX000", "no such database"}).code, "XX000");
}

TEST(PgErrors, say_where_options_that_are_refused_come_from) {
  const std::pair<const char*, const char*> all[] = {
      {"08P01", "unsupported startup parameter: options"},
      {"42601", "invalid command-line argument for server process: x"},
      {"42704", "unrecognized configuration parameter \"x\""},
      {"22023", "invalid value for parameter \"DateStyle\": \"x\""},
      {"42501", "permission denied to set role \"postgres\""},
      {"42501", "permission denied to set parameter \"log_statement\""},
  };
  for (const auto& [code, text] : all) {
    const auto told = session_error({"FATAL", code, text});
    EXPECT_NE(error_text(told, "db").find(" in the store URL, or PGOPTIONS"),
              std::string::npos)
        << text;
    EXPECT_NE(told.code, "42501") << text;  // it is not about the schema
  }
}

TEST(PgErrors, are_told_in_one_printable_line) {
  const Notice error{"ERROR", "XX000", "Some\ntext\x1B[1m" + std::string(1000, 'x')};

  const SqlError failure(error, "db");

  const std::string text = failure.what();
  EXPECT_EQ(text.substr(0, 22), "db: some\\ntext\\x1b[1mx");
  EXPECT_LT(text.size(), 220u);
}

// What check_product() says of a server that reports these parameters.
std::string verdict_on(const std::vector<std::pair<std::string, std::string>>& reported) {
  PgServerFacts session;
  for (const auto& [name, value] : reported) session.take(name, value);
  PgTarget target;
  target.host = "db";
  target.database = "pgbouncer";
  try {
    check_product(session, target);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), misconfigured);
    return failure.what();
  }
  return "";
}

TEST(PgProducts, that_are_not_postgresql_are_named) {
  EXPECT_EQ(verdict_on({{"server_version", "15.18 (Debian 15.18-0+deb12u1)"}}), "");
  EXPECT_EQ(verdict_on({{"server_version", "12beta1"}}), "");
  EXPECT_EQ(verdict_on({{"server_version", "13.0.0"}, {"crdb_version", "v22"}}),
            "db:5432 is CockroachDB; dlock needs PostgreSQL");
  EXPECT_EQ(verdict_on({{"server_version", "8.0.2"}}),
            "db:5432 is Amazon Redshift; dlock needs PostgreSQL");
  EXPECT_EQ(verdict_on({{"server_version", "1.18.0/bouncer"}}),
            "db:5432 is PgBouncer, and the database 'pgbouncer' is its console: name one "
            "of the databases that it serves");
  EXPECT_EQ(verdict_on({{"server_version", "9.6.24"}}),
            "db:5432 is PostgreSQL 9.6.24; dlock needs version 12 or later");
  EXPECT_EQ(verdict_on({}), "db:5432 is not PostgreSQL: it reports no version");
}

TEST(PgProducts, keep_a_bounded_amount_of_what_a_server_reports) {
  PgServerFacts session;
  for (int i = 0; i < 1000; ++i) {
    session.take(std::to_string(i) + std::string(1000, 'x'), std::string(1000, 'y'));
  }
  session.take("in_hot_standby", "on");

  EXPECT_EQ(session.in_hot_standby, true);
  EXPECT_LE(session.parameters.size(), 64u);
  EXPECT_LE(session.parameters.begin()->first.size(), 200u);
  EXPECT_LE(session.parameters.begin()->second.size(), 200u);
}

}  // namespace
}  // namespace dlock::postgres
