#include "util/users.hpp"

#include <gtest/gtest.h>
#include <pwd.h>

#include <cstdio>
#include <map>
#include <string>

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

}  // namespace
}  // namespace dlock
