#include "store/postgres/pg_login.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "store/postgres/pg_wire.hpp"
#include "store/url_advice.hpp"
#include "util/bits.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

constexpr std::size_t number_size = 4;

// What an authentication request begins with.
enum Request : std::uint32_t {
  ok = 0,
  kerberos = 2,
  cleartext = 3,
  md5 = 5,
  gss = 7,
  gss_continue = 8,
  sspi = 9,
  sasl = 10,
  sasl_continue = 11,
  sasl_final = 12,
};

// A password, or an answer of MD5: text that ends with a NUL.
std::string password_message(const std::string& text) {
  return encoded_message('p', text + '\0');
}

std::string big_endian(std::size_t size) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(size >> shift));
  }
  return bytes;
}

// Empty if OpenSSL does not have MD5.
std::string md5_answer(const std::string& user, const std::string& password,
                       std::string_view salt) {
  const auto hex_digest = [](const std::string& text) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    const bool is_done =
        EVP_Digest(text.data(), text.size(), digest, &size, EVP_md5(), nullptr) == 1;
    return is_done ? hex(digest, size) : "";
  };
  const auto inner = hex_digest(password + user);
  return inner.empty() ? inner : "md5" + hex_digest(inner + std::string(salt));
}

constexpr std::string_view plain_scram = "SCRAM-SHA-256";
constexpr std::string_view bound_scram = "SCRAM-SHA-256-PLUS";

}  // namespace

void PgServerFacts::take(const std::string& name, const std::string& value) {
  constexpr std::size_t most = 64;
  constexpr std::size_t longest = 200;
  if (name == "server_version") server_version = printable(value, longest);
  if (name == "in_hot_standby") in_hot_standby = value == "on";
  const auto key = name.substr(0, longest);
  const bool has_room = parameters.size() < most || parameters.count(key) != 0;
  if (has_room) parameters[key] = value.substr(0, longest);
}

unsigned major_version(std::string_view reported) {
  return take_number<unsigned>(reported).value_or(0);
}

std::vector<std::pair<std::string, std::string>> startup_parameters(
    const PgTarget& target) {
  std::vector<std::pair<std::string, std::string>> parameters{
      {"user", target.user},
      {"database", target.database},
      {"client_encoding", "UTF8"},
      {"application_name", application_name_from(target.application_name)}};
  if (!target.options.empty()) parameters.emplace_back("options", target.options);
  return parameters;
}

void check_product(const PgServerFacts& session, const PgTarget& target) {
  const auto& version = session.server_version;
  const auto refuse = [&target](const std::string& why) {
    throw Failure::misconfigured(target.shown() + " " + why);
  };
  if (session.parameters.count("crdb_version") != 0) {
    refuse("is CockroachDB; dlock needs PostgreSQL");
  }
  if (session.parameters.count("padb_version") != 0 || version == "8.0.2") {
    refuse("is Amazon Redshift; dlock needs PostgreSQL");
  }
  if (version.find("bouncer") != std::string::npos) {
    refuse("is PgBouncer, and the database '" + printable(target.database, 200) +
           "' is its console: name one of the databases that it serves");
  }
  const auto major = major_version(version);
  if (major == 0) refuse("is not PostgreSQL: it reports no version");
  if (major < oldest_major_version) {
    refuse("is PostgreSQL " + version + "; dlock needs version " +
           std::to_string(oldest_major_version) + " or later");
  }
}

std::optional<std::uint32_t> first_number(std::string_view body) {
  if (body.size() < number_size) return std::nullopt;
  std::uint32_t number = 0;
  for (const auto c : body.substr(0, number_size)) {
    number = (number << 8) | static_cast<unsigned char>(c);
  }
  return number;
}

PgLogin::PgLogin(std::string server, const PgTarget& target,
                 std::optional<std::string> password, LoginChannel channel,
                 SaltedPassword& salted)
    : server_(std::move(server)),
      user_(target.user),
      binding_(target.channel_binding),
      password_(std::move(password)),
      how_to_set_password_(target.why_no_password.empty()
                               ? "use --password-file, DLOCK_PASSWORD or ~/.pgpass"
                               : target.why_no_password),
      channel_(std::move(channel)),
      salted_(salted) {}

PgLogin::Answer PgLogin::answer(std::string_view body) {
  const auto request = first_number(body);
  if (!request) make_no_sense();
  const auto data = body.substr(number_size);
  switch (*request) {
    case Request::ok: return accept();
    case Request::cleartext: return send_password();
    case Request::md5: return send_md5(data);
    case Request::sasl: return begin_scram(data);
    case Request::sasl_continue: return continue_scram(data);
    case Request::sasl_final: return end_scram(data);
    default: refuse(*request);
  }
}

PgLogin::Answer PgLogin::accept() {
  const bool is_expected = stage_ == Stage::begun || stage_ == Stage::sent_password ||
                           stage_ == Stage::scram_proven;
  if (!is_expected) make_no_sense();
  demand_proof();
  stage_ = Stage::done;
  return {};
}

