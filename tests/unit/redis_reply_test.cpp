// Replies parsed from bytes: their shapes, in pieces of any size, and what is refused.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/reply.hpp"

namespace dlock::redis {
namespace {

using namespace std::string_literals;

// Everything about a reply, in one line.
std::string described(const Reply& reply) {
  switch (reply.kind) {
    case Reply::Kind::nil: return "nil";
    case Reply::Kind::integer: return std::to_string(reply.integer);
    case Reply::Kind::status: return "status " + reply.text;
    case Reply::Kind::string: return "string " + reply.text;
    case Reply::Kind::error: return "error " + reply.text;
    case Reply::Kind::array: break;
  }
  std::string out = "[";
  for (const auto& element : reply.elements) out += described(element) + ",";
  return out + "]";
}

// All replies in `bytes`, which are fed in pieces of `size`, and how parsing ended.
std::string read(std::string_view bytes, std::size_t size = SIZE_MAX,
                 ReplyLimits limits = {}) {
  ReplyReader reader(limits);
  std::string out;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    while (auto reply = reader.next()) out += described(*reply) + ";";
    if (!reader.error().empty()) return out + "failed";
  }
  return out + (reader.is_empty() ? "" : "more");
}

bool is_refused(std::string_view bytes, ReplyLimits limits = {}) {
  ReplyReader reader(limits);
  const bool is_good = reader.feed(bytes);
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(is_good, reader.error().empty());
  return !is_good;
}

TEST(Replies, have_the_shapes_of_the_protocol) {
  EXPECT_EQ(read("+OK\r\n"), "status OK;");
  EXPECT_EQ(read("-ERR no\r\n"), "error ERR no;");
  EXPECT_EQ(read(":-9223372036854775808\r\n"), "-9223372036854775808;");
  EXPECT_EQ(read("$3\r\nabc\r\n"), "string abc;");
  EXPECT_EQ(read("$0\r\n\r\n"), "string ;");
  EXPECT_EQ(read("$-1\r\n"), "nil;");
  EXPECT_EQ(read("*-1\r\n"), "nil;");
  EXPECT_EQ(read("*0\r\n"), "[];");
  EXPECT_EQ(read("*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n$1\r\nb\r\n"),
            "[1,nil,[status a,string b,],];");
}

TEST(Replies, may_have_any_bytes_in_a_string) {
  EXPECT_EQ(read("$7\r\na\r\n\0\xFF*1\r\n"s), "string a\r\n\0\xFF*1;"s);
}

TEST(Replies, follow_one_another) {
  EXPECT_EQ(read("+OK\r\n:5\r\n*1\r\n+x\r\n-ERR\r\n"),
            "status OK;5;[status x,];error ERR;");
}

TEST(Replies, are_the_same_however_the_bytes_arrive) {
  const auto several =
      "*4\r\n$10\r\n0123456789\r\n*2\r\n:42\r\n*0\r\n$-1\r\n-WRONGTYPE Operation\r\n"
      "+PONG\r\n$2\r\n\r\n\r\n:7\r\n"s;
  const auto whole = read(several);

  for (std::size_t size = 1; size <= several.size(); ++size) {
    EXPECT_EQ(read(several, size), whole) << size;
  }
  for (std::size_t cut = 0; cut < several.size(); ++cut) {
    ReplyReader reader;
    std::string out;
    for (const auto& part : {several.substr(0, cut), several.substr(cut)}) {
      EXPECT_TRUE(reader.feed(part));
      while (auto reply = reader.next()) out += described(*reply) + ";";
    }
    EXPECT_EQ(out, whole) << cut;
  }
}

TEST(Replies, that_precede_an_error_are_returned) {
  const auto bytes = "+OK\r\n:1\r\nHTTP/1.1 200 OK\r\n"s;
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    EXPECT_EQ(read(bytes, size), "status OK;1;failed") << size;
  }
}

TEST(Replies, that_are_incomplete_are_not_returned) {
  const auto bytes = "*2\r\n$3\r\nabc\r\n:1\r\n"s;
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(read(bytes.substr(0, size)), "more") << size;
  }
}

TEST(Replies, have_their_error_code) {
  ReplyReader reader;
  reader.feed("-NOSCRIPT No matching script\r\n-ERR\r\n+NOSCRIPT x\r\n");

  EXPECT_EQ(reader.next()->error_code(), "NOSCRIPT");
  EXPECT_EQ(reader.next()->error_code(), "ERR");
  EXPECT_EQ(reader.next()->error_code(), "");
}

