// URLs of Redis servers, sentinels, clusters and quorums, and of etcd: what they mean,
// how they are shown, and which are refused.

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "store/redis/target.hpp"
#include "tests/unit/url_lists.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

std::string meaning_of(const Login& login, const std::optional<net::TlsOptions>& tls) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += ' ' + name + '=' + value;
  };
  add("user", login.user);
  add("password", login.password.value_or(""));
  add("file", login.password_file);
  if (!tls) return text;
  text += tls->insecure ? " tls unverified" : " tls";
  add("ca", tls->ca);
  add("name", tls->name);
  return text;
}

// The servers of the URL, and after that only what is not the default: "host:6379 tls".
std::string meaning_of(const StoreUrl& url) {
  const auto is_etcd = url.kind->scheme == "etcd";
  auto text = url.path.empty() ? places_of(url.servers) : url.path;
  if (!url.master.empty()) text += " master=" + url.master;
  const auto login = meaning_of(url.login, url.tls);
  text += login;
  if (url.database != 0) text += " db=" + std::to_string(url.database);
  if (url.replicas != Replicas{}) {
    text +=
        " replicas=" + (url.replicas.all ? "all" : std::to_string(url.replicas.count));
  }
  if (url.terms != QuorumTerms{}) {
    text += " strength=" + std::to_string(url.terms.least_strength) +
            " max=" + std::to_string(url.terms.max_ttl.count());
  }
  if (!url.master.empty()) {
    for (const auto& sentinel : redis::sentinels_of(url)) {
      EXPECT_EQ(sentinel.database, 0U);
      text += " |" + meaning_of(sentinel.login, sentinel.tls);
    }
  } else if (!is_etcd) {
    // Each server has all of it.
    for (const auto& server : redis::targets_of(url)) {
      EXPECT_EQ(meaning_of(server.login, server.tls), login);
      EXPECT_EQ(server.database, url.database);
    }
  }
  return text;
}

std::string meaning_of(const std::string& url) {
  return meaning_of(parsed_store_url(url));
}

struct Row {
  const char* url;
  const char* means;
  const char* shown = nullptr;  // as it is written, if that is not said
};

