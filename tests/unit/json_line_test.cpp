// A line of JSON that is written directly is the one that the library would write.

#include "util/json_line.hpp"

#include <gtest/gtest.h>

#include "util/json.hpp"

namespace dlock {
namespace {

TEST(JsonLine, has_its_fields_in_the_order_in_which_they_were_added) {
  JsonLine line;
  line.add_text("name", "job");
  line.add_number("fence", std::uint64_t{18'446'744'073'709'551'615u});
  line.add_number("offset", -7);
  line.add_flag("counts", true);
  line.add_flag("lost", false);
  line.add_texts("command", {"make", "all"});

  EXPECT_EQ(line.finished(),
            R"({"name":"job","fence":18446744073709551615,"offset":-7,"counts":true,)"
            R"("lost":false,"command":["make","all"]})");
}

TEST(JsonLine, has_null_for_missing_values) {
  JsonLine line;
  line.add_null("signal");
  line.add_number("pid", 12);

  EXPECT_EQ(line.finished(), R"({"signal":null,"pid":12})");
}

TEST(JsonLine, contains_other_objects) {
  JsonLine inner;
  JsonLine line;
  line.add_object("taken_by", inner);
  inner.add_text("host", "web1");
  line.add_object("broken_by", inner);

  EXPECT_EQ(line.finished(), R"({"taken_by":{},"broken_by":{"host":"web1"}})");
}

TEST(JsonLine, has_an_empty_array_for_no_texts) {
  JsonLine line;
  line.add_texts("command", {});
  line.add_texts("options", {""});

  EXPECT_EQ(line.finished(), R"({"command":[],"options":[""]})");
}

TEST(JsonLine, escapes_texts_as_the_library_does) {
  for (const std::string text :
       {"\"", "\\", "a\nb", "\x01", "\x7F", "\x80", "caf\xC3\xA9", "\xFF\xFE",
        "~ plain {}[],:", "", "\xE2\x80\xA8"}) {
    JsonLine line;
    line.add_text("label", text);
    line.add_texts("command", {text, "x"});

    EXPECT_EQ(line.finished(), to_line(Json{{"label", text}, {"command", {text, "x"}}}));
  }
}

TEST(JsonLine, escapes_terminal_controls_without_changing_the_value) {
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

TEST(JsonLine, can_be_continued_while_unfinished) {
  JsonLine line;
  line.add_number("fence", 7);

  EXPECT_EQ(line.unfinished(), R"({"fence":7)");
}

}  // namespace
}  // namespace dlock
