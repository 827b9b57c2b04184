// URLs of PostgreSQL: how they are parsed, what is taken from the surroundings, which are
// refused, and how they are shown.

#include "store/postgres/pg_url.hpp"

#include <gtest/gtest.h>

#include <map>

#include "store/postgres/pg_target.hpp"
#include "store/store_url.hpp"
#include "tests/scene.hpp"
#include "tests/unit/url_lists.hpp"

namespace dlock::postgres {
namespace {

// The URL in surroundings that have these variables and files.
struct Surroundings {
  std::map<std::string, std::string> variables;
  std::vector<std::string> files;

  PgSurroundings known() const {
    return {[this](const char* name) {
              const auto found = variables.find(name);
              return found == variables.end() ? std::string() : found->second;
            },
            [this](const std::string& path) {
              return std::find(files.begin(), files.end(), path) != files.end();
            },
            "bob", "/home/bob", "/here"};
  }
  StoreUrl url(const std::string& text) const {
    return completed(parsed_store_url(text), known());
  }
  std::string text(const std::string& written) const { return url(written).text(); }
  std::string refusal(const std::string& text) const {
    try {
      url(text);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured) << text;
      return failure.what();
    }
    return "";
  }
};

std::string text_of(const std::string& url) { return Surroundings().text(url); }

TEST(PgUrl, names_servers_with_ports_a_login_and_a_database) {
  const auto url =
      Surroundings().url("postgres://us%40er:p%2Fw@One:7000,[::1],10.0.0.3/da%2Fta");

  EXPECT_EQ(places_of(url.servers), "one:7000 [::1]:5432 10.0.0.3:5432");
  EXPECT_EQ(url.login.user, "us@er");
  EXPECT_EQ(url.login.password, "p/w");
  EXPECT_EQ(url.database_name, "da/ta");
  EXPECT_TRUE(url.kind->features.leases_expire);
}

TEST(PgUrl, has_two_schemes_in_any_case) {
  for (const char* url : {"postgresql://h/d", "PostgreSQL://h/d", "POSTGRES://h/d"}) {
    EXPECT_EQ(text_of(url), "postgres://bob@h:5432/d");
  }
}

TEST(PgUrl, a_lone_word_is_surely_the_user) {
  EXPECT_EQ(text_of("postgres://app@h"), "postgres://app@h:5432/app");
  EXPECT_FALSE(parsed_store_url("postgres://app@h").login.password);
}

TEST(PgUrl, everything_may_be_left_open) {
  constexpr auto usual = "postgres://bob@/bob?host=/run/postgresql&port=5432";
  for (const char* url : {"postgres:", "postgresql:", "postgres://", "postgres:///"}) {
    EXPECT_EQ(text_of(url), usual) << url;
  }
  EXPECT_EQ(text_of("postgres:///app"),
            "postgres://bob@/app?host=/run/postgresql&port=5432");
}

TEST(PgUrl, the_usual_socket_is_the_one_that_exists) {
  const Surroundings there{{}, {"/var/run/postgresql/.s.PGSQL.5433"}};

  EXPECT_EQ(there.url("postgres:///d?port=5433").servers[0].host, "/var/run/postgresql");
  EXPECT_EQ(there.url("postgres:///d").servers[0].host, "/run/postgresql");
}

TEST(PgUrl, names_a_socket_as_a_parameter_or_percent_encoded) {
  for (const char* url :
       {"postgres://u@/d?host=/srv//pg/", "postgres://u@%2Fsrv%2Fpg/d",
        "postgres://u@%2Fsrv%2Fpg:5432/d", "postgres://u@localhost/d?host=/srv/pg"}) {
    EXPECT_EQ(text_of(url), "postgres://u@/d?host=/srv/pg&port=5432") << url;
  }
  EXPECT_EQ(text_of("postgres://u@a,%2Fs:1/d"), "postgres://u@a:5432,%2Fs:1/d");
  EXPECT_EQ(text_of("postgres://u@localhost:5433/d?host=/srv"),
            "postgres://u@/d?host=/srv&port=5433");
  EXPECT_EQ(text_of("postgres://u@/d?host=/cloudsql/p:r:i"),
            "postgres://u@/d?host=/cloudsql/p:r:i&port=5432");
}

TEST(PgUrl, parameters_may_say_what_has_a_place_of_its_own) {
  const auto url = Surroundings().url(
      "postgresql:///?host=a,::1&port=1,2&user=u&password=p%26w&dbname=d");

  EXPECT_EQ(places_of(url.servers), "a:1 [::1]:2");
  EXPECT_EQ(url.login.user, "u");
  EXPECT_EQ(url.login.password, "p&w");
  EXPECT_EQ(url.database_name, "d");
  EXPECT_EQ(url.text(), "postgres://u@a:1,[::1]:2/d");
}

TEST(PgUrl, names_each_server_once_with_the_port_that_it_comes_to) {
  EXPECT_EQ(places_of(Surroundings().url("postgres:///d?host=a,a&port=1,2").servers),
            "a:1 a:2");
  EXPECT_EQ(text_of("postgres://u@/d?host=/s,/s&port=1,2"),
            "postgres://u@%2Fs:1,%2Fs:2/d");
  EXPECT_EQ(text_of("postgres://u@a,a:5433/d"), "postgres://u@a:5432,a:5433/d");
  EXPECT_EQ(
      targets_of(parsed_store_url("postgres://a,a/d?hostaddr=10.0.0.1,10.0.0.2")).size(),
      2U);
  const Surroundings ports{{{"PGHOST", "a,a"}, {"PGPORT", "1,2"}}, {}};
  EXPECT_EQ(places_of(ports.url("postgres:").servers), "a:1 a:2");

  const std::string twins = "server 2 is the same as server 1: name each one once";
  for (const char* url :
       {"postgres://a,a/d", "postgres://a,A:5432/d", "postgres://a,a/d?port=1",
        "postgres:///d?host=a,a&port=5432,", "postgres:///d?host=/s,/s/",
        "postgres://a,b/d?hostaddr=10.0.0.1,10.0.0.1", "postgres://[::1],[0::1]/d"}) {
    EXPECT_EQ(Surroundings().refusal(url), twins) << url;
  }
  const Surroundings port{{{"PGHOST", "a,a"}, {"PGPORT", "1"}}, {}};
  EXPECT_EQ(port.refusal("postgres:"), twins);
}

TEST(PgUrl, the_text_has_what_leads_to_the_same_store_and_no_password) {
  const std::string text = text_of(
      "postgresql://u:secret@h/d?sslmode=verify-full&sslrootcert=ca.pem&dlock_schema=lo"
      "&listen=off&options=-c%20a%3Db&password=secret&passfile=/p&connect_timeout=3"
      "&pool=5");

  EXPECT_EQ(text,
            "postgres://u@h:5432/d?connect_timeout=3&dlock_schema=lo&listen=off"
            "&options=-c%20a%3Db"
            "&passfile=/p&sslmode=verify-full&sslrootcert=/here/ca.pem");
  EXPECT_EQ(text_of(text), text);
}

TEST(PgUrl, takes_what_it_leaves_open_from_variables) {
  const Surroundings set{{{"PGHOST", "a,b"},
                          {"PGPORT", "7000"},
                          {"PGUSER", "u"},
                          {"PGDATABASE", "d"},
                          {"PGPASSWORD", "secret"},
                          {"PGSSLMODE", "require"},
                          {"PGAPPNAME", "x"},
                          {"PGCONNECT_TIMEOUT", "x"}},
                         {}};

  EXPECT_EQ(set.text("postgres:"),
            "postgres://u@a:7000,b:7000/d?application_name=x&sslmode=require");
  EXPECT_EQ(set.url("postgres:").login.password, "secret");
  EXPECT_EQ(set.text("postgres://v@c:1/e?sslmode=disable&application_name=y"),
            "postgres://v@c:1/e?application_name=y&sslmode=disable");
  EXPECT_EQ(set.text("postgres://c?application_name=y"),
            "postgres://u@c:7000/d?application_name=y&sslmode=require");
}

TEST(PgUrl, options_of_dlock_precede_variables) {
  const Surroundings set{{{"PGUSER", "u"}, {"PGPASSWORD", "secret"}}, {}};
  auto url = parsed_store_url("postgres://h");
  Credentials credentials;
  credentials.user = "me";
  credentials.password = "mine";
  url.set(credentials);

  const auto complete = completed(url, set.known());

  EXPECT_EQ(complete.text(), "postgres://me@h:5432/me");
  EXPECT_EQ(complete.login.password, "mine");
}

TEST(PgUrl, says_which_variables_are_in_force) {
  const Surroundings set{{{"PGUSER", "u"}, {"PGHOST", "h"}, {"PGPASSWORD", "secret"}},
                         {}};
  std::vector<OutsideSetting> found;

  completed(parsed_store_url("postgres://other/d"), set.known(), &found);

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name + found[0].value + found[0].origin, "useruPGUSER");
  EXPECT_EQ(found[1].name + found[1].value + found[1].origin, "password***PGPASSWORD");
}

