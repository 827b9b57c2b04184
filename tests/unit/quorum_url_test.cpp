// URLs of quorums: what they mean, and which are refused.

#include <gtest/gtest.h>

#include "store/redis/target.hpp"
#include "tests/unit/url_lists.hpp"

namespace dlock::redis_quorum {
namespace {

StoreUrl url_of(const std::string& url) { return parsed_store_url(url); }

TEST(QuorumUrl, has_everything_that_the_url_says) {
  const auto url = url_of("redis+quorum://alice:secret@one,two:7000,[::1]:7001/3");

  EXPECT_EQ(places_of(url.servers), "one:6379 two:7000 [::1]:7001");
  for (const auto& server : redis::targets_of(url)) {
    EXPECT_EQ(server.login.user, "alice");
    EXPECT_EQ(server.login.password, "secret");
    EXPECT_EQ(server.database, 3u);
    EXPECT_FALSE(server.tls);
  }
  EXPECT_EQ(url.terms, QuorumTerms{});
  EXPECT_EQ(url.terms.max_ttl, std::chrono::minutes(1));
}

TEST(QuorumUrl, applies_settings_to_every_server) {
  auto url = url_of("rediss+quorum://alice:secret@one,two,three");
  Credentials credentials;
  credentials.user = "bob";
  credentials.tls.ca = "/ca";
  credentials.terms = {.least_strength = 1, .max_ttl = milliseconds(5000)};

  url.set(credentials);

  for (const auto& server : redis::targets_of(url)) {
    EXPECT_EQ(server.login.user, "bob");
    EXPECT_EQ(server.tls.value().ca, "/ca");
  }
  EXPECT_EQ(url.terms, credentials.terms);
}

TEST(QuorumUrl, is_shown_without_secrets_and_defaults) {
  EXPECT_EQ(url_of("redis+quorum://u:p@one:6379,TWO,three:7/0").text(),
            "redis+quorum://u@one,two,three:7");
  EXPECT_EQ(url_of("rediss+quorum://one,two,three/2").text(),
            "rediss+quorum://one,two,three/2");
}

TEST(QuorumUrl, has_three_to_nine_servers) {
  for (int count = 3; count <= 9; ++count) {
    EXPECT_EQ(refusal_of_url("redis+quorum://" + hosts(count)), "") << count;
  }
  for (const int count : {1, 2, 10, 32}) {
    const auto why = refusal_of_url("redis+quorum://" + hosts(count));
    EXPECT_NE(why.find("3 to 9 servers"), std::string::npos) << why;
  }
}

TEST(QuorumUrl, refuses_invalid_urls) {
  for (const auto* list : {"", "a,b,", ",a,b,c", "a,,b,c", "a,b,c:0", "a,b,a", "a,b,c/x",
                           "a,b,c/1/2", "a,b,c/2?db=1", "a,b,c#1", "u:p@a,u:p@b,c"}) {
    EXPECT_NE(refusal_of_url("redis+quorum://" + std::string(list)), "") << list;
  }
}

}  // namespace
}  // namespace dlock::redis_quorum
