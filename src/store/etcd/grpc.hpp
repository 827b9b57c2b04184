// What gRPC adds to HTTP/2: messages with their length, and how a call ended. Plain
// functions on values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"

namespace dlock::etcd {

// How a call ended, by the numbers of gRPC that matter here.
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

struct Outcome {
  Code code = Code::unknown;
  std::string message;         // as the server put it, any bytes
  bool was_not_begun = false;  // the server has said that it did nothing for the call
};

// A call by its headers, those of HTTP and the trailers together, and whether it came to
// its end in order. Each name in small letters.
class Headers {
 public:
  // False if there are too many of them.
  bool add(std::string_view name, std::string_view value);

  // What the server says of the end; nothing if it says nothing.
  std::optional<Outcome> outcome() const;

 private:
  std::size_t size_ = 0;
  std::string http_status_;
  std::string content_type_;
  std::optional<std::string> status_;
  std::string message_;
};

// The message as it goes over the stream.
std::string framed(std::string_view message);

// Takes messages out of what comes over a stream, in whatever pieces.
class MessageReader {
 public:
  // `most` bytes are kept at a time.
  explicit MessageReader(std::size_t most) : most_(most) {}

  // False from when something came that is no message, or too much: it is for good.
  bool feed(std::string_view bytes);
  std::optional<std::string> next();

  // Whether no message is cut off by the end of what came.
  bool is_whole() const { return checked_ == bytes_.size(); }

 private:
  std::size_t most_;
  std::string bytes_;
  std::size_t begin_ = 0;    // of what has not been taken
  std::size_t checked_ = 0;  // what is before it are whole messages
  bool failed_ = false;
};

// For the header that tells the server how long we wait: "1500m".
std::string timeout_text(milliseconds timeout);

}  // namespace dlock::etcd
