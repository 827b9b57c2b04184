// Decodes messages about leases, members and logins.
#include "store/etcd/fields.hpp"

namespace dlock::etcd {
namespace {

Alarm::Kind alarm_from(std::int32_t number) {
  switch (number) {
    case 0: return Alarm::Kind::none;
    case 1: return Alarm::Kind::no_space;
    case 2: return Alarm::Kind::corrupt;
    default: return Alarm::Kind::other;
  }
}

}  // namespace

void read(pbf_reader& from, LeaseGrantResult& grant, Count&) {
  switch (from.tag_and_type()) {
    case field(1, bytes_type): grant.term = header_in(from.get_message()).term; break;
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

void read(pbf_reader& from, LeaseTimeToLiveResult& lease, Count&) {
  switch (from.tag_and_type()) {
    case field(3, varint): lease.ttl = from.get_int64(); break;
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
    case field(10, varint): status.is_learner = flag_in(from); break;
    default: from.skip();
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

void read(pbf_reader& from, Member& member, Count&) {
  switch (from.tag_and_type()) {
    case field(1, varint): member.id = from.get_uint64(); break;
    case field(2, bytes_type): member.name = from.get_bytes(); break;
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

}  // namespace dlock::etcd
