// URLs of etcd: how they are parsed, which are refused, and how they are shown.

#include <gtest/gtest.h>

#include "tests/unit/url_lists.hpp"

namespace dlock::etcd {
namespace {

StoreUrl url_of(const std::string& url) { return parsed_store_url(url); }

TEST(EtcdUrl, names_members_with_a_default_port) {
  const auto url = url_of("etcd://One,[::1]:7000,10.0.0.3/");

  ASSERT_EQ(url.servers.size(), 3U);
  EXPECT_EQ(url.servers[0].shown(), "one:2379");
  EXPECT_EQ(url.servers[1].shown(), "[::1]:7000");
  EXPECT_EQ(url.servers[2].shown(), "10.0.0.3:2379");
  EXPECT_FALSE(url.tls);
  EXPECT_EQ(url.login.user, "");
}

TEST(EtcdUrl, has_its_login_before_the_first_member) {
  const auto url = url_of("etcds://us%40er:p%2Fw@a,b");

  EXPECT_EQ(url.login.user, "us@er");
  EXPECT_EQ(url.login.password, "p/w");
  EXPECT_TRUE(url.tls);
}

TEST(EtcdUrl, is_shown_without_the_password_and_the_default_port) {
  const auto url = url_of("etcds://us%40er:secret@A:2379,[::1]:1");

  EXPECT_EQ(url.text(), "etcds://us%40er@a,[::1]:1");
}

TEST(EtcdUrl, credentials_from_options_replace_its_login) {
  auto url = url_of("etcds://user:secret@a");
  Credentials credentials;
  credentials.user = "other";
  credentials.password_file = "/file";
  credentials.tls.insecure = true;

  url.set(credentials);

  EXPECT_EQ(url.login.user, "other");
  EXPECT_FALSE(url.login.password);
  EXPECT_EQ(url.login.password_file, "/file");
  EXPECT_TRUE(url.is_insecure());
}

TEST(EtcdUrl, tls_options_do_not_affect_a_cluster_without_tls) {
  auto url = url_of("etcd://a");
  Credentials credentials;
  credentials.tls.insecure = true;

  url.set(credentials);

  EXPECT_FALSE(url.is_insecure());
}

TEST(EtcdUrl, names_a_store_that_supports_only_locks_and_registers) {
  const auto& features = parsed_store_url("etcd://a,b,c").kind->features;

  EXPECT_TRUE(features.leases_expire);
  EXPECT_TRUE(features.registers);
  EXPECT_FALSE(features.values);
  EXPECT_FALSE(features.rates);
}

TEST(EtcdUrl, names_at_most_32_members) {
  EXPECT_EQ(refusal_of_url("etcd://" + hosts(32)), "");
  EXPECT_NE(refusal_of_url("etcd://" + hosts(33)), "");
}

class BadEtcdUrl : public ::testing::TestWithParam<const char*> {};

TEST_P(BadEtcdUrl, is_refused) { EXPECT_NE(refusal_of_url(GetParam()), ""); }

constexpr const char* bad_etcd_urls[] = {
    "etcd:",       "etcd:a",         "etcd://",     "etcd:///",       "etcd://a,",
    "etcd://,a",   "etcd://a,,b",    "etcd://a:0",  "etcd://a:65536", "etcd://a,a:2379",
    "etcd://::1",  "etcd://a/x",     "etcd://a?x",  "etcd://a#x",     "etcd://:pw@a",
    "etcd://u:@a", "etcd://u@a,u@b", "etcd://u:p@", "etcd://a b",     "etcd://a\tb",
    "etcd://[::",  "etcd://[x]:1",   "etcd://u%@a",
};

INSTANTIATE_TEST_SUITE_P(urls, BadEtcdUrl, ::testing::ValuesIn(bad_etcd_urls));

}  // namespace
}  // namespace dlock::etcd
