#include "store/etcd/etcd_messages.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "grpc/protobuf.hpp"

namespace dlock::etcd {

namespace {

using grpc::add;
using grpc::bytes_type;
using grpc::ElementCount;
using grpc::field;
using grpc::flag_in;
using grpc::message_in;
using grpc::pbf_reader;
using grpc::pbf_writer;
using grpc::varint;

void write(pbf_writer& to, const RangeRequest& range) {
  add(to, 1, range.key);
  add(to, 2, range.range_end);
  add(to, 3, range.limit);
  add(to, 4, range.revision);
  add(to, 8, range.keys_only);
}

void write(pbf_writer& to, const PutRequest& put) {
  add(to, 1, put.key);
  add(to, 2, put.value);
  add(to, 3, put.lease);
}

void write(pbf_writer& to, const DeleteRequest& deletion) {
  add(to, 1, deletion.key);
  add(to, 2, deletion.range_end);
}

// Each comparison has its operand in a separate field, even if it is 0.
void write(pbf_writer& to, const Compare& compare) {
  to.add_enum(1, static_cast<int>(compare.result));
  to.add_enum(2, static_cast<int>(compare.target));
  add(to, 3, compare.key);
  switch (compare.target) {
    case Compare::Target::create_revision: to.add_int64(5, compare.number); break;
    case Compare::Target::mod_revision: to.add_int64(6, compare.number); break;
    case Compare::Target::value: to.add_bytes(7, compare.value); break;
  }
  add(to, 64, compare.range_end);
}

unsigned tag_of(const RangeRequest&) { return 1; }
unsigned tag_of(const PutRequest&) { return 2; }
unsigned tag_of(const DeleteRequest&) { return 3; }

void write(pbf_writer& to, unsigned tag, const std::vector<Operation>& operations) {
  for (const auto& operation : operations) {
    pbf_writer wrapped(to, tag);
    std::visit(
        [&](const auto& one) {
          pbf_writer inner(wrapped, tag_of(one));
          write(inner, one);
        },
        operation);
  }
}

void write(pbf_writer& to, const TxnRequest& txn) {
  for (const auto& condition : txn.conditions) {
    pbf_writer inner(to, 1);
    write(inner, condition);
  }
  write(to, 2, txn.then);
  write(to, 3, txn.otherwise);
}

void write(pbf_writer& to, const LeaseGrantRequest& grant) {
  add(to, 1, grant.ttl);
  add(to, 2, grant.id);
}
void write(pbf_writer& to, const LeaseRevokeRequest& revoke) { add(to, 1, revoke.id); }
void write(pbf_writer& to, const LeaseKeepAliveRequest& keep) { add(to, 1, keep.id); }
void write(pbf_writer& to, const LeaseTimeToLiveRequest& ask) { add(to, 1, ask.id); }
void write(pbf_writer&, const StatusRequest&) {}
void write(pbf_writer&, const AlarmsRequest&) {}  // the action that is 0: get
void write(pbf_writer&, const MemberListRequest&) {}
void write(pbf_writer& to, const AuthenticateRequest& login) {
  add(to, 1, login.user);
  add(to, 2, login.password);
}

}  // namespace

std::string end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (end.empty()) return std::string(1, '\0');  // from there on, without an end
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::string encoded(const Request& request) {
  std::string bytes;
  pbf_writer writer(bytes);
  std::visit([&](const auto& one) { write(writer, one); }, request);
  return bytes;
}

std::string encoded(const WatchRequest& request) {
  std::string bytes;
  pbf_writer writer(bytes);
  {
    pbf_writer create(writer, 1);
    add(create, 1, request.key);
    add(create, 2, request.range_end);
    add(create, 3, request.start_revision);
    constexpr int no_put = 0;
    if (request.no_put) create.add_enum(5, no_put);
    constexpr int id = 1;
    create.add_int64(7, id);
  }
  return bytes;
}

namespace {

// The header of a response.
struct ResponseHeader {
  std::uint64_t member = 0;
  std::int64_t revision = 0;
  std::uint64_t term = 0;
};

ResponseHeader header_in(pbf_reader from) {
  ResponseHeader header;
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

// Takes the one field of a message that matters.
template <typename Take>
void read_only(pbf_reader& from, std::uint32_t wanted, Take take) {
  if (from.tag_and_type() == wanted) {
    take();
  } else {
    from.skip();
  }
}

}  // namespace

// Each read() reads one field of its message, or skips it.

// The result of one operation; nothing if its type is unknown.
struct AnyResult {
  std::optional<OperationResult> result;
};
void read(pbf_reader& from, AnyResult& any, ElementCount& count) {
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

void read(pbf_reader& from, KeyValue& pair, ElementCount&) {
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

void read(pbf_reader& from, RangeResult& range, ElementCount& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      range.revision = header_in(from.get_message()).revision;
      break;
    case field(2, bytes_type):
      range.pairs.push_back(message_in<KeyValue>(from.get_message(), count));
      break;
    case field(3, varint): range.more = flag_in(from); break;
    case field(4, varint): range.count = from.get_int64(); break;
    default: from.skip();
  }
}

void read(pbf_reader& from, PutResult&, ElementCount&) { from.skip(); }

void read(pbf_reader& from, DeleteResult&, ElementCount&) { from.skip(); }

void read(pbf_reader& from, TxnResult& txn, ElementCount& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): {
      const auto header = header_in(from.get_message());
      txn.revision = header.revision;
      txn.term = header.term;
      break;
    }
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

void read(pbf_reader& from, KeyChange& event, ElementCount& count) {
  switch (from.tag_and_type()) {
    case field(1, varint):
      event.kind =
          from.get_enum() == 0 ? KeyChange::Kind::put : KeyChange::Kind::deletion;
      break;
    case field(2, bytes_type):
      event.pair = message_in<KeyValue>(from.get_message(), count);
      break;
    default: from.skip();
  }
}

void read(pbf_reader& from, WatchAnswer& answer, ElementCount& count) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      answer.revision = header_in(from.get_message()).revision;
      break;
    case field(3, varint): answer.created = flag_in(from); break;
    case field(4, varint): answer.canceled = flag_in(from); break;
    case field(5, varint): answer.compact_revision = from.get_int64(); break;
    case field(6, bytes_type): answer.reason = from.get_bytes(); break;
    case field(11, bytes_type):
      answer.events.push_back(message_in<KeyChange>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

namespace {

Alarm::Kind alarm_from(std::int32_t number) {
  const bool is_known = number >= 0 && number < static_cast<int>(Alarm::Kind::other);
  return is_known ? static_cast<Alarm::Kind>(number) : Alarm::Kind::other;
}

}  // namespace

void read(pbf_reader& from, LeaseGrantResult& grant, ElementCount&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): grant.term = header_in(from.get_message()).term; break;
    case field(2, varint): grant.id = from.get_int64(); break;
    case field(3, varint): grant.ttl = from.get_int64(); break;
    default: from.skip();
  }
}
void read(pbf_reader& from, LeaseRevokeResult&, ElementCount&) { from.skip(); }

void read(pbf_reader& from, LeaseKeepAliveResult& kept, ElementCount&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): kept.term = header_in(from.get_message()).term; break;
    case field(3, varint): kept.ttl = from.get_int64(); break;
    default: from.skip();
  }
}
void read(pbf_reader& from, LeaseTimeToLiveResult& lease, ElementCount&) {
  read_only(from, field(3, varint), [&] { lease.ttl = from.get_int64(); });
}
void read(pbf_reader& from, StatusResult& status, ElementCount&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type):
      status.member = header_in(from.get_message()).member;
      break;
    case field(2, bytes_type): status.version = from.get_bytes(); break;
    case field(3, varint): status.size = from.get_int64(); break;
    case field(4, varint): status.leader = from.get_uint64(); break;
    default: from.skip();
  }
}
void read(pbf_reader& from, Alarm& alarm, ElementCount&) {
  read_only(from, field(2, varint), [&] { alarm.kind = alarm_from(from.get_enum()); });
}
void read(pbf_reader& from, AlarmsResult& alarms, ElementCount& count) {
  read_only(from, field(2, bytes_type), [&] {
    alarms.alarms.push_back(message_in<Alarm>(from.get_message(), count));
  });
}
void read(pbf_reader& from, ClusterMember& member, ElementCount&) {
  read_only(from, field(5, varint), [&] { member.is_learner = flag_in(from); });
}
void read(pbf_reader& from, MemberListResult& list, ElementCount& count) {
  read_only(from, field(2, bytes_type), [&] {
    list.members.push_back(message_in<ClusterMember>(from.get_message(), count));
  });
}
void read(pbf_reader& from, AuthenticateResult& login, ElementCount&) {
  read_only(from, field(2, bytes_type), [&] { login.token = from.get_bytes(); });
}

