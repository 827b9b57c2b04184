// The data that a server sends over a connection, in pieces of any size.

#include <algorithm>

#include "fuzz.hpp"
#include "grpc/http2.hpp"
#include "store/etcd/etcd_errors.hpp"

using namespace dlock;
using fuzz::require;

namespace {

constexpr grpc::Http2Limits limits{500};

// Everything that results from two calls, one of which stays open.
std::string read(std::string_view bytes, std::size_t piece) {
  grpc::Http2 http2("host:1", limits);
  grpc::CallStart start;
  start.path = "/service/Method";
  start.message = "question";
  const auto call = http2.begin(start);
  start.is_last = false;
  const auto lasting = http2.begin(start);
  require(!http2.take_output().empty(), "a call is sent");
  std::string all;
  while (!bytes.empty()) {
    const bool is_well = http2.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    http2.take_output();
    if (is_well) continue;
    require(!http2.takes_calls() && !http2.error().empty(), "a failure is for good");
    require(http2.outcome(call) && http2.outcome(lasting), "and the end of all calls");
    break;
  }
  for (const auto id : {call, lasting}) {
    while (const auto message = http2.next_message(id)) {
      require(message->size() <= limits.bytes, "no message is beyond the limit");
      all += *message + "\n";
    }
    const auto outcome = http2.outcome(id);
    if (!outcome) continue;
    const auto failed_call = etcd::call_failure(*outcome, "host:1");
    fuzz::require_message(failed_call.failure);
    all += std::to_string(static_cast<int>(outcome->code)) + outcome->message + "\n";
  }
  http2.drop(call);
  http2.drop(lasting);
  http2.take_output();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  read(bytes, std::string_view::npos);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) read(bytes, piece);
  return 0;
}
