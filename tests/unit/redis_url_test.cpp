// Redis URLs: how they are parsed, which are refused, and how they are written.

#include <gtest/gtest.h>

#include <random>

#include "store/redis/target.hpp"
#include "tests/unit/url_lists.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

Target target_of(const std::string& url) {
  return redis::targets_of(parsed_store_url(url)).front();
}

std::string rewritten(const std::string& url) { return parsed_store_url(url).text(); }

TEST(Address, a_host_alone_gets_the_defaults) {
  const auto target = target_of("redis://host");

  EXPECT_EQ(target.host, "host");
  EXPECT_EQ(target.port, 6379);
  EXPECT_EQ(target.path, "");
  EXPECT_FALSE(target.tls);
  EXPECT_EQ(target.login.user, "");
  EXPECT_FALSE(target.login.password);
  EXPECT_EQ(target.database, 0u);
}

TEST(Address, a_full_url_sets_every_field) {
  const auto target = target_of("redis://alice:secret@db.example.org:7000/15");

  EXPECT_EQ(target.host, "db.example.org");
  EXPECT_EQ(target.port, 7000);
  EXPECT_EQ(target.login.user, "alice");
  EXPECT_EQ(target.login.password, "secret");
  EXPECT_EQ(target.database, 15u);
}

TEST(Address, a_rediss_url_uses_tls_with_verification) {
  const auto target = target_of("rediss://host");

  EXPECT_EQ(target.port, 6379);
  ASSERT_TRUE(target.tls);
  EXPECT_FALSE(target.tls->insecure);
}

TEST(Address, user_and_password_are_each_optional) {
  EXPECT_EQ(target_of("redis://:secret@host").login.user, "");
  EXPECT_EQ(target_of("redis://:secret@host").login.password, "secret");
}

TEST(Address, a_login_without_a_colon_is_the_password) {
  EXPECT_EQ(target_of("redis://s%33cret@host").login.user, "");
  EXPECT_EQ(target_of("redis://s%33cret@host").login.password, "s3cret");
  EXPECT_EQ(rewritten("redis://secret@host/1"), "redis://host/1");
}

TEST(Address, a_query_may_name_the_database) {
  EXPECT_EQ(target_of("redis://host?db=3").database, 3u);
  EXPECT_EQ(target_of("redis://host/?db=3").database, 3u);
  EXPECT_EQ(target_of("rediss://:pw@host/3?db=3").database, 3u);
}

TEST(Address, parameters_of_other_programs_are_ignored_and_named) {
  const auto url = parsed_store_url("redis://host/2?max_connections=5&protocol=3&db=2");

  EXPECT_EQ(url.ignored, (std::vector<std::string>{"max_connections", "protocol"}));
  EXPECT_EQ(url.text(), "redis://host/2");
  EXPECT_EQ(parsed_store_url("redis+unix:/a?x=1&db=3").text(), "redis+unix:/a?db=3");
}

TEST(Address, parameters_about_tls_the_login_or_the_place_of_locks_are_not_ignored) {
  for (const char* name :
       {"secure",  "encrypt",   "ca",         "cafile",   "key",        "trustStore",
        "sni",     "login",     "credential", "api_key",  "sasl",       "iam",
        "pw",      "addr",      "endpoint",   "proxy",    "masterName", "server",
        "cluster", "keyPrefix", "role",       "readonly", "sentinel"}) {
    EXPECT_THROW(parsed_store_url("redis://h?" + std::string(name) + "=x"), Failure)
        << name;
  }
}

TEST(Address, a_login_is_percent_decoded) {
  const auto target = target_of("redis://al%69ce%40x:p%3aw%2F%25%3F%23%20%C3%A9@host");

  EXPECT_EQ(target.login.user, "alice@x");
  EXPECT_EQ(target.login.password, "p:w/%?# \xC3\xA9");
}

TEST(Address, a_password_may_contain_unencoded_punctuation) {
  EXPECT_EQ(target_of("redis://u:a:b!$&'()*+,;=[]~ @host").login.password,
            "a:b!$&'()*+,;=[]~ ");
}

TEST(Address, a_host_may_be_an_ip_address) {
  EXPECT_EQ(target_of("redis://127.0.0.1:7000").host, "127.0.0.1");
  EXPECT_EQ(target_of("redis://[::1]").host, "::1");
  EXPECT_EQ(target_of("redis://u:p@[2001:db8::1]:7000/3").host, "2001:db8::1");
  EXPECT_EQ(target_of("redis://[2001:db8::1]:7000/3").port, 7000);
  EXPECT_EQ(target_of("redis://[fe80::1%25eth0]").host, "fe80::1%eth0");
  EXPECT_EQ(target_of("redis://[fe80::1%eth0]").host, "fe80::1%eth0");
}