TEST(PgUrl, a_variable_that_cannot_be_used_is_named) {
  const auto refusal = [](const char* name, const char* value) {
    return Surroundings{{{name, value}}, {}}.refusal("postgres:");
  };

  EXPECT_EQ(refusal("PGPORT", "x"), "PGPORT: the port must be a number from 1 to 65535");
  EXPECT_EQ(refusal("PGSSLMODE", "full"),
            "PGSSLMODE: sslmode must be one of disable, allow, prefer, require, "
            "verify-ca, verify-full");
  EXPECT_EQ(refusal("PGTARGETSESSIONATTRS", "standby"),
            "PGTARGETSESSIONATTRS: target_session_attrs must be one of any, read-write, "
            "primary: locks need the primary");
  EXPECT_NE(refusal("PGSERVICE", "x").find("PGSERVICE is not supported"),
            std::string::npos);
  EXPECT_NE(refusal("PGHOSTADDR", "name").find("PGHOSTADDR: hostaddr must be an address"),
            std::string::npos);
}

TEST(PgUrl, a_variable_that_demands_what_is_not_checked_is_refused) {
  const std::pair<const char*, const char*> refused[] = {
      {"PGREQUIREAUTH", "scram-sha-256"},
      {"PGREQUIREPEER", "postgres"},
      {"PGSSLCRL", "/revoked"},
      {"PGSSLCRLDIR", "/revoked"},
      {"PGREQUIRESSL", "1"},
      {"PGGSSENCMODE", "require"},
      {"PGSSLMINPROTOCOLVERSION", "TLSv1.3"},
      {"PGSSLCERTMODE", "require"}};
  for (const auto& [name, value] : refused) {
    const Surroundings set{{{name, value}}, {}};
    EXPECT_EQ(set.refusal("postgres:").find(std::string(name) + " is not supported: "),
              0u);
  }
  const std::map<std::string, std::string> harmless = {
      {"PGREQUIRESSL", "0"},
      {"PGGSSENCMODE", "prefer"},
      {"PGSSLCERTMODE", "allow"},
      {"PGSSLMINPROTOCOLVERSION", "TLSv1.2"}};
  EXPECT_EQ((Surroundings{harmless, {}}.refusal("postgres:")), "");
}

