// Which keys a lock has, and to which lock a key belongs.

#include <gtest/gtest.h>

#include <set>

#include "store/etcd/etcd_entry.hpp"

namespace dlock::etcd {
namespace {

constexpr std::int64_t day_us = 24LL * 3600 * 1'000'000;

TEST(EtcdKeys, a_lock_has_the_same_keys_as_one_of_etcdctl) {
  EXPECT_EQ(queue_prefix({"dlock", "job"}), "dlock/job/");
  EXPECT_EQ(id_of(0x694d7f3a), "694d7f3a");
}

TEST(EtcdKeys, slashes_percent_signs_and_leading_dots_are_encoded) {
  EXPECT_EQ(queue_prefix({"a/b", "c/d"}), "a%2Fb/c%2Fd/");
  EXPECT_EQ(queue_prefix({"ns", ".runs"}), "ns/%2Eruns/");
  EXPECT_EQ(queue_prefix({"ns", "100%"}), "ns/100%25/");
  EXPECT_EQ(queue_prefix({"ns", "v1.2 ü"}), "ns/v1.2 ü/");
}

TEST(EtcdKeys, each_key_maps_back_to_its_lock) {
  for (const std::string name : {"job", "a/b", ".fence", "%2F", "with space", ".", "ü"}) {
    const LockName lock{"my/ns", name};
    const auto in_queue = parts_of(queue_prefix(lock) + "1f", "my/ns");
    ASSERT_TRUE(in_queue) << name;
    EXPECT_EQ(in_queue->name, name);
    EXPECT_TRUE(in_queue->in_queue);
    EXPECT_EQ(in_queue->rest, "1f");
    const auto run = parts_of(past_key(lock, Fence{7}), "my/ns");
    ASSERT_TRUE(run) << name;
    EXPECT_EQ(run->name, name);
    EXPECT_FALSE(run->in_queue);
    EXPECT_EQ(run->rest, "past/0000000000000007");
  }
}

TEST(EtcdKeys, keys_of_other_programs_are_not_locks) {
  for (const std::string key :
       {"", "dlock", "dlock/", "dlock/job", "dlockb/job/1", "other/job/1", "dlock//1",
        "dlock/.fence/disk", "dlock/.fence/x/1", "dlock/%2f/1", "dlock/%41/1",
        "dlock/a%2Eb/1", "dlock/a\nb/1"}) {
    EXPECT_FALSE(parts_of(key, "dlock")) << key;
  }
}

TEST(EtcdKeys, different_locks_share_no_key) {
  const std::vector<LockName> locks{{"a", "b"},  {"a/b", "c"},  {"a", "b/c"}, {"a", ".b"},
                                    {".a", "b"}, {"a", "%2Eb"}, {"a", "b%2F"}};
  std::set<std::string> lines;
  for (const auto& lock : locks) lines.insert(queue_prefix(lock));

  EXPECT_EQ(lines.size(), locks.size());
}

TEST(EtcdKeys, a_lease_id_is_positive_and_differs_by_token_and_count) {
  Token one;
  Token other;
  other.bytes[15] = 1;
  const std::set<std::int64_t> leases{number_for(one), number_for(one, 1),
                                      number_for(other), number_for(other, 1)};

  EXPECT_EQ(leases.size(), 4u);
  EXPECT_GT(*leases.begin(), 0);
}

TEST(EtcdKeys, records_of_one_day_share_a_lease) {
  const WallTime noon(20'000 * day_us + day_us / 2);

  EXPECT_EQ(lease_of_day("ns", noon), lease_of_day("ns", noon + std::chrono::hours(11)));
  EXPECT_NE(lease_of_day("ns", noon), lease_of_day("ns", noon + std::chrono::hours(13)));
  EXPECT_NE(lease_of_day("ns", noon), lease_of_day("other", noon));
}

}  // namespace
}  // namespace dlock::etcd