constexpr Row rows[] = {
    {"redis://host", "host:6379"},
    {"redis://alice:secret@db.example.org:7000/15",
     "db.example.org:7000 user=alice password=secret db=15",
     "redis://alice@db.example.org:7000/15"},
    {"rediss://host", "host:6379 tls"},
    {"rediss://host:1", "host:1 tls"},
    {"rediss://host:6379/", "host:6379 tls", "rediss://host"},
    {"redis://:secret@host", "host:6379 password=secret", "redis://host"},
    {"redis://s%33cret@host/1", "host:6379 password=s3cret db=1", "redis://host/1"},
    {"redis://host?db=3", "host:6379 db=3", "redis://host/3"},
    {"redis://host/?db=3", "host:6379 db=3", "redis://host/3"},
    {"rediss://:pw@host/3?db=3", "host:6379 password=pw tls db=3", "rediss://host/3"},
    {"redis://host/2?max_connections=5&protocol=3&db=2", "host:6379 db=2",
     "redis://host/2"},
    {"redis://al%69ce%40x:p%3aw%2F%25%3F%23%20%C3%A9@host",
     "host:6379 user=alice@x password=p:w/%?# \xC3\xA9", "redis://alice%40x@host"},
    {"redis://u:a:b!$&'()*+,;=[]~ @host", "host:6379 user=u password=a:b!$&'()*+,;=[]~ ",
     "redis://u@host"},
    {"redis://127.0.0.1:7000", "127.0.0.1:7000"},
    {"redis://[::1]", "[::1]:6379"},
    {"redis://u:p@[2001:db8::1]:7000/3", "[2001:db8::1]:7000 user=u password=p db=3",
     "redis://u@[2001:db8::1]:7000/3"},
    {"redis://[fe80::1%25eth0]", "[fe80::1%eth0]:6379"},
    {"redis://[fe80::1%eth0]", "[fe80::1%eth0]:6379", "redis://[fe80::1%25eth0]"},
    {"redis://host/", "host:6379", "redis://host"},
    {"redis://host:6379/0", "host:6379", "redis://host"},
    {"redis://host/2147483647", "host:6379 db=2147483647"},
    {"redis+unix:/run/redis/redis.sock", "/run/redis/redis.sock"},
    {"redis+unix:/run/redis.sock?db=3", "/run/redis.sock db=3"},
    {"redis+unix:///run/redis.sock?db=0", "/run/redis.sock",
     "redis+unix:/run/redis.sock"},
    {"redis+unix:/a%3Fb%23c%25 d@e:f", "/a?b#c% d@e:f",
     "redis+unix:/a%3Fb%23c%25%20d%40e%3Af"},
    {"redis+unix:/a/b%20c?db=7", "/a/b c db=7"},
    {"redis+unix:/a?x=1&db=3", "/a db=3", "redis+unix:/a?db=3"},
    // The login of the URL is never that of the sentinels.
    {"redis+sentinel://alice:secret@one,Two:7000,[::1]:7001/shop/3",
     "one:26379 two:7000 [::1]:7001 master=shop user=alice password=secret db=3 | | |",
     "redis+sentinel://alice@one,two:7000,[::1]:7001/shop/3"},
    {"redis+sentinel://:secret@[0:0::1]:26379/shop/",
     "[::1]:26379 master=shop password=secret |", "redis+sentinel://[::1]/shop"},
    {"redis+sentinel://a/m/0", "a:26379 master=m |", "redis+sentinel://a/m"},
    {"rediss+sentinel://a:1,[::1]:7000/m/2",
     "a:1 [::1]:7000 master=m tls db=2 | tls | tls"},
    {"redis+sentinel://[fe80::1%25eth0],b/a%2Fb%20%40",
     "[fe80::1%eth0]:26379 b:26379 master=a/b @ | |"},
    {"redis+sentinel://b/a:b,c", "b:26379 master=a:b,c |",
     "redis+sentinel://b/a%3Ab%2Cc"},
    {"redis+cluster://alice:secret@One:6379,two:7000,[::1]:7001/",
     "one:6379 two:7000 [::1]:7001 user=alice password=secret",
     "redis+cluster://alice@one,two:7000,[::1]:7001"},
    {"rediss+cluster://b:1,a", "b:1 a:6379 tls"},
    {"redis+quorum://alice:secret@one:6379,TWO:7000,[::1]:7001/3",
     "one:6379 two:7000 [::1]:7001 user=alice password=secret db=3",
     "redis+quorum://alice@one,two:7000,[::1]:7001/3"},
    {"rediss+quorum://one,two,three/0", "one:6379 two:6379 three:6379 tls",
     "rediss+quorum://one,two,three"},
    {"etcd://One,[::1]:7000,10.0.0.3/", "one:2379 [::1]:7000 10.0.0.3:2379",
     "etcd://one,[::1]:7000,10.0.0.3"},
    {"etcds://us%40er:p%2Fw@A:2379,b", "a:2379 b:2379 user=us@er password=p/w tls",
     "etcds://us%40er@a,b"},
};

TEST(ServersUrl, means_what_it_says_and_is_shown_without_passwords_and_defaults) {
  for (const auto& row : rows) {
    EXPECT_EQ(meaning_of(row.url), row.means) << row.url;
    EXPECT_EQ(parsed_store_url(row.url).text(), row.shown ? row.shown : row.url);
  }
}

// What options set, beside the login of the URL.
struct Changed {
  const char* url;
  std::function<void(Credentials&)> set;
  const char* means;
};

