// Messages to the service manager that has started this process, as sd_notify(3) sends
// them.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string_view>

namespace dlock {

struct NotifyAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
  int type = SOCK_DGRAM;
};

// The address in a NOTIFY_SOCKET: an absolute path, `@` and the name of an abstract
// socket, or vsock:CID:PORT (also vsock-dgram:, vsock-stream:, vsock-seqpacket:). Nothing
// if it is none of these, or too long.
std::optional<NotifyAddress> notify_address(std::string_view text);

// Sends one message. Returns 0 or an errno; EAGAIN if the receiver is too busy now.
// Never waits for it, but for up to 100 ms for the connection of a stream.
int send_notification(const NotifyAddress& to, std::string_view message);

}  // namespace dlock
