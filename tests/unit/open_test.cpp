// Store URLs: which are accepted, which are refused, and with which message.

#include "store/open.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <sstream>

#include "store/redis/target.hpp"

namespace dlock {
namespace {

std::string refusal_of(const std::string& url) {
  try {
    parsed_store_url(url);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured) << url;
    return failure.what();
  }
  return "";
}

std::string path_of(const std::string& url) { return parsed_store_url(url).path; }

std::string_view kind_of(const std::string& url) {
  return parsed_store_url(url).kind->scheme;
}

redis::Target target_of(const std::string& url) {
  return redis::targets_of(parsed_store_url(url)).front();
}

TEST(StoreUrl, local_may_name_a_directory) {
  constexpr std::pair<const char*, const char*> paths[] = {
      {"local:", ""},
      {"local:/srv/locks", "/srv/locks"},
      {"local:/srv/locks/", "/srv/locks"},
      {"local://srv//locks///", "/srv/locks"},
      {"local:/", "/"},
      {"local:/a b:c@d%20", "/a b:c@d%20"}};
  for (const auto& [url, path] : paths) EXPECT_EQ(path_of(url), path) << url;
  for (const char* relative : {"local:locks", "local:./locks", "local:~/locks"}) {
    EXPECT_NE(refusal_of(relative).find("absolute"), std::string::npos) << relative;
  }
  EXPECT_NE(refusal_of(std::string("local:/a\0b", 10)), "");
}

TEST(StoreUrl, an_unknown_kind_is_refused_with_a_list_of_known_kinds) {
  const auto message = refusal_of("nfs://host");

  EXPECT_NE(message.find("unknown kind of store"), std::string::npos);
  EXPECT_NE(message.find("local:"), std::string::npos);
  EXPECT_NE(message.find("redis://"), std::string::npos);
}

TEST(StoreUrl, the_refusal_of_a_redis_url_shows_its_host) {
  const auto message = refusal_of("redis://user:secret@db.example.org:0");

  EXPECT_EQ(message,
            "store 'redis://...@db.example.org...': the port must be a number from 1 to "
            "65535");
}

TEST(StoreUrl, schemes_are_read_in_any_case_and_for_valkey_too) {
  EXPECT_EQ(target_of("REDIS://host").host, "host");
  EXPECT_EQ(target_of("valkey://host").host, "host");
  EXPECT_FALSE(target_of("Valkey://host").tls);
  EXPECT_TRUE(target_of("valkeys://host").tls);
  EXPECT_EQ(target_of("valkey+unix:/run/x").path, "/run/x");
  for (const char* compound : {"valkey+sentinel://a,b/m", "valkeys+sentinel://a,b/m"}) {
    EXPECT_EQ(kind_of(compound), "redis+sentinel");
  }
  EXPECT_EQ(kind_of("valkeys+cluster://a,b"), "redis+cluster");
  EXPECT_EQ(kind_of("VALKEY+quorum://a,b,c"), "redis+quorum");
  EXPECT_EQ(kind_of("ETCDS://a"), "etcd");
  EXPECT_EQ(kind_of("LOCAL:"), "local");
}

// The login that is used for the URL with these settings: user and password.
std::string login_of(const std::string& url, const Credentials& credentials) {
  auto store = parsed_store_url(url);
  store.set(credentials);
  const auto& login = store.login;
  return login.user + ":" + login.password.value_or("") + ":" + login.password_file;
}

TEST(StoreUrl, a_login_without_a_colon_is_the_user_if_the_password_is_set_elsewhere) {
  Credentials with_file, with_password, with_user, with_same_user;
  with_file.password_file = "/file";
  with_password.password = "pw";
  with_user.user = "bob";
  with_same_user.user = "x";

  EXPECT_EQ(login_of("redis://x@host", {}), ":x:");
  EXPECT_EQ(login_of("redis://x@host", with_file), "x::/file");
  EXPECT_EQ(login_of("redis://x@host", with_password), "x:pw:");
  EXPECT_EQ(login_of("redis://x@host", with_user), "bob:x:");
  EXPECT_EQ(login_of("redis://x@host", with_same_user), "x::");
}

TEST(StoreUrl, what_is_nearly_a_store_is_answered_with_the_url_to_write) {
  constexpr const char* rows[][2] = {
      {"http://db:2379", "write etcd://db:2379 for etcd"},
      {"https://db:2379/v3", "write etcds://host:2379 for etcd"},
      {"postgresql+psycopg2://u:secret@h/db", "write postgresql://user@host/database"},
      {"jdbc:postgresql://h/db", "write postgresql://user@host/database"},
      {"jdbc:postgresql://h/db?user=u&password=secret", "write postgresql://user@host"},
      {"host=h dbname=d password=secret", "write postgresql://user@host/database"},
      {"user=u host=h", "write postgresql://user@host/database"},
      {"mysql://h", "unknown kind of store (local:"},
      {"memcached://h", "unknown kind of store (local:"},
      {"localhost:6379", "write redis://host:port"},
      {"user:secret@h:1", "write redis://host:port"},
      {"h:6380,password=secret,ssl=True", "over TLS rediss://"},
      {"redis://h?ssl_cert_reqs=none", "the parameter ssl_cert_reqs is not supported"},
      {"redis://h?tls=true", "--tls-insecure"},
      {"redis+quorum://a,b,c?password=secret", "--password-file FILE"},
  };
  for (const auto& [url, advice] : rows) {
    EXPECT_NE(refusal_of(url).find(advice), std::string::npos) << refusal_of(url);
    EXPECT_EQ(refusal_of(url).find("secret"), std::string::npos) << refusal_of(url);
  }
}

TEST(StoreUrl, text_that_is_not_a_url_is_refused) {
  for (const char* text : {"", "local", "/srv/locks", ":", "://", " local:", "none:x"}) {
    EXPECT_NE(refusal_of(text), "") << text;
  }
}

TEST(StoreUrl, a_password_is_never_in_the_message) {
  std::istringstream urls(
      "redis://:secret@host:port redis://user:secret@host:6379/0/1 "
      "rediss://user:se@cret@host redis://user:/secret@host "
      "redis://user:a@b/secret@host redis://user:?secret@host "
      "redis://user:#secret@host/0 redis://user:a@b?secret redis://user:secret "
      "redis://:secret redis:user:secret redis://host?password=secret "
      "redis://host/0?password=a@secret redis://host#secret redis://user:%secret@host "
      "redis+unix://user:secret@/path redis+unix:user:secret@/path "
      "redis+unix:/path?password=secret redis://[::1]:secret "
      "redis+cluster://user:secret@host,,other redis+cluster://user:secret@host,other/0 "
      "redis+cluster://user:secret redis+cluster://user:secret@host,user:secret@other "
      "redis+cluster://:secret,other redis+sentinel://user:secret@host,other "
      "rediss+sentinel://user:secret@host:0,other/name "
      "redis+sentinel://user:secret/name redis+sentinel://user:se/cret@host/name "
      "redis+sentinel://user:%secret@host/name redis+quorum://user:secret@host,other "
      "nfs://user:secret@host local:secret@host none:user:secret@host user:secret@host "
      "secret@host redis://user:\x1bsecret@host");
  for (std::string url; urls >> url;) {
    EXPECT_NE(refusal_of(url), "") << url;
    EXPECT_EQ(refusal_of(url).find("secret"), std::string::npos) << url;
    EXPECT_EQ(refusal_of(url).find("cret@"), std::string::npos) << url;
  }
}

TEST(StoreUrl, control_characters_are_escaped_in_the_message) {
  EXPECT_EQ(refusal_of("nfs:\x1b[2J\n").find_first_of("\x1b\n"), std::string::npos);
}

TEST(OpenStore, a_store_has_the_url_that_opens_it_again) {
  boost::asio::io_context context;
  for (const std::string text :
       {"none:", "local:/x", "local:/x y", "redis://host", "rediss+cluster://a,b"}) {
    const auto store = open_store(parsed_store_url(text), milliseconds(1), context);
    EXPECT_EQ(store->url(), text);
  }
  const auto url = parsed_store_url("redis://u:secret@host");
  EXPECT_EQ(open_store(url, milliseconds(1), context)->url(), "redis://u@host");
}

TEST(OpenStore, a_store_has_the_features_of_its_kind) {
  boost::asio::io_context context;
  for (const char* text : {"none:", "local:/x", "redis://host"}) {
    const auto url = parsed_store_url(text);
    const auto store = open_store(url, milliseconds(1), context);
    const auto& features = url.kind->features;

    EXPECT_EQ(store->leases_expire(), features.leases_expire) << text;
    EXPECT_EQ(store->values() != nullptr, features.values) << text;
    EXPECT_EQ(store->rates() != nullptr, features.rates) << text;
  }
}

// A store with locks and nothing else.
class BareStore final : public Store {
 public:
  explicit BareStore(Store& store) : store_(store) {}
  std::string url() const override { return "bare:"; }
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    return store_.claimant(claim);
  }
  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override {
    return store_.break_leases(lock, order, wakeup);
  }
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    return store_.admit_fence(resource, fence, wakeup);
  }
  LockInspector& inspector() override { return store_.inspector(); }

 private:
  Store& store_;
};

template <typename Use>
std::string lack_of(Use use) {
  boost::asio::io_context context;
  const auto store = open_store(parsed_store_url("none:"), milliseconds(1), context);
  BareStore bare(*store);
  try {
    use(bare);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::unsupported);
    return failure.what();
  }
  return "";
}

TEST(BareStores, are_refused_what_they_do_not_support) {
  EXPECT_EQ(lack_of([](Store& store) { values_of(store); }),
            "bare: does not support cache");
  EXPECT_EQ(lack_of([](Store& store) { rates_of(store); }),
            "bare: does not support rate limits");
}

}  // namespace
}  // namespace dlock