const Changed changed[] = {
    {"redis+sentinel://alice:secret@one,two/shop",
     [](auto& c) { c.user = "bob", c.password_file = "/file", c.replicas.all = true; },
     "one:26379 two:26379 master=shop user=bob file=/file replicas=all | |"},
    {"redis+sentinel://alice:secret@one,two/shop",
     [](auto& c) { c.sentinel_user = "watch", c.sentinel_password = "word"; },
     "one:26379 two:26379 master=shop user=alice password=secret | user=watch "
     "password=word"
     " | user=watch password=word"},
    {"redis+sentinel://one/shop",
     [](auto& c) { c.sentinel_password = "word", c.sentinel_password_file = "/file"; },
     "one:26379 master=shop | file=/file"},
    // The name of its host is used for a sentinel.
    {"rediss+sentinel://one,two/shop",
     [](auto& c) { c.tls.ca = "/ca", c.tls.name = "shop.example.org"; },
     "one:26379 two:26379 master=shop tls ca=/ca name=shop.example.org | tls ca=/ca | "
     "tls ca=/ca"},
    {"rediss+sentinel://one/shop", [](auto& c) { c.sentinel_tls = false; },
     "one:26379 master=shop tls |"},
    {"redis+sentinel://one/shop", [](auto& c) { c.tls.insecure = true; },
     "one:26379 master=shop |"},
    {"rediss+sentinel://one/shop", [](auto& c) { c.tls.insecure = true; },
     "one:26379 master=shop tls unverified | tls unverified"},
    {"rediss+cluster://alice:secret@one,two",
     [](auto& c) { c.user = "bob", c.password_file = "/file", c.tls.ca = "/ca"; },
     "one:6379 two:6379 user=bob file=/file tls ca=/ca"},
    {"redis+cluster://one",
     [](auto& c) {
       c.tls.insecure = true, c.replicas.count = 2, c.sentinel_user = "watch";
     },
     "one:6379 replicas=2"},
    {"rediss+cluster://one", [](auto& c) { c.tls.insecure = true; },
     "one:6379 tls unverified"},
    {"rediss+quorum://alice:secret@one,two,three",
     [](auto& c) {
       c.user = "bob", c.tls.ca = "/ca";
       c.terms = {.least_strength = 1, .max_ttl = milliseconds(5000)};
     },
     "one:6379 two:6379 three:6379 user=bob password=secret tls ca=/ca strength=1 "
     "max=5000"},
    {"etcds://user:secret@a",
     [](auto& c) { c.user = "other", c.password_file = "/file", c.tls.insecure = true; },
     "a:2379 user=other file=/file tls unverified"},
    {"etcd://a", [](auto& c) { c.tls.insecure = true; }, "a:2379"},
};

TEST(ServersUrl, options_replace_its_login_and_never_switch_tls_on) {
  for (const auto& row : changed) {
    auto url = parsed_store_url(row.url);
    EXPECT_FALSE(url.is_insecure());
    Credentials credentials;
    row.set(credentials);
    url.set(credentials);

    EXPECT_EQ(meaning_of(url), row.means) << row.url;
    EXPECT_EQ(url.is_insecure(),
              std::string(row.means).find("unver") != std::string::npos);
    EXPECT_EQ(url.text().find("watch"), std::string::npos) << url.text();
  }
}

TEST(ServersUrl, parameters_of_other_programs_are_ignored_and_named) {
  const auto url = parsed_store_url("redis://host/2?max_connections=5&protocol=3&db=2");

  EXPECT_EQ(url.ignored, (std::vector<std::string>{"max_connections", "protocol"}));
}

TEST(ServersUrl, parameters_about_tls_the_login_or_the_place_of_locks_are_not_ignored) {
  for (const char* name :
       {"secure",  "encrypt",   "ca",         "cafile",   "key",        "trustStore",
        "sni",     "login",     "credential", "api_key",  "sasl",       "iam",
        "pw",      "addr",      "endpoint",   "proxy",    "masterName", "server",
        "cluster", "keyPrefix", "role",       "readonly", "sentinel"}) {
    EXPECT_NE(refusal_of_url("redis://h?" + std::string(name) + "=x"), "") << name;
  }
}

TEST(ServersUrl, etcd_supports_neither_values_nor_rates) {
  const auto& features = parsed_store_url("etcd://a,b,c").kind->features;

  EXPECT_TRUE(features.leases_expire);
  EXPECT_FALSE(features.values);
  EXPECT_FALSE(features.rates);
}

