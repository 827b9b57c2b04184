// The scripts of a real server under a clock that the test sets.
//
// Each script is sent after a few lines of Lua that replace the server's clock by one of
// the test. This clock tells the time and expires the keys. The scripts are thus tested
// unchanged, and hours pass at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/redis/redis_connection.hpp"
#include "store/redis/reply.hpp"
#include "tests/contract/redis_server.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock::against {

// What to replace in the text of a script before it is sent, to plant a bug.
struct Replacement {
  std::string_view find;
  std::string_view replace;
};

// Its own server, with a blocking connection that sends many commands at once.
class ClockedServer {
 public:
  ClockedServer();

  // Loads a script and returns its id for call(). The reply to a call is an array: the
  // reply of the script itself; the value of the lock and its remaining milliseconds; its
  // holders, queue and waiters; its slots and last fence; its last run; and, for each
  // message sent, the list or channel and the message. Throws std::runtime_error if
  // `replaced` is not in the text.
  std::string load(const char* text, const Replacement& replaced = {});

  // The command that runs a loaded script on `key` at `now`.
  static redis::Command call(const std::string& script, const std::string& key,
                             WallTime now, const std::vector<std::string>& args);

  // Sends the commands together and returns a reply for each. Throws std::runtime_error
  // if the server does not reply.
  std::vector<redis::Reply> exchange(const std::vector<redis::Command>& commands);

 private:
  void send(std::string_view bytes);

  RedisServer server_;
  Fd socket_;
  redis::ReplyReader reader_;
};

}  // namespace dlock::against
