// The values of options: which are accepted, how they are parsed, and which are refused.

#include "cli/args/options.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace dlock {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string one; std::getline(stream, one, separator);) parts.push_back(one);
  return parts;
}

// Each of the texts between the bars.
template <typename Parse>
void expect_refused(Parse parse, const std::string& texts) {
  for (const auto& text : parts_of(texts, '|')) {
    EXPECT_THROW(parse(text), UsageError) << text;
  }
}

// Durations, numbers, names, fences, sizes and rates

TEST(Durations, are_numbers_with_units) {
  const std::pair<const char*, milliseconds> durations[] = {
      {"250ms", milliseconds(250)},
      {"0.5s 0.5", milliseconds(500)},
      {"0 0s", milliseconds(0)},
      {"30s 30", seconds(30)},
      {"1.5min2s", seconds(92)},
      {"5m 5min", minutes(5)},
      {"1h30m 1.5h 90m 1h30min", minutes(90)},
      {"2h", hours(2)},
      {"0.25d", hours(6)},
      {"1d", days(1)},
      {"36500d", days(36'500)},
      {"1d5ms", days(1) + milliseconds(5)},
      {"1d2h3m4s5ms", milliseconds(93'784'005)},
      {"0.1ms 0.0001", milliseconds(1)},  // rounded up
      {"1.0001s", milliseconds(1001)}};
  for (const auto& [texts, value] : durations) {
    for (const auto& text : parts_of(texts, ' ')) {
      EXPECT_EQ(parsed_duration(text), value) << text;
    }
  }
  for (int count = 0; count < 10'000; ++count) {
    char text[16];
    std::snprintf(text, sizeof text, "%d.%03ds", count / 1000, count % 1000);
    ASSERT_EQ(parsed_duration(text), milliseconds(count)) << text;
  }
}

TEST(Durations, anything_else_is_refused_in_one_line_that_shows_the_text) {
  expect_refused(
      parsed_duration,
      "| |s|ms|nan|NaN|inf|infinity|-1|-1s|+1s|1 s| 1s|1s |1x|1S|1sec|1w|1us|1e3|"
      "1e3s|0x10|1,5s|1.2.3s|.|..s|1h30|30m1h|1ms1s|1s1s|1h1h|1m1h1m|36700d|"
      "1e999|99999999999999999999d|forever|1s2|1\n|1s\xFF|5min5m|5m5min|1mins|"
      "1h-|1s5|5m5m|5x|soon|never|4000000d|\xEF\xBC\x91|" +
          std::string(500, '9'));
  try {
    parsed_duration("5\n\x1b[31mparsecs");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'5\\n\\x1b[31mparsecs' is not a duration: expected a number and ms, s, "
              "m, h or d, such as 5m or 1h30m");
  }
}

TEST(Numbers, are_digits_within_bounds) {
  const auto parse = [](const std::string& text) { return parsed_number(text, 1, 255); };
  EXPECT_EQ(parse("1"), 1u);
  EXPECT_EQ(parse("255"), 255u);
  expect_refused(parse,
                 "|0|256| |-1|+1|1 | 1|1.0|1e2|1.5|two|0x1|ten|4294967297|"
                 "99999999999999999999");
}

TEST(Names, are_1_to_255_bytes_of_printable_text) {
  for (const auto& name :
       {std::string("a"), std::string("nightly job"), std::string("-"), std::string("--"),
        std::string("a/b:c"), std::string("{}"), std::string("na\xC3\xAFve"),
        std::string("\xE6\x97\xA5\xE6\x9C\xAC"), std::string("\xF0\x9F\x94\x92"),
        std::string(255, 'x')}) {
    EXPECT_EQ(parsed_name(name), name);
  }
  std::string of_256_bytes;
  for (int i = 0; i < 128; ++i) of_256_bytes += "\xC3\xA9";
  expect_refused(parsed_name, "|" + std::string(256, 'x') + "|" + of_256_bytes);
  // Control characters
  expect_refused(parsed_name, "a\nb|a\tb|\r|\x1b[31m|a\x7f|\xC2\x80|\xC2\x9F|" +
                                  std::string("a\0b", 3));
  // No UTF-8: overlong, a surrogate, beyond Unicode, five bytes, truncated
  expect_refused(
      parsed_name,
      "\xFF|\x80|\xC3|a\xC3(|\xC0\xAF|\xE0\x80\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|"
      "\xF8\x88\x80\x80\x80|\xF0\x9F\x94");
  // U+202E, U+2066, U+200F, U+061C and U+2028 change the direction or the line.
  expect_refused(parsed_name,
                 "a\xE2\x80\xAE|a\xE2\x81\xA6|\xE2\x80\x8F|\xD8\x9C|\xE2\x80\xA8");
}

TEST(Fences, are_whole_numbers_from_1) {
  EXPECT_EQ(parsed_fence("1").number, 1u);
  EXPECT_EQ(parsed_fence("9223372036854775807").number, std::uint64_t{INT64_MAX});
  expect_refused(
      parsed_fence,
      "|0|-1|+1|1.0|1.5|0x1| 1|1 |x|7x|9223372036854775808|18446744073709551616");
}

TEST(Sizes, are_bytes_or_have_a_unit_and_are_at_most_512_mib) {
  constexpr std::pair<const char*, unsigned> sizes[] = {{"0", 0},
                                                        {"4096", 4096},
                                                        {"1B", 1},
                                                        {"500KB", 500'000},
                                                        {"3KiB", 3 * 1024},
                                                        {"2MB", 2'000'000},
                                                        {"512MiB", 512 << 20}};
  for (const auto& [text, size] : sizes) EXPECT_EQ(parsed_size(text), size) << text;
  expect_refused(
      parsed_size,
      "|536870913|513MiB|1GiB|1GB|99999999999999999999|99999999999999999999GiB|x|"
      "-1|+1|1.5MiB|1 MiB|1mb|1M|1MiBs|0x10| 1|MiB");
}

TEST(Rates, are_a_number_and_a_duration_or_a_unit) {
  constexpr std::pair<const char*, Rate> rates[] = {
      {"5/800ms", {5, milliseconds(800)}},
      {"1/s", {1, seconds(1)}},
      {"100/1m", {100, seconds(60)}},
      {"7/2", {7, seconds(2)}},
      {"10000/1h30m", {10'000, minutes(90)}},
      {"3/ms", {3, milliseconds(1)}},
      {"5/min", {5, seconds(60)}}};
  for (const auto& [text, rate] : rates) EXPECT_EQ(parsed_rate(text), rate) << text;
  expect_refused(
      parsed_rate,
      "|5|/|/s|5/|0/s|10001/s|-1/s|+1/s|1.5/s|1e3/s| 5/s|5 /s|5/ s|5/s |5/0s|5/0|"
      "5/-1s|5/1x|5/x|5/s/s|5//s|5/forever|five/s|99999999999999999999/s|"
      "5/101d1000h1x|5/nan|5/200000d");
}

// Settings, such as "ttl=5s shared file:slots=2": without a source from the command line,
// without a value "true".

Setting::Source source_in(const std::string& text) {
  if (text == "file") return Setting::Source::file;
  if (text == "environment") return Setting::Source::environment;
  throw std::logic_error("no source " + text);
}

Settings settings_in(const std::string& text) {
  Settings settings;
  for (auto word : parts_of(text, ' ')) {
    Setting setting{"true", Setting::Source::command_line, ""};
    const auto equals = std::min(word.find('='), word.size());
    if (equals < word.size()) setting.value = word.substr(equals + 1);
    word.resize(equals);
    if (const auto colon = word.find(':'); colon != std::string::npos) {
      setting.source = source_in(word.substr(0, colon));
      word.erase(0, colon + 1);
    }
    setting.origin = "--" + word;
    settings[word] = setting;
  }
  return settings;
}

CommonOptions common_with(const std::string& text) {
  return common_options(settings_in(text));
}
RunOptions run_options_with(const std::string& text) {
  return run_options(settings_in(text), "job", {"true"});
}

TEST(CommonOptions, have_the_defaults_of_the_manual) {
  const auto options = common_with("");

  EXPECT_EQ(options.store.kind->scheme, "local");
  EXPECT_EQ(options.store.path, "");
  EXPECT_EQ(options.name_space, "dlock");
  EXPECT_FALSE(options.store_timeout);
  EXPECT_FALSE(options.json || options.quiet || options.verbose);
  EXPECT_EQ(options.color, Color::automatic);
}

TEST(CommonOptions, take_each_setting) {
  EXPECT_EQ(common_with("store=local:/srv/locks").store.path, "/srv/locks");
  EXPECT_EQ(common_with("namespace=team").name_space, "team");
  EXPECT_EQ(common_with("store-timeout=3s").store_timeout, seconds(3));
  EXPECT_TRUE(common_with("json").json);
  EXPECT_TRUE(common_with("quiet").quiet);
  EXPECT_TRUE(common_with("verbose").verbose);
  EXPECT_FALSE(common_with("verbose=false").verbose);
  EXPECT_EQ(common_with("color=always").color, Color::always);
  EXPECT_EQ(common_with("color=never").color, Color::never);
  EXPECT_EQ(common_with("color=auto").color, Color::automatic);
  expect_refused(common_with,
                 "namespace=|store-timeout=0|store-timeout=soon|json=yes|color=blue");
}

TEST(CommonOptions, an_invalid_store_url_is_misconfigured_and_its_origin_is_named) {
  try {
    common_with("store=nfs:/x");
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    EXPECT_TRUE(std::string(failure.what()).starts_with("--store: ")) << failure.what();
  }
}

TEST(StoreTimeout, is_the_option_or_a_tenth_of_the_ttl_and_at_most_2_seconds) {
  EXPECT_EQ(store_timeout({}, std::nullopt), seconds(2));
  EXPECT_EQ(store_timeout({}, seconds(5)), milliseconds(500));
  EXPECT_EQ(store_timeout({}, hours(1)), seconds(2));
  EXPECT_EQ(store_timeout(common_with("store-timeout=7s"), seconds(5)), seconds(7));
}

// The login to the store

std::string text_of_login(const Login& login) {
  return login.user + ' ' + login.password.value_or("-") + ' ' + login.password_file;
}

TEST(Login, is_of_the_url_unless_an_option_or_the_environment_says_otherwise) {
  constexpr std::pair<const char*, const char*> logins[] = {
      {"", "alice secret "},
      {"user=bob", "bob secret "},
      {"environment:password=word", "alice word "},
      {"password-file=/f", "alice - /f"},
      {"environment:password-file=/f environment:password=word", "alice - /f"},
      {"file:password-file=/f environment:password=word", "alice word "}};
  for (const auto& [text, login] : logins) {
    const auto all = "store=redis://alice:secret@host " + std::string(text);
    EXPECT_EQ(text_of_login(common_with(all).store.login), login) << text;
  }
  expect_refused(common_with, "user=|user=a\nb|password-file=|password-file=" +
                                  std::string("/a\0b", 4));
}

StoreUrl sentinels_with(const std::string& text) {
  return common_with("store=rediss+sentinel://a,b/name " + text).store;
}

TEST(SentinelLogin, is_separate_from_the_login_of_the_servers) {
  const auto url = sentinels_with(
      "user=alice sentinel-user=watch environment:password=pw "
      "environment:sentinel-password=word");

  EXPECT_EQ(text_of_login(url.login), "alice pw ");
  EXPECT_EQ(text_of_login(url.sentinel_login), "watch word ");
}

TEST(SentinelLogin, takes_its_password_from_one_source) {
  constexpr std::pair<const char*, const char*> logins[] = {{"environment", " - /f"},
                                                            {"file", " word "}};
  for (const auto& [source, login] : logins) {
    const auto url = sentinels_with("environment:sentinel-password=word " +
                                    std::string(source) + ":sentinel-password-file=/f");
    EXPECT_EQ(text_of_login(url.sentinel_login), login);
  }
  expect_refused(common_with,
                 "sentinel-user=|sentinel-user=a\nb|sentinel-password-file=");
}

TEST(SentinelTls, is_on_unless_it_is_switched_off) {
  EXPECT_TRUE(sentinels_with("").sentinel_tls);
  EXPECT_TRUE(sentinels_with("sentinel-tls=true").sentinel_tls);
  EXPECT_FALSE(sentinels_with("sentinel-tls=false").sentinel_tls);
  EXPECT_TRUE(sentinels_with("sentinel-tls=false").tls);
  expect_refused(common_with, "sentinel-tls=perhaps|sentinel-tls=");
}

TEST(Replicas, are_none_some_or_all) {
  EXPECT_EQ(sentinels_with("").replicas, Replicas{});
  EXPECT_EQ(sentinels_with("replicas=0").replicas, Replicas{});
  EXPECT_EQ(sentinels_with("replicas=15").replicas, (Replicas{.count = 15}));
  EXPECT_EQ(sentinels_with("replicas=all").replicas, (Replicas{.all = true}));
  expect_refused(
      common_with,
      "replicas=|replicas=-1|replicas=16|replicas=1.5|replicas=ALL|replicas=some");
}

TEST(Tls, has_the_values_of_its_options) {
  const auto url = common_with(
                       "store=rediss://host tls-ca=/ca tls-cert=/cert tls-key=/key "
                       "tls-name=db.example.org tls-insecure")
                       .store;

  ASSERT_TRUE(url.tls);
  EXPECT_EQ(url.tls->ca, "/ca");
  EXPECT_EQ(url.tls->certificate, "/cert");
  EXPECT_EQ(url.tls->key, "/key");
  EXPECT_EQ(url.tls->name, "db.example.org");
  EXPECT_TRUE(url.tls->insecure);
  EXPECT_FALSE(common_with("store=rediss://host").store.tls->insecure);
}

TEST(Tls, is_never_switched_on_or_off_by_its_options) {
  for (const std::string url : {"redis://host", "redis+unix:/path"}) {
    EXPECT_FALSE(common_with("store=" + url + " tls-ca=/ca tls-insecure=false").store.tls)
        << url;
  }
  for (const std::string url : {"local:", "local:/x", "none:"}) {
    EXPECT_FALSE(common_with("store=" + url + " tls-insecure").store.is_insecure())
        << url;
  }
}

TEST(Tls, half_a_pair_is_attributed_to_its_source) {
  for (const std::string name : {"tls-cert=/half", "tls-key=/half"}) {
    for (const bool from_file : {false, true}) {
      try {
        common_with((from_file ? "file:" : "") + name);
        FAIL() << "accepted";
      } catch (const UsageError& error) {
        EXPECT_EQ(error.from_file(), from_file);
      }
    }
  }
}

TEST(Tls, invalid_values_are_refused) {
  expect_refused(common_with,
                 "tls-ca=|tls-cert=|tls-key=|tls-insecure=perhaps|tls-name=|tls-name=a\n|"
                 "tls-name=a\tb|tls-name=h\xC3\xB6st|tls-name=*|tls-name=a/b|tls-name=" +
                     std::string(256, 'x'));
}

// run

TEST(RunOptions, have_the_defaults_of_the_manual) {
  const auto options = run_options_with("");

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
  EXPECT_EQ(run_options_with("wait=5m").wait, minutes(5));
  EXPECT_EQ(run_options_with("wait=forever").wait, milliseconds::max());
  EXPECT_FALSE(run_options_with("wait=0").wait);
  EXPECT_EQ(run_options_with("ttl=500ms").ttl, milliseconds(500));
  EXPECT_EQ(run_options_with("slots=3").slots, 3u);
  EXPECT_EQ(run_options_with("shared=false slots=2").slots, 2u);
  EXPECT_TRUE(run_options_with("shared").shared);
  EXPECT_EQ(run_options_with("conflict-exit-code=0").conflict_exit_code, 0);
  EXPECT_EQ(run_options_with("conflict-exit-code=255").conflict_exit_code, 255);
  EXPECT_EQ(run_options_with("dedupe=1h").dedupe->window, hours(1));
  EXPECT_EQ(run_options_with("dedupe=30d").dedupe->window, days(30));
  EXPECT_TRUE(run_options_with("dedupe=1h slots=1").dedupe);
  EXPECT_FALSE(run_options_with("dedupe=0 retry-failed shared").dedupe);
  EXPECT_FALSE(run_options_with("dedupe=1h").dedupe->retry_failed);
  EXPECT_TRUE(run_options_with("dedupe=1h retry-failed").dedupe->retry_failed);
  EXPECT_EQ(run_options_with("min-hold=2m").min_hold, minutes(2));
  EXPECT_EQ(run_options_with("min-hold=30d").min_hold, days(30));
  EXPECT_EQ(run_options_with("jitter=1m").jitter, minutes(1));
  EXPECT_TRUE(run_options_with("reclaim").reclaim);
  EXPECT_EQ(run_options_with("lock-delay=10s").lock_delay, seconds(10));
  EXPECT_EQ(run_options_with("label=blue").description.label, "blue");
  EXPECT_EQ(run_options_with("report=out.json").report, "out.json");
  EXPECT_EQ(run_options_with("timeout=2h").supervision.timeout, hours(2));
  EXPECT_EQ(run_options_with("kill-after=0").supervision.kill_after, milliseconds(0));
  EXPECT_TRUE(run_options_with("kill-after=5s").supervision.kill_after_forwarded);
  EXPECT_EQ(run_options_with("stragglers=wait").supervision.stragglers, Stragglers::wait);
  EXPECT_EQ(run_options_with("stragglers=kill").supervision.stragglers, Stragglers::kill);
  EXPECT_EQ(run_options_with("stragglers=leave").supervision.stragglers,
            Stragglers::leave);
}

TEST(RunOptions, refuse_invalid_values_and_what_does_not_go_together) {
  EXPECT_THROW(run_options({}, "", {"true"}), UsageError);
  expect_refused(
      run_options_with,
      "wait=-1|wait=for_ever|ttl=499ms|ttl=0|ttl=forever|slots=0|slots=-1|"
      "shared=1|conflict-exit-code=256|reclaim=1|lock-delay=forever|"
      "label=two\nlines|label=|report=|timeout=0|timeout=forever|"
      "stragglers=adopt|shared slots=2|dedupe=721h|dedupe=forever|min-hold=721h|"
      "retry-failed|dedupe=1h shared|dedupe=1h slots=2");
}

TEST(RunOptions, a_mistake_is_from_the_file_if_its_settings_are) {
  constexpr std::pair<const char*, bool> mistakes[] = {
      {"ttl=0", false},
      {"environment:ttl=0", false},
      {"file:ttl=0", true},
      {"file:shared=maybe", true},
      {"file:shared file:slots=2", true}};
  for (const auto& [text, from_file] : mistakes) {
    try {
      run_options_with(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.from_file(), from_file) << text;
    }
  }
  auto settings = settings_in("file:ttl=0");
  settings.at("ttl").origin = "/etc/dlock/config.toml: run.ttl";
  try {
    run_options(settings, "job", {"true"});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "/etc/dlock/config.toml: run.ttl: must be at least 500ms");
  }
}

// acquire, renew and release

AcquireOptions acquire_with(const std::string& text) {
  return acquire_options(settings_in(text), "job");
}

TEST(AcquireOptions, include_the_claim_and_the_process_to_renew_it_for) {
  const auto options = acquire_with("for-pid=4711 ttl=5s wait=forever");

  EXPECT_EQ(options.name, "job");
  EXPECT_EQ(options.for_pid, 4711);
  EXPECT_EQ(options.ttl, seconds(5));
  EXPECT_EQ(options.wait, milliseconds::max());
  expect_refused(
      acquire_with,
      "for-pid=|for-pid=0|for-pid=-1|for-pid=1x|for-pid=self|for-pid=2147483648");
}

TEST(AcquireOptions, choose_between_a_token_json_and_variables) {
  using Form = AcquireOptions::Form;
  EXPECT_EQ(acquire_with("").form, Form::token);
  EXPECT_EQ(acquire_with("json").form, Form::json);
  EXPECT_EQ(acquire_with("export").form, Form::variables);
  EXPECT_EQ(acquire_with("export=false").form, Form::token);
  EXPECT_EQ(acquire_with("file:json export").form, Form::variables);
  EXPECT_EQ(acquire_with("file:export json").form, Form::json);
  expect_refused(acquire_with, "json export|file:json file:export");
}

const std::string some_token = "000102030405060708090a0b0c0d0e0f";

LeaseOptions lease_with(const std::string& text) {
  return lease_options(settings_in(text), "job");
}

TEST(LeaseOptions, have_a_token_and_no_ttl_of_their_own) {
  EXPECT_EQ(text_of(lease_with("token=" + some_token).token), some_token);
  EXPECT_FALSE(lease_with("token=" + some_token).ttl);
  expect_refused(lease_with, "|token=" + some_token + " token-file=/nonexistent");
}

TEST(LeaseOptions, an_invalid_token_is_refused_and_not_repeated) {
  try {
    lease_with("token=secret");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
  }
}

TEST(LeaseOptions, the_environment_is_between_the_command_line_and_the_file) {
  const auto token = "environment:token=" + some_token;

  EXPECT_THROW(lease_with(token + " token-file=/nonexistent"), Failure);
  EXPECT_EQ(text_of(lease_with(token + " file:token-file=/nonexistent").token),
            some_token);
}

// check, break and list

TEST(CheckOptions, have_the_fence_of_the_command_line_or_of_the_enclosing_run) {
  // The outer run holds `inner` with fence 7, and a run outside it `outer` with 5.
  const RunAbove above{"inner", "outer=5 inner=7"};
  const auto inherited = settings_in("environment:fence=7");
  const auto own = check_options(inherited, std::nullopt, above);

  EXPECT_EQ(own.name, "inner");
  EXPECT_EQ(own.fence.number, 7u);
  EXPECT_EQ(own.min_validity, seconds(0));
  EXPECT_EQ(check_options(inherited, "outer", above).fence.number, 5u);
  EXPECT_EQ(check_options(inherited, "other", above).fence.number, 7u);
  EXPECT_EQ(check_options(settings_in("fence=9"), "outer", above).fence.number, 9u);
  // In a run without a lock
  EXPECT_EQ(check_options({}, std::nullopt, {"job", ""}).fence.number, 0u);
  EXPECT_EQ(check_options({}, "job", {"job", "job="}).fence.number, 0u);
  // Without a name or a fence
  EXPECT_THROW(check_options(inherited, std::nullopt, {}), UsageError);
  EXPECT_THROW(check_options({}, "job", {}), UsageError);
}

TEST(BreakOptions, break_all_leases_and_ask_first_by_default) {
  const auto options = break_options({}, {"job"});

  EXPECT_EQ(options.names, std::vector<std::string>{"job"});
  EXPECT_FALSE(options.fence);
  EXPECT_FALSE(options.yes);
  const auto of_one = break_options(settings_in("fence=1795229894902870"), {"job"});
  EXPECT_EQ(of_one.fence->number, 1795229894902870u);
}

ListOptions list_with(const std::string& text) {
  return list_options(settings_in(text), {});
}

TEST(ListOptions, choose_the_locks_and_their_order) {
  EXPECT_EQ(list_with("").pattern, "*");
  EXPECT_EQ(list_options({}, {"web-*"}).pattern, "web-*");
  EXPECT_TRUE(list_with("held").held);
  EXPECT_EQ(list_with("sort=age").order, ListOrder::age);
}

TEST(ListOptions, choose_one_form_the_command_line_before_the_file) {
  using Form = ListOptions::Form;
  constexpr std::pair<const char*, Form> forms[] = {
      {"", Form::table},
      {"json", Form::json},
      {"prometheus", Form::metrics},
      {"prometheus=false", Form::table},
      {"live", Form::live},
      {"file:json prometheus", Form::metrics},
      {"json file:prometheus", Form::json},
      {"file:json live", Form::live},
      {"json file:live", Form::json}};
  for (const auto& [text, form] : forms) EXPECT_EQ(list_with(text).form, form) << text;
  expect_refused(
      list_with,
      "json prometheus|json live|file:json file:prometheus|file:json file:live");
}

// cache and limit

CacheOptions cache_with(const std::string& text) {
  return cache_options(settings_in(text), "key", {"true"});
}

TEST(CacheOptions, default_to_a_ttl_of_5_minutes_and_an_endless_wait) {
  const auto options = cache_options({}, "report", {"make-report"});

  EXPECT_EQ(options.name, "cache:report");
  EXPECT_EQ(options.command, std::vector<std::string>{"make-report"});
  EXPECT_EQ(options.lifetime.ttl, minutes(5));
  EXPECT_EQ(options.lifetime.stale, milliseconds(0));
  EXPECT_EQ(options.max_size, 16u << 20);
  EXPECT_EQ(options.wait, milliseconds::max());
  EXPECT_FALSE(options.waits_for_store);
  EXPECT_EQ(options.conflict_exit_code, 75);
}

TEST(CacheOptions, wait_for_the_store_only_with_an_explicit_wait) {
  EXPECT_TRUE(cache_with("wait=1m").waits_for_store);
  EXPECT_TRUE(cache_with("wait=forever").waits_for_store);
  EXPECT_FALSE(cache_with("wait=0").waits_for_store);
}

TEST(CacheOptions, need_a_key_a_ttl_and_either_a_command_or_forget) {
  EXPECT_EQ(cache_with("ttl=1ms").lifetime.ttl, milliseconds(1));
  EXPECT_TRUE(cache_options(settings_in("forget"), "key", {}).forget);
  EXPECT_THROW(cache_options({}, "key", {}), UsageError);
  expect_refused(cache_with, "ttl=0|forget");
  // A key leaves room for the prefix of the name.
  const auto name_of = [](const std::string& key) {
    return cache_options({}, key, {"true"}).name;
  };
  EXPECT_EQ(name_of(std::string(249, 'k')).size(), 255u);
  expect_refused(name_of, "|a\nb|" + std::string(250, 'k'));
}

TEST(LimitOptions, wait_only_if_told_to) {
  const auto wait_with = [](const std::string& text) {
    return limit_options(settings_in(text), {"api", "1/s"}, {}).wait;
  };
  EXPECT_FALSE(wait_with(""));
  EXPECT_FALSE(wait_with("wait=0"));
  EXPECT_EQ(wait_with("wait=2s"), seconds(2));
  EXPECT_EQ(wait_with("wait=forever"), milliseconds::max());
}

}  // namespace
}  // namespace dlock
