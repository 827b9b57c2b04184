#include "grpc/grpc.hpp"

#include <algorithm>
#include <limits>

#include "util/text.hpp"

namespace dlock::grpc {

namespace {

// Far more than etcd, or a proxy in front of it, sends.
constexpr std::size_t most_header_bytes = 16u << 10;

constexpr std::size_t prefix_size = 5;  // whether it is compressed, and the length

// Any other number is treated as "unknown".
Code code_from(int number) {
  for (const auto code :
       {Code::ok, Code::invalid_argument, Code::not_found, Code::permission_denied,
        Code::resource_exhausted, Code::failed_precondition, Code::unimplemented,
        Code::internal, Code::unavailable, Code::unauthenticated}) {
    if (static_cast<int>(code) == number) return code;
  }
  // Cancelled, deadline exceeded, aborted: another member may succeed.
  return number == 1 || number == 4 || number == 10 ? Code::unavailable : Code::unknown;
}

// For a reply that is not gRPC, for example from a proxy.
Code code_from_http(std::string_view status) {
  if (status == "401") return Code::unauthenticated;
  if (status == "403") return Code::permission_denied;
  if (status == "404") return Code::unimplemented;
  if (status == "429" || status == "502" || status == "503" || status == "504") {
    return Code::unavailable;
  }
  return Code::unknown;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Invalid escapes are left as they are.
std::string percent_decoded_if_it_is(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool has_two = text[i] == '%' && i + 2 < text.size();
    const int high = has_two ? hex_digit(text[i + 1]) : -1;
    const int low = has_two ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      out += text[i];
    } else {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::size_t length_at(std::string_view prefix) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < prefix_size; ++i) {
    length = length << 8 | static_cast<unsigned char>(prefix[i]);
  }
  return length;
}

}  // namespace

bool Headers::add(std::string_view name, std::string_view value) {
  size_ += name.size() + value.size();
  if (size_ > most_header_bytes) return false;
  if (name == ":status") http_status_ = value;
  if (name == "content-type") content_type_ = value;
  if (name == "grpc-status") status_ = value;
  if (name == "grpc-message") message_ = percent_decoded_if_it_is(value);
  return true;
}

std::optional<CallOutcome> Headers::outcome() const {
  if (http_status_.empty()) return std::nullopt;
  if (http_status_ != "200") {
    return CallOutcome{code_from_http(http_status_), "HTTP status " + http_status_};
  }
  if (!content_type_.starts_with("application/grpc")) {
    return CallOutcome{Code::unknown, "not a gRPC reply"};
  }
  if (!status_) return std::nullopt;
  const auto number = number_in<int>(*status_);
  return CallOutcome{number ? code_from(*number) : Code::unknown, message_};
}

std::string framed(std::string_view message) {
  std::string bytes(1, '\0');
  for (const int shift : {24, 16, 8, 0}) {
    bytes += static_cast<char>(message.size() >> shift & 0xFF);
  }
  bytes += message;
  return bytes;
}

bool MessageReader::feed(std::string_view bytes) {
  if (failed_) return false;
  bytes_.erase(0, begin_);
  checked_ -= begin_;
  begin_ = 0;
  bytes_ += bytes;
  failed_ = bytes_.size() > most_;
  // The length is checked before its bytes arrive.
  while (!failed_ && bytes_.size() - checked_ >= prefix_size) {
    const auto prefix = std::string_view(bytes_).substr(checked_, prefix_size);
    const auto length = length_at(prefix);
    const bool is_compressed = prefix[0] != 0;  // which we did not offer to understand
    failed_ = is_compressed || length > most_ - prefix_size;
    if (bytes_.size() - checked_ - prefix_size < length) break;
    checked_ += prefix_size + length;
  }
  return !failed_;
}

std::optional<std::string> MessageReader::next() {
  const auto left = std::string_view(bytes_).substr(begin_);
  if (failed_ || left.size() < prefix_size) return std::nullopt;
  const auto length = length_at(left);
  if (left.size() - prefix_size < length) return std::nullopt;
  begin_ += prefix_size + length;
  return std::string(left.substr(prefix_size, length));
}

std::string timeout_text(milliseconds timeout) {
  constexpr std::int64_t most = 99'999'999;  // eight digits
  const auto count = std::clamp<std::int64_t>(timeout.count(), 1, most);
  return std::to_string(count) + "m";
}

}  // namespace dlock::grpc