TEST(Address, a_slash_without_a_number_selects_database_0) {
  EXPECT_EQ(target_of("redis://host/").database, 0u);
  EXPECT_EQ(target_of("redis://host/0").database, 0u);
  EXPECT_EQ(target_of("redis://host/2147483647").database, 2147483647u);
}

TEST(Address, a_socket_url_names_a_path) {
  const auto target = target_of("redis+unix:/run/redis/redis.sock");

  EXPECT_EQ(target.path, "/run/redis/redis.sock");
  EXPECT_EQ(target.host, "");
  EXPECT_EQ(target.database, 0u);
}

TEST(Address, a_socket_url_may_name_a_database) {
  EXPECT_EQ(target_of("redis+unix:/run/redis.sock?db=3").path, "/run/redis.sock");
  EXPECT_EQ(target_of("redis+unix:/run/redis.sock?db=3").database, 3u);
}

TEST(Address, a_socket_url_may_have_an_empty_host) {
  EXPECT_EQ(target_of("redis+unix:///run/redis.sock").path, "/run/redis.sock");
}

TEST(Address, a_socket_path_is_percent_decoded) {
  EXPECT_EQ(target_of("redis+unix:/a%3Fb%23c%25 d@e:f").path, "/a?b#c% d@e:f");
}

class BadAddress : public ::testing::TestWithParam<const char*> {};

TEST_P(BadAddress, is_refused_with_a_one_line_message) {
  const auto message = refusal_of_url(GetParam());

  EXPECT_NE(message, "") << GetParam();
  EXPECT_TRUE(is_printable_utf8(message)) << GetParam();
}

constexpr const char* bad_addresses[] = {
    // Missing host
    "redis:", "redis:host", "redis:/host", "redis://", "redis:///0", "redis://:6379",
    "redis://user@", "redis://user:password@", "redis://user:password@:6379",
    "redis://user:password@/0",
    // Invalid port
    "redis://host:", "redis://host:0", "redis://host:65536", "redis://host:-1",
    "redis://host:+1", "redis://host: 1", "redis://host:1 ", "redis://host:1x",
    "redis://host:0x1", "redis://host:99999999999999999999", "redis://host:1:2",
    "redis://host:/0",
    // Invalid database
    "redis://host/x", "redis://host/-1", "redis://host/+1", "redis://host/1/",
    "redis://host/1/2", "redis://host//1", "redis://host/2147483648", "redis://host/ 1",
    "redis://host/99999999999999999999", "redis://host/1.5", "redis://host/%31",
    // Unexpected query or fragment
    "redis://host/1?db=2", "redis://host?db=", "redis://host?db=x",
    "redis://host?db=1&ssl=2", "redis://host?DB=1", "redis://host#", "redis://host/1#x",
    "redis://host?x", "redis://host?database=1", "redis://host?password=x",
    // Invalid host
    "redis://ho st", "redis://host\t", "redis://host\n", "redis://ho%73t", "redis://h\\x",
    "redis://a,b", "redis://host,", "redis://<host>", "redis://h\xC3\xB6st",
    "redis://::1", "redis://::1:6379", "redis://[]", "redis://[::1", "redis://::1]",
    "redis://[::1]x", "redis://[::1]6379", "redis://[::1]:", "redis://[host]",
    "redis://[127.0.0.1]", "redis://[::g]", "redis://[::1%]", "redis://[::1%a/b]",
    "redis://[::1%a b]", "redis://[::1]]", "redis://x[::1]",
    // Invalid login
    "redis://@host", "redis://:@host", "redis://user:@host", "redis://a@b@host",
    "redis://a:b@c@host", "redis://a:b/c@host", "redis://a:b?c@host",
    "redis://a:b#c@host", "redis://a:%@host", "redis://a:%1@host", "redis://a:%zz@host",
    "redis://%00@host", "redis://a:%00@host", "redis://a:b\n@host", "redis://a:\x7f@host",
    // Invalid socket path
    "redis+unix:", "redis+unix:path", "redis+unix:./path", "redis+unix:~/path",
    "redis+unix:/", "redis+unix:///", "redis+unix://", "redis+unix://host/path",
    "redis+unix:///%2F", "redis+unix:/a%00b", "redis+unix:/a%", "redis+unix:/a%zz",
    "redis+unix:/a\n", "redis+unix:/a?db", "redis+unix:/a?db=", "redis+unix:/a?db=x",
    "redis+unix:/a?db=-1", "redis+unix:/a?db=1&tls=2", "redis+unix:/a?auth=1",
    "redis+unix:/a?DB=1", "redis+unix:/a#b", "redis+unix:?db=1",
    "redis+unix:/a?db=2147483648", "redis+unix://user:password@/path"};
