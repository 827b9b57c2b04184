// The address of a service manager, as NOTIFY_SOCKET names it.

#include <gtest/gtest.h>
#include <linux/vm_sockets.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "cli/run/service_notice.hpp"

namespace dlock {
namespace {

std::string name_in(const NotifyAddress& address) {
  sockaddr_un socket{};
  std::memcpy(&socket, &address.address, address.size);
  return {socket.sun_path, address.size - offsetof(sockaddr_un, sun_path)};
}

TEST(NotifyAddress, is_a_path_with_its_zero_or_an_abstract_name_without_one) {
  EXPECT_EQ(name_in(notify_address("/run/notify").value()),
            std::string("/run/notify\0", 12));
  EXPECT_EQ(name_in(notify_address("@notify").value()), std::string("\0notify", 7));
}

TEST(NotifyAddress, can_be_that_of_the_host_of_a_virtual_machine) {
  const auto address = notify_address("vsock:2:1234").value();
  sockaddr_vm host{};
  std::memcpy(&host, &address.address, sizeof host);

  EXPECT_EQ(host.svm_family, AF_VSOCK);
  EXPECT_EQ(host.svm_cid, 2u);
  EXPECT_EQ(host.svm_port, 1234u);
  EXPECT_EQ(address.type, SOCK_SEQPACKET);
  EXPECT_EQ(notify_address("vsock-stream:2:1").value().type, SOCK_STREAM);
  EXPECT_EQ(notify_address("vsock-dgram:2:1").value().type, SOCK_DGRAM);
}

TEST(NotifyAddress, is_nothing_else) {
  for (const auto* text : {"", "/", "@", "notify", "./notify", "vsock:2", "vsock:2:",
                           "vsock::1", "vsock:x:1", "vsock:2:99999999999", "tcp:2:1"}) {
    EXPECT_FALSE(notify_address(text)) << text;
  }
  EXPECT_TRUE(notify_address("/" + std::string(106, 'a')));
  EXPECT_FALSE(notify_address("/" + std::string(107, 'a')));
}

}  // namespace
}  // namespace dlock
