// The calls on one connection, as bytes: gRPC over HTTP/2, without a socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/etcd/grpc.hpp"

namespace dlock::etcd {

using CallId = std::int32_t;

struct Metadata {
  std::string name;  // in small letters
  std::string value;
};

struct CallStart {
  std::string_view path;  // "/etcdserverpb.KV/Range"
  std::vector<Metadata> metadata;
  std::string message;
  bool is_last = true;     // there will be no further message of ours
  milliseconds timeout{};  // that the server is told; 0: none
};

struct Http2Limits {
  // Of what has come for one call and was not taken: an answer, or a few events.
  std::size_t bytes = 16u << 20;
};

// Codec of the client's side; nghttp2 does the framing.
class Http2 {
 public:
  // `authority` is the server as a URL names it.
  explicit Http2(std::string authority, Http2Limits limits = {});
  ~Http2();
  Http2(const Http2&) = delete;
  Http2& operator=(const Http2&) = delete;

  // Whether a call can begin: nothing went wrong, and the server has not said that it
  // wants no more of them.
  bool takes_calls() const;

  // Begins a call, if the connection takes_calls().
  CallId begin(const CallStart& start);

  // A further message of a call that is not at its end.
  void send(CallId call, std::string_view message);

  // Forgets the call, and has the server forget it if it is not at its end.
  void drop(CallId call);

  // What is to be sent next; empty if nothing is.
  std::string take_output();

  // Takes in what has come. False once it was not HTTP/2, for good: see error().
  bool feed(std::string_view bytes);
  const std::string& error() const;

  // What has come of a call, if it was not dropped: its next message, and how it ended if
  // it has, whether or not all messages are taken.
  std::optional<std::string> next_message(CallId call);
  std::optional<Outcome> outcome(CallId call) const;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace dlock::etcd