TEST(PgUrl, sockets_and_sslmode_disable_use_no_tls) {
  EXPECT_FALSE(Surroundings().url("postgres:").uses_tls());
  EXPECT_FALSE(parsed_store_url("postgres:///d?host=/srv").uses_tls());
  EXPECT_FALSE(parsed_store_url("postgres://h/d?sslmode=disable").uses_tls());
  EXPECT_TRUE(parsed_store_url("postgres://h/d").uses_tls());
  EXPECT_TRUE(parsed_store_url("postgres://h,%2Fsrv/d").uses_tls());
}

TEST(PgUrl, uses_the_files_of_psql_if_they_are_there) {
  const std::string folder = "/home/bob/.postgresql/";
  const Surroundings half{{}, {folder + "root.crt", folder + "postgresql.crt"}};
  const Surroundings whole{{}, {folder + "postgresql.crt", folder + "postgresql.key"}};

  EXPECT_EQ(half.text("postgres://h/d"),
            "postgres://bob@h:5432/d?sslrootcert=" + folder + "root.crt");
  EXPECT_EQ(whole.url("postgres://h/d").parameters.at("sslkey"),
            folder + "postgresql.key");
  EXPECT_EQ(whole.url("postgres:").parameters.count("sslkey"), 0U);
}

TEST(PgUrl, a_certificate_and_its_key_are_found_as_psql_finds_them) {
  const std::string folder = "/home/bob/.postgresql/";
  const auto shown = [&](std::map<std::string, std::string> variables,
                         std::vector<std::string> files) {
    const auto url =
        Surroundings{std::move(variables), std::move(files)}.url("postgres://h/d");
    return parameter_of(url, "sslcert") + " " + parameter_of(url, "sslkey");
  };

  EXPECT_EQ(shown({{"PGSSLCERT", "/c"}}, {"/c", folder + "postgresql.key"}),
            "/c " + folder + "postgresql.key");
  EXPECT_EQ(shown({{"PGSSLKEY", "/k"}}, {folder + "postgresql.crt"}),
            folder + "postgresql.crt /k");
  EXPECT_EQ(shown({{"PGSSLCERT", "/nowhere"}}, {}), " ");
  EXPECT_EQ(shown({}, {folder + "postgresql.crt"}), " ");
  const auto parsed = parsed_store_url("postgres://h/d");
  const Surroundings no_key{{{"PGSSLCERT", "/c"}}, {"/c"}};
  EXPECT_THROW(targets_of(parsed, milliseconds(1), no_key.known()), Failure);
  const Surroundings key{{{"PGSSLKEY", "/k"}}, {}};
  EXPECT_EQ(targets_of(parsed, milliseconds(1), key.known())[0].tls.certificate, "");
}

