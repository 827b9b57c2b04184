// The address of a service manager, as NOTIFY_SOCKET names it.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "cli/run/service_notice.hpp"

namespace dlock {
namespace {

std::string name_in(const NotifyAddress& address) {
  return {address.address.sun_path, address.size - offsetof(sockaddr_un, sun_path)};
}

TEST(NotifyAddress, is_a_path_with_its_zero_or_an_abstract_name_without_one) {
  EXPECT_EQ(name_in(notify_address("/run/notify").value()),
            std::string("/run/notify\0", 12));
  EXPECT_EQ(name_in(notify_address("@notify").value()), std::string("\0notify", 7));
}

TEST(NotifyAddress, is_nothing_else) {
  for (const auto* text : {"", "/", "@", "notify", "./notify", "vsock:2:1"}) {
    EXPECT_FALSE(notify_address(text)) << text;
  }
  EXPECT_TRUE(notify_address("/" + std::string(106, 'a')));
  EXPECT_FALSE(notify_address("/" + std::string(107, 'a')));
}

}  // namespace
}  // namespace dlock
