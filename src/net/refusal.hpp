// The failure of a connection that a server did not take.
#pragma once

#include <string>

#include "util/failure.hpp"

namespace dlock::net {

// Nothing was requested on that connection, so the same request may be sent on another.
class Refusal : public Failure {
 public:
  enum class Reason {
    absent,      // nobody listens there, or whoever does has closed without a word
    overloaded,  // a server is there, and had no room for the connection
  };

  Refusal(Reason reason, const std::string& message)
      : Failure(Kind::unreachable, message), reason_(reason) {}

  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

}  // namespace dlock::net