INSTANTIATE_TEST_SUITE_P(addresses, BadAddress, ::testing::ValuesIn(bad_addresses));

TEST(Address, a_nul_byte_is_refused) {
  const std::string nul(1, '\0');

  EXPECT_NE(refusal_of_url("redis://ho" + nul + "st"), "");
  EXPECT_NE(refusal_of_url("redis://a:b" + nul + "@host"), "");
  EXPECT_NE(refusal_of_url("redis://[::1" + nul + "]"), "");
  EXPECT_NE(refusal_of_url("redis+unix:/a" + nul + "b"), "");
}

TEST(Address, a_socket_path_has_at_most_107_bytes) {
  EXPECT_EQ(refusal_of_url("redis+unix:/" + std::string(106, 'x')), "");
  EXPECT_NE(refusal_of_url("redis+unix:/" + std::string(107, 'x')), "");
}

TEST(Address, a_host_has_at_most_255_bytes) {
  EXPECT_EQ(refusal_of_url("redis://" + std::string(255, 'x')), "");
  EXPECT_NE(refusal_of_url("redis://" + std::string(256, 'x')), "");
}

TEST(Address, a_refusal_reveals_no_secret) {
  for (const char* url :
       {"redis://user:secret@host:secret", "redis://user:secret@", "redis://user:secret",
        "redis://host/secret", "redis+unix:/path?secret", "redis://user:%secret@host"}) {
    EXPECT_EQ(refusal_of_url(url).find("secret"), std::string::npos) << url;
  }
}

TEST(WrittenAddress, omits_the_password_and_keeps_the_user) {
  EXPECT_EQ(rewritten("redis://alice:secret@host:7000/3"), "redis://alice@host:7000/3");
  EXPECT_EQ(rewritten("redis://:secret@host"), "redis://host");
}

TEST(WrittenAddress, omits_defaults) {
  EXPECT_EQ(rewritten("redis://host:6379/0"), "redis://host");
  EXPECT_EQ(rewritten("rediss://host:6379/"), "rediss://host");
  EXPECT_EQ(rewritten("redis+unix:///a?db=0"), "redis+unix:/a");
}

TEST(WrittenAddress, is_otherwise_unchanged) {
  for (const char* url :
       {"redis://host", "rediss://host:1", "redis://[::1]:7000/2",
        "redis://[fe80::1%25eth0]", "redis+unix:/a/b%20c?db=7", "redis+unix:/a%3Fb"}) {
    EXPECT_EQ(rewritten(url), url);
  }
}

TEST(WrittenAddress, encodes_a_user_set_by_an_option) {
  auto url = parsed_store_url("redis://host");
  url.login.user = "b o:b@";

  EXPECT_EQ(url.text(), "redis://b%20o%3Ab%40@host");
}

TEST(WrittenAddress, parses_back_to_the_same_server) {
  std::mt19937 random(1);
  const auto up_to = [&](unsigned most) {
    return std::uniform_int_distribution<unsigned>(0, most)(random);
  };
  const auto bytes = [&](unsigned most) {
    std::string text(1 + up_to(most), '\0');
    for (auto& c : text) c = static_cast<char>(1 + up_to(254));
    return text;
  };
  constexpr const char* hosts[] = {"host", "10.0.0.1", "::1", "fe80::1%eth0", "a-b_c.d."};
  for (int i = 0; i < 20'000; ++i) {
    auto store = parsed_store_url("redis://host");
    if (up_to(2) == 0) {
      store.path = "/x" + bytes(100);
      store.servers.clear();
    } else {
      store.servers.front().host = hosts[up_to(4)];
      store.servers.front().port = static_cast<std::uint16_t>(1 + up_to(65534));
      if (up_to(1) == 1) store.tls.emplace();
      if (up_to(1) == 1) store.login.user = bytes(20);
    }
    store.database = up_to(1) * up_to(0x7FFFFFFF);
    const auto target = redis::targets_of(store).front();

    const auto url = store.text();
    // A control character is refused only if it is not percent-encoded.
    const auto again = target_of(url);

    ASSERT_TRUE(is_printable_utf8(url)) << url;
    ASSERT_EQ(again.path, target.path) << url;
    ASSERT_EQ(again.host, target.host) << url;
    ASSERT_EQ(again.port, target.port) << url;
    ASSERT_EQ(again.tls.has_value(), target.tls.has_value()) << url;
    // It has only the user, which is read as the password.
    ASSERT_EQ(again.login.password.value_or(""), target.login.user) << url;
    ASSERT_EQ(again.database, target.database) << url;
  }
}

}  // namespace
}  // namespace dlock::redis