TEST(PgUrl, a_parameter_is_taken_ignored_or_refused_by_name) {
  const std::string taken = R"(
      sslmode=prefer sslnegotiation=direct&sslmode=require ssl=true
      channel_binding=require target_session_attrs=read-write
      keepalives_idle=9 keepalives=0 gssencmode=disable
      load_balance_hosts=random schema=public pgbouncer=true
      connection_limit=1 pool_timeout=0 bogus=1 ssl=false ssl=1
      ssl=verify-full sslsni=1 sslcompression=0 replication=false
      connect_timeout=0 connect_timeout=-1 sslcrl= krbsrvname=postgres
      dlock_schema=Lo_1 listen=on & application_name=x hostaddr=10.0.0.1)";
  auto queries = scene::split(taken, " \n");
  queries.emplace_back("");
  for (const auto& query : queries) {
    EXPECT_EQ(refusal_of_url("postgres://h/d?" + query), "") << query;
  }
  constexpr std::pair<const char*, const char*> refused[] = {
      {"sslcrl=/x", "the parameter sslcrl is not supported: dlock does not check it"},
      {"sslmode=no-verify", "write sslmode=require and add --tls-insecure"},
      {"ssl=no-verify", "write sslmode=require and add --tls-insecure"},
      {"ssl=maybe", "sslmode must be one of"},
      {"connect_timeout=soon", "connect_timeout must be a number of seconds"},
      {"replication=database", "the parameter replication is not supported"},
      {"sslaccept=strict", "the parameter sslaccept is not supported, and not ignored"},
      {"trustServerCertificate=true", "the parameter trustServerCertificate is not"},
      {"dlock_shema=x", "the parameter dlock_shema is not supported, and not ignored"},
      {"service=app", "the parameter service is not supported: write the host"},
      {"require_auth=none", "the parameter require_auth is not supported"},
      {"SSLMODE=require", "the parameter SSLMODE is not supported"},
      {"sslmode=on", "sslmode must be one of"},
      {"ssl=true&sslmode=disable", "the parameter ssl is not supported: it contradicts"},
      {"sslmode=", "sslmode is empty"},
      {"sslmode=prefer, require", "sslmode must be one of"},
      {"sslnegotiation=direct", "sslnegotiation=direct needs sslmode=require"},
      {"gssencmode=require", "GSSAPI is not supported"},
      {"target_session_attrs=prefer-standby", "locks need the primary"},
      {"dlock_schema=a-b", "dlock_schema must be 1 to 63 letters"},
      {"dlock_schema=pg_x", "dlock_schema must be 1 to 63 letters"},
      {"listen=auto", "listen must be one of on, off"},
      {"sslmode", "expected ?parameter=value"},
      {"sslmode=require&sslmode=disable", "a parameter has two values"},
      {"user=a&dbname=e", "two databases are named"},
      {"port=0", "the port must be a number"},
      {"port=1,2", "one port, or as many as servers"},
      {"hostaddr=name", "hostaddr must be an address"},
      {"hostaddr=::1,::2", "as many addresses as there are servers"},
      {"s%20e=x", "a parameter has a name that dlock does not know"},
  };
  for (const auto& [query, why] : refused) {
    const auto refusal = refusal_of_url("postgres://h/d?" + std::string(query));
    EXPECT_NE(refusal.find(why), std::string::npos) << query << ": " << refusal;
  }
}

