// What gRPC adds to HTTP/2: length-prefixed messages and the status of a call. Plain
// functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/clock.hpp"

namespace dlock::grpc {

// The gRPC status codes that matter here.
enum class Code {
  ok = 0,
  unknown = 2,
  invalid_argument = 3,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16,
};

// Our own message for a call that ended well, but without a reply.
constexpr std::string_view no_reply = "a reply without a message";

struct CallOutcome {
  Code code = Code::unknown;
  std::string message;  // from the server, any bytes
};

// The HTTP headers and the trailers of a call, from which its outcome follows. Names are
// in lower case.
class Headers {
 public:
  // False if there are too many of them.
  bool add(std::string_view name, std::string_view value);

  // The outcome; nothing if the server has not sent a status.
  std::optional<CallOutcome> outcome() const;

 private:
  std::size_t size_ = 0;
  std::string http_status_;
  std::string content_type_;
  std::optional<std::string> status_;
  std::string message_;
};

// The message with its gRPC prefix.
std::string framed(std::string_view message);

// Extracts messages from the bytes of a stream, which may arrive in any pieces.
class MessageReader {
 public:
  // Buffers at most `most` bytes.
  explicit MessageReader(std::size_t most) : most_(most) {}

  // False once the bytes are not a valid message or too many; it stays false from then
  // on.
  bool feed(std::string_view bytes);
  std::optional<std::string> next();

  // Whether the bytes so far end with a complete message.
  bool is_whole() const { return checked_ == bytes_.size(); }

 private:
  std::size_t most_;
  std::string bytes_;
  std::size_t begin_ = 0;    // of the bytes not yet taken
  std::size_t checked_ = 0;  // the bytes before it are complete messages
  bool failed_ = false;
};

// The value of the header grpc-timeout: "1500m".
std::string timeout_text(milliseconds timeout);

}  // namespace dlock::grpc
