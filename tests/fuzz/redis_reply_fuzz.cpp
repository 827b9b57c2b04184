// Replies of a server, in pieces of any size.

#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "store/redis/reply.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// The limits for these tests, small enough for inputs to reach them.
constexpr redis::ReplyLimits reply_limits{300, 20, 40};

std::size_t check(const redis::Reply& reply) {
  using Kind = redis::Reply::Kind;
  require(reply.kind == Kind::array || reply.elements.empty(),
          "only arrays have elements");
  require(reply.is_error() || reply.error_code().empty(), "only errors have a code");
  const auto most = reply.kind == Kind::string ? reply_limits.bytes : reply_limits.line;
  require(reply.text.size() <= most, "no text is beyond the limit");
  std::size_t elements = reply.elements.size();
  for (const auto& element : reply.elements) elements += check(element);
  require(elements <= reply_limits.elements, "no reply has more elements than the limit");
  return elements;
}

std::string described(const redis::Reply& reply) {
  auto text = std::to_string(static_cast<int>(reply.kind)) + ":" +
              std::to_string(reply.integer) + ":" + reply.text;
  for (const auto& element : reply.elements) text += "(" + described(element) + ")";
  return text;
}

// Everything that results from `bytes` if they arrive in pieces of `size`.
std::string read_whole(std::string_view bytes, std::size_t size) {
  redis::ReplyReader reader(reply_limits);
  std::string all;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    while (const auto reply = reader.next()) {
      check(*reply);
      all += described(*reply) + "\n";
    }
    if (reader.error().empty()) continue;
    require(!reader.feed("+OK\r\n") && !reader.next(), "a failure is for good");
    return all + "failed";
  }
  return all + (reader.is_empty() ? "" : "more");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  const auto whole = read_whole(bytes, std::string_view::npos);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{17}}) {
    const auto in_pieces = read_whole(bytes, piece);
    require(in_pieces == whole, "the pieces do not matter");
  }
  return 0;
}
