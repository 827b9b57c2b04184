#include "net/net_failures.hpp"

#include <cstring>

#include "util/bits.hpp"

namespace dlock::net {

std::string lower_first(std::string reason) {
  const auto is_between = [](char c, char first, char last) {
    return c >= first && c <= last;
  };
  // Abbreviations keep their capitals: "RPC struct is bad".
  if (reason.size() > 1 && is_between(reason[0], 'A', 'Z') &&
      !is_between(reason[1], 'A', 'Z')) {
    reason[0] = static_cast<char>(reason[0] - 'A' + 'a');
  }
  return reason;
}

std::string reason_of(int error_number) {
  return lower_first(std::strerror(error_number));
}

std::string kind_of_server(std::string_view first_bytes) {
  struct Greeting {
    std::string_view bytes;
    std::string_view kind;
  };
  using namespace std::string_view_literals;
  constexpr Greeting greetings[] = {
      {"HTTP/"sv, "it looks like an HTTP server"},
      {"<"sv, "it looks like an HTTP server"},
      {"SSH-"sv, "it looks like an SSH server"},
      {"220"sv, "it looks like a mail or FTP server"},
      {"421"sv, "it looks like a mail or FTP server"},
      {"554"sv, "it looks like a mail or FTP server"},
      {"ERROR\r\n"sv, "it looks like memcached"},
      {"RFB "sv, "it looks like a VNC server"},
      {"AMQP"sv, "it looks like an AMQP server"},
      {"\x15\x03"sv, "it requires TLS"},
      {"\0\0\x06\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x0c\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x12\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"\0\0\x18\x04"sv, "it looks like etcd or another HTTP/2 server"},
      {"RCmb"sv, "it looks like the cluster bus of Redis: use the port of clients"},
      {"-ERR"sv, "it looks like a Redis server"},
      {"-DENIED"sv, "it looks like a Redis server"},
      {"-NOAUTH"sv, "it looks like a Redis server"},
  };
  for (const auto& [bytes, kind] : greetings) {
    if (first_bytes.starts_with(bytes)) return "; " + std::string(kind);
  }
  return "";
}

Failure with_tls_hint(const Failure& failure, const std::string& scheme) {
  return Failure(failure.kind(),
                 std::string(failure.what()) + "; does it require TLS (" + scheme + ")?");
}

Failure cannot_reach(const std::string& server, const std::string& why) {
  return Failure(Failure::Kind::unreachable, "cannot reach " + server + ": " + why);
}

milliseconds patience_with(const Failure& failure, milliseconds timeout) {
  const auto* refusal = dynamic_cast<const Refusal*>(&failure);
  if (refusal == nullptr) return milliseconds(0);
  return refusal->reason() == Refusal::Reason::overloaded ? timeout : timeout / 4;
}

milliseconds Backoff::next() {
  const auto half = longest_.next() / 2;
  return half + milliseconds(random_up_to(static_cast<std::uint64_t>(half.count())));
}

}  // namespace dlock::net
