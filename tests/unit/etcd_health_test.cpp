// From the facts about an etcd cluster to the findings about it.

#include "store/etcd/etcd_health.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "util/text.hpp"

namespace dlock::etcd {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

MemberFacts member(const std::string& server) {
  MemberFacts member;
  member.server = server;
  member.status.emplace();
  member.status->version = "3.5.28";
  member.status->leader = 7;
  member.status->size = 20 << 20;
  return member;
}

// A healthy cluster of three members.
EtcdFacts good() {
  EtcdFacts facts;
  for (const std::string server : {"a:2379", "b:2379", "c:2379"}) {
    facts.named.push_back(member(server));
    facts.members.emplace_back();
  }
  facts.alarms.emplace();
  facts.prefix = "dlock/";
  facts.least_ttl = 2s;
  facts.round_trips.assign(20, 1ms);
  return facts;
}

std::optional<milliseconds> smallest_ttl_of(const EtcdFacts& facts) {
  return examination_of(facts).smallest_ttl;
}

Finding found(const EtcdFacts& facts, const std::string& check) {
  const auto findings = examination_of(facts).findings;
  const auto one = std::find_if(findings.begin(), findings.end(),
                                [&](const Finding& of) { return of.check == check; });
  if (one == findings.end()) return {check, Level::ok, "no such finding", "", false};
  return *one;
}

TEST(EtcdHealth, a_healthy_cluster_has_no_problems) {
  for (const auto& finding : examination_of(good()).findings) {
    EXPECT_EQ(finding.level, finding.check == "clock" ? Level::info : Level::ok)
        << finding.check << ": " << finding.message;
  }
}

TEST(EtcdHealth, an_unreachable_cluster_is_an_error_and_the_only_finding) {
  auto facts = good();
  for (auto& one : facts.named) {
    one.failure = Failure(Failure::Kind::unreachable, "cannot reach " + one.server);
    one.status.reset();
  }

  const auto findings = examination_of(facts).findings;

  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].level, Level::error);
}

TEST(EtcdHealth, that_locks_work_without_the_others_is_said_only_if_they_do) {
  const auto advice_with = [](const char* refusal) {
    auto facts = good();
    facts.named[0].failure = Failure(Failure::Kind::unreachable, "no reply");
    facts.named[0].status.reset();
    if (refusal) facts.failure = Failure(Failure::Kind::unreachable, refusal);
    return found(facts, "reachable").advice;
  };

  EXPECT_EQ(advice_with(nullptr), "locks work without the others: restore them");
  EXPECT_EQ(advice_with("etcdserver: no leader"), "restore the others");
}

TEST(EtcdHealth, versions_are_compared_as_numbers) {
  const std::pair<const char*, Level> versions[] = {
      {"3.3.27", Level::error},  {"3.4.0", Level::warning}, {"3.4.42", Level::ok},
      {"3.5.0", Level::warning}, {"3.5.28", Level::ok},     {"3.6.0", Level::warning},
      {"3.10.0", Level::ok},     {"4.0.0-rc.1", Level::ok}, {"", Level::error},
      {"none", Level::error},
  };
  for (const auto& [version, level] : versions) {
    auto facts = good();
    for (auto& one : facts.named) one.status->version = version;

    EXPECT_EQ(found(facts, "version").level, level) << version;
  }
}

// The versions that mend the known faults of this one.
std::string mended_in(const std::string& version) {
  auto facts = good();
  for (auto& one : facts.named) one.status->version = version;
  std::string mended;
  for (const auto& finding : examination_of(facts).findings) {
    const std::string before = " (fixed in ";
    const auto at = finding.message.find(before);
    if (finding.check != "version" || at == std::string::npos) continue;
    EXPECT_EQ(finding.level, Level::warning);
    EXPECT_TRUE(finding.message.starts_with(version + ": ")) << finding.message;
    const auto number = finding.message.substr(at + before.size());
    mended += (mended.empty() ? "" : " ") + number.substr(0, number.size() - 1);
  }
  return mended;
}