PgLogin::Answer PgLogin::send_password() {
  begin("password", false);
  if (!channel_.distrust().empty()) {
    throw Failure::rejected(
        server_ +
        " asks for the password itself, which is only sent over TLS with "
        "a trusted certificate, or over a unix socket: name the CA of the "
        "server with --tls-ca FILE");
  }
  stage_ = Stage::sent_password;
  return {password_message(password()), true};
}

PgLogin::Answer PgLogin::send_md5(std::string_view salt) {
  begin("md5", false);
  if (salt.size() != number_size) make_no_sense();
  const auto text = md5_answer(user_, password(), salt);
  if (text.empty()) {
    throw Failure::misconfigured(
        server_ + " wants a login with MD5, which OpenSSL does not have here");
  }
  stage_ = Stage::sent_password;
  return {password_message(text), true};
}

PgLogin::Answer PgLogin::begin_scram(std::string_view mechanisms) {
  bool offers_plain = false;
  bool offers_bound = false;
  while (!mechanisms.empty()) {
    const auto name = mechanisms.substr(0, mechanisms.find('\0'));
    offers_plain = offers_plain || name == plain_scram;
    offers_bound = offers_bound || name == bound_scram;
    mechanisms.remove_prefix(std::min(name.size() + 1, mechanisms.size()));
  }
  const bool can_bind = binding_ != ChannelBinding::disable && channel_.is_encrypted &&
                        !channel_.binding.empty();
  const bool binds = can_bind && offers_bound;
  if (!binds && !offers_plain) {
    throw Failure::misconfigured(
        server_ +
        " offers no login that dlock has: it has SCRAM-SHA-256, MD5 "
        "and passwords");
  }
  begin(binds ? "scram-sha-256-plus" : "scram-sha-256", binds);
  password();
  // A server that could bind takes "y" as the sign that its offer was removed on the way.
  const auto* header = binds ? "p=tls-server-end-point,," : can_bind ? "y,," : "n,,";
  const auto random = random_bytes();
  scram_.emplace(server_, header, binds ? channel_.binding : "", "",
                 hex(random.data(), random.size()));
  stage_ = Stage::scram_first;
  const auto message = scram_->first_message();
  std::string body(binds ? bound_scram : plain_scram);
  body += '\0';
  return {encoded_message('p', body + big_endian(message.size()) + message)};
}

PgLogin::Answer PgLogin::continue_scram(std::string_view from_server) {
  demand(Stage::scram_first);
  const auto message = scram_->final_message(from_server, password(), salted_);
  stage_ = Stage::scram_final;
  return {encoded_message('p', message), true};
}

PgLogin::Answer PgLogin::end_scram(std::string_view from_server) {
  demand(Stage::scram_final);
  scram_->check_server(from_server);
  stage_ = Stage::scram_proven;
  return {};
}

void PgLogin::begin(const std::string& method, bool is_bound) {
  demand(Stage::begun);
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  method_ = method;
  is_bound_ = is_bound;
  demand_proof();
}

const std::string& PgLogin::password() const {
  if (password_ && !password_->empty()) return *password_;
  throw Failure::rejected(server_ + ": password required: " + how_to_set_password_ +
                          password_of_run_outside());
}

void PgLogin::demand(Stage stage) const {
  if (stage_ != stage) make_no_sense();
}

// Before anything is sent that could help an attacker.
void PgLogin::demand_proof() const {
  if (is_bound_) return;
  const auto refuse = [this](const std::string& why) {
    throw Failure::rejected(server_ + ": " + why);
  };
  const auto without = "the login (" + method_ + ") has no channel binding";
  if (binding_ == ChannelBinding::require) {
    refuse(without + ", which channel_binding=require demands");
  }
  if (!channel_.needs_proof) return;
  const auto why = channel_.distrust();
  if (!why.empty()) {
    refuse("certificate not trusted: " + why + "; and " + without +
           ", which would also prove the server: name the CA of the server with --tls-ca "
           "FILE (or sslrootcert), or accept any certificate with --tls-insecure");
  }
}

void PgLogin::refuse(std::uint32_t request) const {
  const auto* name = request == Request::gss || request == Request::gss_continue
                         ? "GSSAPI"
                     : request == Request::sspi     ? "SSPI"
                     : request == Request::kerberos ? "Kerberos"
                                                    : nullptr;
  if (name == nullptr) make_no_sense();
  throw Failure::misconfigured(
      server_ + " wants a login with " + name +
      ", which dlock does not have; let pg_hba.conf ask this role for "
      "scram-sha-256 or a certificate");
}

void PgLogin::make_no_sense() const {
  throw Failure::unreachable(server_ + " sent an unexpected reply to the login");
}

}  // namespace dlock::postgres