TEST(PgUrl, what_is_ignored_is_named_and_not_passed_on) {
  const auto url =
      parsed_store_url("postgres://h/d?pool=5&x-migrations-table=m&sslsni=1");

  EXPECT_EQ(url.ignored, (std::vector<std::string>{"pool", "x-migrations-table"}));
  EXPECT_EQ(url.text(), "postgres://h/d");
}

TEST(PgUrl, connect_timeout_is_in_seconds_and_zero_is_no_limit) {
  const auto timeout = [](const char* query) {
    return connect_timeout(parsed_store_url("postgres://h/d" + std::string(query)));
  };

  EXPECT_EQ(timeout("?connect_timeout=3"), milliseconds(3000));
  EXPECT_EQ(timeout("?connect_timeout=0"), std::nullopt);
  EXPECT_EQ(timeout(""), std::nullopt);
}

TEST(PgUrl, a_password_is_never_in_a_message) {
  for (const char* url :
       {"postgres://u:secret@h:port/d", "postgres://h/d?password=secret&x_auth=1",
        "postgres://h/d?x_auth=1&password=secret", "postgres://u:p@h/d?password=secret",
        "postgres://u:se?secret@h/d", "postgres://u:secret/d", "postgres:u:secret@h",
        "postgres://h/d?secret", "postgres://h/d#secret",
        "postgres://u:secret@h,u:secret@i/d", "postgresql+psycopg2://u:secret@h/d",
        "jdbc:postgresql://h/d?user=u&password=secret",
        "postgres://u:secret@h/d?sslmode=secret",
        "postgres://h/d?passwor%64=secret&x_auth=1",
        "postgres://h/d?passwor%2564=secret"}) {
    EXPECT_NE(refusal_of_url(url), "") << url;
    EXPECT_EQ(refusal_of_url(url).find("secret"), std::string::npos) << url;
  }
}

