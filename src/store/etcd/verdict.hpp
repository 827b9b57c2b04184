// What is to be made of a call that did not end well. Plain functions on values.
#pragma once

#include <optional>
#include <string>

#include "store/etcd/grpc.hpp"
#include "store/etcd/requests.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

struct Trouble {
  enum class Cure {
    none,         // it is the same everywhere, and now
    login,        // with a new token
    next_member,  // it may go better there, or here after a while
  };

  Failure failure;
  Cure cure = Cure::none;
  bool may_be_executed = true;  // for all that is known
};

// The answer that an error is: that a lease is there already, or is gone, or that nobody
// has to log in. Nothing for what is no answer to the request.
std::optional<Result> answer_in(const Request& request, const Outcome& outcome);

// `server` is for the message.
Trouble trouble_of(const Outcome& outcome, const std::string& server);

// Of what went wrong before the server could say anything; `was_sent`: the request was.
Trouble trouble_of(const Failure& failure, bool was_sent);

// Of a login.
Trouble trouble_of_login(const Outcome& outcome, const std::string& server);

}  // namespace dlock::etcd
