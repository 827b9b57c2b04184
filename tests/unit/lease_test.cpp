// Tokens as text, and whether a lock is still held by a grant.

#include "lock/lease.hpp"

#include <gtest/gtest.h>

#include "util/bits.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

LockInfo held_with(std::uint64_t fence, std::optional<milliseconds> expires_in = {}) {
  HolderInfo holder;
  holder.fence.number = fence;
  holder.expires_in = expires_in;
  LockInfo lock;
  lock.holders = {holder};
  return lock;
}

TEST(Tokens, can_be_read_back_from_their_text) {
  Token token;
  token.bytes = random_bytes();

  EXPECT_EQ(text_of(token).size(), 32u);
  EXPECT_EQ(token_from(text_of(token)), token);
}

TEST(Tokens, are_32_hexadecimal_digits_and_nothing_else) {
  const auto text = text_of(Token{});
  for (const auto& other : {text.substr(1), text + "0", text + "00", " " + text.substr(1),
                            text.substr(1) + "x", std::string()}) {
    EXPECT_FALSE(token_from(other)) << other;
  }
}

TEST(Holding, a_lock_is_held_by_the_grant_of_its_holder_and_no_other) {
  EXPECT_TRUE(is_held_by(held_with(7), {7}, {}));
  EXPECT_FALSE(is_held_by(held_with(7), {6}, {}));
  EXPECT_FALSE(is_held_by(held_with(7), {8}, {}));
  EXPECT_FALSE(is_held_by(LockInfo{}, {7}, {}));
  EXPECT_FALSE(is_held_by(held_with(7), {0}, {}));
}

TEST(Holding, each_of_several_grants_holds) {
  auto lock = held_with(7);
  lock.holders.push_back(held_with(9).holders[0]);

  EXPECT_TRUE(is_held_by(lock, {9}, {}));
}

TEST(Holding, a_lease_that_expires_too_soon_does_not_hold) {
  EXPECT_TRUE(is_held_by(held_with(7, seconds(5)), {7}, seconds(5)));
  EXPECT_FALSE(is_held_by(held_with(7, seconds(5)), {7}, seconds(5) + milliseconds(1)));
}

TEST(Holding, a_lease_that_does_not_expire_holds_for_any_time) {
  EXPECT_TRUE(is_held_by(held_with(7), {7}, std::chrono::hours(24 * 365 * 100)));
}

TEST(Holding, a_lock_kept_after_its_run_is_held_by_no_grant) {
  auto lock = held_with(7);
  lock.holders[0].run_ended = true;

  EXPECT_FALSE(is_held_by(lock, {7}, {}));
}

TEST(Holding, a_foreign_holder_has_no_grant) {
  auto lock = held_with(0);
  lock.holders[0].foreign = true;

  EXPECT_FALSE(is_held_by(lock, {0}, {}));
}

}  // namespace
}  // namespace dlock
