// What counts as a password in a file, and which files keep it secret.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "store/store_url.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "util/failure.hpp"
#include "util/fd.hpp"
#include "util/small_file.hpp"

namespace dlock {
namespace {

std::optional<std::string> password(const std::string& content) {
  try {
    return password_from(content);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::misconfigured);
    EXPECT_EQ(std::string(failure.what()).find("s3cret"), std::string::npos);
    return std::nullopt;
  }
}

TEST(PasswordFrom, takes_the_only_line) {
  for (const std::string content :
       {"s3cret", "s3cret\n", "s3cret\r\n", "s3cret\r", "s3cret\n\n\n", "s3cret\r\n\r\n",
        "\xEF\xBB\xBFs3cret\n"}) {
    EXPECT_EQ(password(content), "s3cret") << content;
  }
}

TEST(PasswordFrom, keeps_blanks_and_characters_outside_ascii) {
  EXPECT_EQ(password("  s3 cret \t\n"), "  s3 cret \t");
  EXPECT_EQ(password(" \n"), " ");
  EXPECT_EQ(password("pass\xC3\xA9\n"), "pass\xC3\xA9");
}

TEST(PasswordFrom, refuses_what_is_no_line_of_text) {
  using namespace std::string_literals;
  for (const auto& content :
       {""s, "\n"s, "\r\n"s, "\xEF\xBB\xBF"s, "\xEF\xBB\xBF\n"s, "s3cret\nmore"s,
        "\ns3cret"s, "s3cret\r\nmore\r\n"s, "s3cret\rmore"s, "s3\0cret"s, "s3cret\0"s,
        "\xFF\xFEs\0003\0"s}) {
    EXPECT_FALSE(password(content)) << content;
  }
}

TEST(PasswordFile, is_a_small_regular_file_or_a_pipe) {
  const TemporaryDirectory root;
  const auto kind_of = [](const std::string& path) {
    try {
      password_in(path);
    } catch (const Failure& failure) {
      EXPECT_TRUE(std::string(failure.what()).starts_with("password file " + path + ": "))
          << failure.what();
      return std::optional(failure.kind());
    }
    return std::optional<Failure::Kind>();
  };
  std::ofstream(root.file("large")) << std::string(10'000'000, 'x');

  EXPECT_EQ(kind_of(root.path()), Failure::Kind::misconfigured);
  EXPECT_EQ(kind_of(root.file("missing")), Failure::Kind::misconfigured);
  EXPECT_EQ(kind_of(root.file("large")), Failure::Kind::misconfigured);
  EXPECT_EQ(kind_of("/dev/zero"), Failure::Kind::misconfigured);
  EXPECT_EQ(kind_of("/dev/null"), Failure::Kind::misconfigured);
}

TEST(PasswordFile, a_pipe_is_read_once_and_remembered) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd out(ends[0]);
  Fd in(ends[1]);
  ASSERT_TRUE(write_all(in.get(), "s3cret\n"));
  in.reset();
  const auto path = "/dev/fd/" + std::to_string(out.get());

  EXPECT_EQ(password_in(path), "s3cret");
  EXPECT_EQ(password_in(path), "s3cret");
}

struct ExposureCase {
  const char* what;
  SecretFacts facts;
  uid_t caller;
  Exposure exposure;
};

TEST(Exposure, is_judged_by_who_can_read_the_file_and_who_can_change_that) {
  constexpr uid_t me = 1000;
  constexpr uid_t other = 1001;
  const std::vector<ExposureCase> cases{
      {"own", {0600, me, true, false}, me, Exposure::none},
      {"a group's", {0640, me, true, false}, me, Exposure::none},
      {"root's for a group of ours", {0640, 0, true, false}, me, Exposure::none},
      {"systemd's", {0440, 0, true, true}, me, Exposure::none},
      {"own, for everyone", {0644, me, true, false}, me, Exposure::correctable},
      {"own, in a closed directory", {0644, me, false, false}, me, Exposure::none},
      {"own, on a read-only mount", {0644, me, true, true}, me, Exposure::given},
      {"root's, for everyone", {0444, 0, true, false}, me, Exposure::given},
      {"another's, for everyone", {0444, other, true, false}, me, Exposure::given},
      {"as root", {0444, 0, true, false}, 0, Exposure::correctable},
      {"another's, as root", {0444, other, true, false}, 0, Exposure::correctable},
      {"as root, on a read-only mount", {0444, 0, true, true}, 0, Exposure::given},
  };

  for (const auto& one : cases) {
    EXPECT_EQ(exposure_of(one.facts, one.caller), one.exposure) << one.what;
  }
}

}  // namespace
}  // namespace dlock
