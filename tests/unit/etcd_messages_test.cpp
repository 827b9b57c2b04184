// The messages of etcd: how requests are encoded and replies decoded.

#include "store/etcd/etcd_messages.hpp"

#include <gtest/gtest.h>

namespace dlock::etcd {
namespace {

using namespace std::string_literals;

template <typename Answer>
Answer read(const Request& request, const std::string& bytes) {
  auto result = decoded(request, bytes);
  if (!result) {
    ADD_FAILURE() << "no answer";
    return {};
  }
  return std::get<Answer>(std::move(*result));
}

TEST(EtcdRequest, a_range_has_the_fields_of_the_protocol) {
  RangeRequest range;
  range.key = "a";
  range.range_end = "b";
  range.limit = 3;
  range.keys_only = true;

  EXPECT_EQ(encoded(range),
            "\x0a\x01"s + "a" + "\x12\x01"s + "b" + "\x18\x03"s + "\x40\x01"s);
  EXPECT_EQ(path_of(range), "/etcdserverpb.KV/Range");
}

// Unlike other fields, the operand is sent even if it is zero: without it, the comparison
// means something else.
TEST(EtcdRequest, a_comparison_with_zero_includes_its_operand) {
  Compare absent;
  absent.key = "k";
  TxnRequest txn;
  txn.conditions.push_back(absent);

  EXPECT_EQ(encoded(txn),
            "\x0a\x09"s + "\x08\x00"s + "\x10\x01"s + "\x1a\x01k" + "\x28\x00"s);
}

TEST(EtcdRequest, the_end_of_a_prefix_is_the_first_key_beyond_it) {
  EXPECT_EQ(end_of_prefix("dlock/"), "dlock0");
  EXPECT_EQ(end_of_prefix("a\xff"), "b");
  EXPECT_EQ(end_of_prefix("\xff\xff"), "\0"s);
  EXPECT_EQ(end_of_prefix(""), "\0"s);
}

TEST(EtcdAnswer, a_range_has_its_pairs_and_the_revision_of_its_header) {
  const auto header = "\x18\x07\x20\x02"s;
  const auto pair = "\x0a\x01k\x10\x05\x18\x06\x20\x01\x2a\x01v\x30\x09"s;
  const auto range = read<RangeResult>(
      RangeRequest{}, "\x0a\x04"s + header + "\x12\x0e" + pair + "\x18\x01\x20\x02");

  EXPECT_EQ(range.revision, 7);
  EXPECT_TRUE(range.more);
  EXPECT_EQ(range.count, 2);
  ASSERT_EQ(range.pairs.size(), 1U);
  EXPECT_EQ(range.pairs[0], (KeyValue{"k", "v", 5, 6, 1, 9}));
}

TEST(EtcdAnswer, unknown_fields_are_skipped) {
  const auto range = read<RangeResult>(RangeRequest{}, "\xfa\x01\x03new\x20\x02"s);

  EXPECT_EQ(range.count, 2);
}

TEST(EtcdAnswer, a_field_of_the_wrong_type_is_skipped) {
  const auto range = read<RangeResult>(RangeRequest{}, "\x22\x01x\x10\x05"s);

  EXPECT_EQ(range.count, 0);
  EXPECT_TRUE(range.pairs.empty());
}

TEST(EtcdAnswer, a_truncated_reply_is_refused) {
  const auto whole = "\x12\x08\x0a\x01k\x2a\x03val"s;
  ASSERT_TRUE(decoded(RangeRequest{}, whole));

  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_FALSE(decoded(RangeRequest{}, whole.substr(0, size))) << size;
  }
}

TEST(EtcdAnswer, a_flag_without_its_byte_is_refused) {
  EXPECT_FALSE(decoded(RangeRequest{}, "\x18"s));
}

TEST(EtcdAnswer, a_length_beyond_the_end_is_refused) {
  EXPECT_FALSE(decoded(RangeRequest{}, "\x12\xff\xff\xff\xff\x0f"s));
}

TEST(EtcdAnswer, too_many_pairs_are_refused) {
  std::string bytes;
  for (std::size_t i = 0; i <= most_elements; ++i) bytes += "\x12\x00"s;

  EXPECT_FALSE(decoded(RangeRequest{}, bytes));
}

// Callers find the results by their positions.
TEST(EtcdAnswer, the_results_of_a_transaction_match_the_branch_it_executed) {
  TxnRequest txn;
  txn.then.emplace_back(PutRequest{});
  txn.otherwise.emplace_back(RangeRequest{});
  const auto put = "\x1a\x02\x12\x00"s;
  const auto range = "\x1a\x02\x0a\x00"s;
  const auto succeeded = "\x10\x01"s;

  EXPECT_TRUE(read<TxnResult>(txn, succeeded + put).succeeded);
  EXPECT_FALSE(read<TxnResult>(txn, range).succeeded);
  EXPECT_FALSE(decoded(txn, succeeded + range));
  EXPECT_FALSE(decoded(txn, put));
  EXPECT_FALSE(decoded(txn, succeeded));
  EXPECT_FALSE(decoded(txn, succeeded + put + put));
  EXPECT_FALSE(decoded(txn, succeeded + "\x1a\x00"s));
}

TEST(EtcdAnswer, an_expired_lease_has_a_negative_ttl) {
  const auto gone = read<LeaseTimeToLiveResult>(
      LeaseTimeToLiveRequest{}, "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);

  EXPECT_EQ(gone.ttl, -1);
}

TEST(EtcdWatch, a_request_has_its_filter_and_its_id) {
  WatchRequest watch;
  watch.key = "k";
  watch.no_put = true;

  EXPECT_EQ(encoded(watch), "\x0a\x07\x0a\x01k\x28\x00\x38\x01"s);
}

TEST(EtcdWatch, events_distinguish_puts_from_deletions) {
  const auto put = "\x5a\x05\x12\x03\x0a\x01k"s;
  const auto deletion = "\x5a\x0c\x08\x01\x12\x03\x0a\x01k\x1a\x03\x0a\x01p"s;

  const auto answer = decoded_watch("\x10\x03"s + put + deletion);

  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->events.size(), 2U);
  EXPECT_EQ(answer->events[0].kind, KeyChange::Kind::put);
  EXPECT_EQ(answer->events[1].kind, KeyChange::Kind::deletion);
}

TEST(EtcdWatch, a_watch_from_a_compacted_revision_names_the_oldest_one_left) {
  const auto answer = decoded_watch("\x20\x01\x28\x2a\x32\x03why"s);

  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->canceled);
  EXPECT_EQ(answer->compact_revision, 42);
  EXPECT_EQ(answer->reason, "why");
}

}  // namespace
}  // namespace dlock::etcd
