#include "store/local/wake_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "lock/errors.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

std::string name_of(Session session) {
  char name[32];
  std::snprintf(name, sizeof name, "wake-%016llx",
                static_cast<unsigned long long>(session));
  return name;
}

// Through the directory's descriptor: an address has room for 108 bytes, a path for
// thousands.
sockaddr_un address_of(const Directory& directory, Session session) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s",
                directory.pinned(name_of(session)).c_str());
  return address;
}

Fd datagram_socket() {
  return Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The BSD interface wants another type for what is the same bytes.
const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

Fd bound_socket(const Directory& directory, Session session) {
  const auto address = address_of(directory, session);
  Fd socket = datagram_socket();
  if (!socket || ::bind(socket.get(), generic(address), sizeof address) != 0) {
    throw failure_of(errno, "cannot make a socket in " + printable(directory.path()));
  }
  ::fchmodat(directory.fd(), name_of(session).c_str(), directory.file_mode(), 0);
  return socket;
}

}  // namespace

std::optional<Session> session_of_wake_socket(const std::string& name) {
  unsigned long long session = 0;
  const bool is_whole =
      std::sscanf(name.c_str(), "wake-%16llx", &session) == 1 && name == name_of(session);
  return is_whole ? std::optional<Session>(session) : std::nullopt;
}

WakeSocket::WakeSocket(asio::io_context& context, const Directory& directory,
                       Session session, Wakeup& wakeup)
    : directory_(directory),
      session_(session),
      socket_(context, bound_socket(directory, session), [this, &wakeup] {
        char ignored[16];
        while (::recv(socket_.fd(), ignored, sizeof ignored, MSG_DONTWAIT) >= 0) {
        }
        wakeup.notify();
      }) {}

WakeSocket::~WakeSocket() { bury(directory_, session_); }

void Waker::prepare() {
  if (!socket_) socket_ = datagram_socket();
}

void Waker::wake(const Directory& directory, Session session) {
  prepare();
  if (!socket_) return;
  const auto address = address_of(directory, session);
  ::sendto(socket_.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL, generic(address),
           sizeof address);
}

void bury(const Directory& directory, Session session) {
  ::unlinkat(directory.fd(), name_of(session).c_str(), 0);
}

}  // namespace dlock::local
