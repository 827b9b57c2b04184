// What a run passes on to the runs nested in it, and how they read it.

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/args/options.hpp"
#include "cli/run/verb_store.hpp"

namespace dlock {
namespace {

using Fences = std::vector<Fence>;

TEST(Held, the_first_lock_is_a_name_and_a_fence) {
  EXPECT_EQ(with_grant("", "job", Fence{7}), "job=7");
}

TEST(Held, further_locks_are_appended) {
  EXPECT_EQ(with_grant("job=7", "other", Fence{8}), "job=7 other=8");
}

TEST(Held, names_are_encoded) {
  EXPECT_EQ(with_grant("", "a b=c", Fence{7}), "a%20b%3Dc=7");
}

TEST(Held, a_fence_is_found_by_the_name_of_its_lock) {
  EXPECT_EQ(outer_fences_of("job=7 other=8", "other"), (Fences{{8}}));
}

TEST(Held, a_lock_that_is_not_held_has_no_fences) {
  EXPECT_EQ(outer_fences_of("job=7", "other"), Fences{});
  EXPECT_EQ(outer_fences_of("job=7", "jo"), Fences{});
  EXPECT_EQ(outer_fences_of("", "job"), Fences{});
}

TEST(Held, a_lock_that_is_held_more_than_once_has_all_its_fences) {
  EXPECT_EQ(outer_fences_of("job=7 x=1 job=9", "job"), (Fences{{7}, {9}}));
}

TEST(Held, every_name_can_be_read_back) {
  for (const std::string name : {"a b", "a=b", "=", "%", "na\xC3\xAFve", " ", "a%20b"}) {
    const auto held = with_grant(with_grant("x=1", name, Fence{7}), "y", Fence{2});

    EXPECT_EQ(outer_fences_of(held, name), (Fences{{7}})) << name;
  }
}

TEST(Held, the_greatest_fence_can_be_read_back) {
  const auto held = with_grant("", "job", Fence{UINT64_MAX});

  EXPECT_EQ(outer_fences_of(held, "job"), (Fences{{UINT64_MAX}}));
}

TEST(Held, malformed_entries_are_ignored) {
  for (const char* garbage :
       {"job", "job=", "=7", "job=x", "job=-1", "job=7x", "job=+7", "job=0x7",
        "job=99999999999999999999", " ", "   ", "=", "==", "job==7", "\xFF=7"}) {
    EXPECT_EQ(outer_fences_of(garbage, "job"), Fences{}) << garbage;
  }
}

TEST(Held, malformed_entries_do_not_hide_valid_ones) {
  EXPECT_EQ(outer_fences_of("  job=x  job=7 =", "job"), (Fences{{7}}));
}

CommandSettings settings() {
  CommandSettings settings;
  settings.name = "nightly job";
  settings.locks = {{settings.name, Grant{Fence{42}, 3}}};
  settings.store = "local:/srv/locks";
  settings.name_space = "team";
  return settings;
}

std::vector<std::string> environment_with(const std::vector<const char*>& inherited,
                                          const CommandSettings& settings) {
  auto terminated = inherited;
  terminated.push_back(nullptr);
  return command_environment(terminated.data(), settings);
}

bool contains(const std::vector<std::string>& environment, const std::string& entry) {
  return std::count(environment.begin(), environment.end(), entry) == 1;
}

bool has_name(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const std::string& e) { return e.starts_with(name + "="); });
}

TEST(Environment, has_no_fence_without_a_grant_not_even_an_outer_one) {
  auto without = settings();
  without.locks.clear();

  const auto environment = environment_with(
      {"DLOCK_FENCE=7", "DLOCK_FENCES=outer=7", "DLOCK_SLOT=1", "DLOCK_HELD=outer=7"},
      without);

  EXPECT_FALSE(has_name(environment, "DLOCK_FENCE"));
  EXPECT_FALSE(has_name(environment, "DLOCK_FENCES"));
  EXPECT_FALSE(has_name(environment, "DLOCK_SLOT"));
  EXPECT_TRUE(contains(environment, "DLOCK_HELD=outer=7"));
}

TEST(Environment, has_the_fences_of_all_locks_that_are_held) {
  auto without_first = settings();
  without_first.held = "outer=7";
  without_first.locks = {{"a b", Grant{Fence{5}, 0}}, {"c", Grant{Fence{6}, 1}}};

  const auto environment =
      environment_with({"DLOCK_FENCE=7", "DLOCK_FENCES=outer=7"}, without_first);

  EXPECT_FALSE(has_name(environment, "DLOCK_FENCE"));
  EXPECT_TRUE(contains(environment, "DLOCK_FENCES=a%20b=5 c=6"));
  EXPECT_TRUE(contains(environment, "DLOCK_HELD=outer=7 a%20b=5 c=6"));
}

TEST(Environment, keeps_settings_that_are_not_secret) {
  const auto environment =
      environment_with({"DLOCK_USER=u", "DLOCK_PASSWORD_FILE=/run/p"}, settings());

  EXPECT_TRUE(contains(environment, "DLOCK_USER=u"));
  EXPECT_TRUE(contains(environment, "DLOCK_PASSWORD_FILE=/run/p"));
}

TEST(Environment, of_a_nested_run_lists_all_outer_locks) {
  auto inner = settings();
  inner.held = "outer=1";

  const auto environment = environment_with({"DLOCK_HELD=outer=1"}, inner);

  EXPECT_TRUE(contains(environment, "DLOCK_HELD=outer=1 nightly%20job=42"));
}

TEST(Environment, names_no_configuration_file_if_none_was_given) {
  EXPECT_FALSE(has_name(environment_with({}, settings()), "DLOCK_CONFIG"));
}

}  // namespace
}  // namespace dlock
