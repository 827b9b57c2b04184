// How to handle a failed call. Plain functions on values.
#pragma once

#include <optional>
#include <string>

#include "store/etcd/grpc.hpp"
#include "store/etcd/requests.hpp"
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
  bool may_be_executed = true;  // false: certainly not
};

// The result for errors that answer the request: the lease exists already or is gone, no
// login is required, or no keep-alive is answered here. Nothing for other errors.
std::optional<Result> answer_in(const Request& request, const Outcome& outcome);

// `server` is for the message.
CallFailure call_failure(const Outcome& outcome, const std::string& server);

// For a failure without a reply; `was_sent`: the request was sent.
CallFailure call_failure(const Failure& failure, bool was_sent);

// Whether a call failed because the user may not make it, or because there is no login.
// Only the text of the error tells these from each other, and from a refused certificate.
bool is_permission_denied(const Failure& failure);
bool is_login_required(const Failure& failure);

// For a failed login.
CallFailure login_failure(const Outcome& outcome, const std::string& server);

}  // namespace dlock::etcd
