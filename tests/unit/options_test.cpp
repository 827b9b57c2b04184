// The values of options: which are accepted, how they are parsed, and which are refused.

#include "cli/args/options.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dlock {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Durations

struct Duration {
  const char* text;
  milliseconds value;
};

class GoodDuration : public ::testing::TestWithParam<Duration> {};

TEST_P(GoodDuration, is_accepted) {
  EXPECT_EQ(parsed_duration(GetParam().text), GetParam().value) << GetParam().text;
}

constexpr Duration good_durations[] = {
    {"250ms", milliseconds(250)},
    {"30s", seconds(30)},
    {"5m", minutes(5)},
    {"2h", hours(2)},
    {"1d", days(1)},
    {"1h30m", minutes(90)},
    {"0.5s", milliseconds(500)},
    {"30", seconds(30)},
    {"0.5", milliseconds(500)},
    {"0", milliseconds(0)},
    {"0s", milliseconds(0)},
    {"1d2h3m4s5ms", days(1) + hours(2) + minutes(3) + milliseconds(4005)},
    {"1d5ms", days(1) + milliseconds(5)},
    {"1.5h", minutes(90)},
    {"0.25d", hours(6)},
    {"90m", minutes(90)},
    {"5min", minutes(5)},
    {"1h30min", minutes(90)},
    {"1.5min2s", seconds(92)},
    {"36500d", days(36'500)},
};
INSTANTIATE_TEST_SUITE_P(durations, GoodDuration, ::testing::ValuesIn(good_durations));

class BadDuration : public ::testing::TestWithParam<const char*> {};

TEST_P(BadDuration, is_refused) {
  EXPECT_THROW(parsed_duration(GetParam()), UsageError) << GetParam();
}

constexpr const char* bad_durations[] = {
    "",        " ",      "s",        "ms",       "nan",
    "NaN",     "inf",    "infinity", "-1",       "-1s",
    "+1s",     "1 s",    " 1s",      "1s ",      "1x",
    "1S",      "1sec",   "1w",       "1us",      "1e3",
    "1e3s",    "0x10",   "1,5s",     "1.2.3s",   ".",
    "..s",     "1h30",   "30m1h",    "1ms1s",    "1s1s",
    "1h1h",    "1m1h1m", "36700d",   "1e999",    "99999999999999999999d",
    "forever", "1s2",    "1\n",      "1s\xFF",   "5min5m",
    "5m5min",  "1mins",  "1h-",      "1s5",      "5m5m",
    "5x",      "soon",   "never",    "4000000d", "\xEF\xBC\x91"};
INSTANTIATE_TEST_SUITE_P(durations, BadDuration, ::testing::ValuesIn(bad_durations));

TEST(Durations, a_number_with_too_many_digits_is_refused) {
  EXPECT_THROW(parsed_duration(std::string(500, '9')), UsageError);
}

TEST(Durations, fractions_of_a_millisecond_are_rounded_up) {
  EXPECT_EQ(parsed_duration("0.1ms"), milliseconds(1));
  EXPECT_EQ(parsed_duration("0.0001"), milliseconds(1));
  EXPECT_EQ(parsed_duration("1.0001s"), milliseconds(1001));
}

TEST(Durations, whole_milliseconds_are_exact) {
  for (int count = 0; count < 10'000; ++count) {
    char text[16];
    std::snprintf(text, sizeof text, "%d.%03ds", count / 1000, count % 1000);
    ASSERT_EQ(parsed_duration(text), milliseconds(count)) << text;
  }
}

TEST(Durations, the_message_is_one_line_that_shows_the_text) {
  try {
    parsed_duration("5\n\x1b[31mparsecs");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'5\\n\\x1b[31mparsecs' is not a duration: expected a number and ms, s, "
              "m, h or d, such as 5m or 1h30m");
  }
}

// Numbers

TEST(Numbers, both_bounds_are_accepted) {
  EXPECT_EQ(parsed_number("1", 1, 255), 1u);
  EXPECT_EQ(parsed_number("255", 1, 255), 255u);
}

TEST(Numbers, numbers_beyond_the_bounds_are_refused) {
  EXPECT_THROW(parsed_number("0", 1, 255), UsageError);
  EXPECT_THROW(parsed_number("256", 1, 255), UsageError);
}

class BadNumber : public ::testing::TestWithParam<const char*> {};

TEST_P(BadNumber, is_refused) {
  EXPECT_THROW(parsed_number(GetParam(), 0, 1000), UsageError) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(numbers, BadNumber,
                         ::testing::Values("", " ", "-1", "+1", "1 ", " 1", "1.0", "1e2",
                                           "1.5", "two", "0x1", "ten", "4294967297",
                                           "99999999999999999999"));

// Names

TEST(Names, a_name_of_255_bytes_is_accepted) {
  EXPECT_EQ(parsed_name(std::string(255, 'x')).size(), 255u);
}

TEST(Names, a_name_of_256_bytes_is_refused) {
  EXPECT_THROW(parsed_name(std::string(256, 'x')), UsageError);
}

TEST(Names, the_limit_counts_bytes_and_not_characters) {
  std::string name;
  for (int i = 0; i < 128; ++i) name += "\xC3\xA9";

  EXPECT_THROW(parsed_name(name), UsageError);
}

TEST(Names, an_empty_name_is_refused) { EXPECT_THROW(parsed_name(""), UsageError); }

TEST(Names, printable_text_is_accepted_unchanged) {
  for (const std::string name :
       {"a", "nightly job", "-", "--", "a/b:c", "{}", "na\xC3\xAFve",
        "\xE6\x97\xA5\xE6\x9C\xAC", "\xF0\x9F\x94\x92"}) {
    EXPECT_EQ(parsed_name(name), name);
  }
}

class BadName : public ::testing::TestWithParam<std::string> {};

TEST_P(BadName, is_refused) { EXPECT_THROW(parsed_name(GetParam()), UsageError); }

INSTANTIATE_TEST_SUITE_P(control_characters, BadName,
                         ::testing::Values("a\nb", "a\tb", "\r", "\x1b[31m", "a\x7f",
                                           std::string("a\0b", 3), "\xC2\x80",
                                           "\xC2\x9F"));
INSTANTIATE_TEST_SUITE_P(no_utf8, BadName,
                         ::testing::Values("\xFF", "\x80", "\xC3", "a\xC3(",
                                           "\xC0\xAF",              // overlong
                                           "\xE0\x80\xAF",          // overlong
                                           "\xED\xA0\x80",          // a surrogate
                                           "\xF4\x90\x80\x80",      // beyond Unicode
                                           "\xF8\x88\x80\x80\x80",  // five bytes
                                           "\xF0\x9F\x94"));        // truncated
INSTANTIATE_TEST_SUITE_P(bidirectional_controls, BadName,
                         ::testing::Values("a\xE2\x80\xAE"
                                           "b",  // U+202E
                                           "a\xE2\x81\xA6"
                                           "b",               // U+2066
                                           "\xE2\x80\x8F",    // U+200F
                                           "\xD8\x9C",        // U+061C
                                           "\xE2\x80\xA8"));  // U+2028

// Settings

Settings set(std::string_view name, const std::string& value,
             Setting::Source source = Setting::Source::command_line) {
  Settings settings;
  settings.emplace(name, Setting{value, source, "--" + std::string(name)});
  return settings;
}

RunOptions run_with(const Settings& settings) {
  return run_options(settings, "job", {"true"});
}
RunOptions run_with(std::string_view name, const std::string& value) {
  return run_with(set(name, value));
}
CommonOptions common_with(std::string_view name, const std::string& value) {
  return common_options(set(name, value));
}

TEST(CommonOptions, have_the_defaults_of_the_manual) {
  const auto options = common_options({});

  EXPECT_EQ(options.store.kind->scheme, "local");
  EXPECT_EQ(options.store.path, "");
  EXPECT_EQ(options.name_space, "dlock");
  EXPECT_FALSE(options.store_timeout);
  EXPECT_FALSE(options.json || options.quiet || options.verbose);
  EXPECT_EQ(options.color, Color::automatic);
}

TEST(CommonOptions, take_each_setting) {
  EXPECT_EQ(common_with("store", "local:/srv/locks").store.path, "/srv/locks");
  EXPECT_EQ(common_with("namespace", "team").name_space, "team");
  EXPECT_EQ(common_with("store-timeout", "3s").store_timeout, seconds(3));
  EXPECT_TRUE(common_with("json", "true").json);
  EXPECT_TRUE(common_with("quiet", "true").quiet);
  EXPECT_TRUE(common_with("verbose", "true").verbose);
  EXPECT_FALSE(common_with("verbose", "false").verbose);
  EXPECT_EQ(common_with("color", "always").color, Color::always);
  EXPECT_EQ(common_with("color", "never").color, Color::never);
  EXPECT_EQ(common_with("color", "auto").color, Color::automatic);
}

TEST(CommonOptions, refuse_invalid_values) {
  EXPECT_THROW(common_with("namespace", ""), UsageError);
  EXPECT_THROW(common_with("store-timeout", "0"), UsageError);
  EXPECT_THROW(common_with("store-timeout", "soon"), UsageError);
  EXPECT_THROW(common_with("json", "yes"), UsageError);
  EXPECT_THROW(common_with("color", "blue"), UsageError);
}

TEST(CommonOptions, an_invalid_store_url_is_misconfigured_and_its_origin_is_named) {
  try {
    common_with("store", "nfs:/x");
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    EXPECT_TRUE(std::string(failure.what()).starts_with("--store: ")) << failure.what();
  }
}

// The login to the store

// These settings, all from the command line.
Settings all_of(
    std::initializer_list<std::pair<const std::string_view, std::string>> pairs) {
  Settings settings;
  for (const auto& [name, value] : pairs) settings.merge(set(name, value));
  return settings;
}

// The server that the settings name; by default, redis://host.
StoreUrl url_of(Settings settings) {
  settings.merge(set("store", "redis://host"));
  return common_options(settings).store;
}

Settings password_in_variable() {
  return set("password", "of the variable", Setting::Source::environment);
}

TEST(Login, comes_from_the_url) {
  const auto url = url_of(set("store", "redis://alice:secret@host"));

  EXPECT_EQ(url.login.user, "alice");
  EXPECT_EQ(url.login.password, "secret");
  EXPECT_EQ(url.login.password_file, "");
}

TEST(Login, a_user_option_replaces_the_user_in_the_url) {
  const auto url =
      url_of(all_of({{"store", "redis://alice:secret@host"}, {"user", "bob"}}));

  EXPECT_EQ(url.login.user, "bob");
  EXPECT_EQ(url.login.password, "secret");
}

TEST(Login, a_password_variable_replaces_the_password_in_the_url) {
  auto settings = set("store", "redis://alice:secret@host");
  settings.merge(password_in_variable());

  EXPECT_EQ(url_of(settings).login.user, "alice");
  EXPECT_EQ(url_of(settings).login.password, "of the variable");
}

TEST(Login, a_password_file_replaces_the_password_in_the_url) {
  const auto url = url_of(
      all_of({{"store", "redis://alice:secret@host"}, {"password-file", "/file"}}));

  EXPECT_EQ(url.login.password_file, "/file");
  EXPECT_FALSE(url.login.password);
}

TEST(Login, a_password_file_from_the_environment_overrides_the_variable) {
  auto settings = set("password-file", "/file", Setting::Source::environment);
  settings.merge(password_in_variable());

  EXPECT_EQ(url_of(settings).login.password_file, "/file");
  EXPECT_FALSE(url_of(settings).login.password);
}

TEST(Login, the_variable_overrides_a_password_file_from_the_configuration) {
  auto settings = set("password-file", "/file", Setting::Source::file);
  settings.merge(password_in_variable());

  EXPECT_EQ(url_of(settings).login.password_file, "");
  EXPECT_EQ(url_of(settings).login.password, "of the variable");
}

TEST(Login, with_an_invalid_user_or_password_file_is_refused) {
  EXPECT_THROW(common_with("user", ""), UsageError);
  EXPECT_THROW(common_with("user", "a\nb"), UsageError);
  EXPECT_THROW(common_with("password-file", ""), UsageError);
  EXPECT_THROW(common_with("password-file", std::string("/a\0b", 4)), UsageError);
}

// The sentinels that the settings name; by default, `a` and `b`.
StoreUrl sentinels_of(Settings settings) {
  settings.merge(set("store", "rediss+sentinel://a,b/name"));
  return common_options(settings).store;
}

TEST(SentinelLogin, is_separate_from_the_login_of_the_servers) {
  auto settings = all_of({{"user", "alice"}, {"sentinel-user", "watch"}});
  settings.merge(password_in_variable());
  settings.merge(set("sentinel-password", "word", Setting::Source::environment));

  const auto url = sentinels_of(settings);

  EXPECT_EQ(url.login.user, "alice");
  EXPECT_EQ(url.login.password, "of the variable");
  EXPECT_EQ(url.sentinel_login.user, "watch");
  EXPECT_EQ(url.sentinel_login.password, "word");
}

TEST(SentinelLogin, takes_its_password_from_one_source) {
  const auto variable = set("sentinel-password", "word", Setting::Source::environment);
  for (const auto source : {Setting::Source::environment, Setting::Source::file}) {
    auto settings = set("sentinel-password-file", "/file", source);
    settings.merge(Settings(variable));

    const auto sentinel = sentinels_of(settings).sentinel_login;

    const bool is_file_first = source == Setting::Source::environment;
    EXPECT_EQ(sentinel.password_file, is_file_first ? "/file" : "");
    EXPECT_EQ(sentinel.password.has_value(), !is_file_first);
  }
}

TEST(SentinelLogin, with_an_invalid_user_or_password_file_is_refused) {
  EXPECT_THROW(common_with("sentinel-user", ""), UsageError);
  EXPECT_THROW(common_with("sentinel-user", "a\nb"), UsageError);
  EXPECT_THROW(common_with("sentinel-password-file", ""), UsageError);
}

TEST(SentinelTls, is_on_unless_it_is_switched_off) {
  EXPECT_TRUE(sentinels_of({}).sentinel_tls);
  EXPECT_TRUE(sentinels_of(set("sentinel-tls", "true")).sentinel_tls);
  EXPECT_FALSE(sentinels_of(set("sentinel-tls", "false")).sentinel_tls);
  EXPECT_TRUE(sentinels_of(set("sentinel-tls", "false")).tls);
  EXPECT_THROW(common_with("sentinel-tls", "perhaps"), UsageError);
  EXPECT_THROW(common_with("sentinel-tls", ""), UsageError);
}

TEST(Replicas, are_none_some_or_all) {
  EXPECT_EQ(sentinels_of({}).replicas, Replicas{});
  EXPECT_EQ(sentinels_of(set("replicas", "0")).replicas, Replicas{});
  EXPECT_EQ(sentinels_of(set("replicas", "15")).replicas, (Replicas{.count = 15}));
  EXPECT_EQ(sentinels_of(set("replicas", "all")).replicas, (Replicas{.all = true}));
}

TEST(Replicas, that_are_invalid_are_refused) {
  for (const char* value : {"", "-1", "16", "1.5", "ALL", "some", " 1", "all "}) {
    EXPECT_THROW(common_with("replicas", value), UsageError) << value;
  }
}

TEST(Tls, has_the_values_of_its_options) {
  const auto url = url_of(all_of({{"store", "rediss://host"},
                                  {"tls-ca", "/ca"},
                                  {"tls-cert", "/cert"},
                                  {"tls-key", "/key"},
                                  {"tls-name", "db.example.org"},
                                  {"tls-insecure", "true"}}));

  ASSERT_TRUE(url.tls);
  EXPECT_EQ(url.tls->ca, "/ca");
  EXPECT_EQ(url.tls->certificate, "/cert");
  EXPECT_EQ(url.tls->key, "/key");
  EXPECT_EQ(url.tls->name, "db.example.org");
  EXPECT_TRUE(url.tls->insecure);
}

TEST(Tls, is_verified_by_default) {
  EXPECT_FALSE(url_of(set("store", "rediss://host")).tls->insecure);
}

TEST(Tls, is_never_switched_on_or_off_by_its_options) {
  for (const char* url : {"redis://host", "redis+unix:/path"}) {
    const auto store =
        url_of(all_of({{"store", url}, {"tls-ca", "/ca"}, {"tls-insecure", "false"}}));

    EXPECT_FALSE(store.tls) << url;
  }
  for (const char* url : {"local:", "local:/x", "none:"}) {
    const auto options =
        common_options(all_of({{"store", url}, {"tls-insecure", "true"}}));

    EXPECT_FALSE(options.store.is_insecure()) << url;
  }
}

TEST(Tls, a_certificate_and_its_key_go_together) {
  EXPECT_THROW(common_with("tls-cert", "/cert"), UsageError);
  EXPECT_THROW(common_with("tls-key", "/key"), UsageError);
}

TEST(Tls, half_a_pair_is_attributed_to_its_source) {
  for (const auto source : {Setting::Source::command_line, Setting::Source::file}) {
    for (const char* name : {"tls-cert", "tls-key"}) {
      try {
        common_options(set(name, "/half", source));
        FAIL() << "accepted";
      } catch (const UsageError& error) {
        EXPECT_EQ(error.from_file(), source == Setting::Source::file);
      }
    }
  }
}

TEST(Tls, invalid_values_are_refused) {
  for (const char* name : {"tls-ca", "tls-cert", "tls-key"}) {
    EXPECT_THROW(common_with(name, ""), UsageError) << name;
  }
  EXPECT_THROW(common_with("tls-insecure", "perhaps"), UsageError);
  for (const char* name : {"", "a b", "a\n", "h\xC3\xB6st", "*", "a/b"}) {
    EXPECT_THROW(common_with("tls-name", name), UsageError) << name;
  }
  EXPECT_THROW(common_with("tls-name", std::string(256, 'x')), UsageError);
}

TEST(RunOptions, have_the_defaults_of_the_manual) {
  const auto options = run_with(Settings{});

  EXPECT_EQ(options.name, "job");
  EXPECT_EQ(options.command, std::vector<std::string>{"true"});
  EXPECT_FALSE(options.wait);
  EXPECT_EQ(options.ttl, seconds(30));
  EXPECT_EQ(options.slots, 1u);
  EXPECT_FALSE(options.shared);
  EXPECT_EQ(options.conflict_exit_code, 75);
  EXPECT_FALSE(options.dedupe);
  EXPECT_EQ(options.min_hold, milliseconds(0));
  EXPECT_EQ(options.jitter, milliseconds(0));
  EXPECT_FALSE(options.reclaim);
  EXPECT_EQ(options.lock_delay, milliseconds(0));
  EXPECT_EQ(options.description.label, "");
  EXPECT_EQ(options.report, "");
  EXPECT_FALSE(options.supervision.timeout);
  EXPECT_EQ(options.supervision.kill_after, seconds(5));
  EXPECT_FALSE(options.supervision.kill_after_forwarded);
  EXPECT_EQ(options.supervision.stragglers, Stragglers::leave);
}

TEST(RunOptions, take_each_setting) {
  EXPECT_EQ(run_with("wait", "5m").wait, minutes(5));
  EXPECT_EQ(run_with("ttl", "500ms").ttl, milliseconds(500));
  EXPECT_EQ(run_with("slots", "3").slots, 3u);
  EXPECT_TRUE(run_with("shared", "true").shared);
  EXPECT_EQ(run_with("conflict-exit-code", "0").conflict_exit_code, 0);
  EXPECT_EQ(run_with("conflict-exit-code", "255").conflict_exit_code, 255);
  EXPECT_EQ(run_with("dedupe", "1h").dedupe->window, hours(1));
  EXPECT_FALSE(run_with("dedupe", "1h").dedupe->retry_failed);
  EXPECT_EQ(run_with("min-hold", "2m").min_hold, minutes(2));
  EXPECT_EQ(run_with("jitter", "1m").jitter, minutes(1));
  EXPECT_TRUE(run_with("reclaim", "true").reclaim);
  EXPECT_EQ(run_with("lock-delay", "10s").lock_delay, seconds(10));
  EXPECT_EQ(run_with("label", "blue").description.label, "blue");
  EXPECT_EQ(run_with("report", "out.json").report, "out.json");
  EXPECT_EQ(run_with("timeout", "2h").supervision.timeout, hours(2));
  EXPECT_EQ(run_with("kill-after", "0").supervision.kill_after, milliseconds(0));
  EXPECT_EQ(run_with("stragglers", "wait").supervision.stragglers, Stragglers::wait);
  EXPECT_EQ(run_with("stragglers", "kill").supervision.stragglers, Stragglers::kill);
  EXPECT_EQ(run_with("stragglers", "leave").supervision.stragglers, Stragglers::leave);
}

TEST(RunOptions, refuse_invalid_values) {
  EXPECT_THROW(run_with("wait", "-1"), UsageError);
  EXPECT_THROW(run_with("wait", "for ever"), UsageError);
  EXPECT_THROW(run_with("ttl", "499ms"), UsageError);
  EXPECT_THROW(run_with("ttl", "0"), UsageError);
  EXPECT_THROW(run_with("ttl", "forever"), UsageError);
  EXPECT_THROW(run_with("slots", "0"), UsageError);
  EXPECT_THROW(run_with("slots", "-1"), UsageError);
  EXPECT_THROW(run_with("shared", "1"), UsageError);
  EXPECT_THROW(run_with("conflict-exit-code", "256"), UsageError);
  EXPECT_THROW(run_with("reclaim", "1"), UsageError);
  EXPECT_THROW(run_with("lock-delay", "forever"), UsageError);
  EXPECT_THROW(run_with("label", "two\nlines"), UsageError);
  EXPECT_THROW(run_with("label", ""), UsageError);
  EXPECT_THROW(run_with("report", ""), UsageError);
  EXPECT_THROW(run_with("timeout", "0"), UsageError);
  EXPECT_THROW(run_with("timeout", "forever"), UsageError);
  EXPECT_THROW(run_with("stragglers", "adopt"), UsageError);
}

TEST(RunOptions, an_invalid_lock_name_is_refused) {
  EXPECT_THROW(run_options({}, "", {"true"}), UsageError);
}

TEST(RunOptions, wait_forever_has_no_limit) {
  EXPECT_EQ(run_with("wait", "forever").wait, milliseconds::max());
}

TEST(RunOptions, wait_0_means_not_to_wait) { EXPECT_FALSE(run_with("wait", "0").wait); }

TEST(RunOptions, an_explicit_kill_after_applies_to_a_forwarded_sigterm_too) {
  EXPECT_TRUE(run_with("kill-after", "5s").supervision.kill_after_forwarded);
}

TEST(RunOptions, shared_and_slots_exclude_each_other) {
  auto settings = set("shared", "true");
  settings.merge(set("slots", "2"));

  EXPECT_THROW(run_with(settings), UsageError);
}

TEST(RunOptions, slots_may_be_combined_with_shared_false) {
  auto settings = set("shared", "false");
  settings.merge(set("slots", "2"));

  EXPECT_EQ(run_with(settings).slots, 2u);
}

TEST(RunOptions, a_dedupe_window_of_0_means_no_deduplication) {
  auto settings = set("dedupe", "0");
  settings.merge(set("retry-failed", "true"));
  settings.merge(set("shared", "true"));

  EXPECT_FALSE(run_with(settings).dedupe);
}

TEST(RunOptions, a_dedupe_window_is_at_most_30_days) {
  EXPECT_EQ(run_with("dedupe", "30d").dedupe->window, days(30));
  EXPECT_THROW(run_with("dedupe", "721h"), UsageError);
  EXPECT_THROW(run_with("dedupe", "forever"), UsageError);
}

TEST(RunOptions, min_hold_is_at_most_30_days) {
  EXPECT_EQ(run_with("min-hold", "30d").min_hold, days(30));
  EXPECT_THROW(run_with("min-hold", "721h"), UsageError);
}

TEST(RunOptions, retry_failed_requires_dedupe) {
  auto settings = set("retry-failed", "true");
  EXPECT_THROW(run_with(settings), UsageError);
  settings.merge(set("dedupe", "1h"));

  EXPECT_TRUE(run_with(settings).dedupe->retry_failed);
}

TEST(RunOptions, dedupe_excludes_shared_and_several_slots) {
  auto shared = set("dedupe", "1h");
  shared.merge(set("shared", "true"));
  auto slots = set("dedupe", "1h");
  slots.merge(set("slots", "2"));
  auto one_slot = set("dedupe", "1h");
  one_slot.merge(set("slots", "1"));

  EXPECT_THROW(run_with(shared), UsageError);
  EXPECT_THROW(run_with(slots), UsageError);
  EXPECT_TRUE(run_with(one_slot).dedupe);
}

// The source of a mistake

UsageError mistake_of(const Settings& settings) {
  try {
    run_with(settings);
  } catch (const UsageError& error) {
    return error;
  }
  throw std::logic_error("accepted");
}

TEST(Mistakes, on_the_command_line_are_not_from_a_file) {
  EXPECT_FALSE(mistake_of(set("ttl", "0")).from_file());
}

TEST(Mistakes, in_the_environment_are_not_from_a_file) {
  EXPECT_FALSE(mistake_of(set("ttl", "0", Setting::Source::environment)).from_file());
}

TEST(Mistakes, in_a_file_are_from_a_file) {
  EXPECT_TRUE(mistake_of(set("ttl", "0", Setting::Source::file)).from_file());
}

TEST(Mistakes, in_a_flag_of_a_file_are_from_a_file) {
  EXPECT_TRUE(mistake_of(set("shared", "maybe", Setting::Source::file)).from_file());
}

TEST(Mistakes, between_two_settings_of_a_file_are_from_a_file) {
  auto settings = set("shared", "true", Setting::Source::file);
  settings.merge(set("slots", "2", Setting::Source::file));

  EXPECT_TRUE(mistake_of(settings).from_file());
}

TEST(Mistakes, are_reported_with_their_origin) {
  auto settings = set("ttl", "0", Setting::Source::file);
  settings.at("ttl").origin = "/etc/dlock/config.toml: run.ttl";

  EXPECT_EQ(std::string(mistake_of(settings).what()),
            "/etc/dlock/config.toml: run.ttl: must be at least 500ms");
}

// Leases of acquire

constexpr const char* some_token = "000102030405060708090a0b0c0d0e0f";

Settings with(Settings settings, const std::string& name, const std::string& value,
              Setting::Source source = Setting::Source::command_line) {
  settings[name] = {value, source, "--" + name};
  return settings;
}

TEST(AcquireOptions, include_the_claim_and_the_process_to_renew_it_for) {
  const auto settings =
      with(with(with({}, "for-pid", "4711"), "ttl", "5s"), "wait", "forever");

  const auto options = acquire_options(settings, "job");

  EXPECT_EQ(options.name, "job");
  EXPECT_EQ(options.for_pid, 4711);
  EXPECT_EQ(options.ttl, seconds(5));
  EXPECT_EQ(options.wait, milliseconds::max());
}

TEST(AcquireOptions, an_invalid_process_id_is_refused) {
  for (const auto* pid : {"", "0", "-1", "1x", "self", "2147483648"}) {
    EXPECT_THROW(acquire_options(with({}, "for-pid", pid), "job"), UsageError) << pid;
  }
}

TEST(AcquireOptions, choose_between_a_token_json_and_variables) {
  using Form = AcquireOptions::Form;
  EXPECT_EQ(acquire_options({}, "job").form, Form::token);
  EXPECT_EQ(acquire_options(with({}, "json", "true"), "job").form, Form::json);
  EXPECT_EQ(acquire_options(with({}, "export", "true"), "job").form, Form::variables);
  EXPECT_EQ(acquire_options(with({}, "export", "false"), "job").form, Form::token);
}

TEST(AcquireOptions, json_and_export_from_the_same_source_are_refused) {
  for (const auto source : {Setting::Source::command_line, Setting::Source::file}) {
    const auto both = with(with({}, "json", "true", source), "export", "true", source);
    EXPECT_THROW(acquire_options(both, "job"), UsageError);
  }
}

TEST(AcquireOptions, the_form_on_the_command_line_overrides_that_in_a_file) {
  using Form = AcquireOptions::Form;
  const auto file = Setting::Source::file;

  EXPECT_EQ(
      acquire_options(with(with({}, "json", "true", file), "export", "true"), "job").form,
      Form::variables);
  EXPECT_EQ(
      acquire_options(with(with({}, "export", "true", file), "json", "true"), "job").form,
      Form::json);
}

TEST(LeaseOptions, have_a_token_and_no_ttl_of_their_own) {
  const auto options = lease_options(with({}, "token", some_token), "job");

  EXPECT_EQ(text_of(options.token), some_token);
  EXPECT_FALSE(options.ttl);
}

TEST(LeaseOptions, without_a_token_are_refused) {
  EXPECT_THROW(lease_options({}, "job"), UsageError);
}

TEST(LeaseOptions, an_invalid_token_is_refused_and_not_repeated) {
  try {
    lease_options(with({}, "token", "secret"), "job");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
  }
}

TEST(LeaseOptions, token_and_token_file_exclude_each_other) {
  const auto both = with(with({}, "token", some_token), "token-file", "/nonexistent");

  EXPECT_THROW(lease_options(both, "job"), UsageError);
}

TEST(LeaseOptions, a_token_file_on_the_command_line_overrides_the_environment) {
  const auto both = with(with({}, "token", some_token, Setting::Source::environment),
                         "token-file", "/nonexistent");

  EXPECT_THROW(lease_options(both, "job"), Failure);
}

TEST(LeaseOptions, the_environment_overrides_a_token_file_in_the_configuration) {
  const auto both = with(with({}, "token", some_token, Setting::Source::environment),
                         "token-file", "/nonexistent", Setting::Source::file);

  EXPECT_EQ(text_of(lease_options(both, "job").token), some_token);
}

// The outer run holds `inner` with fence 7, and a run outside it `outer` with 5.
const RunAbove above{"inner", "outer=5 inner=7"};
const Settings inherited = with({}, "fence", "7", Setting::Source::environment);

TEST(CheckOptions, default_to_the_enclosing_run) {
  const auto options = check_options(inherited, std::nullopt, above);

  EXPECT_EQ(options.name, "inner");
  EXPECT_EQ(options.fence.number, 7u);
  EXPECT_EQ(options.min_validity, seconds(0));
}

TEST(CheckOptions, for_an_outer_lock_have_its_fence) {
  EXPECT_EQ(check_options(inherited, "outer", above).fence.number, 5u);
}

TEST(CheckOptions, for_a_lock_that_no_run_holds_have_the_fence_of_the_environment) {
  EXPECT_EQ(check_options(inherited, "other", above).fence.number, 7u);
}

TEST(CheckOptions, take_a_fence_on_the_command_line_first) {
  EXPECT_EQ(check_options(with({}, "fence", "9"), "outer", above).fence.number, 9u);
}

TEST(CheckOptions, inside_a_run_without_a_lock_have_fence_0) {
  EXPECT_EQ(check_options({}, std::nullopt, {"job", ""}).fence.number, 0u);
  EXPECT_EQ(check_options({}, "job", {"job", "job="}).fence.number, 0u);
}

TEST(CheckOptions, without_a_name_or_a_fence_are_refused) {
  EXPECT_THROW(check_options(inherited, std::nullopt, {}), UsageError);
  EXPECT_THROW(check_options({}, "job", {}), UsageError);
}

TEST(Fences, are_whole_numbers_from_1) {
  EXPECT_EQ(parsed_fence("1").number, 1u);
  EXPECT_EQ(parsed_fence("9223372036854775807").number, std::uint64_t{INT64_MAX});
  for (const auto* text :
       {"", "0", "-1", "+1", "1.0", "0x1", " 1", "1 ", "9223372036854775808"}) {
    EXPECT_THROW(parsed_fence(text), UsageError) << text;
  }
}

// break

TEST(BreakOptions, break_all_leases_and_ask_first_by_default) {
  const auto options = break_options({}, {"job"});

  EXPECT_EQ(options.names, std::vector<std::string>{"job"});
  EXPECT_FALSE(options.fence);
  EXPECT_FALSE(options.yes);
}

TEST(BreakOptions, a_fence_is_a_whole_number_from_1) {
  EXPECT_EQ(break_options(set("fence", "1795229894902870"), {"job"}).fence->number,
            1795229894902870u);
  for (const auto* text :
       {"", "0", "-1", "1.5", "x", "7x", " 7", "18446744073709551616"}) {
    EXPECT_THROW(parsed_fence(text), UsageError) << text;
  }
}

// list

using Form = ListOptions::Form;

TEST(ListOptions, default_to_a_table_of_all_locks) {
  const auto options = list_options({}, {});

  EXPECT_EQ(options.pattern, "*");
  EXPECT_EQ(options.form, Form::table);
}

TEST(ListOptions, choose_the_locks_their_order_and_the_form) {
  EXPECT_EQ(list_options({}, {"web-*"}).pattern, "web-*");
  EXPECT_TRUE(list_options(set("held", "true"), {}).held);
  EXPECT_EQ(list_options(set("sort", "age"), {}).order, ListOrder::age);
  EXPECT_EQ(list_options(set("json", "true"), {}).form, Form::json);
  EXPECT_EQ(list_options(set("prometheus", "true"), {}).form, Form::metrics);
  EXPECT_EQ(list_options(set("prometheus", "false"), {}).form, Form::table);
  EXPECT_EQ(list_options(set("live", "true"), {}).form, Form::live);
}

TEST(ListOptions, two_forms_from_the_same_source_are_refused) {
  for (const auto source : {Setting::Source::command_line, Setting::Source::file}) {
    const auto both = with(set("json", "true", source), "prometheus", "true", source);
    EXPECT_THROW(list_options(both, {}), UsageError);
    const auto live = with(set("json", "true", source), "live", "true", source);
    EXPECT_THROW(list_options(live, {}), UsageError);
  }
}

TEST(ListOptions, the_form_on_the_command_line_overrides_that_in_a_file) {
  const auto file = Setting::Source::file;
  const auto line = Setting::Source::command_line;

  EXPECT_EQ(
      list_options(with(set("json", "true", file), "prometheus", "true", line), {}).form,
      Form::metrics);
  EXPECT_EQ(
      list_options(with(set("json", "true", line), "prometheus", "true", file), {}).form,
      Form::json);
  EXPECT_EQ(list_options(with(set("json", "true", file), "live", "true", line), {}).form,
            Form::live);
  EXPECT_EQ(list_options(with(set("json", "true", line), "live", "true", file), {}).form,
            Form::json);
}

// cache

TEST(CacheOptions, default_to_a_ttl_of_5_minutes_and_an_endless_wait) {
  const auto options = cache_options({}, "report", {"make-report"});

  EXPECT_EQ(options.name, "cache:report");
  EXPECT_EQ(options.command, std::vector<std::string>{"make-report"});
  EXPECT_EQ(options.lifetime.ttl, milliseconds(300'000));
  EXPECT_EQ(options.lifetime.stale, milliseconds(0));
  EXPECT_EQ(options.max_size, 16u << 20);
  EXPECT_EQ(options.wait, milliseconds::max());
  EXPECT_FALSE(options.waits_for_store);
  EXPECT_EQ(options.conflict_exit_code, 75);
}

TEST(CacheOptions, wait_for_the_store_only_with_an_explicit_wait) {
  EXPECT_TRUE(cache_options(set("wait", "1m"), "key", {"true"}).waits_for_store);
  EXPECT_TRUE(cache_options(set("wait", "forever"), "key", {"true"}).waits_for_store);
  EXPECT_FALSE(cache_options(set("wait", "0"), "key", {"true"}).waits_for_store);
}

TEST(CacheOptions, need_either_a_command_or_forget) {
  EXPECT_TRUE(cache_options(set("forget", "true"), "key", {}).forget);
  EXPECT_THROW(cache_options({}, "key", {}), UsageError);
  EXPECT_THROW(cache_options(set("forget", "true"), "key", {"true"}), UsageError);
}

TEST(CacheOptions, a_key_leaves_room_for_the_prefix_of_the_lock_name) {
  EXPECT_EQ(cache_options({}, std::string(249, 'k'), {"true"}).name.size(), 255u);
  EXPECT_THROW(cache_options({}, std::string(250, 'k'), {"true"}), UsageError);
  EXPECT_THROW(cache_options({}, "", {"true"}), UsageError);
  EXPECT_THROW(cache_options({}, "a\nb", {"true"}), UsageError);
}

TEST(CacheOptions, a_ttl_of_0_is_refused) {
  EXPECT_EQ(cache_options(set("ttl", "1ms"), "key", {"true"}).lifetime.ttl.count(), 1);
  EXPECT_THROW(cache_options(set("ttl", "0"), "key", {"true"}), UsageError);
}

TEST(Sizes, are_bytes_or_have_a_unit) {
  EXPECT_EQ(parsed_size("0"), 0u);
  EXPECT_EQ(parsed_size("4096"), 4096u);
  EXPECT_EQ(parsed_size("1B"), 1u);
  EXPECT_EQ(parsed_size("500KB"), 500'000u);
  EXPECT_EQ(parsed_size("3KiB"), 3072u);
  EXPECT_EQ(parsed_size("2MB"), 2'000'000u);
  EXPECT_EQ(parsed_size("512MiB"), 512u << 20);
}

TEST(Sizes, over_512_mib_are_refused) {
  for (const auto* text : {"536870913", "513MiB", "1GiB", "1GB", "99999999999999999999",
                           "99999999999999999999GiB"}) {
    EXPECT_THROW(parsed_size(text), UsageError) << text;
  }
}

TEST(Sizes, that_are_malformed_are_refused) {
  for (const auto* text : {"", "x", "-1", "+1", "1.5MiB", "1 MiB", "1mb", "1M", "1MiBs",
                           "0x10", " 1", "MiB"}) {
    EXPECT_THROW(parsed_size(text), UsageError) << text;
  }
}

// The time limit of one operation

TEST(StoreTimeout, is_2_seconds_without_a_ttl) {
  EXPECT_EQ(store_timeout({}, std::nullopt), seconds(2));
}

TEST(StoreTimeout, is_a_tenth_of_a_short_ttl) {
  EXPECT_EQ(store_timeout({}, seconds(5)), milliseconds(500));
}

TEST(StoreTimeout, is_2_seconds_for_a_long_ttl) {
  EXPECT_EQ(store_timeout({}, hours(1)), seconds(2));
}

TEST(StoreTimeout, is_the_value_of_the_option) {
  EXPECT_EQ(store_timeout(common_with("store-timeout", "7s"), seconds(5)), seconds(7));
}

TEST(Rates, are_a_number_and_a_duration_or_a_unit) {
  EXPECT_EQ(parsed_rate("5/800ms"), (Rate{5, milliseconds(800)}));
  EXPECT_EQ(parsed_rate("1/s"), (Rate{1, seconds(1)}));
  EXPECT_EQ(parsed_rate("100/1m"), (Rate{100, seconds(60)}));
  EXPECT_EQ(parsed_rate("10000/1h30m"), (Rate{10'000, seconds(5400)}));
  EXPECT_EQ(parsed_rate("7/2"), (Rate{7, seconds(2)}));
  EXPECT_EQ(parsed_rate("3/ms"), (Rate{3, milliseconds(1)}));
  EXPECT_EQ(parsed_rate("5/min"), (Rate{5, seconds(60)}));
}

TEST(Rates, anything_else_is_refused) {
  for (const auto* text : {"",
                           "5",
                           "/",
                           "/s",
                           "5/",
                           "0/s",
                           "10001/s",
                           "-1/s",
                           "+1/s",
                           "1.5/s",
                           "1e3/s",
                           " 5/s",
                           "5 /s",
                           "5/ s",
                           "5/s ",
                           "5/0s",
                           "5/0",
                           "5/-1s",
                           "5/1x",
                           "5/x",
                           "5/s/s",
                           "5//s",
                           "5/forever",
                           "five/s",
                           "99999999999999999999/s",
                           "5/101d1000h1x",
                           "5/nan",
                           "5/200000d"}) {
    EXPECT_THROW(parsed_rate(text), UsageError) << text;
  }
}

TEST(LimitOptions, wait_only_if_told_to) {
  EXPECT_FALSE(limit_options({}, {"api", "1/s"}, {}).wait);
  Settings settings;
  settings["wait"] = {"0", Setting::Source::command_line, "--wait"};
  EXPECT_FALSE(limit_options(settings, {"api", "1/s"}, {}).wait);
  settings["wait"].value = "2s";
  EXPECT_EQ(limit_options(settings, {"api", "1/s"}, {}).wait, seconds(2));
  settings["wait"].value = "forever";
  EXPECT_EQ(limit_options(settings, {"api", "1/s"}, {}).wait, milliseconds::max());
}

}  // namespace
}  // namespace dlock
