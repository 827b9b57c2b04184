// Hints: a read returns what was written, or nothing.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "store/redis_cluster/cluster_members.hpp"
#include "tests/unit/temporary_directory.hpp"

namespace dlock::redis_cluster {
namespace {

const ServerAddress some{"127.0.0.1", 6379};
const ServerAddress others[] = {{"::1", 1}, {"db-1.example.org", 65535}};

TEST(HintText, is_read_as_it_was_written) {
  EXPECT_EQ(hint_from(hint_text(some)), some);
  for (const auto& other : others) EXPECT_EQ(hint_from(hint_text(other)), other);
}

TEST(HintText, that_is_truncated_is_invalid) {
  const auto text = hint_text(some);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(hint_from(text.substr(0, size))) << size;
  }
}

TEST(HintText, in_any_other_form_is_invalid) {
  const std::string none[] = {"",
                              "\n",
                              "127.0.0.1\n",
                              "127.0.0.1:0\n",
                              "127.0.0.1:65536\n",
                              "127.0.0.1:06379\n",
                              "::1:6379\n",
                              "user@127.0.0.1:6379\n",
                              "/tmp/socket:1\n",
                              "a b:6379\n",
                              "127.0.0.1:6379 ab\n",
                              "127.0.0.1:6379\n\n",
                              std::string(600, 'a') + ":6379\n",
                              std::string("127.0.0.1\0:6379\n", 16)};
  for (const auto& text : none) EXPECT_FALSE(hint_from(text)) << text;
}

TEST(HintName, reveals_neither_url_nor_lock_and_is_one_of_few_for_a_url) {
  const std::string url = "redis+cluster://secret.example.org";
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.insert(hint_name(url, {"dlock", "job " + std::to_string(i)}));
  }

  EXPECT_EQ(names.size(), 64U);
  for (const auto& name : names) {
    EXPECT_EQ(name.find("secret"), std::string::npos) << name;
    EXPECT_EQ(name.find("job"), std::string::npos) << name;
  }
  const LockName lock{"dlock", "job"};
  EXPECT_NE(hint_name(url, lock), hint_name(url + "2", lock));
}

class HintFileTest : public testing::Test {
 protected:
  HintFile file() const { return {directory_.path(), "name"}; }
  std::string folder() const { return directory_.file("dlock"); }
  std::string path() const { return folder() + "/name"; }

  void put(const std::string& text, mode_t mode) const {
    ::mkdir(folder().c_str(), 0700);
    std::ofstream(path()) << text;
    ::chmod(path().c_str(), mode);
  }

  TemporaryDirectory directory_;
};

TEST_F(HintFileTest, has_what_was_written_and_is_private_to_its_owner) {
  file().write(some);

  EXPECT_EQ(file().read(), some);
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(HintFileTest, is_written_only_if_the_hint_changes) {
  auto hints = file();
  hints.write(others[0]);
  ::unlink(path().c_str());
  hints.write(others[0]);
  EXPECT_FALSE(std::filesystem::exists(path()));

  hints.write(some);

  EXPECT_EQ(file().read(), some);
}

TEST_F(HintFileTest, leaves_no_temporary_file_behind) {
  file().write(some);
  file().write(others[0]);

  const std::filesystem::directory_iterator all(folder());
  EXPECT_EQ(std::distance(begin(all), end(all)), 1);
}

TEST_F(HintFileTest, that_is_a_link_is_ignored_and_its_target_is_left_alone) {
  put(hint_text(others[0]), 0600);
  const auto elsewhere = directory_.file("elsewhere");
  std::filesystem::rename(path(), elsewhere);
  std::filesystem::create_symlink(elsewhere, path());
  EXPECT_FALSE(file().read());

  file().write(some);

  std::string found;
  std::getline(std::ifstream(elsewhere), found);
  EXPECT_EQ(found + "\n", hint_text(others[0]));
}

TEST_F(HintFileTest, that_others_may_write_is_ignored) {
  put(hint_text(some), 0620);
  EXPECT_FALSE(file().read());
  put(hint_text(some), 0600);
  EXPECT_TRUE(file().read());

  ::chmod(folder().c_str(), 0770);
  EXPECT_FALSE(file().read());
}

TEST_F(HintFileTest, in_a_directory_that_others_may_write_to_is_ignored) {
  put(hint_text(some), 0600);
  for (const mode_t mode : {0770, 0702, 02770}) {
    ::chmod(directory_.path().c_str(), mode);
    EXPECT_FALSE(file().read()) << mode;
  }
}

TEST_F(HintFileTest, without_a_directory_does_nothing) {
  HintFile none("", "name");
  none.write(some);
  HintFile missing(directory_.file("missing"), "name");
  missing.write(some);

  EXPECT_FALSE(HintFile("", "name").read());
  EXPECT_FALSE(std::filesystem::exists(directory_.file("missing")));
}

TEST_F(HintFileTest, that_is_too_long_or_not_a_regular_file_is_ignored) {
  put(hint_text(some) + std::string(10'000, 'x'), 0600);
  EXPECT_FALSE(file().read());
  ::unlink(path().c_str());
  ::mkfifo(path().c_str(), 0600);
  EXPECT_FALSE(file().read());
}

}  // namespace
}  // namespace dlock::redis_cluster
