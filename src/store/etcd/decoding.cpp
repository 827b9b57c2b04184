// Decodes messages into results.
#include <type_traits>
#include <utility>

#include "store/etcd/fields.hpp"

namespace dlock::etcd {

Header header_in(pbf_reader from) {
  Header header;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case field(2, varint): header.member = from.get_uint64(); break;
      case field(3, varint): header.revision = from.get_int64(); break;
      case field(4, varint): header.term = from.get_uint64(); break;
      default: from.skip();
    }
  }
  return header;
}

namespace {

template <typename Message>
std::optional<Message> whole_message(std::string_view bytes) {
  try {
    Count count;
    const pbf_reader reader(bytes.data(), bytes.size());
    return message_in<Message>(reader, count);
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

bool is_of(const OperationResult& result, const Operation& operation) {
  return result.index() == operation.index();
}

// The operations are PutRequest, RangeRequest, DeleteRequest, and so are their results.
static_assert(std::variant_size_v<Operation> == std::variant_size_v<OperationResult>);

bool answers(const TxnResult& result, const TxnRequest& request) {
  const auto& executed = result.succeeded ? request.then : request.otherwise;
  if (result.results.size() != executed.size()) return false;
  for (std::size_t i = 0; i < executed.size(); ++i) {
    if (!is_of(result.results[i], executed[i])) return false;
  }
  return true;
}

template <std::size_t index>
std::optional<Result> decoded_at(const Request& request, std::string_view bytes) {
  if constexpr (index == std::variant_size_v<Request>) {
    return std::nullopt;
  } else {
    if (request.index() != index) return decoded_at<index + 1>(request, bytes);
    auto message = whole_message<std::variant_alternative_t<index, Result>>(bytes);
    if (!message) return std::nullopt;
    if constexpr (std::is_same_v<std::variant_alternative_t<index, Request>,
                                 TxnRequest>) {
      if (!answers(*message, std::get<index>(request))) return std::nullopt;
    }
    return Result(std::in_place_index<index>, std::move(*message));
  }
}
static_assert(std::variant_size_v<Request> == std::variant_size_v<Result>);

}  // namespace

std::optional<Result> decoded(const Request& request, std::string_view bytes) {
  return decoded_at<0>(request, bytes);
}

std::uint64_t cluster_in(std::string_view bytes) {
  try {
    pbf_reader response(bytes.data(), bytes.size());
    if (!response.next(1, bytes_type)) return 0;
    auto header = response.get_message();
    return header.next(1, varint) ? header.get_uint64() : 0;
  } catch (const protozero::exception&) {
    return 0;
  }
}

std::optional<WatchAnswer> decoded_watch(std::string_view bytes) {
  return whole_message<WatchAnswer>(bytes);
}

}  // namespace dlock::etcd
