// Replies of a server, and a reader that accepts arbitrary bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/failure.hpp"

namespace dlock::redis {

struct Reply {
  enum class Kind { nil, integer, status, string, error, array };
  Kind kind = Kind::nil;
  std::int64_t integer = 0;
  std::string text;  // of a status, string or error
  std::vector<Reply> elements;

  bool is_error() const { return kind == Kind::error; }
  // The first word of an error ("NOSCRIPT"); empty for other replies.
  std::string_view error_code() const;
};

// The limits of a reply, so that a hostile one cannot exhaust memory.
struct ReplyLimits {
  std::size_t bytes = 8u << 20;    // of one reply
  std::size_t elements = 100'000;  // of one reply, nested ones included
  std::size_t line = 64u << 10;    // of a status, an error or a number
};

// Takes bytes as they arrive and returns complete replies. hiredis does the parsing; this
// enforces the limits that hiredis lacks.
class ReplyReader {
 public:
  explicit ReplyReader(ReplyLimits limits = {});
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  // Adds bytes. False once they are not a valid reply or exceed the limits; it stays
  // false from then on.
  bool feed(std::string_view bytes);

  // The next complete reply, if there is one. Always nothing once feed() or this failed.
  std::optional<Reply> next();

  // Whether every byte that was fed belongs to a reply that next() has returned.
  bool is_empty() const;

  // A short description of the error; empty if there is none.
  const std::string& error() const;

 private:
  class Codec;
  std::unique_ptr<Codec> codec_;
};

// What error replies mean.

// Where the user sets the password, for messages.
constexpr std::string_view usual_password_options = "--password-file or DLOCK_PASSWORD";

// The Failure for a server that replies NOAUTH. `options`: where the user sets the
// password.
Failure password_required(const std::string& server, std::string_view options);

// The Failure for an error reply: unreachable if it can pass by itself, rejected or
// misconfigured if an administrator has to act.
Failure failure_from(const Reply& error, const std::string& server);

// The command that the server says it does not know, because it is renamed or disabled,
// or because a proxy does not forward it; empty if the server names none, as for a
// command of a script. Nothing for other replies.
std::optional<std::string> unknown_command_in(const Reply& reply);

// Whether a script was refused because of a command in it, which the server does not
// name: it does not know that command, or the user may not call it.
bool hides_refused_command(const Reply& reply);

// "redis_version" -> "7.0.15"
using Fields = std::map<std::string, std::string, std::less<>>;

// Parses the lines "name:value" of INFO, and the pairs of CONFIG GET, HELLO and SENTINEL.
Fields fields_of_info(std::string_view text);
Fields fields_of_pairs(const Reply& reply);

// A value of INFO, CONFIG GET or HELLO; empty if the server did not report it.
std::string field(const Fields& fields, std::string_view name);

}  // namespace dlock::redis
