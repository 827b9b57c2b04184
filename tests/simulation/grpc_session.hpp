// The server's side of gRPC on one connection, as bytes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "grpc/http2.hpp"

namespace dlock::simulation {

class GrpcSession {
 public:
  // `takes` is called with each message of a call, and `ends` when a call is over.
  using Takes = std::function<void(int call, const std::string& path, std::string bytes)>;
  using Ends = std::function<void(int call)>;
  GrpcSession(Takes takes, Ends ends);

  void feed(std::string_view bytes);
  // Does nothing if the call is over.
  void reply(int call, std::string_view message, bool is_last);
  void fail(int call, grpc::Code code, const std::string& why);
  // What is to be sent.
  std::string output();

 private:
  struct Call {
    std::string path;
    grpc::MessageReader messages{1 << 20};
    std::string outbox;
    std::string status, why;  // once it has one
    bool has_replied = false;
  };
  struct Callbacks;
  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };
  void proceed(int id, Call& call);
  Call* find(int id);

  Takes takes_;
  Ends ends_;
  std::map<int, Call> calls_;
  std::unique_ptr<nghttp2_session, Delete> session_;
};

}  // namespace dlock::simulation
