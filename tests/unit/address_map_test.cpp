#include <gtest/gtest.h>

#include "store/url_parts.hpp"

namespace dlock {
namespace {

ServerAddress used(const std::string& map, const std::string& host, std::uint16_t port) {
  return AddressMap::parsed(map).used_for({host, port});
}

TEST(AddressMap, a_host_and_port_stand_for_themselves) {
  const std::string map = "10.0.0.5:6379=db.example:7001";

  EXPECT_EQ(used(map, "10.0.0.5", 6379), (ServerAddress{"db.example", 7001}));
  EXPECT_EQ(used(map, "10.0.0.5", 6380), (ServerAddress{"10.0.0.5", 6380}));
  EXPECT_EQ(used(map, "10.0.0.6", 6379), (ServerAddress{"10.0.0.6", 6379}));
}

TEST(AddressMap, without_a_port_the_port_is_kept) {
  EXPECT_EQ(used("a=b", "a", 6380), (ServerAddress{"b", 6380}));
  EXPECT_EQ(used("a:1=b", "a", 1), (ServerAddress{"b", 1}));
  EXPECT_EQ(used("a=b:9", "a", 1), (ServerAddress{"b", 9}));
}

TEST(AddressMap, an_entry_with_a_port_precedes_one_without) {
  for (const auto* map : {"a=b,a:2=c:3", "a:2=c:3,a=b"}) {
    EXPECT_EQ(used(map, "a", 1), (ServerAddress{"b", 1}));
    EXPECT_EQ(used(map, "a", 2), (ServerAddress{"c", 3}));
  }
}

TEST(AddressMap, spelling_does_not_matter) {
  EXPECT_EQ(used("DB.Example=b", "db.example", 1), (ServerAddress{"b", 1}));
  EXPECT_EQ(used("[0:0::1]:6379=[fe80::2]:7", "::1", 6379),
            (ServerAddress{"fe80::2", 7}));
}

TEST(AddressMap, anything_else_is_refused) {
  for (const auto* text :
       {"", "a", "a=", "=b", "a=b,", ",a=b", "a:0=b", "a:x=b", "a=b:70000", "::1=b",
        "a=b=c", "a=b,a=c", "a b=c", "[::1=b", "a=b/0"}) {
    EXPECT_THROW(AddressMap::parsed(text), Failure) << text;
  }
}

}  // namespace
}  // namespace dlock
