// The class of a reply, before its contents are interpreted.

#include <gtest/gtest.h>

#include "store/redis/node.hpp"

namespace dlock::redis {
namespace {

ReplyClass sort_of_error(const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::error;
  reply.text = text;
  return class_of(reply);
}

TEST(ReplySorts, distinguish_errors_by_their_first_word) {
  EXPECT_EQ(sort_of_error("MOVED 866 127.0.0.1:7001"), ReplyClass::moved);
  EXPECT_EQ(sort_of_error("ASK 866 127.0.0.1:7001"), ReplyClass::ask);
  EXPECT_EQ(sort_of_error("TRYAGAIN Multiple keys"), ReplyClass::ask);
  EXPECT_EQ(sort_of_error("LOADING Redis is loading"), ReplyClass::not_now);
  EXPECT_EQ(sort_of_error("MASTERDOWN Link is down"), ReplyClass::not_now);
  EXPECT_EQ(sort_of_error("READONLY You can't write"), ReplyClass::not_primary);
  EXPECT_EQ(sort_of_error("UNBLOCKED force unblock"), ReplyClass::not_primary);
  EXPECT_EQ(sort_of_error("NOPERM no"), ReplyClass::refused);
  EXPECT_EQ(sort_of_error("ASKED x"), ReplyClass::refused);
}

TEST(ReplySorts, treat_everything_but_errors_as_an_answer) {
  Reply reply;
  reply.kind = Reply::Kind::string;
  reply.text = "MOVED 866 127.0.0.1:7001";

  EXPECT_EQ(class_of(reply), ReplyClass::answer);
}

}  // namespace
}  // namespace dlock::redis
