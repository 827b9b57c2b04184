// Records as bytes, in the order of this machine, for files that do not leave it.
//
// The fields of a record are listed once: its fields_in_bytes() calls `visit(value)` for
// each of them. With a ByteWriter as `visit` that list writes the bytes, with a
// ByteReader it reads them.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lock/lease.hpp"
#include "record/json_fields.hpp"
#include "util/text.hpp"

namespace dlock::record {

class ByteWriter {
 public:
  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  void operator()(const Token& token) {
    bytes.append(reinterpret_cast<const char*>(token.bytes.data()), token.bytes.size());
  }
  void operator()(As<uid, const std::string> user) {
    (*this)(number_in<std::uint32_t>(user.value).value_or(0));
  }
  void operator()(Fence fence) { (*this)(fence.number); }
  void operator()(Mode mode) { (*this)(static_cast<std::uint8_t>(mode)); }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period> span) {
    (*this)(static_cast<std::int64_t>(span.count()));
  }
  void operator()(Clock::time_point moment) { (*this)(moment.time_since_epoch()); }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    (*this)(static_cast<std::uint8_t>(value.has_value()));
    if (value) (*this)(*value);
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) (*this)(value);
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(const T& value) { fields_in_bytes(value, *this); }

  std::string bytes;
};

// Thrown by a ByteReader for bytes that no ByteWriter has written.
struct Malformed {};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  template <typename T>
    requires std::is_integral_v<T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void operator()(bool& value) { value = number<std::uint8_t>() != 0; }
  void operator()(std::string& text) { text = take(number<std::uint32_t>()); }
  void operator()(Token& token) {
    std::memcpy(token.bytes.data(), take(token.bytes.size()).data(), token.bytes.size());
  }
  void operator()(As<uid, std::string> user) {
    user.value = std::to_string(number<std::uint32_t>());
  }
  void operator()(Fence& fence) { (*this)(fence.number); }
  void operator()(Mode& mode) {
    const auto value = number<std::uint8_t>();
    if (value > 1) throw Malformed{};
    mode = static_cast<Mode>(value);
  }
  template <typename Rep, typename Period>
  void operator()(std::chrono::duration<Rep, Period>& span) {
    span = std::chrono::duration<Rep, Period>(number<std::int64_t>());
  }
  void operator()(Clock::time_point& moment) {
    moment = Clock::time_point(nanoseconds(number<std::int64_t>()));
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    value.reset();
    if (number<std::uint8_t>() != 0) (*this)(value.emplace());
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    // A file is mostly small; a list in it that is long grows as it is read.
    constexpr std::uint32_t usual = 20;
    const auto count = number<std::uint32_t>();
    check_count(count);
    values.clear();
    values.reserve(std::min(count, usual));
    for (std::uint32_t i = 0; i < count; ++i) (*this)(values.emplace_back());
  }
  template <typename T>
    requires std::is_class_v<T>
  void operator()(T& value) { fields_in_bytes(value, *this); }

  template <typename T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  // Throws unless so many elements, of at least so many bytes each, can follow: a forged
  // count must not exhaust memory.
  void check_count(std::uint64_t count, std::size_t least = 1) const {
    if (count > left_.size() / least) throw Malformed{};
  }

  bool at_end() const { return left_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > left_.size()) throw Malformed{};
    const auto taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

}  // namespace dlock::record