// As other users see the word among the arguments of the process.
std::string seen(std::string word) {
  hide_login(word.data());
  return word;
}

TEST(PgUrl, a_password_is_hidden_however_its_name_is_written) {
  EXPECT_EQ(seen("--store=postgres://u:pw@h/d?sslmode=x"),
            "--store=postgres://xxxx@h/d?sslmode=x");
  EXPECT_EQ(seen("postgres://h/d?a=1&passwor%64=pw&b=2"),
            "postgres://h/d?a=1&passwor%64=xx&b=2");
  EXPECT_EQ(seen("postgres://h/d?%70assword=p%3Dw=1"),
            "postgres://h/d?%70assword=xxxxxxx");
  EXPECT_EQ(seen("postgres://u:pw@h/d?password=a@b"), "postgres://xxxx@h/d?password=xxx");
  EXPECT_EQ(seen("postgres://h/d?passfile=/p&sslpassword=pw"),
            "postgres://h/d?passfile=/p&sslpassword=xx");
  for (const char* scheme : {"redis", "etcds", "jdbc:postgresql"}) {
    const auto url = std::string(scheme) + "://h:1/?auth_toke%6E=";
    EXPECT_EQ(seen(url + "pw"), url + "xx");
  }
  EXPECT_EQ(seen("password=pw"), "password=pw");
}

// The servers of the URL with these settings of dlock's own.
std::vector<PgTarget> targets(const std::string& text,
                              const Credentials& credentials = {}) {
  static const Surroundings none;
  auto url = parsed_store_url(text);
  url.set(credentials);
  return targets_of(url, milliseconds(1), none.known());
}

TEST(PgTarget, is_each_server_with_its_socket_or_address) {
  const auto found = targets("postgres://u@h:1,%2Fsrv:2/d?dlock_schema=lo&listen=off");

  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].shown() + " " + found[1].shown(), "h:1 /srv/.s.PGSQL.2");
  EXPECT_EQ(found[0].user + found[1].database + found[1].schema, "udlo");
  EXPECT_EQ(found[0].listening, Listening::off);
  EXPECT_FALSE(found[0].password);
}

TEST(PgTarget, an_address_is_used_for_a_host_whose_certificate_is_wanted) {
  const auto found = targets("postgres://a,b/d?hostaddr=10.0.0.1,::1");

  EXPECT_EQ(found[0].shown() + " " + found[1].shown(), "10.0.0.1:5432 [::1]:5432");
  EXPECT_EQ(found[0].tls.name + found[1].tls.name, "ab");
}

TEST(PgTarget, has_the_sslmode_or_one_that_follows_from_options) {
  constexpr std::pair<const char*, SslMode> modes[] = {
      {"", SslMode::prefer},
      {"?sslmode=allow", SslMode::prefer},
      {"?sslmode=disable", SslMode::disable},
      {"?sslmode=require", SslMode::require},
      {"?ssl=true", SslMode::require},
      {"?sslmode=verify-ca", SslMode::verify},
      {"?sslmode=verify-full", SslMode::verify},
      {"?sslrootcert=system", SslMode::verify},
      {"?sslrootcert=/ca", SslMode::prefer},
  };
  for (const auto& [query, mode] : modes) {
    EXPECT_EQ(targets(std::string("postgres://h/d") + query)[0].ssl, mode) << query;
  }
  Credentials credentials;
  credentials.tls.ca = "/own";
  const auto own = targets("postgres://h/d?sslrootcert=/ca", credentials)[0];
  EXPECT_EQ(own.tls.ca, "/own");
  EXPECT_EQ(own.ssl, SslMode::verify);
  EXPECT_EQ(targets("postgres://h/d?sslmode=prefer", credentials)[0].ssl,
            SslMode::prefer);
}