TEST(EtcdHealth, each_known_fault_is_a_warning_that_names_the_version_that_mends_it) {
  for (const auto& [version, mended] :
       std::vector<std::pair<const char*, std::string>>{{"3.4.0", "3.4.31"},
                                                        {"3.4.19", "3.4.31"},
                                                        {"3.4.20", "3.4.42 3.4.31"},
                                                        {"3.4.30", "3.4.42 3.4.31"},
                                                        {"3.4.31", "3.4.42"},
                                                        {"3.4.41", "3.4.42"},
                                                        {"3.4.42", ""},
                                                        {"3.5.0", "3.5.28 3.5.13 3.5.3"},
                                                        {"3.5.2", "3.5.28 3.5.13 3.5.3"},
                                                        {"3.5.3", "3.5.28 3.5.13"},
                                                        {"3.5.12", "3.5.28 3.5.13"},
                                                        {"3.5.13", "3.5.28"},
                                                        {"3.5.27", "3.5.28"},
                                                        {"3.5.28", ""},
                                                        {"3.6.0-rc.1", "3.6.9"},
                                                        {"3.6.8", "3.6.9"},
                                                        {"3.6.9", ""},
                                                        {"3.7.0", ""}}) {
    EXPECT_EQ(mended_in(version), mended) << version;
  }
}

TEST(EtcdHealth, what_etcd_does_not_report_to_the_user_is_not_checked) {
  auto facts = good();
  for (auto& one : facts.named) one.status.reset();
  facts.alarms.reset();

  EXPECT_EQ(found(facts, "reachable").level, Level::ok);
  for (const auto* check : {"version", "leader", "quota", "alarms"}) {
    EXPECT_EQ(found(facts, check).level, Level::info) << check;
    EXPECT_FALSE(found(facts, check).is_made) << check;
  }
  EXPECT_EQ(found(facts, "permissions").level, Level::ok);
}

TEST(EtcdHealth, each_problem_of_a_member_or_the_cluster_has_its_level) {
  struct Row {
    const char* check;
    Level level;
    void (*change)(EtcdFacts&);
  };
  constexpr Row rows[] = {
      {"version", Level::error,
       [](EtcdFacts& f) { f.named[1].status->version = "3.3.9"; }},
      {"leader", Level::error, [](EtcdFacts& f) { f.named[2].status->leader = 0; }},
      {"leader", Level::warning, [](EtcdFacts& f) { f.named[2].status->leader = 8; }},
      {"members", Level::warning, [](EtcdFacts& f) { f.members[2].is_learner = true; }},
      {"quota", Level::warning,
       [](EtcdFacts& f) { f.named[1].status->size = 1800 << 20; }},
      {"failover", Level::warning, [](EtcdFacts& f) { f.least_ttl = 15s; }},
      {"leases", Level::warning, [](EtcdFacts& f) { f.answers_keep_alive = false; }}};
  for (const auto& [check, level, change] : rows) {
    auto facts = good();
    change(facts);
    EXPECT_EQ(found(facts, check).level, level) << check;
    // Members that report their status are checked if others do not.
    facts.named[0].status.reset();
    EXPECT_EQ(found(facts, check).level, level) << check;
  }
  auto facts = good();
  facts.answers_keep_alive = false;
  EXPECT_NE(found(facts, "leases").message.find("grpc-proxy"), std::string::npos);
}

TEST(EtcdHealth, alarms_are_errors) {
  auto full = good();
  full.alarms->push_back({Alarm::Kind::no_space});
  auto corrupt = good();
  corrupt.alarms->push_back({Alarm::Kind::corrupt});

  EXPECT_EQ(found(full, "alarms").level, Level::error);
  EXPECT_NE(found(full, "alarms").message, found(corrupt, "alarms").message);
  EXPECT_EQ(found(corrupt, "alarms").level, Level::error);
}

TEST(EtcdHealth, the_smallest_ttl_depends_on_the_cluster_and_the_round_trip) {
  auto facts = good();
  EXPECT_EQ(smallest_ttl_of(facts), 2s);

  facts.round_trips.assign(20, 200ms);
  EXPECT_GT(smallest_ttl_of(facts).value_or(0ms), 2s);

  facts.round_trips.clear();
  EXPECT_EQ(smallest_ttl_of(facts), std::nullopt);
}

TEST(EtcdHealth, an_impossible_ttl_is_ignored) {
  for (const std::int64_t ttl : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX}) {
    auto facts = good();
    facts.least_ttl = least_ttl_from(ttl);

    EXPECT_FALSE(found(facts, "leases").is_made) << ttl;
    EXPECT_EQ(smallest_ttl_of(facts), 500ms) << ttl;
  }
}

TEST(EtcdHealth, text_from_a_server_is_escaped) {
  auto facts = good();
  facts.named[0].status->version = "\x1b[2J\n";
  facts.user = "\x1b[2J";
  facts.prefix = "\x1b[2J/";

  for (const auto& finding : examination_of(facts).findings) {
    EXPECT_TRUE(is_printable_utf8(finding.message)) << finding.check;
    EXPECT_TRUE(is_printable_utf8(finding.advice)) << finding.check;
  }
}

}  // namespace
}  // namespace dlock::etcd