namespace {

template <typename Message>
std::optional<Message> whole_message(std::string_view bytes) {
  try {
    ElementCount count(most_elements);
    const pbf_reader reader(bytes.data(), bytes.size());
    return message_in<Message>(reader, count);
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
}

// The operations are PutRequest, RangeRequest, DeleteRequest, and so are their results.
static_assert(std::variant_size_v<Operation> == std::variant_size_v<OperationResult>);

bool answers(const TxnResult& result, const TxnRequest& request) {
  const auto& executed = result.succeeded ? request.then : request.otherwise;
  return std::equal(result.results.begin(), result.results.end(), executed.begin(),
                    executed.end(), [](const auto& one, const auto& operation) {
                      return one.index() == operation.index();
                    });
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

namespace {

std::uint64_t number_in_header(std::string_view bytes, protozero::pbf_tag_type field) {
  try {
    pbf_reader response(bytes.data(), bytes.size());
    if (!response.next(1, bytes_type)) return 0;
    auto header = response.get_message();
    return header.next(field, varint) ? header.get_uint64() : 0;
  } catch (const protozero::exception&) {
    return 0;
  }
}

}  // namespace

std::uint64_t cluster_in(std::string_view bytes) { return number_in_header(bytes, 1); }

std::uint64_t term_in(std::string_view bytes) { return number_in_header(bytes, 4); }

std::optional<WatchAnswer> decoded_watch(std::string_view bytes) {
  return whole_message<WatchAnswer>(bytes);
}

std::string_view path_of(const Request& request) {
  // In the order of the alternatives.
  constexpr std::string_view paths[] = {
      "/etcdserverpb.KV/Range",
      "/etcdserverpb.KV/Txn",
      "/etcdserverpb.Lease/LeaseGrant",
      "/etcdserverpb.Lease/LeaseRevoke",
      "/etcdserverpb.Lease/LeaseKeepAlive",
      "/etcdserverpb.Lease/LeaseTimeToLive",
      "/etcdserverpb.Maintenance/Status",
      "/etcdserverpb.Maintenance/Alarm",
      "/etcdserverpb.Cluster/MemberList",
      "/etcdserverpb.Auth/Authenticate",
  };
  static_assert(std::size(paths) == std::variant_size_v<Request>);
  return paths[request.index()];
}

}  // namespace dlock::etcd
