// What the user should know about servers whose word does not count.
#pragma once

#include <functional>
#include <set>
#include <string>

namespace dlock::redis_quorum {

// Passes each message on once.
class Complaints {
 public:
  void report_to(std::function<void(const std::string&)> warn) {
    warn_ = std::move(warn);
  }
  void note(const std::string& message) {
    if (warn_ && noted_.insert(message).second) warn_(message);
  }

 private:
  std::function<void(const std::string&)> warn_;
  std::set<std::string> noted_;
};

}  // namespace dlock::redis_quorum
