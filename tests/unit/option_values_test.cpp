// How the options of a verb are parsed, and why they are refused.

#include <gtest/gtest.h>

#include "cli/args/app.hpp"
#include "cli/args/option_table.hpp"

namespace dlock {
namespace {

using List = std::vector<std::string>;

std::variant<OptionValues, Asked> parsed_for_run(const List& options) {
  return option_values(Verb::run, options);
}

OptionValues values(const List& options) {
  return std::get<OptionValues>(parsed_for_run(options));
}

std::string refusal(const List& options) {
  try {
    parsed_for_run(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(OptionValues, are_stored_under_the_long_names_of_their_options) {
  const std::pair<List, OptionValues> rows[] = {
      {{}, {}},
      {{"--wait", "5"}, {{"wait", "5"}}},
      {{"-w", "5"}, {{"wait", "5"}}},
      {{"-w5"}, {{"wait", "5"}}},
      {{"--shared", "-q"}, {{"shared", "true"}, {"quiet", "true"}}},
      // Those of the verb and common ones may be mixed.
      {{"--store", "none:", "--ttl", "5s", "--json", "-s"},
       {{"store", "none:"}, {"ttl", "5s"}, {"json", "true"}, {"shared", "true"}}},
      // Letters may share a dash, and the last may take a value.
      {{"-qw5"}, {{"quiet", "true"}, {"wait", "5"}}},
      {{"-qw", "5"}, {{"quiet", "true"}, {"wait", "5"}}},
      {{"-wq"}, {{"wait", "q"}}},
      {{"-w=5"}, {{"wait", "=5"}}},
      // The last one counts.
      {{"-qv"}, {{"verbose", "true"}}},
      {{"--verbose", "-q"}, {{"quiet", "true"}}},
      {{"-q", "-v", "-q"}, {{"quiet", "true"}}},
      {{"-q", "-qq"}, {{"quiet", "true"}}},
      {{"--wait", "5", "--label", "a", "-w", "6", "--label", ""},
       {{"wait", "6"}, {"label", ""}}},
      {{"--label", "--help"}, {{"label", "--help"}}}};
  for (const auto& [options, stored] : rows) EXPECT_EQ(values(options), stored);
}

TEST(OptionValues, every_option_of_every_verb_is_known) {
  for (const auto& verb : all_verbs()) {
    std::vector<const OptionSpec*> specs;
    for (const auto& own : own_specs(verb.verb)) specs.push_back(&own);
    for (const auto& common : common_specs()) specs.push_back(&common);
    for (const auto* spec : specs) {
      List options{"--" + std::string(spec->name)};
      if (!spec->is_flag()) options.push_back("x");
      const OptionValues expected{
          {std::string(spec->name), spec->is_flag() ? "true" : "x"}};

      EXPECT_EQ(std::get<OptionValues>(option_values(verb.verb, options)), expected);
    }
  }
}

TEST(OptionValues, a_value_is_taken_verbatim) {
  for (const std::string value :
       {"",        " ",   " a ", "-q",    "-5",   "--",   "--json",
        "--bogus", "a=b", "a,b", "[a,b]", "[]",   "{}",   "%%",
        "\"a\"",   "'a'", "run", "#",     "a\nb", "\xff", "/w:5"}) {
    EXPECT_EQ(values({"--label", value, "-q"}),
              (OptionValues{{"label", value}, {"quiet", "true"}}));
  }
}

TEST(OptionValues, a_missing_value_is_reported_with_its_option) {
  EXPECT_EQ(refusal({"-q", "--wait"}), "--wait needs a value");
  EXPECT_EQ(refusal({"--store"}), "--store needs a value");
  EXPECT_EQ(refusal({"-w"}), "-w needs a value");
  EXPECT_EQ(refusal({"-qw"}), "-w needs a value");
}

TEST(OptionValues, help_and_version_override_other_options) {
  EXPECT_EQ(std::get<Asked>(parsed_for_run({"-w", "5", "--help"})), Asked::help);
  EXPECT_EQ(std::get<Asked>(parsed_for_run({"-qh"})), Asked::help);
  EXPECT_EQ(std::get<Asked>(parsed_for_run({"--version", "-q"})), Asked::version);
}

struct AlsoCase {
  std::string text;
  std::string name;
  unsigned slots;
  bool shared;
};

TEST(Also, has_options_behind_the_last_colon) {
  for (const auto& one :
       std::vector<AlsoCase>{{"cache", "cache", 1, false},
                             {"a b", "a b", 1, false},
                             {"gpu:slots=4", "gpu", 4, false},
                             {"config:shared", "config", 1, true},
                             {"config:shared:", "config:shared", 1, false},
                             {"cache:KEY:", "cache:KEY", 1, false},
                             {"cache:KEY:shared", "cache:KEY", 1, true},
                             {"a::", "a:", 1, false}}) {
    const auto locks = parsed_also(one.text);

    ASSERT_EQ(locks.size(), 1U) << one.text;
    EXPECT_EQ(locks[0].name, one.name) << one.text;
    EXPECT_EQ(locks[0].slots, one.slots) << one.text;
    EXPECT_EQ(locks[0].shared, one.shared) << one.text;
  }
}

TEST(Also, anything_else_behind_the_last_colon_is_refused) {
  for (const char* text :
       {"", ":", ":shared", "cache:KEY", "a:slot=4", "a:slots", "a:slots=", "a:slots=0",
        "a:slots=100001", "a:slots=-1", "a:shared=true", "a:shared,", "a:shared,shared",
        "a:slots=2,slots=3", "a:slots=2,shared", "a :shared", " a"}) {
    EXPECT_THROW(parsed_also(text), UsageError) << text;
  }
}

TEST(Also, may_be_repeated_for_up_to_16_locks_with_other_names) {
  List words;
  for (int i = 0; i < 16; ++i) {
    words.emplace_back("--also");
    words.push_back("lock" + std::to_string(i));
  }
  EXPECT_EQ(parsed_also(values(words).at("also")).size(), 16U);
  words.insert(words.end(), {"--also", "more"});
  EXPECT_THROW(parsed_also(values(words).at("also")), UsageError);
  EXPECT_THROW(parsed_also(values({"--also", "a", "--also", "a:shared"}).at("also")),
               UsageError);
}

}  // namespace
}  // namespace dlock