TEST(PgTarget, no_variable_weakens_tls_that_an_option_asks_for) {
  const Surroundings weak{{{"PGSSLMODE", "disable"}, {"PGSSLROOTCERT", "/other"}}, {}};
  Credentials credentials;
  credentials.tls.ca = "/own";
  auto url = parsed_store_url("postgres://h/d");
  url.set(credentials);

  const auto target = targets_of(url, milliseconds(1000), weak.known())[0];

  EXPECT_EQ(target.ssl, SslMode::verify);
  EXPECT_EQ(target.tls.ca, "/own");
  const auto plain = parsed_store_url("postgres://h/d");
  EXPECT_EQ(targets_of(plain, milliseconds(1000), weak.known())[0].ssl, SslMode::disable);
}

TEST(PgTarget, a_certificate_needs_its_key) {
  EXPECT_EQ(targets("postgres://h/d?sslcert=c&sslkey=k")[0].tls.key, "/here/k");
  EXPECT_THROW(targets("postgres://h/d?sslcert=/c"), Failure);
  Credentials credentials;
  credentials.tls.certificate = "/own";
  credentials.tls.key = "/key";
  EXPECT_EQ(targets("postgres://h/d?sslcert=/c", credentials)[0].tls.key, "/key");
}

class BadPgUrl : public ::testing::TestWithParam<const char*> {};

TEST_P(BadPgUrl, is_refused) { EXPECT_NE(refusal_of_url(GetParam()), ""); }

constexpr const char* bad_pg_urls[] = {
    "postgres:a",
    "postgres:/d",
    "postgres://a,",
    "postgres://a,,b/d",
    "postgres://a:0/d",
    "postgres://::1/d",
    "postgres://a/d/e",
    "postgres://a/d/",
    "postgres://a/d#x",
    "postgres://u:@a/d",
    "postgres://u:p@a,v:q@b/d",
    "postgres://a b/d",
    "postgres://[::/d",
    "postgres://%2Fa%00b/d",
    "postgres://%61/d",
    "postgres://a/%",
    "postgres:///d?host=a:1",
    "postgres:///d?host=",
    "postgres:///d?host=,a",
    "postgres://a:1/d?port=2",
};

INSTANTIATE_TEST_SUITE_P(urls, BadPgUrl, ::testing::ValuesIn(bad_pg_urls));

// The password for bob and the database app on the host.
std::string password(const std::string& content, const std::string& host = "db",
                     std::uint16_t port = 5432) {
  return password_for({host, port, "app", "bob"}, content).value_or("-");
}

TEST(PgPass, the_first_line_that_matches_has_the_password) {
  EXPECT_EQ(password("# db:5432:app:bob:no\nx:5432:app:bob:no\ndb:5432:app:bob:yes\n"
                     "*:*:*:*:no\n"),
            "yes");
  EXPECT_EQ(password("*:*:*:*:any"), "any");
  EXPECT_EQ(password("db:5433:*:*:no\r\ndb:5432:*:*:y e:s\r\n"), "y e:s");
  EXPECT_EQ(password("db:5432:app:alice:no"), "-");
  EXPECT_EQ(password("db:5432:app"), "-");
  EXPECT_EQ(password("db:5432:app:bob:"), "-");
  EXPECT_EQ(password(""), "-");
}

TEST(PgPass, a_backslash_escapes_colons_and_itself) {
  EXPECT_EQ(password("\\:\\:1:*:*:*:a\\:b\\\\c", "::1"), "a:b\\c");
  EXPECT_EQ(password("\\*:*:*:*:no"), "-");
}

TEST(PgPass, the_usual_socket_is_localhost) {
  EXPECT_EQ(password("localhost:*:*:*:yes", "/run/postgresql"), "yes");
  EXPECT_EQ(password("localhost:*:*:*:yes", "/srv/pg"), "-");
  EXPECT_EQ(password("/srv/pg:*:*:*:yes", "/srv/pg"), "yes");
}

}  // namespace
}  // namespace dlock::postgres
