// What a PostgreSQL server sends during a login: requests one after the other, each with
// its length in a byte before it.

#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "store/postgres/pg_login.hpp"
#include "util/failure.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// How the login with these requests ends. None of them proves that the server knows the
// password.
void log_in(std::string_view requests, bool is_encrypted) {
  postgres::PgTarget target;
  target.user = "user";
  postgres::LoginChannel channel;
  channel.is_encrypted = is_encrypted;
  if (is_encrypted) channel.binding = "binding";
  channel.distrust = [] { return "others can read it"; };
  postgres::SaltedPassword salted;
  postgres::PgLogin login("host:1", target, "a secret", channel, salted);
  try {
    while (!requests.empty()) {
      const auto size = static_cast<unsigned char>(requests.front());
      requests.remove_prefix(1);
      const auto answer = login.answer(requests.substr(0, size));
      requests.remove_prefix(std::min<std::size_t>(size, requests.size()));
      require(answer.bytes.find("a secret") == std::string::npos,
              "the password is not sent");
    }
  } catch (const Failure& failure) {
    fuzz::require_message(failure);
  }
  require(!login.is_done() || login.method() == "trust" || login.method() == "md5",
          "only a server that knows the password ends SCRAM");
}

// The messages of SCRAM alone, whose first one has to continue our nonce.
void prove(std::string_view message) {
  postgres::SaltedPassword salted;
  postgres::Scram scram("host:1", "n,,", "", "", "nonce");
  try {
    // Large numbers of iterations would only take time.
    const auto begin = message.substr(0, message.rfind(",i="));
    scram.final_message(std::string(begin) + ",i=1", "secret", salted);
    require(!salted.key.empty(), "a key was derived");
    scram.final_message(message, "secret", salted);
  } catch (const Failure& failure) {
    fuzz::require_message(failure);
  }
  bool is_proven = true;
  try {
    scram.check_server(message);
  } catch (const Failure& failure) {
    is_proven = false;
    fuzz::require_message(failure);
  }
  require(!is_proven, "no message proves the server");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  log_in(text, false);
  log_in(text, true);
  prove(text);
  const auto prepared = postgres::prepared_password(std::string(text));
  require(text.empty() || !prepared.empty(), "no password becomes empty");
  return 0;
}
