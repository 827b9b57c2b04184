// From messages to results. Each function takes one field of the message that it is
// about.
#include <protozero/pbf_reader.hpp>
#include <type_traits>
#include <utility>

#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr auto varint = pbf_wire_type::varint;
constexpr auto bytes_type = pbf_wire_type::length_delimited;

// A field with the type that it has to have. One that has another, or a number that
// is none of ours, is skipped as an unknown one.
constexpr std::uint32_t field(protozero::pbf_tag_type number, pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}

// The elements of a message that came so far.
class Count {
 public:
  // Throws for a message that has too many.
  void one_more() {
    if (++count_ > most_elements) throw protozero::invalid_length_exception();
  }

 private:
  std::size_t count_ = 0;
};

// protozero's own reads a byte without looking whether there is one.
bool flag_in(pbf_reader& from) { return from.get_uint64() != 0; }

struct Header {
  std::uint64_t member = 0;
  std::int64_t revision = 0;
  std::uint64_t term = 0;
};

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

// Of a result that tells both.
template <typename Message>
void take_header(pbf_reader from, Message& message) {
  const auto header = header_in(from);
  message.revision = header.revision;
  message.term = header.term;
}

void read(pbf_reader& from, KeyValue& pair, Count&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): pair.key = from.get_bytes(); break;
    case field(2, varint): pair.create_revision = from.get_int64(); break;
    case field(3, varint): pair.mod_revision = from.get_int64(); break;
    case field(4, varint): pair.version = from.get_int64(); break;
    case field(5, bytes_type): pair.value = from.get_bytes(); break;
    case field(6, varint): pair.lease = from.get_int64(); break;
    default: from.skip();
  }
}

template <typename Message>
Message message_in(pbf_reader from, Count& count) {
  count.one_more();
  Message message;
  while (from.next()) read(from, message, count);
  return message;
}

void read(pbf_reader& from, RangeResult& range, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): take_header(from.get_message(), range); break;
    case field(2, bytes_type):
      range.pairs.push_back(message_in<KeyValue>(from.get_message(), count));
      break;
    case field(3, varint): range.more = flag_in(from); break;
    case field(4, varint): range.count = from.get_int64(); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, PutResult& put, Count& count) {
  switch (from.tag_and_type()) {
    case field(2, bytes_type):
      put.previous = message_in<KeyValue>(from.get_message(), count);
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, DeleteResult& deletion, Count& count) {
  switch (from.tag_and_type()) {
    case field(2, varint): deletion.deleted = from.get_int64(); break;
    case field(3, bytes_type):
      deletion.previous.push_back(message_in<KeyValue>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

// What one operation came to; nothing in it if it is none that we know.
struct AnyResult {
  std::optional<OperationResult> result;
};
void read(pbf_reader& from, AnyResult& any, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      any.result = message_in<RangeResult>(from.get_message(), count);
      break;
    case field(2, bytes_type):
      any.result = message_in<PutResult>(from.get_message(), count);
      break;
    case field(3, bytes_type):
      any.result = message_in<DeleteResult>(from.get_message(), count);
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, TxnResult& txn, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): take_header(from.get_message(), txn); break;
    case field(2, varint): txn.succeeded = flag_in(from); break;
    case field(3, bytes_type): {
      auto any = message_in<AnyResult>(from.get_message(), count);
      if (!any.result) throw protozero::unknown_pbf_wire_type_exception();
      txn.results.push_back(std::move(*any.result));
      break;
    }
    default: from.skip();
  }
}

void read(pbf_reader& from, LeaseGrantResult& grant, Count&) {
  switch (from.tag_and_type()) {
    case field(3, varint): grant.ttl = from.get_int64(); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, LeaseRevokeResult&, Count&) { from.skip(); }

void read(pbf_reader& from, LeaseKeepAliveResult& kept, Count&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): kept.term = header_in(from.get_message()).term; break;
    case field(3, varint): kept.ttl = from.get_int64(); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, LeaseTimeToLiveResult& lease, Count& count) {
  switch (from.tag_and_type()) {
    case field(3, varint): lease.ttl = from.get_int64(); break;
    case field(4, varint): lease.granted_ttl = from.get_int64(); break;
    case field(5, bytes_type):
      count.one_more();
      lease.keys.push_back(from.get_bytes());
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, StatusResult& status, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      status.member = header_in(from.get_message()).member;
      break;
    case field(2, bytes_type): status.version = from.get_bytes(); break;
    case field(3, varint): status.size = from.get_int64(); break;
    case field(4, varint): status.leader = from.get_uint64(); break;
    case field(6, varint): status.term = from.get_uint64(); break;
    case field(8, bytes_type):
      count.one_more();
      status.errors.push_back(from.get_bytes());
      break;
    case field(9, varint): status.size_in_use = from.get_int64(); break;
    case field(10, varint): status.is_learner = flag_in(from); break;
    default: from.skip();
  }
}

Alarm::Kind alarm_from(std::int32_t number) {
  switch (number) {
    case 0: return Alarm::Kind::none;
    case 1: return Alarm::Kind::no_space;
    case 2: return Alarm::Kind::corrupt;
    default: return Alarm::Kind::other;
  }
}

void read(pbf_reader& from, Alarm& alarm, Count&) {
  switch (from.tag_and_type()) {
    case field(1, varint): alarm.member = from.get_uint64(); break;
    case field(2, varint): alarm.kind = alarm_from(from.get_enum()); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, AlarmsResult& alarms, Count& count) {
  switch (from.tag_and_type()) {
    case field(2, bytes_type):
      alarms.alarms.push_back(message_in<Alarm>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, Member& member, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, varint): member.id = from.get_uint64(); break;
    case field(2, bytes_type): member.name = from.get_bytes(); break;
    case field(4, bytes_type):
      count.one_more();
      member.client_urls.push_back(from.get_bytes());
      break;
    case field(5, varint): member.is_learner = flag_in(from); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, MemberListResult& list, Count& count) {
  switch (from.tag_and_type()) {
    case field(2, bytes_type):
      list.members.push_back(message_in<Member>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, AuthenticateResult& login, Count&) {
  switch (from.tag_and_type()) {
    case field(2, bytes_type): login.token = from.get_bytes(); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, Event& event, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, varint):
      event.kind = from.get_enum() == 0 ? Event::Kind::put : Event::Kind::deletion;
      break;
    case field(2, bytes_type):
      event.pair = message_in<KeyValue>(from.get_message(), count);
      break;
    case field(3, bytes_type):
      event.previous = message_in<KeyValue>(from.get_message(), count);
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, WatchAnswer& answer, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      answer.revision = header_in(from.get_message()).revision;
      break;
    case field(2, varint): answer.id = from.get_int64(); break;
    case field(3, varint): answer.created = flag_in(from); break;
    case field(4, varint): answer.canceled = flag_in(from); break;
    case field(5, varint): answer.compact_revision = from.get_int64(); break;
    case field(6, bytes_type): answer.reason = from.get_bytes(); break;
    case field(11, bytes_type):
      answer.events.push_back(message_in<Event>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

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

std::optional<WatchAnswer> decoded_watch(std::string_view bytes) {
  return whole_message<WatchAnswer>(bytes);
}

}  // namespace dlock::etcd
