// URLs of servers behind sentinels: what they mean, which are refused, and which login is
// sent to whom.

#include <gtest/gtest.h>

#include "store/redis/target.hpp"
#include "tests/unit/url_lists.hpp"

namespace dlock::redis_sentinel {
namespace {

StoreUrl url_of(const std::string& url) { return parsed_store_url(url); }

std::string rewritten(const std::string& url) { return url_of(url).text(); }

TEST(SentinelUrl, has_everything_that_the_url_says) {
  const auto url = url_of("redis+sentinel://alice:secret@one,two:7000,[::1]:7001/shop/3");

  EXPECT_EQ(places_of(url.servers), "one:26379 two:7000 [::1]:7001");
  EXPECT_EQ(url.master, "shop");
  EXPECT_EQ(url.login.user, "alice");
  EXPECT_EQ(url.login.password, "secret");
  EXPECT_EQ(url.database, 3u);
  EXPECT_FALSE(url.tls);
  EXPECT_EQ(url.replicas, Replicas{});
}

TEST(SentinelUrl, never_gives_the_login_of_the_url_to_the_sentinels) {
  auto url = url_of("redis+sentinel://alice:secret@one,two/shop");
  Credentials credentials;
  credentials.user = "bob";
  credentials.password_file = "/file";

  for (int i = 0; i < 2; ++i) {
    for (const auto& sentinel : redis::sentinels_of(url)) {
      EXPECT_EQ(sentinel.login.user, "");
      EXPECT_FALSE(sentinel.login.password);
      EXPECT_EQ(sentinel.login.password_file, "");
      EXPECT_EQ(sentinel.database, 0u);
    }
    url.set(credentials);
  }
  EXPECT_EQ(url.login.user, "bob");
  EXPECT_EQ(url.login.password_file, "/file");
  EXPECT_FALSE(url.login.password);
}

TEST(SentinelUrl, has_a_login_for_the_sentinels_that_no_server_gets) {
  auto url = url_of("redis+sentinel://alice:secret@one,two/shop");
  Credentials credentials;
  credentials.sentinel_user = "watch";
  credentials.sentinel_password = "word";

  url.set(credentials);

  for (const auto& sentinel : redis::sentinels_of(url)) {
    EXPECT_EQ(sentinel.login.user, "watch");
    EXPECT_EQ(sentinel.login.password, "word");
  }
  EXPECT_EQ(url.login.user, "alice");
  EXPECT_EQ(url.login.password, "secret");
}

TEST(SentinelUrl, prefers_the_sentinels_password_file_to_their_password) {
  auto url = url_of("redis+sentinel://one/shop");
  Credentials credentials;
  credentials.sentinel_password = "word";
  credentials.sentinel_password_file = "/file";

  url.set(credentials);

  EXPECT_EQ(url.sentinel_login.password_file, "/file");
  EXPECT_FALSE(url.sentinel_login.password);
}

TEST(SentinelUrl, uses_tls_for_the_sentinels_too_unless_that_is_switched_off) {
  auto url = url_of("rediss+sentinel://one,two/shop");
  Credentials credentials;
  credentials.tls.ca = "/ca";
  credentials.tls.name = "shop.example.org";

  url.set(credentials);
  EXPECT_EQ(url.tls->ca, "/ca");
  EXPECT_EQ(url.tls->name, "shop.example.org");
  for (const auto& sentinel : redis::sentinels_of(url)) {
    ASSERT_TRUE(sentinel.tls);
    EXPECT_EQ(sentinel.tls->ca, "/ca");
    EXPECT_EQ(sentinel.tls->name, "");  // the name of its host is used
  }

  credentials.sentinel_tls = false;
  url.set(credentials);
  EXPECT_TRUE(url.tls);
  for (const auto& sentinel : redis::sentinels_of(url)) EXPECT_FALSE(sentinel.tls);
}

TEST(SentinelUrl, never_uses_tls_because_of_an_option) {
  auto url = url_of("redis+sentinel://one/shop");
  Credentials credentials;
  credentials.tls.insecure = true;

  url.set(credentials);

  EXPECT_FALSE(url.tls);
  EXPECT_FALSE(url.sentinel_tls);
  EXPECT_FALSE(url.is_insecure());
}

TEST(SentinelUrl, is_insecure_if_any_certificate_is_accepted) {
  auto url = url_of("rediss+sentinel://one/shop");
  EXPECT_FALSE(url.is_insecure());
  Credentials credentials;
  credentials.tls.insecure = true;

  url.set(credentials);

  EXPECT_TRUE(url.is_insecure());
}

TEST(SentinelUrl, has_the_replicas_that_were_requested) {
  auto url = url_of("redis+sentinel://one/shop");
  Credentials credentials;
  credentials.replicas = {.all = true};

  url.set(credentials);

  EXPECT_TRUE(url.replicas.all);
}

TEST(SentinelUrl, may_have_special_characters_in_its_name) {
  EXPECT_EQ(url_of("redis+sentinel://one/a%2Fb%20%40%C3%A9").master, "a/b @\xC3\xA9");
  EXPECT_EQ(url_of("redis+sentinel://one/a:b,c").master, "a:b,c");
  EXPECT_EQ(url_of("redis+sentinel://one/" + std::string(255, 'x')).master,
            std::string(255, 'x'));
}

class BadSentinelUrl : public ::testing::TestWithParam<const char*> {};

TEST_P(BadSentinelUrl, is_refused_in_one_line) {
  const auto message = refusal_of_url(GetParam());

  EXPECT_NE(message, "") << GetParam();
  EXPECT_TRUE(is_printable_utf8(message)) << message;
  EXPECT_EQ(message.find("secret"), std::string::npos) << message;
}

constexpr const char* bad_urls[] = {
    // No sentinels
    "redis+sentinel:", "redis+sentinel:host/m", "redis+sentinel:/host/m",
    "redis+sentinel://", "redis+sentinel:///m", "redis+sentinel://u:secret@/m",
    // One of them is invalid
    "redis+sentinel://,/m", "redis+sentinel://a,/m", "redis+sentinel://,a/m",
    "redis+sentinel://a,,b/m", "redis+sentinel://a,:1/m", "redis+sentinel://a, b/m",
    "redis+sentinel://a:0/m", "redis+sentinel://a,b:65536/m", "redis+sentinel://a,b:/m",
    "redis+sentinel://a,b:x/m", "redis+sentinel://a,::1/m", "redis+sentinel://a,[::1/m",
    "redis+sentinel://a,[b]/m", "redis+sentinel://a;b/m", "redis+sentinel://a%2Cb/m",
    // The same sentinel twice
    "redis+sentinel://a,a/m", "redis+sentinel://a,b,A/m", "redis+sentinel://a,a:26379/m",
    "redis+sentinel://a:026379,a/m", "redis+sentinel://[::1],[0:0::1]/m",
    "redis+sentinel://[FE80::1%25eth0],[fe80::1%eth0]/m",
    // No valid name
    "redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a,b//0",
    "redis+sentinel://a/%", "redis+sentinel://a/%0A", "redis+sentinel://a/%00",
    "redis+sentinel://a/%FF", "redis+sentinel://a/m\n", "redis+sentinel://a/m@x",
    // No valid database
    "redis+sentinel://a/m/x", "redis+sentinel://a/m/-1", "redis+sentinel://a/m/1/",
    "redis+sentinel://a/m/1/2", "redis+sentinel://a/m//1", "redis+sentinel://a/m/ 1",
    "redis+sentinel://a/m/2147483648",
    // Extra parts
    "redis+sentinel://a?m", "redis+sentinel://a/m/0?db=1", "redis+sentinel://a/m#1",
    "redis+sentinel://a/m?master=n", "redis+sentinel://a?/m",
    // An invalid login
    "redis+sentinel://@a/m", "redis+sentinel://:@a/m", "redis+sentinel://u:@a/m",
    "redis+sentinel://u:secret@a,u:secret@b/m", "redis+sentinel://u:se/secret@a/m",
    "redis+sentinel://u:%secret@a/m"};
INSTANTIATE_TEST_SUITE_P(urls, BadSentinelUrl, ::testing::ValuesIn(bad_urls));

TEST(SentinelUrl, accepts_at_most_32_sentinels_and_a_name_of_255_bytes) {
  const auto many = [](int count) { return "redis+sentinel://" + hosts(count) + "/m"; };

  EXPECT_EQ(refusal_of_url(many(32)), "");
  EXPECT_NE(refusal_of_url(many(33)), "");
  EXPECT_NE(refusal_of_url("redis+sentinel://a/" + std::string(256, 'x')), "");
}

TEST(SentinelUrl, a_refusal_names_the_sentinel_and_says_what_to_write) {
  EXPECT_EQ(refusal_of_url("redis+sentinel://a,b:0/m"),
            "sentinel 2: the port must be a number from 1 to 65535");
  EXPECT_EQ(refusal_of_url("redis+sentinel://a,b,A:26379/m"),
            "sentinel 3 is the same as sentinel 1: name each one once");
  EXPECT_EQ(refusal_of_url("redis+sentinel://a,,b/m"),
            "sentinel 2 is empty: remove the extra comma");
  EXPECT_EQ(refusal_of_url("redis+sentinel:///m"),
            "no sentinel given: expected host[:port],host[:port],...");
  EXPECT_NE(refusal_of_url("redis+sentinel://a,b").find("/NAME"), std::string::npos);
}

TEST(SentinelUrl, is_shown_without_secrets_and_defaults) {
  EXPECT_EQ(rewritten("redis+sentinel://alice:secret@One:26379,two:7000/shop/0"),
            "redis+sentinel://alice@one,two:7000/shop");
  EXPECT_EQ(rewritten("redis+sentinel://:secret@[0:0::1]:26379/shop/"),
            "redis+sentinel://[::1]/shop");
}

TEST(SentinelUrl, is_otherwise_shown_as_it_was_read) {
  for (const char* url :
       {"redis+sentinel://a/m", "rediss+sentinel://a:1,[::1]:7000/m/2",
        "redis+sentinel://[fe80::1%25eth0],b/a%2Fb%20%40", "redis+sentinel://b,a/m"}) {
    EXPECT_EQ(rewritten(url), url);
  }
}

TEST(SentinelUrl, does_not_show_the_login_for_the_sentinels_in_its_url) {
  auto url = url_of("redis+sentinel://a/m");
  Credentials credentials;
  credentials.sentinel_user = "watch";
  credentials.sentinel_password = "word";

  url.set(credentials);

  EXPECT_EQ(url.text(), "redis+sentinel://a/m");
}

}  // namespace
}  // namespace dlock::redis_sentinel
