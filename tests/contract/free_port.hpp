// Ports of 127.0.0.1, for servers that need more than a unix socket.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <stdexcept>
#include <string>

#include "util/bits.hpp"
#include "util/fd.hpp"

namespace dlock {

// A socket that listens on this port or is connected to it; no descriptor if that fails.
inline Fd local_socket(unsigned port, bool listening) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  const int result = listening ? ::bind(fd.get(), generic, sizeof address)
                               : ::connect(fd.get(), generic, sizeof address);
  if (result != 0) return Fd();
  return fd;
}

inline bool listens(const std::string& port) {
  return static_cast<bool>(local_socket(static_cast<unsigned>(std::stoul(port)), false));
}

// A port such that neither it nor the port `pair` above it is in use.
inline std::string free_port(unsigned pair = 0) {
  constexpr unsigned first = 10'000;
  constexpr unsigned number = 10'000;
  for (int tries = 0; tries < 100; ++tries) {
    const auto port = first + static_cast<unsigned>(random_up_to(number - 1));
    const auto one = local_socket(port, true);
    if (!one) continue;
    if (pair == 0 || local_socket(port + pair, true)) return std::to_string(port);
  }
  throw std::runtime_error("no free port");
}

}  // namespace dlock
