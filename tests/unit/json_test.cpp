// JSON that others wrote: what is accepted, and what is beyond the limits.

#include "util/json.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dlock {
namespace {

std::string nested(std::size_t depth) {
  return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
}

TEST(JsonFromOthers, is_an_object) {
  EXPECT_EQ(text_at(*object_from(R"({"host":"web1"})"), "host"), "web1");
  for (const auto* text : {"", "[]", "7", "null", "\"{}\"", "{", "{}x", "{\"a\":}"}) {
    EXPECT_FALSE(object_from(text)) << text;
  }
}

TEST(JsonFromOthers, is_nested_up_to_the_limit) {
  EXPECT_TRUE(object_from(nested(16)));
  EXPECT_FALSE(object_from(nested(17)));
  EXPECT_FALSE(object_from(nested(200'000)));
  EXPECT_FALSE(object_from(std::string(200'000, '[')));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_FALSE(object_from(objects));
}

TEST(JsonFromOthers, may_have_brackets_and_quotes_in_its_strings) {
  const auto brackets = std::string(100, '[') + std::string(100, '{') + R"(\"\\)";

  const auto object = object_from(R"({"a":")" + brackets + R"(","b":[1]})");

  ASSERT_TRUE(object);
  EXPECT_EQ(text_at(*object, "a").size(), 202u);
}

TEST(JsonFromOthers, has_up_to_so_many_elements_and_bytes) {
  const auto with = [](std::size_t elements) {
    std::string list = "0";
    for (std::size_t i = 1; i < elements; ++i) list += ",0";
    return "{\"a\":[" + list + "]}";
  };
  EXPECT_TRUE(object_from(with(9'900)));
  EXPECT_FALSE(object_from(with(10'100)));

  const auto of_size = [](std::size_t bytes) {
    return "{\"a\":\"" + std::string(bytes, 'x') + "\"}";
  };
  EXPECT_TRUE(object_from(of_size(300'000)));
  EXPECT_FALSE(object_from(of_size(1'100'000)));
}

}  // namespace
}  // namespace dlock
