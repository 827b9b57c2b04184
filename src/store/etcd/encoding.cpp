// Encodes requests as messages. Fields that are zero or empty are omitted, which means
// the same.
#include <protozero/pbf_writer.hpp>

#include "store/etcd/messages.hpp"

namespace dlock::etcd {
namespace {

using protozero::pbf_writer;

void add(pbf_writer& to, unsigned tag, std::int64_t number) {
  if (number != 0) to.add_int64(tag, number);
}
void add(pbf_writer& to, unsigned tag, bool flag) {
  if (flag) to.add_bool(tag, flag);
}
void add(pbf_writer& to, unsigned tag, const std::string& text) {
  if (!text.empty()) to.add_bytes(tag, text);
}

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
  add(to, 4, put.prev_kv);
  add(to, 5, put.ignore_value);
  add(to, 6, put.ignore_lease);
}

void write(pbf_writer& to, const DeleteRequest& deletion) {
  add(to, 1, deletion.key);
  add(to, 2, deletion.range_end);
  add(to, 3, deletion.prev_kv);
}

// Each comparison has its operand in a field of its own, also if it is 0.
void write(pbf_writer& to, const Compare& compare) {
  to.add_enum(1, static_cast<int>(compare.result));
  to.add_enum(2, static_cast<int>(compare.target));
  add(to, 3, compare.key);
  switch (compare.target) {
    case Compare::Target::version: to.add_int64(4, compare.number); break;
    case Compare::Target::create_revision: to.add_int64(5, compare.number); break;
    case Compare::Target::mod_revision: to.add_int64(6, compare.number); break;
    case Compare::Target::value: to.add_bytes(7, compare.value); break;
    case Compare::Target::lease: to.add_int64(8, compare.number); break;
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

std::string encoded(const Request& request) {
  std::string bytes;
  pbf_writer writer(bytes);
  std::visit([&](const auto& one) { write(writer, one); }, request);
  return bytes;
}

std::string encoded(const WatchRequest& request, std::int64_t id) {
  std::string bytes;
  pbf_writer writer(bytes);
  {
    pbf_writer create(writer, 1);
    add(create, 1, request.key);
    add(create, 2, request.range_end);
    add(create, 3, request.start_revision);
    constexpr int no_put = 0;
    constexpr int no_delete = 1;
    if (request.no_put) create.add_enum(5, no_put);
    if (request.no_delete) create.add_enum(5, no_delete);
    add(create, 6, request.prev_kv);
    add(create, 7, id);
  }
  return bytes;
}

}  // namespace dlock::etcd
