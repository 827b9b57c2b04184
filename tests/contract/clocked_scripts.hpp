// The scripts of a real server under a clock that the test sets.
//
// A script is sent behind a few lines of Lua that put a clock of the test's in the place
// of the server's: it tells the time, and ends the keys. So the scripts are tested as
// they are, and hours pass in no time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/reply.hpp"
#include "tests/contract/redis_server.hpp"
#include "util/fd.hpp"

namespace dlock::against {

// What is replaced in the text of a script before it is sent, to see that it is noticed.
struct Replacement {
  std::string_view find;
  std::string_view replace;
};

// A server of its own with a connection that sends many commands at once and blocks.
class ClockedServer {
 public:
  ClockedServer();

  // Loads a script, and returns by what call() knows it. A script answers with an array:
  // its own answer, the lock's value and how many milliseconds it has left, its holders,
  // queue and waiters, its slots and last fence, its last run, and for each message sent
  // the list or channel and what was said there. Throws std::runtime_error if `replaced`
  // is not in the text.
  std::string load(const char* text, const Replacement& replaced = {});

  // The command that runs a loaded script on `key` at `now`.
  static redis::Command call(const std::string& script, const std::string& key,
                             WallTime now, const std::vector<std::string>& args);

  // Sends the commands in one go and returns a reply for each. Throws std::runtime_error
  // if the server does not answer.
  std::vector<redis::Reply> exchange(const std::vector<redis::Command>& commands);

 private:
  void send(std::string_view bytes);

  RedisServer server_;
  Fd socket_;
  redis::ReplyReader reader_;
};

}  // namespace dlock::against
