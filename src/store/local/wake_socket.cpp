#include "store/local/wake_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "store/local/watchers.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {

std::string name_of(Session session) {
  char name[32];
  std::snprintf(name, sizeof name, "wake-%016llx",
                static_cast<unsigned long long>(session));
  return name;
}

sockaddr_un address_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  return address;
}

Fd datagram_socket() {
  return Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The socket interface requires a cast to the generic address type.
const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

// Through the directory's descriptor: an address has 108 bytes, a path may have
// thousands.
Fd bound_socket(const Directory& directory, Session session) {
  const auto address = address_at(directory.pinned(name_of(session)));
  Fd socket = datagram_socket();
  constexpr mode_t all = 0777;
  const auto umask = ::umask(all & ~directory.file_mode());
  const bool is_bound =
      socket && ::bind(socket.get(), generic(address), sizeof address) == 0;
  const int error = errno;
  ::umask(umask);
  if (!is_bound) {
    throw failure_of(error, "cannot make a socket in " + printable(directory.path()));
  }
  return socket;
}

// Opens the file with that name; an invalid Fd if it is not a dlock socket, as a link
// could lead to another program's.
Fd opened_socket(const Directory& directory, Session session) {
  Fd found(::openat(directory.fd(), name_of(session).c_str(),
                    O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool is_socket = found && ::fstat(found.get(), &status) == 0 &&
                         S_ISSOCK(status.st_mode) && status.st_nlink == 1 &&
                         directory.is_made_by_dlock(status);
  return is_socket ? std::move(found) : Fd();
}

// The contents of datagrams do not matter; no more are read at a time than dlock sends,
// so that a flood cannot keep us busy.
void drain(int socket) {
  constexpr int most = 64;
  char ignored[16];
  for (int count = 0; count < most; ++count) {
    if (::recv(socket, ignored, sizeof ignored, MSG_DONTWAIT) < 0) return;
  }
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
      socket_(
          context, bound_socket(directory, session),
          [this, &wakeup] {
            drain(socket_.fd());
            wakeup.notify();
          },
          pause_in_a_flood()) {}

WakeSocket::~WakeSocket() { remove_wake_socket(directory_, session_); }

void Waker::prepare() {
  if (!socket_) socket_ = datagram_socket();
}

bool Waker::let_go() {
  const bool had_one = static_cast<bool>(socket_);
  socket_.reset();
  return had_one;
}

void Waker::wake(const Directory& directory, Session session) {
  prepare();
  const Fd to = opened_socket(directory, session);
  if (!socket_ || !to) return;
  const auto address = address_at("/proc/self/fd/" + std::to_string(to.get()));
  ::sendto(socket_.get(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL, generic(address),
           sizeof address);
}

void remove_wake_socket(const Directory& directory, Session session) {
  ::unlinkat(directory.fd(), name_of(session).c_str(), 0);
}

}  // namespace dlock::local
