// The scripts of a real server under a clock that the test sets.
//
// Each script is sent after a few lines of Lua that replace the server's clock by one of
// the test. This clock tells the time and expires the keys. The scripts are thus tested
// unchanged, and hours pass at once.
#pragma once

#include <cstdlib>
#include <deque>
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

inline unsigned number_in(const char* variable, unsigned otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::stoul(text));
}

// The last steps of a history, which a difference is shown with.
class Trail {
 public:
  explicit Trail(unsigned seed) : seed_(seed) {}
  void add(std::string step) {
    if (++taken_ > 20) last_.pop_front();
    last_.push_back(std::move(step));
  }
  std::string report(const std::string& what) const {
    auto text =
        "seed " + std::to_string(seed_) + ", step " + std::to_string(taken_) + "\n";
    for (const auto& step : last_) text += "  " + step + "\n";
    return text + what;
  }

 private:
  unsigned seed_;
  std::size_t taken_ = 0;
  std::deque<std::string> last_;
};

// This many histories share each round trip.
constexpr unsigned at_once = 64;

// The first difference in so many steps of each; empty if there is none.
template <typename History, typename Begin>
std::string first_difference(ClockedServer& server, std::vector<History>& histories,
                             unsigned steps, Begin begin) {
  for (; steps > 0; --steps) {
    std::vector<redis::Command> commands;
    for (auto& history : histories) commands.push_back(begin(history));
    const auto replies = server.exchange(commands);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      auto difference = histories[i].end_step(replies[i]);
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

}  // namespace dlock::against
