// The codec of one connection: gRPC over HTTP/2 as bytes, without a socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grpc/grpc.hpp"
#include "util/clock.hpp"

namespace dlock::grpc {

using CallId = std::int32_t;

struct Metadata {
  std::string name;  // in lower case
  std::string value;
};

struct CallStart {
  std::string_view path;  // "/etcdserverpb.KV/Range"
  std::vector<Metadata> metadata;
  std::string message;
  bool is_last = true;     // false: the call is left open, for messages of the server
  milliseconds timeout{};  // sent to the server; 0: none
};

struct Http2Limits {
  // Received for one call and not yet taken: a reply, or a few events.
  std::size_t bytes = 16u << 20;
};

// The client's side; nghttp2 does the framing.
class Http2 {
 public:
  // `authority` is the server as a URL names it.
  explicit Http2(std::string authority, Http2Limits limits = {});
  ~Http2();
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  // Whether a call can begin: no error has occurred, and the server still accepts calls.
  bool takes_calls() const;

  // Begins a call, if the connection takes_calls().
  CallId begin(const CallStart& start);

  // Forgets the call, and cancels it on the server if it has not ended.
  void drop(CallId call);

  // The bytes to send next; empty if there are none.
  std::string take_output();

  // Processes received bytes. False once they are not valid HTTP/2, and from then on: see
  // error().
  bool feed(std::string_view bytes);
  const std::string& error() const;

  // The next message of a call that was not dropped, and its outcome if it has ended,
  // whether or not all messages were taken.
  std::optional<std::string> next_message(CallId call);
  std::optional<CallOutcome> outcome(CallId call) const;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace dlock::grpc
