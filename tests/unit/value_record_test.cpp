// The record of a cached value on a server, which anyone with write access may have
// written.

#include <gtest/gtest.h>

#include <vector>

#include "store/redis/redis_store.hpp"

namespace dlock::redis {
namespace {

Reply string(std::string text) { return {Reply::Kind::string, 0, std::move(text), {}}; }
Reply integer(std::int64_t value) { return {Reply::Kind::integer, value, {}, {}}; }

// In the order of value_fields.
Reply fields(const std::vector<std::string>& texts) {
  Reply reply;
  reply.kind = Reply::Kind::array;
  for (const auto& text : texts) reply.elements.push_back(string(text));
  return reply;
}

const std::vector<std::string> good{"42", "5", "sum", "1000", "value"};

TEST(ValueRecord, has_everything_that_was_stored) {
  const auto record = value_record_from(fields(good), integer(5000));

  ASSERT_TRUE(record);
  EXPECT_EQ(record->fence, "42");
  EXPECT_EQ(record->size, 5u);
  EXPECT_EQ(record->sum, "sum");
  EXPECT_EQ(record->data, "value");
  EXPECT_FALSE(record->is_in_pieces());
}

TEST(ValueRecord, is_fresh_until_only_its_stale_time_is_left) {
  EXPECT_TRUE(value_record_from(fields(good), integer(1001))->is_fresh);
  EXPECT_FALSE(value_record_from(fields(good), integer(1000))->is_fresh);
  EXPECT_FALSE(value_record_from(fields(good), integer(1))->is_fresh);
}

TEST(ValueRecord, is_invalid_once_it_has_expired_or_if_it_never_expires) {
  for (const auto left : {0, -1, -2}) {
    EXPECT_FALSE(value_record_from(fields(good), integer(left))) << left;
  }
}

TEST(ValueRecord, is_in_pieces_if_it_is_larger_than_one) {
  auto texts = good;
  texts[1] = "262144";
  EXPECT_FALSE(value_record_from(fields(texts), integer(5000))->is_in_pieces());
  texts[1] = "262145";
  EXPECT_TRUE(value_record_from(fields(texts), integer(5000))->is_in_pieces());
}

TEST(ValueRecord, with_invalid_numbers_is_invalid) {
  for (const std::size_t at : {0u, 1u, 3u}) {
    for (const auto* text : {"", "x", "-1", "1x", "1.5", " 1", "99999999999999999999"}) {
      auto texts = good;
      texts[at] = text;
      EXPECT_FALSE(value_record_from(fields(texts), integer(5000))) << at << text;
    }
  }
  auto huge = good;
  huge[1] = "536870913";
  EXPECT_FALSE(value_record_from(fields(huge), integer(5000)));
}

TEST(ValueRecord, of_another_shape_is_invalid) {
  auto missing = fields(good);
  missing.elements[2] = Reply();
  EXPECT_FALSE(value_record_from(missing, integer(5000)));
  auto short_one = fields(good);
  short_one.elements.pop_back();
  EXPECT_FALSE(value_record_from(short_one, integer(5000)));
  EXPECT_FALSE(value_record_from(string("x"), integer(5000)));
  EXPECT_FALSE(value_record_from(fields(good), string("5000")));
}

}  // namespace
}  // namespace dlock::redis
