// URLs of clusters: what they mean, and which are refused.

#include <gtest/gtest.h>

#include "store/redis/target.hpp"
#include "tests/unit/url_lists.hpp"

namespace dlock::redis_cluster {
namespace {

StoreUrl url_of(const std::string& url) { return parsed_store_url(url); }

std::string rewritten(const std::string& url) { return url_of(url).text(); }

TEST(ClusterUrl, has_everything_that_the_url_says) {
  const auto url = url_of("redis+cluster://alice:secret@one,two:7000,[::1]:7001");

  EXPECT_EQ(places_of(url.servers), "one:6379 two:7000 [::1]:7001");
  for (const auto& seed : redis::targets_of(url)) {
    EXPECT_EQ(seed.login.user, "alice");
    EXPECT_EQ(seed.login.password, "secret");
    EXPECT_EQ(seed.database, 0u);
    EXPECT_FALSE(seed.tls);
  }
  EXPECT_EQ(url.replicas, Replicas{});
}

TEST(ClusterUrl, accepts_a_trailing_slash) {
  EXPECT_EQ(places_of(url_of("redis+cluster://one,two/").servers), "one:6379 two:6379");
}

TEST(ClusterUrl, applies_settings_to_every_server) {
  auto url = url_of("rediss+cluster://alice:secret@one,two");
  Credentials credentials;
  credentials.user = "bob";
  credentials.password_file = "/file";
  credentials.tls.ca = "/ca";
  credentials.sentinel_user = "watch";
  credentials.sentinel_password = "word";
  credentials.replicas = {.count = 2};

  url.set(credentials);

  for (const auto& seed : redis::targets_of(url)) {
    EXPECT_EQ(seed.login.user, "bob");
    EXPECT_EQ(seed.login.password_file, "/file");
    EXPECT_FALSE(seed.login.password);
    ASSERT_TRUE(seed.tls);
    EXPECT_EQ(seed.tls->ca, "/ca");
  }
  EXPECT_EQ(url.replicas.count, 2u);
}

TEST(ClusterUrl, is_insecure_only_with_tls_that_accepts_any_certificate) {
  Credentials credentials;
  credentials.tls.insecure = true;
  auto plain = url_of("redis+cluster://one");
  auto encrypted = url_of("rediss+cluster://one");
  EXPECT_FALSE(encrypted.is_insecure());

  plain.set(credentials);
  encrypted.set(credentials);

  EXPECT_FALSE(plain.is_insecure());
  EXPECT_TRUE(encrypted.is_insecure());
}

class BadClusterUrl : public ::testing::TestWithParam<const char*> {};

TEST_P(BadClusterUrl, is_refused_in_one_line) {
  const auto message = refusal_of_url(GetParam());

  EXPECT_NE(message, "") << GetParam();
  EXPECT_TRUE(is_printable_utf8(message)) << message;
  EXPECT_EQ(message.find("secret"), std::string::npos) << message;
}

constexpr const char* bad_urls[] = {
    // No servers
    "redis+cluster:", "redis+cluster:host", "redis+cluster:/host", "redis+cluster://",
    "redis+cluster:///", "redis+cluster://u:secret@",
    // One of them is invalid
    "redis+cluster://,", "redis+cluster://a,", "redis+cluster://,a",
    "redis+cluster://a,,b", "redis+cluster://a,:1", "redis+cluster://a:0",
    "redis+cluster://a,b:65536", "redis+cluster://a,b:", "redis+cluster://a,b:x",
    "redis+cluster://a,::1", "redis+cluster://a b", "redis+cluster://a,b\n",
    // The same server twice
    "redis+cluster://a,a", "redis+cluster://a,b,A", "redis+cluster://a,a:6379",
    "redis+cluster://[::1]:6379,[0::1]",
    // A database
    "redis+cluster://a/0", "redis+cluster://a,b/1", "redis+cluster://a/name",
    "redis+cluster://a//",
    // Extra parts
    "redis+cluster://a?db=0", "redis+cluster://a#", "redis+cluster://a/?x",
    // An invalid login
    "redis+cluster://@a", "redis+cluster://u:@a", "redis+cluster://u:secret@a,u:secret@b",
    "redis+cluster://u:se/secret@a"};
INSTANTIATE_TEST_SUITE_P(urls, BadClusterUrl, ::testing::ValuesIn(bad_urls));

TEST(ClusterUrl, accepts_at_most_32_servers) {
  EXPECT_EQ(refusal_of_url("redis+cluster://" + hosts(32)), "");
  EXPECT_NE(refusal_of_url("redis+cluster://" + hosts(33)), "");
}

TEST(ClusterUrl, a_refusal_says_what_to_write) {
  EXPECT_NE(refusal_of_url("redis+cluster://a/0").find("only database 0"),
            std::string::npos);
  EXPECT_EQ(refusal_of_url("redis+cluster://a,A:6379"),
            "server 2 is the same as server 1: name each one once");
}

TEST(ClusterUrl, is_shown_without_secrets_and_defaults) {
  EXPECT_EQ(rewritten("redis+cluster://alice:secret@One:6379,two:7000/"),
            "redis+cluster://alice@one,two:7000");
}

TEST(ClusterUrl, is_otherwise_shown_as_it_was_read) {
  for (const char* url :
       {"redis+cluster://a", "rediss+cluster://a:1,[::1]:7000", "redis+cluster://b,a"}) {
    EXPECT_EQ(rewritten(url), url);
  }
}

}  // namespace
}  // namespace dlock::redis_cluster
