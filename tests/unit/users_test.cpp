#include "util/users.hpp"

#include <gtest/gtest.h>
#include <pwd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "tests/unit/temporary_directory.hpp"

namespace dlock {
namespace {

TEST(Users, a_line_of_an_account_has_seven_fields) {
  const auto account = account_in("anna:x:1000:100:Anna A,,,:/home/anna:/bin/sh");

  ASSERT_TRUE(account);
  EXPECT_EQ(account->uid, 1000u);
  EXPECT_EQ(account->name, "anna");
  EXPECT_EQ(account->home, "/home/anna");
}

TEST(Users, all_fields_but_name_and_number_may_be_empty) {
  const auto account = account_in("anna::0::::");

  ASSERT_TRUE(account);
  EXPECT_EQ(account->uid, 0u);
  EXPECT_EQ(account->home, "");
}

TEST(Users, other_lines_are_not_accounts) {
  for (const std::string line :
       {"", "#", "+::::::", "anna", "anna:x:1000:100:Anna:/home/anna",
        ":x:1000:100::/:/bin/sh", "anna:x:1000:100:Anna:/home/anna:/bin/sh:more",
        "anna:x:one:100::/:/bin/sh", "anna:x:-1:100::/:/bin/sh",
        "anna:x:99999999999:100::/:/bin/sh", "anna:x: 1:100::/:/bin/sh"}) {
    EXPECT_FALSE(account_in(line)) << line;
  }
}

TEST(Users, every_account_of_this_machine_is_found) {
  std::map<uid_t, std::string> names;  // of the first account with each number
  std::FILE* file = std::fopen("/etc/passwd", "re");
  ASSERT_NE(file, nullptr);
  while (const auto* account = ::fgetpwent(file)) {
    names.emplace(account->pw_uid, account->pw_name);
  }
  std::fclose(file);

  EXPECT_FALSE(names.empty());
  for (const auto& [uid, name] : names) EXPECT_EQ(user_name(uid), name);
}

TEST(Users, an_unknown_account_is_shown_by_its_number) {
  EXPECT_EQ(user_name(4'000'000'123u), "4000000123");
  EXPECT_EQ(home_directory(4'000'000'123u), "");
}

class PrivateGroup : public ::testing::Test {
 protected:
  PrivateGroup() {
    std::ofstream(accounts_) << "root:x:0:0::/root:/bin/sh\n"
                                "sync:x:5:0::/:/bin/sync\n"
                                "anna:x:1000:1000::/:/bin/sh\n"
                                "bert:x:1001:100::/:/bin/sh\n"
                                "carl:x:1002:1002::/:/bin/sh\n";
  }

  bool is_private(gid_t gid, const std::string& groups, uid_t uid = 1000) const {
    std::ofstream(groups_) << groups;
    return is_private_group(gid, uid, accounts_.c_str(), groups_.c_str());
  }

 private:
  TemporaryDirectory root_;
  std::string accounts_ = root_.file("passwd");
  std::string groups_ = root_.file("group");
};

TEST_F(PrivateGroup, has_no_member_but_the_caller_and_root) {
  EXPECT_TRUE(is_private(1000, "anna:x:1000:\n"));
  EXPECT_TRUE(is_private(1000, "anna:x:1000:anna\n"));
  EXPECT_TRUE(is_private(1000, "anna:x:1000:root,anna"));
  EXPECT_TRUE(is_private(50, "staff:x:50:anna\n"));
  EXPECT_FALSE(is_private(1000, "anna:x:1000:bert\n"));
  EXPECT_FALSE(is_private(1000, "anna:x:1000:\nmore:x:1000:bert\n"));
  EXPECT_FALSE(is_private(1000, "anna:x:1000:\n", 0));
  EXPECT_FALSE(is_private(1002, "carl:x:1002:\n"));
  EXPECT_FALSE(is_private(100, "users:x:100:anna\n"));
}

TEST_F(PrivateGroup, is_not_one_that_the_files_do_not_tell_everything_about) {
  EXPECT_FALSE(is_private(1000, "other:x:7:\n"));
  EXPECT_FALSE(is_private(50, "staff:x:50:\n"));
  EXPECT_FALSE(is_private(1000, "anna:x:1000:of-a-directory\n"));
}

TEST_F(PrivateGroup, can_be_that_of_root) {
  EXPECT_TRUE(is_private(0, "root:x:0:\n"));
  EXPECT_TRUE(is_private(0, ""));
  EXPECT_TRUE(is_private(0, "root:x:0:anna\n"));
  EXPECT_FALSE(is_private(0, "root:x:0:bert\n"));
  EXPECT_FALSE(is_private(0, "root:x:0:sync\n"));
}

}  // namespace
}  // namespace dlock
