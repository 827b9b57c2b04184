// The members of a Redis Cluster, as its nodes name them.

#include "store/redis_cluster/cluster_members.hpp"

#include <gtest/gtest.h>

namespace dlock::redis_cluster {
namespace {

using redis::Reply;

const ServerAddress self{"10.0.0.1", 7000};

Reply of(Reply::Kind kind, const std::string& bytes, std::int64_t integer = 0) {
  return {kind, integer, bytes, {}};
}

Reply error(const std::string& words) { return of(Reply::Kind::error, words); }
Reply number(std::int64_t value) { return of(Reply::Kind::integer, "", value); }

Reply list_of(std::vector<Reply> elements) {
  return {Reply::Kind::array, 0, {}, std::move(elements)};
}

Reply slots(std::int64_t first, std::int64_t last, const std::string& host,
            std::int64_t port) {
  return list_of({number(first), number(last),
                  list_of({of(Reply::Kind::string, host), number(port)})});
}

TEST(Redirection, points_to_an_address_or_to_another_port_of_the_same_host) {
  EXPECT_EQ(pointed_to(error("MOVED 3999 10.0.0.2:6381"), self),
            (ServerAddress{"10.0.0.2", 6381}));
  EXPECT_EQ(pointed_to(error("ASK 3999 ::1:6381"), self), (ServerAddress{"::1", 6381}));
  EXPECT_EQ(pointed_to(error("MOVED 3999 :6381"), self),
            (ServerAddress{"10.0.0.1", 6381}));
  EXPECT_EQ(pointed_to(error("MOVED 3999 ?:6381"), self),
            (ServerAddress{"10.0.0.1", 6381}));
}

TEST(Redirection, without_a_valid_address_is_ignored) {
  for (const char* text :
       {"MOVED", "MOVED 3999", "MOVED 3999 host", "MOVED 3999 host:0",
        "MOVED 3999 host:65536", "MOVED 3999 host:1x", "MOVED 1 2 h:1"}) {
    EXPECT_EQ(pointed_to(error(text), self), std::nullopt) << text;
  }
}

TEST(Primaries, are_listed_once_and_their_slots_are_added_up) {
  const auto found = primaries_from(
      list_of({slots(0, 100, "10.0.0.2", 7001), slots(101, 16383, "", 7000),
               slots(200, 200, "10.0.0.2", 7001)}),
      self);

  ASSERT_TRUE(found);
  EXPECT_EQ(found->addresses, (std::vector<ServerAddress>{{"10.0.0.2", 7001}, self}));
  EXPECT_EQ(found->slots, 16385U);
}

TEST(Primaries, are_not_read_from_a_malformed_reply) {
  EXPECT_FALSE(primaries_from(error("ERR"), self));
  EXPECT_FALSE(primaries_from(list_of({number(1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(5, 4, "h", 1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(0, 16384, "h", 1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(0, 1, "h", 0)}), self));
}

TEST(OwnReplicas, count_unless_they_are_marked_as_failed) {
  const std::string nodes =
      "aaa 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-16383\n"
      "bbb 10.0.0.2:7000@17000 slave aaa 0 1 1 connected\n"
      "ccc 10.0.0.3:7000@17000 slave,fail aaa 0 1 1 connected\n"
      "ddd 10.0.0.4:7000@17000 slave,fail? aaa 0 1 1 connected\n"
      "eee 10.0.0.5:7000@17000 slave zzz 0 1 1 connected\n";

  EXPECT_EQ(count_replicas_up(nodes), 2U);  // "fail?" is only a suspicion
  EXPECT_EQ(count_replicas_up(""), 0U);
  EXPECT_EQ(count_replicas_up("aaa\nbbb 1 slave\n"), 0U);
}

}  // namespace
}  // namespace dlock::redis_cluster
