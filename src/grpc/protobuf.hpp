// Helpers to read and write protobuf messages with protozero.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>

namespace dlock::grpc {

using protozero::pbf_reader;
using protozero::pbf_writer;

constexpr auto varint = protozero::pbf_wire_type::varint;
constexpr auto bytes_type = protozero::pbf_wire_type::length_delimited;

// A field with its expected type. A field of another type, or with an unknown number, is
// skipped.
constexpr std::uint32_t field(protozero::pbf_tag_type number,
                              protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}

// Counts the elements of a message (keys, events and the like): each takes far more
// memory than bytes in the message.
class ElementCount {
 public:
  explicit ElementCount(std::size_t most) : left_(most) {}

  // Throws if the message has too many.
  void one_more() {
    if (left_-- == 0) throw protozero::invalid_length_exception();
  }

 private:
  std::size_t left_;
};

// protozero's get_bool() reads a byte without checking that there is one.
inline bool flag_in(pbf_reader& from) { return from.get_uint64() != 0; }

// Reads a whole message with the function read() of its type, which reads one field or
// skips it.
template <typename Message>
Message message_in(pbf_reader from, ElementCount& count) {
  count.one_more();
  Message message;
  while (from.next()) read(from, message, count);
  return message;
}

// Each omits a field that is zero or empty, which means the same.
inline void add(pbf_writer& to, unsigned tag, std::int64_t number) {
  if (number != 0) to.add_int64(tag, number);
}
inline void add(pbf_writer& to, unsigned tag, bool flag) {
  if (flag) to.add_bool(tag, flag);
}
inline void add(pbf_writer& to, unsigned tag, const std::string& text) {
  if (!text.empty()) to.add_bytes(tag, text);
}

}  // namespace dlock::grpc
