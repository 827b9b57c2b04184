#include "util/notify_socket.hpp"

#include <linux/vm_sockets.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

struct VsockScheme {
  std::string_view prefix;
  int type;
};
// Without a type, packets: no host has datagrams for its virtual machines by default.
constexpr VsockScheme vsock_schemes[] = {{"vsock:", SOCK_SEQPACKET},
                                         {"vsock-seqpacket:", SOCK_SEQPACKET},
                                         {"vsock-dgram:", SOCK_DGRAM},
                                         {"vsock-stream:", SOCK_STREAM}};

template <typename Address>
NotifyAddress with(const Address& address, std::size_t size, int type) {
  NotifyAddress to;
  std::copy_n(reinterpret_cast<const char*>(&address), size,
              reinterpret_cast<char*>(&to.address));
  to.size = static_cast<socklen_t>(size);
  to.type = type;
  return to;
}

std::optional<NotifyAddress> unix_address(std::string_view text) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (text.size() < 2 || text.size() >= sizeof address.sun_path) return std::nullopt;
  std::copy(text.begin(), text.end(), address.sun_path);
  const bool is_abstract = text.front() == '@';
  if (is_abstract) address.sun_path[0] = '\0';
  // The zero at the end belongs to a path, but would be a part of an abstract name.
  const auto length = text.size() + (is_abstract ? 0 : 1);
  return with(address, offsetof(sockaddr_un, sun_path) + length, SOCK_DGRAM);
}

std::optional<NotifyAddress> vsock_address(std::string_view text, int type) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto cid = number_in<std::uint32_t>(text.substr(0, colon));
  const auto port = number_in<std::uint32_t>(text.substr(colon + 1));
  if (!cid || !port) return std::nullopt;
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = *cid;
  address.svm_port = *port;
  return with(address, sizeof address, type);
}

}  // namespace

std::optional<NotifyAddress> notify_address(std::string_view text) {
  if (text.starts_with('/') || text.starts_with('@')) return unix_address(text);
  for (const auto& [prefix, type] : vsock_schemes) {
    if (text.starts_with(prefix)) return vsock_address(text.substr(prefix.size()), type);
  }
  return std::nullopt;
}

int send_notification(const NotifyAddress& to, std::string_view message) {
  const Fd fd(::socket(to.address.ss_family, to.type | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  if (to.address.ss_family == AF_VSOCK) {
    const timeval patience{0, 100'000};
    ::setsockopt(fd.get(), AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience,
                 sizeof patience);
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0) {
    return errno;
  }
  const auto sent =
      ::send(fd.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? errno : 0;
}

}  // namespace dlock
