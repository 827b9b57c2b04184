// Bytes of a server, through the reader and all parsers of answers. Only the exact answer
// may be a grant.

#include "fuzz.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis/reply.hpp"
#include "store/redis/script_calls.hpp"

namespace dlock::redis {
namespace {

using fuzz::require;

void take_apart(const Reply& reply) {
  Claim claim;
  claim.lock = {"dlock", "job"};
  claim.slots = 3;
  const auto heard = ask_reply_from(reply, claim, Clock::time_point{});
  if (heard) {
    if (const auto* grant = std::get_if<Grant>(&heard->answer)) {
      require(reply.kind == Reply::Kind::array && reply.elements.size() == 4 &&
                  reply.elements[0].text == "granted",
              "only a grant is a grant");
      require(grant->fence.number > 0 && grant->slot < claim.slots,
              "a grant makes sense");
    }
  }
  if (const auto grant = handed_over_from(reply, claim, Clock::time_point{})) {
    require(reply.kind == Reply::Kind::array && reply.elements.size() == 2 &&
                reply.elements[1].text.starts_with("granted "),
            "only a grant is handed off");
    require(std::get<Grant>(grant->answer).fence.number > 0 && !pause_from(reply),
            "and says nothing else");
  }
  if (renewal_from(reply)) require(!reply.is_error(), "an error renews nothing");
  if (release_from(reply)) require(!reply.is_error(), "an error releases nothing");
  if (admission_from(reply)) require(!reply.is_error(), "an error admits nothing");
  if (value_record_from(reply, reply)) require(false, "no one reply is a value");
  if (broken_from(reply)) require(!reply.is_error(), "an error breaks nothing");
  if (history_from(reply, claim.lock))
    require(!reply.is_error(), "an error is no history");
  if (const auto lock = lock_from(reply, claim.lock)) {
    require(lock->free <= lock->slots, "no more slots are free than there are");
  }
  if (reply.is_error()) {
    const std::string message = failure_from(reply, "server").what();
    require(message.size() < 600 && message.find('\n') == std::string::npos,
            "a message is one line");
  }
  lock_of(reply.text);
  run_from(reply.text);
  waiter_from(reply.text, WallTime{});
}

}  // namespace
}  // namespace dlock::redis

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlock::redis;
  ReplyReader reader;
  reader.feed(dlock::fuzz::text_of(data, size));
  while (const auto reply = reader.next()) take_apart(*reply);
  return 0;
}
