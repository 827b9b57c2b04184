// Decodes messages about keys.
#include <utility>

#include "store/etcd/fields.hpp"

namespace dlock::etcd {
namespace {

// For results that contain both.
template <typename Message>
void take_header(pbf_reader from, Message& message) {
  const auto header = header_in(from);
  message.revision = header.revision;
  message.term = header.term;
}

// The result of one operation; nothing if its type is unknown.
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

}  // namespace

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

void read(pbf_reader& from, KeyChange& event, Count& count) {
  switch (from.tag_and_type()) {
    case field(1, varint):
      event.kind =
          from.get_enum() == 0 ? KeyChange::Kind::put : KeyChange::Kind::deletion;
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
      answer.events.push_back(message_in<KeyChange>(from.get_message(), count));
      break;
    default: from.skip();
  }
}

}  // namespace dlock::etcd
