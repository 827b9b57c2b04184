// Servers that behave as a test says, however badly.
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "net/dial.hpp"
#include "util/fd.hpp"

namespace dlock {

// PING as a Redis client sends it.
inline const std::string ping = "*1\r\n$4\r\nPING\r\n";

// The server's side of one connection. Each of its waits ends after 5 s.
class Peer {
 public:
  Peer(int fd, std::function<void(std::string_view)> note)
      : fd_(fd), note_(std::move(note)) {}

  int fd() const { return fd_; }

  // Returns false if the client has disconnected.
  bool send(std::string_view bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  }

  // Reads until the data ends with `end`. Returns false if that never happens.
  bool read_until(std::string_view end) const {
    std::string text;
    while (text.size() < end.size() ||
           text.compare(text.size() - end.size(), end.size(), end) != 0) {
      char bytes[4096];
      const auto size = ::recv(fd_, bytes, sizeof bytes, 0);
      if (size <= 0) return false;
      text.append(bytes, static_cast<std::size_t>(size));
      note_({bytes, static_cast<std::size_t>(size)});
    }
    return true;
  }

  // Reads until the client closes the connection.
  void read_all() const {
    while (read_until(std::string_view("\0", 1))) {
    }
  }

 private:
  int fd_;
  std::function<void(std::string_view)> note_;
};

// Listens in its own thread, and serves one client at a time.
class PeerServer {
 public:
  using Talk = std::function<void(const Peer&)>;

  explicit PeerServer(Talk talk, const std::string& address = "127.0.0.1")
      : talk_(std::move(talk)) {
    const auto endpoint = address.front() == '/' ? net::endpoint_of_path(address)
                                                 : *net::endpoint_of_literal(address, 0);
    listener_ = Fd(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener_.get(), endpoint.generic(), endpoint.size) != 0 ||
        ::listen(listener_.get(), 16) != 0) {
      throw std::runtime_error("cannot listen on " + address);
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~PeerServer() {
    is_ending_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      if (current_ >= 0) ::shutdown(current_, SHUT_RDWR);
    }
    thread_.join();
  }
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  std::uint16_t port() const {
    sockaddr_in6 bound{};
    socklen_t size = sizeof bound;
    ::getsockname(listener_.get(), static_cast<sockaddr*>(static_cast<void*>(&bound)),
                  &size);
    return ntohs(bound.sin6_port);  // has the same offset in both families
  }

  // Everything that clients sent and that was read.
  std::string received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

  int connections() const { return connections_; }

 private:
  void serve() {
    // OpenSSL writes to clients that have disconnected. The signal is blocked in this
    // thread only, because clients have to work with it unblocked.
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    while (!is_ending_) {
      const Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) return;
      const timeval patience{5, 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      ++connections_;
      set_current(fd.get());
      if (!is_ending_) {
        talk_(Peer(fd.get(), [this](std::string_view bytes) {
          const std::lock_guard lock(mutex_);
          received_ += bytes;
        }));
      }
      set_current(-1);
    }
  }

  void set_current(int fd) {
    const std::lock_guard lock(mutex_);
    current_ = fd;
  }

  Talk talk_;
  Fd listener_;
  mutable std::mutex mutex_;
  std::string received_;
  int current_ = -1;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace dlock
