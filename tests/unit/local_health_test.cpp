// From the facts about a directory to the findings about it.

#include "store/local/local_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace dlock::local {
namespace {

using Level = Finding::Level;

DirectoryFacts good() {
  DirectoryFacts facts;
  facts.path = "/srv/locks";
  facts.exists = true;
  facts.can_be_written = true;
  facts.file_system = "ext4";
  facts.has_state = true;
  facts.locks = 3;
  facts.room = Room{std::uint64_t{5} << 30u, 1000};
  return facts;
}

DirectoryFacts missing() {
  DirectoryFacts facts;
  facts.path = "/srv/locks";
  facts.parent = "/srv";
  facts.can_be_created = true;
  return facts;
}

Finding found(const DirectoryFacts& facts, const std::string& check) {
  const auto findings = findings_of(facts);
  const auto is_it = [&](const Finding& finding) { return finding.check == check; };
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(), is_it), 1) << check;
  const auto first = std::find_if(findings.begin(), findings.end(), is_it);
  return first == findings.end() ? Finding{} : *first;
}

Level level(const DirectoryFacts& facts, const std::string& check) {
  return found(facts, check).level;
}

TEST(LocalHealth, a_healthy_directory_has_a_finding_for_each_check) {
  const auto findings = findings_of(good());

  EXPECT_EQ(worst_of(findings), Level::ok);
  std::vector<std::string> checks;
  for (const auto& finding : findings) {
    checks.push_back(finding.check);
    EXPECT_EQ(finding.advice, "") << finding.check;
  }
  EXPECT_EQ(checks, (std::vector<std::string>{"directory", "file-system", "state",
                                              "files", "space"}));
}

TEST(LocalHealth, a_missing_directory_is_an_error_only_if_it_cannot_be_created) {
  auto facts = missing();
  EXPECT_EQ(level(facts, "directory"), Level::info);
  facts.can_be_created = false;
  EXPECT_EQ(level(facts, "directory"), Level::error);
  facts = missing();
  facts.parents_are_missing = true;
  EXPECT_EQ(level(facts, "directory"), Level::error);
}

TEST(LocalHealth, an_unusable_directory_is_an_error_and_the_only_finding) {
  auto facts = good();
  facts.unusable =
      "the directory /srv/locks is not safe to use: everyone can write to it; chmod o-w "
      "/srv/locks";

  const auto findings = findings_of(facts);

  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].level, Level::error);
  EXPECT_EQ(findings[0].advice, "chmod o-w /srv/locks");
}

TEST(LocalHealth, a_directory_that_is_mounted_read_only_is_not_blamed_on_its_mode) {
  auto facts = good();
  facts.can_be_written = false;
  facts.is_read_only = true;

  EXPECT_EQ(level(facts, "directory"), Level::error);
  EXPECT_EQ(findings_of(facts).at(0).advice,
            "mount it with permission to write, or use a directory elsewhere");
}

TEST(LocalHealth, the_advice_is_that_of_the_message_if_it_has_one) {
  auto facts = good();
  facts.unusable = "cannot read the boot id from /proc; mount /proc";

  const auto findings = findings_of(facts);

  EXPECT_EQ(findings.at(0).message, "cannot read the boot id from /proc");
  EXPECT_EQ(findings.at(0).advice, "mount /proc");
}

TEST(LocalHealth, each_reason_for_an_unusable_directory_has_its_own_advice) {
  auto link = good();
  link.is_link_or_file = true;
  std::vector<std::string> advices;
  for (auto facts : {link, good()}) {
    facts.unusable = "it is not safe";
    const auto finding = found(facts, "directory");
    EXPECT_EQ(finding.message, "it is not safe");
    advices.push_back(finding.advice);
  }
  std::sort(advices.begin(), advices.end());
  EXPECT_EQ(std::unique(advices.begin(), advices.end()), advices.end());
}

TEST(LocalHealth, a_directory_that_cannot_be_written_to_is_an_error) {
  auto facts = good();
  facts.can_be_written = false;

  EXPECT_EQ(level(facts, "directory"), Level::error);
}

TEST(LocalHealth, a_file_system_in_memory_is_reported_as_info) {
  auto facts = good();
  facts.forgets = true;

  EXPECT_EQ(level(facts, "file-system"), Level::info);
}

TEST(LocalHealth, damage_and_a_store_that_stays_busy_are_errors) {
  auto damaged = good();
  damaged.state = "/srv/locks/state-x/1.lock is truncated; move it away";
  EXPECT_EQ(level(damaged, "state"), Level::error);
  EXPECT_EQ(found(damaged, "state").message, "/srv/locks/state-x/1.lock is truncated");

  auto busy = good();
  busy.busy = "the store has been kept busy for 2s by process 7";
  EXPECT_EQ(level(busy, "state"), Level::error);
  EXPECT_NE(found(busy, "state").advice, found(damaged, "state").advice);

  auto fences = good();
  fences.fences = "/srv/locks/fences is damaged";
  EXPECT_EQ(level(fences, "fences"), Level::error);
}

TEST(LocalHealth, a_directory_without_state_is_ok) {
  auto facts = good();
  facts.has_state = false;

  EXPECT_EQ(level(facts, "state"), Level::ok);
}

TEST(LocalHealth, stale_files_are_a_warning_and_abandoned_ones_are_info) {
  auto facts = good();
  facts.abandoned = {"wake-1"};
  EXPECT_EQ(level(facts, "files"), Level::info);
  facts.stale = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(level(facts, "files"), Level::warning);
  EXPECT_EQ(found(facts, "files").message,
            "unused, and not removed automatically: a, b, c, d, e, 2 more");
}

TEST(LocalHealth, little_space_is_a_warning_and_hardly_any_is_an_error) {
  const auto with = [](std::uint64_t bytes, std::optional<std::uint64_t> files) {
    auto facts = good();
    facts.room = Room{bytes, files};
    return level(facts, "space");
  };
  constexpr std::uint64_t mebibyte = 1u << 20u;

  EXPECT_EQ(with(16 * mebibyte, 100), Level::ok);
  EXPECT_EQ(with(16 * mebibyte, std::nullopt), Level::ok);
  EXPECT_EQ(with(16 * mebibyte - 1, 100), Level::warning);
  EXPECT_EQ(with(16 * mebibyte, 99), Level::warning);
  EXPECT_EQ(with(mebibyte - 1, 100), Level::error);
  EXPECT_EQ(with(16 * mebibyte, 0), Level::error);
}

TEST(LocalHealth, names_of_files_are_escaped) {
  auto facts = good();
  facts.stale = {"state-\x1b[2J"};

  EXPECT_EQ(found(facts, "files").message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace dlock::local
