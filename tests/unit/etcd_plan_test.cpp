// URLs of etcd: how they are parsed, which are refused, and how they are shown.

#include <gtest/gtest.h>

#include "store/etcd/plan.hpp"
#include "store/open.hpp"
#include "tests/unit/url_lists.hpp"

namespace dlock::etcd {
namespace {

Plan plan_of(const std::string& url) { return plan_from_url<Plan>(url); }
std::string refusal_of(const std::string& url) { return refusal_of_url<Plan>(url); }

TEST(EtcdUrl, names_members_with_a_default_port) {
  const auto plan = plan_of("etcd://One,[::1]:7000,10.0.0.3/");

  ASSERT_EQ(plan.access.members.size(), 3U);
  EXPECT_EQ(plan.access.members[0].shown(), "one:2379");
  EXPECT_EQ(plan.access.members[1].shown(), "[::1]:7000");
  EXPECT_EQ(plan.access.members[2].shown(), "10.0.0.3:2379");
  EXPECT_FALSE(plan.access.tls);
  EXPECT_EQ(plan.access.user, "");
}

TEST(EtcdUrl, has_its_login_before_the_first_member) {
  const auto plan = plan_of("etcds://us%40er:p%2Fw@a,b");

  EXPECT_EQ(plan.access.user, "us@er");
  EXPECT_EQ(plan.access.password, "p/w");
  EXPECT_TRUE(plan.access.tls);
}

TEST(EtcdUrl, is_shown_without_the_password_and_the_default_port) {
  const auto plan = plan_of("etcds://us%40er:secret@A:2379,[::1]:1");

  EXPECT_EQ(plan.url(), "etcds://us%40er@a,[::1]:1");
}

TEST(EtcdUrl, credentials_from_options_replace_its_login) {
  auto plan = plan_of("etcds://user:secret@a");
  Credentials credentials;
  credentials.user = "other";
  credentials.password_file = "/file";
  credentials.tls.insecure = true;

  plan.set(credentials);

  EXPECT_EQ(plan.access.user, "other");
  EXPECT_FALSE(plan.access.password);
  EXPECT_EQ(plan.access.password_file, "/file");
  EXPECT_TRUE(plan.is_insecure());
}

TEST(EtcdUrl, tls_options_do_not_affect_a_cluster_without_tls) {
  auto plan = plan_of("etcd://a");
  Credentials credentials;
  credentials.tls.insecure = true;

  plan.set(credentials);

  EXPECT_FALSE(plan.is_insecure());
}

TEST(EtcdUrl, names_a_store_that_supports_only_locks_and_registers) {
  const auto features = features_of(parsed_store_url("etcd://a,b,c"));

  EXPECT_TRUE(features.leases_expire);
  EXPECT_TRUE(features.registers);
  EXPECT_FALSE(features.values);
  EXPECT_FALSE(features.rates);
}

TEST(EtcdUrl, names_at_most_32_members) {
  EXPECT_EQ(refusal_of("etcd://" + hosts(32)), "");
  EXPECT_NE(refusal_of("etcd://" + hosts(33)), "");
}

class BadEtcdUrl : public ::testing::TestWithParam<const char*> {};

TEST_P(BadEtcdUrl, is_refused) { EXPECT_NE(refusal_of(GetParam()), ""); }

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
