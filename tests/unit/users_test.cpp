#include "util/users.hpp"

#include <gtest/gtest.h>
#include <pwd.h>

#include <cstdio>
#include <map>
#include <string>

namespace dlock {
namespace {

TEST(Users, a_line_of_the_accounts_has_seven_fields) {
  const auto account = account_in("anna:x:1000:100:Anna A,,,:/home/anna:/bin/sh");

  ASSERT_TRUE(account);
  EXPECT_EQ(account->uid, 1000u);
  EXPECT_EQ(account->name, "anna");
  EXPECT_EQ(account->home, "/home/anna");
}

TEST(Users, fields_may_be_empty_but_for_name_and_number) {
  const auto account = account_in("anna::0::::");

  ASSERT_TRUE(account);
  EXPECT_EQ(account->uid, 0u);
  EXPECT_EQ(account->home, "");
}

TEST(Users, other_lines_are_none_of_an_account) {
  for (const std::string line :
       {"", "#", "+::::::", "anna", "anna:x:1000:100:Anna:/home/anna",
        ":x:1000:100::/:/bin/sh", "anna:x:1000:100:Anna:/home/anna:/bin/sh:more",
        "anna:x:one:100::/:/bin/sh", "anna:x:-1:100::/:/bin/sh",
        "anna:x:99999999999:100::/:/bin/sh", "anna:x: 1:100::/:/bin/sh"}) {
    EXPECT_FALSE(account_in(line)) << line;
  }
}

TEST(Users, every_account_of_this_machine_is_found) {
  std::map<uid_t, std::string> names;  // two may share a number, and then it is the first
  std::FILE* file = std::fopen("/etc/passwd", "re");
  ASSERT_NE(file, nullptr);
  while (const auto* account = ::fgetpwent(file)) {
    names.emplace(account->pw_uid, account->pw_name);
  }
  std::fclose(file);

  EXPECT_FALSE(names.empty());
  for (const auto& [uid, name] : names) EXPECT_EQ(user_name(uid), name);
}

TEST(Users, an_account_that_is_not_listed_is_shown_by_its_number) {
  EXPECT_EQ(user_name(4'000'000'123u), "4000000123");
  EXPECT_EQ(home_directory(4'000'000'123u), "");
}

}  // namespace
}  // namespace dlock
