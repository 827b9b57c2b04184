// Helpers to decode protobuf messages.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>

#include "store/etcd/messages.hpp"

namespace dlock::etcd {

using protozero::pbf_reader;

constexpr auto varint = protozero::pbf_wire_type::varint;
constexpr auto bytes_type = protozero::pbf_wire_type::length_delimited;

// A field with its expected type. A field of another type, or with an unknown number, is
// skipped.
constexpr std::uint32_t field(protozero::pbf_tag_type number,
                              protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}

// Counts the elements of a message.
class Count {
 public:
  // Throws if the message has too many.
  void one_more() {
    if (++count_ > most_elements) throw protozero::invalid_length_exception();
  }

 private:
  std::size_t count_ = 0;
};

// protozero's get_bool() reads a byte without checking that there is one.
inline bool flag_in(pbf_reader& from) { return from.get_uint64() != 0; }

// The header of a response.
struct Header {
  std::uint64_t member = 0;
  std::int64_t revision = 0;
  std::uint64_t term = 0;
};

Header header_in(pbf_reader from);

// Each reads one field of its message, or skips it.
void read(pbf_reader& from, KeyValue& pair, Count& count);
void read(pbf_reader& from, RangeResult& range, Count& count);
void read(pbf_reader& from, PutResult& put, Count& count);
void read(pbf_reader& from, DeleteResult& deletion, Count& count);
void read(pbf_reader& from, TxnResult& txn, Count& count);
void read(pbf_reader& from, LeaseGrantResult& grant, Count& count);
void read(pbf_reader& from, LeaseRevokeResult& revoked, Count& count);
void read(pbf_reader& from, LeaseKeepAliveResult& kept, Count& count);
void read(pbf_reader& from, LeaseTimeToLiveResult& lease, Count& count);
void read(pbf_reader& from, StatusResult& status, Count& count);
void read(pbf_reader& from, Alarm& alarm, Count& count);
void read(pbf_reader& from, AlarmsResult& alarms, Count& count);
void read(pbf_reader& from, Member& member, Count& count);
void read(pbf_reader& from, MemberListResult& list, Count& count);
void read(pbf_reader& from, AuthenticateResult& login, Count& count);
void read(pbf_reader& from, KeyChange& event, Count& count);
void read(pbf_reader& from, WatchAnswer& answer, Count& count);

// Reads a whole message.
template <typename Message>
Message message_in(pbf_reader from, Count& count) {
  count.one_more();
  Message message;
  while (from.next()) read(from, message, count);
  return message;
}

}  // namespace dlock::etcd
