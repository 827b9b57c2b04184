// A line of JSON that is written directly is the one that the library would write.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/encoders.hpp"
#include "util/json.hpp"

namespace dlock {
namespace {

using Line = record::JsonWriter<record::runs_log>;
using Texts = std::vector<std::string>;

TEST(JsonWriter, has_its_fields_in_the_order_in_which_they_were_added) {
  Line line;
  line("name", std::string("job"));
  line("fence", std::uint64_t{18'446'744'073'709'551'615u});
  line("offset", -7);
  line("counts", true);
  line("lost", false);
  line("command", Texts{"make", "all"});

  EXPECT_EQ(line.finished(),
            R"({"name":"job","fence":18446744073709551615,"offset":-7,"counts":true,)"
            R"("lost":false,"command":["make","all"]})");
}

TEST(JsonWriter, has_null_for_missing_values_except_in_a_row) {
  Line line;
  record::JsonWriter<record::row> row;
  for (const std::optional<int> value : {std::optional<int>(), std::optional(12)}) {
    line("value", value), row("value", value);
  }

  EXPECT_EQ(line.finished(), R"({"value":null,"value":12})");
  EXPECT_EQ(row.finished(), R"({"value":12})");
}

TEST(JsonWriter, writes_a_field_as_it_is_in_its_place) {
  Line line;
  line("fence", 7, record::in<record::row>);
  line("label", std::string(), record::if_set<record::runs_log>);
  line("pid", 0, record::if_set<record::row>, record::in<record::runs_log>);

  EXPECT_EQ(line.finished(), R"({"pid":0})");
}

TEST(JsonWriter, has_an_empty_array_for_no_texts) {
  Line line;
  line("command", Texts{});
  line("options", Texts{""});

  EXPECT_EQ(line.finished(), R"({"command":[],"options":[""]})");
}

TEST(JsonWriter, escapes_texts_as_the_library_does) {
  for (const std::string text :
       {"\"", "\\", "a\nb", "\x01", "\x7F", "\x80", "caf\xC3\xA9", "\xFF\xFE",
        "~ plain {}[],:", "", "\xE2\x80\xA8"}) {
    Line line;
    line("label", text);
    line("command", Texts{text, "x"});

    EXPECT_EQ(line.finished(), to_line(Json{{"label", text}, {"command", {text, "x"}}}));
  }
}

TEST(JsonWriter, escapes_terminal_controls_without_changing_the_value) {
  for (const auto& [text, escaped] : std::vector<std::pair<std::string, std::string>>{
           {"\x7F", "\\u007f"},
           {"\xC2\x80\xC2\x9B", "\\u0080\\u009b"},
           {"\xD8\x9C", "\\u061c"},
           {"\xE2\x80\x8E\xE2\x80\x8F", "\\u200e\\u200f"},
           {"\xE2\x80\xA8\xE2\x80\xAE", "\\u2028\\u202e"},
           {"\xE2\x81\xA6\xE2\x81\xA9", "\\u2066\\u2069"},
           {"\xEF\xBB\xBF", "\\ufeff"},
           {"\xC2\xA0\xE2\x80\x8D\xE2\x80\xB0", "\xC2\xA0\xE2\x80\x8D\xE2\x80\xB0"}}) {
    EXPECT_EQ(to_line(Json(text)), '"' + escaped + '"');
    EXPECT_EQ(Json::parse(to_line(Json(text))), Json(text));
  }
}

TEST(JsonWriter, can_be_continued_while_unfinished) {
  Line line;
  line("fence", 7);

  EXPECT_EQ(line.text(), R"({"fence":7)");
}

}  // namespace
}  // namespace dlock
