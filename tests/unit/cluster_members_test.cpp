#include <gtest/gtest.h>

#include "store/redis_cluster/members.hpp"

namespace dlock::redis_cluster {
namespace {

using redis::Reply;

const Address self{"10.0.0.1", 7000};

Reply of(Reply::Kind kind, const std::string& bytes, std::int64_t integer = 0) {
  Reply reply;
  reply.kind = kind;
  reply.text = bytes;
  reply.integer = integer;
  return reply;
}

Reply error(const std::string& words) { return of(Reply::Kind::error, words); }
Reply number(std::int64_t value) { return of(Reply::Kind::integer, "", value); }

Reply list_of(std::vector<Reply> elements) {
  Reply reply;
  reply.kind = Reply::Kind::array;
  reply.elements = std::move(elements);
  return reply;
}

Reply slots(std::int64_t first, std::int64_t last, const std::string& host,
            std::int64_t port) {
  return list_of({number(first), number(last),
                  list_of({of(Reply::Kind::string, host), number(port)})});
}

TEST(Redirection, points_to_an_address_or_to_another_port_of_the_same_host) {
  EXPECT_EQ(pointed_to(error("MOVED 3999 10.0.0.2:6381"), self),
            (Address{"10.0.0.2", 6381}));
  EXPECT_EQ(pointed_to(error("ASK 3999 ::1:6381"), self), (Address{"::1", 6381}));
  EXPECT_EQ(pointed_to(error("MOVED 3999 :6381"), self), (Address{"10.0.0.1", 6381}));
  EXPECT_EQ(pointed_to(error("MOVED 3999 ?:6381"), self), (Address{"10.0.0.1", 6381}));
}

TEST(Redirection, to_nowhere_is_none) {
  for (const char* text :
       {"MOVED", "MOVED 3999", "MOVED 3999 host", "MOVED 3999 host:0",
        "MOVED 3999 host:65536", "MOVED 3999 host:1x", "MOVED 1 2 h:1"}) {
    EXPECT_EQ(pointed_to(error(text), self), std::nullopt) << text;
  }
}

TEST(Primaries, are_each_told_once_with_the_slots_of_all) {
  const auto found = primaries_from(
      list_of({slots(0, 100, "10.0.0.2", 7001), slots(101, 16383, "", 7000),
               slots(200, 200, "10.0.0.2", 7001)}),
      self);

  ASSERT_TRUE(found);
  EXPECT_EQ(found->addresses, (std::vector<Address>{{"10.0.0.2", 7001}, self}));
  EXPECT_EQ(found->slots, 16385U);
}

TEST(Primaries, of_a_reply_of_another_shape_are_none) {
  EXPECT_FALSE(primaries_from(error("ERR"), self));
  EXPECT_FALSE(primaries_from(list_of({number(1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(5, 4, "h", 1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(0, 16384, "h", 1)}), self));
  EXPECT_FALSE(primaries_from(list_of({slots(0, 1, "h", 0)}), self));
}

TEST(OwnReplicas, count_where_they_are_not_seen_down) {
  const std::string nodes =
      "aaa 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-16383\n"
      "bbb 10.0.0.2:7000@17000 slave aaa 0 1 1 connected\n"
      "ccc 10.0.0.3:7000@17000 slave,fail aaa 0 1 1 connected\n"
      "ddd 10.0.0.4:7000@17000 slave,fail? aaa 0 1 1 connected\n"
      "eee 10.0.0.5:7000@17000 slave zzz 0 1 1 connected\n";

  EXPECT_EQ(own_replicas_up(nodes), 2U);  // one that it suspects alone counts
  EXPECT_EQ(own_replicas_up(""), 0U);
  EXPECT_EQ(own_replicas_up("aaa\nbbb 1 slave\n"), 0U);
}

}  // namespace
}  // namespace dlock::redis_cluster
