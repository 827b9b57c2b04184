// The errors of etcd: the answers among them, and what to do about the others.
#pragma once

#include <optional>
#include <string>

#include "grpc/http2.hpp"
#include "store/etcd/etcd_messages.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

struct CallFailure {
  enum class Remedy {
    none,         // a retry would fail again
    login,        // log in again and retry
    next_member,  // retry on the next member, or here after a pause
  };

  Failure failure;
  Remedy remedy = Remedy::none;
  bool was_answered = true;  // false: no reply came
};

// The result for errors that answer the request: the lease already or no longer exists,
// no login is required, or no keep-alive is answered here. Nothing for other errors.
std::optional<Result> answer_in(const Request& request, const grpc::CallOutcome& outcome);

// `server` is for the message.
CallFailure call_failure(const grpc::CallOutcome& outcome, const std::string& server);

// For a failure without a reply.
CallFailure call_failure(const Failure& failure);

// Whether a call failed because the user may not make it, or because there is no login.
// Only the text of the error tells these from each other, and from a refused certificate.
bool is_permission_denied(const Failure& failure);
bool is_login_required(const Failure& failure);

// For a failed login.
CallFailure login_failure(const grpc::CallOutcome& outcome, const std::string& server);

}  // namespace dlock::etcd
