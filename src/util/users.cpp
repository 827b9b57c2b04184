#include "util/users.hpp"

#include <pwd.h>

#include <cstdio>
#include <memory>

namespace dlock {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

template <typename Found>
bool find_account(uid_t uid, Found found) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen("/etc/passwd", "re"));
  if (!file) return false;
  while (const passwd* account = ::fgetpwent(file.get())) {
    if (account->pw_uid != uid) continue;
    found(*account);
    return true;
  }
  return false;
}

}  // namespace

std::string user_name(uid_t uid) {
  std::string name;
  find_account(uid, [&](const passwd& account) { name = account.pw_name; });
  return name.empty() ? std::to_string(uid) : name;
}

std::string home_directory(uid_t uid) {
  std::string home;
  find_account(uid, [&](const passwd& account) { home = account.pw_dir; });
  return home;
}

}  // namespace dlock