constexpr const char* refused[] = {
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
    "redis+unix:/a?db=2147483648", "redis+unix://user:password@/path",
    // Passwords and parameters
    "redis://user:secret@host:secret", "redis://user:secret", "redis://host/secret",
    "redis+unix:/path?secret", "redis://user:%secret@host",
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
    "redis+sentinel://u:%secret@a/m",
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
    "redis+cluster://u:se/secret@a", "redis+quorum://", "redis+quorum://a,b,",
    "redis+quorum://,a,b,c", "redis+quorum://a,,b,c", "redis+quorum://a,b,c:0",
    "redis+quorum://a,b,a", "redis+quorum://a,b,c/x", "redis+quorum://a,b,c/1/2",
    "redis+quorum://a,b,c/2?db=1", "redis+quorum://a,b,c#1",
    "redis+quorum://u:p@a,u:p@b,c", "etcd:", "etcd:a", "etcd://", "etcd:///", "etcd://a,",
    "etcd://,a", "etcd://a,,b", "etcd://a:0", "etcd://a:65536", "etcd://a,a:2379",
    "etcd://::1", "etcd://a/x", "etcd://a?x", "etcd://a#x", "etcd://:pw@a", "etcd://u:@a",
    "etcd://u@a,u@b", "etcd://u:p@", "etcd://a b", "etcd://a\tb",
    "etcd://[::", "etcd://[x]:1", "etcd://u%@a"};

TEST(ServersUrl, is_refused_in_one_line_without_secrets) {
  for (const auto* url : refused) {
    const auto message = refusal_of_url(url);
    EXPECT_NE(message, "") << url;
    EXPECT_TRUE(is_printable_utf8(message)) << url;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
  const std::string nul(1, '\0');
  for (const auto& url : {"redis://ho" + nul + "st", "redis://a:b" + nul + "@host",
                          "redis://[::1" + nul + "]", "redis+unix:/a" + nul + "b"}) {
    EXPECT_NE(refusal_of_url(url), "");
  }
}

TEST(ServersUrl, has_a_greatest_length_and_number_of_servers) {
  const auto x = [](int count) { return std::string(count, 'x'); };
  const std::pair<std::string, std::string> limits[] = {
      {"redis+unix:/" + x(106), "redis+unix:/" + x(107)},
      {"redis://" + x(255), "redis://" + x(256)},
      {"redis+sentinel://a/" + x(255), "redis+sentinel://a/" + x(256)},
      {"redis+sentinel://" + hosts(32) + "/m", "redis+sentinel://" + hosts(33) + "/m"},
      {"redis+cluster://" + hosts(32), "redis+cluster://" + hosts(33)},
      {"redis+quorum://" + hosts(9), "redis+quorum://" + hosts(10)},
      {"redis+quorum://" + hosts(3), "redis+quorum://" + hosts(2)},
      {"redis+quorum://" + hosts(4), "redis+quorum://" + hosts(1)},
      {"etcd://" + hosts(32), "etcd://" + hosts(33)}};
  for (const auto& [last, beyond] : limits) {
    EXPECT_EQ(refusal_of_url(last), "");
    EXPECT_NE(refusal_of_url(beyond), "") << beyond;
  }
}

TEST(ServersUrl, a_refusal_names_the_server_and_says_what_to_write) {
  constexpr std::pair<const char*, const char*> refusals[] = {
      {"redis+sentinel://a,b:0/m",
       "sentinel 2: the port must be a number from 1 to 65535"},
      {"redis+sentinel://a,b,A:26379/m",
       "sentinel 3 is the same as sentinel 1: name each one once"},
      {"redis+sentinel://a,,b/m", "sentinel 2 is empty: remove the extra comma"},
      {"redis+sentinel:///m", "no sentinel given: expected host[:port],host[:port],..."},
      {"redis+sentinel://a,b", "/NAME"},
      {"redis+cluster://a/0", "only database 0"},
      {"redis+cluster://a,A:6379",
       "server 2 is the same as server 1: name each one once"},
      {"redis+quorum://a", "3 to 9 servers"}};
  for (const auto& [url, why] : refusals) {
    EXPECT_NE(refusal_of_url(url).find(why), std::string::npos) << refusal_of_url(url);
  }
}

TEST(ServersUrl, encodes_a_user_set_by_an_option) {
  auto url = parsed_store_url("redis://host");
  url.login.user = "b o:b@";

  EXPECT_EQ(url.text(), "redis://b%20o%3Ab%40@host");
}

TEST(ServersUrl, parses_back_to_the_same_server) {
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
    const auto again = redis::targets_of(parsed_store_url(url)).front();

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
}  // namespace dlock
