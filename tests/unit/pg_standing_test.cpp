// What PostgreSQL servers say of their place among the others, and what follows from it.

#include "store/postgres/pg_standing.hpp"

#include <gtest/gtest.h>

#include "store/postgres/pg_trust.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
namespace {

Result reply_of(Row row) {
  Result result;
  result.rows.push_back(std::move(row));
  return result;
}

PgStanding primary(std::uint32_t timeline, const std::string& started) {
  PgStanding standing;
  standing.timeline = timeline;
  standing.started = started;
  return standing;
}

PgStanding standby() {
  PgStanding standing;
  standing.is_standby = true;
  return standing;
}

TEST(PgStandings, a_primary_tells_its_timeline_in_hexadecimal) {
  const auto standing = standing_from(reply_of({"f", "0000001A", "1.5", "77", "on"}));

  ASSERT_TRUE(standing);
  EXPECT_FALSE(standing->is_standby);
  EXPECT_EQ(standing->timeline, 26U);
  EXPECT_EQ(standing->pid, 77);
  EXPECT_TRUE(standing->is_read_only);
  EXPECT_FALSE(standing->followers);
}

TEST(PgStandings, a_standby_has_none) {
  const auto standing = standing_from(
      reply_of({"t", std::nullopt, "1.5", "77", "off", "FIRST 1 (a)", "?S1\nxb"}));
  EXPECT_TRUE(standing->is_standby);
  EXPECT_EQ(standing->timeline, 0U);
  EXPECT_FALSE(standing->is_read_only);
  EXPECT_EQ(standing->standby_names, "FIRST 1 (a)");
  EXPECT_EQ(standing->followers->at(0).name, "s1");
}

TEST(PgStandings, a_server_that_does_not_know_the_question_tells_nothing) {
  EXPECT_FALSE(standing_from(Result()));
  EXPECT_FALSE(standing_from(reply_of({"f"})));
  EXPECT_EQ(standing_from(reply_of({"f", "x", "1", "2", "off"}))->timeline, 0U);
}

TEST(PgStandings, the_primary_is_used_wherever_it_stands) {
  const auto choice =
      chosen_primary({standby(), std::nullopt, primary(1, "1")}, {"a", "b", "c"});

  EXPECT_EQ(choice.server, 2U);
  EXPECT_EQ(choice.complaint, "");
  EXPECT_FALSE(chosen_primary({standby(), std::nullopt}, {"a", "b"}).server);
}

TEST(PgStandings, of_two_primaries_the_greater_timeline_is_used_with_a_complaint) {
  for (const bool is_first : {true, false}) {
    const auto older = primary(1, "1");
    const auto newer = primary(2, "2");
    const auto choice = is_first ? chosen_primary({newer, older}, {"a", "b"})
                                 : chosen_primary({older, newer}, {"b", "a"});

    EXPECT_EQ(choice.server, is_first ? 0U : 1U);
    EXPECT_NE(choice.complaint.find("b (timeline 1) also says that it is the primary, "
                                    "and a (timeline 2) is used"),
              std::string::npos)
        << choice.complaint;
  }
}

TEST(PgStandings, one_server_under_two_names_is_one_primary) {
  const auto choice = chosen_primary({primary(1, "1"), primary(1, "1")}, {"a", "b"});

  EXPECT_EQ(choice.server, 0U);
  EXPECT_EQ(choice.complaint, "");
  EXPECT_EQ(chosen_primary({primary(1, "1"), primary(2, "1")}, {"a", "b"}).server, 1U);
}

// "2: a b *"
std::string awaited(std::string_view setting) {
  const auto found = awaited_standbys(setting);
  if (!found) return "-";
  std::string text = std::to_string(found->count) + ":";
  for (const auto& name : found->names) text += " " + name;
  return text + (found->may_be_any ? " *" : "");
}

TEST(PgStandbyNames, are_read_in_every_form_that_servers_accept) {
  EXPECT_EQ(awaited(""), "0:");
  EXPECT_EQ(awaited("  "), "0:");
  EXPECT_EQ(awaited("a"), "1: a");
  EXPECT_EQ(awaited("a, B ,c"), "1: a b c");
  EXPECT_EQ(awaited("*"), "1: *");
  EXPECT_EQ(awaited("\"*\""), "1: *");
  EXPECT_EQ(awaited("2 (a, b, c)"), "2: a b c");
  EXPECT_EQ(awaited("FIRST 2 (a,b)"), "2: a b");
  EXPECT_EQ(awaited("any 1(\"A, \"\"b\", *)"), "1: a, \"b *");
  EXPECT_EQ(awaited("ANY 3 (*)"), "3: *");
  EXPECT_EQ(awaited("a,A,a"), "1: a");
  EXPECT_EQ(awaited("1 (1)"), "1: 1");
  EXPECT_EQ(awaited("12"), "1: 12");
}

TEST(PgStandbyNames, nothing_else_is_taken_for_names) {
  for (const char* setting : {"a b", "a,", ",a", "2 (a", "2 (a))", "2 ()", "0 (a)", "\"a",
                              "FIRST 2", "ANY x (a)", "2 (a) b", "()", "99999 (a)"}) {
    EXPECT_EQ(awaited(setting), "-") << setting;
  }
}

// `connected`: a letter for each, upper case for an archiver.
std::string refusal(const char* wanted, const char* setting, std::string_view connected) {
  const std::string text = wanted;
  Replicas replicas;
  replicas.all = text == "all";
  if (!replicas.all) replicas.count = static_cast<unsigned>(std::stoul(text));
  std::vector<PgFollower> followers;
  for (const char c : connected) {
    using Kind = PgFollower::Kind;
    const auto name = lower_case({&c, 1});
    followers.push_back({name[0] == c ? Kind::unknown : Kind::other, name});
  }
  return too_few_standbys(replicas, setting, followers).value_or("");
}

TEST(PgReplicas, are_enough_if_so_many_acknowledge_each_commit) {
  EXPECT_EQ(refusal("0", "", ""), "");
  EXPECT_EQ(refusal("1", "a", "a"), "");
  EXPECT_EQ(refusal("1", "ANY 2 (a, b)", "abc"), "");
  EXPECT_EQ(refusal("2", "FIRST 2 (*)", "abcde"), "");
  EXPECT_EQ(refusal("all", "a", "aC"), "");
  EXPECT_EQ(refusal("all", "ANY 2 (a, b)", "ab"), "");
  EXPECT_EQ(refusal("all", "ANY 2 (a, b)", "aB"), "");
  EXPECT_EQ(refusal("1", "ANY 2 (a, b)", "aB"), "");
}

TEST(PgReplicas, are_too_few_if_an_old_primary_could_do_without_them) {
  EXPECT_EQ(refusal("1", "", "abc"),
            "its commits wait for no standby (synchronous_standby_names is empty)");
  EXPECT_EQ(refusal("2", "a, b", "ab"),
            "its commits wait for 1 standby (synchronous_standby_names), not for 2");
  EXPECT_EQ(refusal("all", "ANY 1 (a, b)", "ab"),
            "its commits wait for 1 standby of the 2 in synchronous_standby_names");
  EXPECT_EQ(refusal("all", "ANY 2 (*)", "ab"),
            "synchronous_standby_names must name every standby, and not *");
  for (const auto& [setting, text] :
       {std::pair("a", "3 standbys are connected, and its commits wait for only 1: give"),
        {"2 (a, b)",
         "3 standbys are connected, and its commits wait for only 2: give"}}) {
    EXPECT_TRUE(refusal("all", setting, "abb").starts_with(text)) << setting;
  }
  EXPECT_EQ(refusal("all", "FIRST 2 (a)", "aa"), "");
  for (const char* connected : {"aaB", "aA"}) {
    EXPECT_NE(refusal("all", "FIRST 2 (a, b)", connected), "") << connected;
  }
  EXPECT_EQ(refusal("1", "a", "aa"), "");
  for (const char* wanted : {"1", "all"}) {
    EXPECT_NE(refusal(wanted, "b", "aB"), "") << wanted;
    EXPECT_NE(refusal(wanted, "b", "B"), "") << wanted;
  }
  EXPECT_NE(refusal("1", "ANY 1 (a, b)", "aB"), "");
  EXPECT_NE(refusal("1", "b", "a"), "");
  EXPECT_EQ(refusal("1", "ANY 2 (a, b)", "ac"),
            "its commits wait for 2 standbys, and only 1 is connected");
  EXPECT_EQ(refusal("all", "a", ""),
            "its commits wait for 1 standby, and none is connected");
  EXPECT_NE(refusal("1", "a b", "a"), "");
}

TEST(PgGuard, refuses_with_its_own_words_and_not_with_each_text_that_is_no_number) {
  const auto refusal = [](const std::string& text) {
    return SqlError({"ERROR", "22P02", "invalid input syntax for type integer: " + text},
                    "db:5432");
  };
  const auto sql = trust_guard("dlock").sql;
  const auto begin = sql.find('\'');
  const auto word = sql.substr(begin + 1, sql.find('\'', begin + 1) - begin - 1);

  EXPECT_TRUE(is_of_guard(refusal('"' + word + '"')));
  EXPECT_FALSE(is_of_guard(refusal("\"x\"")));
}

}  // namespace
}  // namespace dlock::postgres