TEST(Refused, are_bytes_that_do_not_follow_the_protocol) {
  for (const char* bytes :
       {"HTTP/1.1 400 Bad Request\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01", "\r\n",
        ":\r\n", ":one\r\n", ":1 \r\n", ":99999999999999999999\r\n", "$x\r\n", "$\r\n",
        "*x\r\n", "$ 3\r\nabc\r\n", "*1\r\nx\r\n"}) {
    EXPECT_TRUE(is_refused(bytes)) << bytes;
  }
}

TEST(Refused, are_types_of_later_protocols) {
  for (const char* bytes :
       {"%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", ">1\r\n+a\r\n", ",1.5\r\n", "#t\r\n",
        "_\r\n", "(12345\r\n", "=7\r\ntxt:abc\r\n", "*1\r\n#t\r\n", "*1\r\n,1.5\r\n"}) {
    EXPECT_TRUE(is_refused(bytes)) << bytes;
  }
}

TEST(Refused, is_a_string_that_is_longer_than_announced) {
  EXPECT_TRUE(is_refused("$3\r\nabcd\r\n"));
}

TEST(Refused, is_a_length_beyond_the_limit_before_the_rest_arrives) {
  for (const char* bytes :
       {"$9223372036854775807\r\n", "$9223372036854775808\r\n", "$536870912\r\n",
        "$8388609\r\n", "$-2\r\n", "$-9223372036854775808\r\n", "*1\r\n$536870912\r\n"}) {
    EXPECT_TRUE(is_refused(bytes)) << bytes;
    EXPECT_EQ(read(bytes, 1), "failed") << bytes;
  }
  EXPECT_FALSE(is_refused("$8388000\r\n"));
}

TEST(Refused, is_a_count_beyond_the_limit_before_the_rest_arrives) {
  for (const char* bytes :
       {"*4294967295\r\n", "*2147483647\r\n", "*100001\r\n", "*-2\r\n",
        "*9223372036854775807\r\n", "*-9223372036854775808\r\n"}) {
    EXPECT_TRUE(is_refused(bytes)) << bytes;
  }
  EXPECT_FALSE(is_refused("*100000\r\n"));
}

TEST(Refused, are_more_elements_than_the_limit_however_they_are_nested) {
  ReplyLimits limits;
  limits.elements = 6;

  EXPECT_TRUE(is_refused("*3\r\n*3\r\n*1\r\n", limits));
  EXPECT_EQ(read("*3\r\n*3\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", 1, limits),
            "[[1,2,3,],4,5,];");
}

TEST(Refused, are_only_excesses_within_a_single_reply) {
  ReplyLimits limits;
  limits.elements = 2;
  limits.bytes = 12;

  EXPECT_EQ(read("*2\r\n:1\r\n:2\r\n*2\r\n:3\r\n:4\r\n", SIZE_MAX, limits),
            "[1,2,];[3,4,];");
}

TEST(Refused, is_deep_nesting) {
  std::string nested;
  for (int i = 0; i < 1'000'000; ++i) nested += "*1\r\n";

  EXPECT_TRUE(is_refused(nested));
  EXPECT_EQ(read("*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"), "[[[[1,],],],];");
}

TEST(Refused, is_a_line_without_end) {
  ReplyLimits limits;
  for (const char* type : {"+", "-", ":", "$", "*"}) {
    EXPECT_TRUE(is_refused(type + std::string(limits.line + 2, '1'))) << type;
  }
}

TEST(Refused, is_a_line_beyond_the_limit_however_it_arrives) {
  ReplyLimits limits;
  limits.line = 10;
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    EXPECT_EQ(read("+0123456789\r\n", size, limits), "status 0123456789;") << size;
    EXPECT_EQ(read("+0123456789a\r\n", size, limits), "failed") << size;
  }
}

TEST(Refused, is_a_reply_with_more_bytes_than_the_limit_however_it_arrives) {
  ReplyLimits limits;
  limits.bytes = 18;
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    EXPECT_EQ(read("*2\r\n$3\r\nabc\r\n:12\r\n+OK\r\n", size, limits),
              "[string abc,12,];status OK;");
    EXPECT_EQ(read("*2\r\n$3\r\nabc\r\n:123\r\n+OK\r\n", size, limits), "failed");
  }
}

TEST(Refused, are_all_bytes_after_an_error) {
  ReplyReader reader;
  EXPECT_FALSE(reader.feed("nonsense\r\n"));

  EXPECT_FALSE(reader.feed("+OK\r\n"));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.error().empty());
}

TEST(Refused, is_explained_in_a_few_words) {
  ReplyReader reader;
  reader.feed("HTTP/1.1 200 OK\r\n");

  EXPECT_EQ(reader.error(), "got \"H\" as reply type byte");
}

}  // namespace
}  // namespace dlock::redis
