// Cached values in every store.

#include <gtest/gtest.h>

#include <list>
#include <random>
#include <string>

#include "lock/store.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

constexpr milliseconds minute{60'000};

std::string random_text(std::size_t size) {
  std::mt19937 random(4711);
  std::string text(size, '\0');
  for (auto& byte : text) byte = static_cast<char>(random());
  return text;
}

[[maybe_unused]] const bool value_scenes =
    add_scenes("Values", kinds_with(&Kind::keeps_values), R"(
are missing until they are stored:
  a reads missing damage=
can be read by other clients:
  a takes; a puts(42) stored; a leaves; b reads value=42 fresh
can be read while the lock is still held:
  a takes; a puts(42) stored; b reads value=42
are separate for each name and namespace:
  a takes; a puts(42) stored; a leaves; b(name=other) reads missing; c(space=other) reads missing
are not stored without the lock:
  a puts(nothing) not_ours; b takes; b leaves; b puts(nothing) not_ours; c takes; d queues 1
  ; d puts(size=600000) not_ours; e reads missing; c puts(42) stored
are not replaced by a claim that lost its lock:
  a takes; a puts(42) stored; a leaves; b takes; b leaves; c takes; b puts(late) not_ours; d reads value=42
are stale after their ttl and removed later:
  a takes; a puts(42, ttl=1ms, stale=60s) stored; a leaves; soon b reads value=42 !fresh
  ; c takes; c puts(43, ttl=1ms, stale=1ms) stored; soon b reads missing damage=
are removed completely even if large:
  a takes; a puts(size=700000, ttl=50ms) stored; soon b reads missing
are missing once they are deleted:
  a takes; a puts(42) stored; a leaves; b forgets; b reads missing
  ; c takes; c puts(size=700000) stored; c leaves; b forgets; b reads missing
can be deleted though missing:
  a forgets; a reads missing
are stored even if the old one was deleted meanwhile:
  a takes; b forgets; a puts(42) stored; b reads value=42
leave their lock usable like any other:
  a takes; a puts(size=600000) stored; b is_busy; a leaves released; c takes
)");

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

TEST_P(Values, larger_than_the_caller_accepts_are_not_read_but_reported) {
  store(random_text(300'000));

  EXPECT_TRUE(client().look_up(300'000).value);
  const auto found = client().look_up(299'999);
  EXPECT_FALSE(found.value);
  EXPECT_EQ(found.damage, "300000 bytes are stored, more than 299999 (--max-size)");
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

}  // namespace
}  // namespace dlock
