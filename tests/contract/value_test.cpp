// Cached values in every store.

#include <gtest/gtest.h>

#include <list>
#include <random>
#include <string>

#include "lock/store.hpp"
#include "tests/contract/contender.hpp"

namespace dlock {
namespace {

constexpr milliseconds minute{60'000};

std::string random_text(std::size_t size) {
  std::mt19937 random(4711);
  std::string text(size, '\0');
  for (auto& byte : text) byte = static_cast<char>(random());
  return text;
}

class Values : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& client(const std::string& name = "cache:report") {
    return contenders_.emplace_back(context_, *world_, claim_of(name));
  }
  Contender& holder(const std::string& name = "cache:report") {
    auto& holder = client(name);
    holder.granted();
    return holder;
  }
  // Stored by a holder that then releases the lock.
  void store(const std::string& bytes, Lifetime lifetime = {minute, {}}) {
    auto& computing = holder();
    ASSERT_EQ(computing.put(bytes, lifetime), Storing::stored);
    ASSERT_EQ(computing.release(), Release::released);
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, Values,
                         ::testing::ValuesIn(kinds_with(&Kind::keeps_values)), name_of);

TEST_P(Values, are_missing_until_they_are_stored) {
  const auto found = client().look_up();

  EXPECT_FALSE(found.value);
  EXPECT_EQ(found.damage, "");
}

TEST_P(Values, larger_than_the_caller_accepts_are_not_read_but_reported) {
  store(random_text(300'000));

  EXPECT_TRUE(client().look_up(300'000).value);
  const auto found = client().look_up(299'999);
  EXPECT_FALSE(found.value);
  EXPECT_EQ(found.damage, "300000 bytes are stored, more than 299999 (--max-size)");
}

TEST_P(Values, can_be_read_by_other_clients) {
  store("42\n");

  const auto found = client().look_up();

  ASSERT_TRUE(found.value);
  EXPECT_EQ(found.value->bytes, "42\n");
  EXPECT_TRUE(found.value->is_fresh);
}

TEST_P(Values, can_be_read_while_the_lock_is_still_held) {
  holder().put("42");

  EXPECT_EQ(client().value(), "42");
}

TEST_P(Values, can_be_empty) {
  store("");

  EXPECT_EQ(client().value(), "");
}

TEST_P(Values, can_have_any_bytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);

  store(all + all);

  EXPECT_EQ(client().value(), all + all);
}

TEST_P(Values, can_have_any_size) {
  for (const auto size : {1u, 262'143u, 262'144u, 262'145u, 524'288u, 3'000'001u}) {
    const auto bytes = random_text(size);

    store(bytes);

    EXPECT_TRUE(client().value() == bytes) << size;
  }
}

TEST_P(Values, replace_each_other_whatever_their_sizes) {
  const auto large = random_text(1'000'000);
  store(large);
  store("small");
  EXPECT_EQ(client().value(), "small");

  store(large);

  EXPECT_TRUE(client().value() == large);
}

TEST_P(Values, are_separate_for_each_name_and_namespace) {
  store("42");
  auto& other_namespace = client();
  other_namespace.claim.lock.name_space = "other";

  EXPECT_FALSE(client("cache:other").value());
  EXPECT_FALSE(other_namespace.value());
}

TEST_P(Values, are_not_stored_without_the_lock) {
  auto& never_asked = client();
  EXPECT_EQ(never_asked.put("nothing"), Storing::not_ours);
  auto& once_held = holder();
  once_held.release();
  EXPECT_EQ(once_held.put("nothing"), Storing::not_ours);
  auto& has_it = holder();
  auto& waits = client();
  waits.queued();

  EXPECT_EQ(waits.put(random_text(600'000)), Storing::not_ours);

  EXPECT_FALSE(client().value());
  EXPECT_EQ(has_it.put("42"), Storing::stored);
}

TEST_P(Values, are_not_replaced_by_a_claim_that_lost_its_lock) {
  store("42");
  auto& late = holder();
  late.release();
  holder();

  EXPECT_EQ(late.put("late"), Storing::not_ours);

  EXPECT_EQ(client().value(), "42");
}

TEST_P(Values, are_stale_after_their_ttl_and_removed_later) {
  store("42", {milliseconds(1), minute});
  auto& reader = client();
  const auto is_stale = [&] {
    const auto found = reader.look_up().value;
    return found && !found->is_fresh && found->bytes == "42";
  };
  EXPECT_TRUE(eventually(context_, is_stale));

  store("43", {milliseconds(1), milliseconds(1)});

  EXPECT_TRUE(eventually(context_, [&] { return !reader.look_up().value; }));
  EXPECT_EQ(reader.look_up().damage, "");
}

TEST_P(Values, are_removed_completely_even_if_large) {
  store(random_text(700'000), {milliseconds(50), {}});
  auto& reader = client();

  EXPECT_TRUE(eventually(context_, [&] { return !reader.look_up().value; }));
}

TEST_P(Values, are_missing_once_they_are_deleted) {
  for (const auto size : {2u, 700'000u}) {
    store(random_text(size));

    client().forget();

    EXPECT_FALSE(client().value()) << size;
  }
}

TEST_P(Values, can_be_deleted_though_missing) {
  client().forget();

  EXPECT_FALSE(client().value());
}

TEST_P(Values, are_stored_even_if_the_old_one_was_deleted_meanwhile) {
  auto& computing = holder();
  client().forget();

  EXPECT_EQ(computing.put("42"), Storing::stored);
  EXPECT_EQ(client().value(), "42");
}

TEST_P(Values, are_unchanged_when_the_store_does_not_answer) {
  store("42");
  auto& computing = holder();
  auto& impatient = contenders_.emplace_back(context_, *world_, computing.claim,
                                             GetParam().brief_timeout);
  auto& reader = client();
  {
    const auto held_up = world_->hold_up();
    if (std::string(GetParam().name) == "local") return;  // reads without the mutex
    EXPECT_THROW(impatient.look_up(), Failure);
    EXPECT_THROW(impatient.put("43"), Failure);
  }

  EXPECT_TRUE(reader.value());
}

TEST_P(Values, leave_their_lock_usable_like_any_other) {
  auto& computing = holder();
  computing.put(random_text(600'000));
  EXPECT_TRUE(client().is_busy());

  EXPECT_EQ(computing.release(), Release::released);

  EXPECT_TRUE(client().is_granted());
}

}  // namespace
}  // namespace dlock
