#include "util/users.hpp"

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <set>

#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// Calls `use` with each line of the file until it returns true.
template <typename Use>
void for_each_line(const char* path, Use use) {
  const auto text = text_of(path);
  for (const auto line : split(text, '\n')) {
    if (use(line)) return;
  }
}

template <typename Found>
void find_account(uid_t uid, Found found) {
  for_each_line("/etc/passwd", [&](std::string_view line) {
    const auto account = account_in(line);
    if (!account || account->uid != uid) return false;
    found(*account);
    return true;
  });
}

struct Group {
  gid_t gid = 0;
  std::string_view name;
  std::string_view members;  // separated by commas
};

// The group in a line of group(5).
std::optional<Group> group_in(std::string_view line) {
  const auto fields = split(line, ':');
  if (fields.size() != 4 || fields[0].empty()) return std::nullopt;
  const auto gid = number_in<gid_t>(fields[2]);
  return gid ? std::optional(Group{*gid, fields[0], fields[3]}) : std::nullopt;
}

}  // namespace

std::optional<Account> account_in(std::string_view line) {
  const auto fields = split(line, ':');
  if (fields.size() != 7 || fields[0].empty()) return std::nullopt;
  const auto uid = number_in<uid_t>(fields[2]);
  if (!uid) return std::nullopt;
  // An account with an invalid group has none that a file could belong to.
  const auto gid = number_in<gid_t>(fields[3]).value_or(static_cast<gid_t>(-1));
  return Account{*uid, gid, fields[0], fields[5]};
}

std::string user_name(uid_t uid) {
  std::string name;
  find_account(uid, [&](const Account& account) { name = account.name; });
  return name.empty() ? std::to_string(uid) : name;
}

const std::string& own_user() {
  static const std::string user = user_name(::geteuid());
  return user;
}

std::string home_directory(uid_t uid) {
  std::string home;
  find_account(uid, [&](const Account& account) { home = account.home; });
  return home;
}

std::string group_name(gid_t gid) {
  std::string name;
  for_each_line("/etc/group", [&](std::string_view line) {
    const auto group = group_in(line);
    if (group && group->gid == gid) name = group->name;
    return !name.empty();
  });
  return name.empty() ? std::to_string(gid) : name;
}

bool is_private_group(gid_t gid, uid_t uid, const char* accounts, const char* groups) {
  // Distributions put accounts such as sync and halt into root's group, with the numbers
  // that they reserve for themselves.
  constexpr uid_t first_not_reserved = 100;
  bool is_listed = false;
  std::set<std::string, std::less<>> members;
  for_each_line(groups, [&](std::string_view line) {
    const auto group = group_in(line);
    if (!group || group->gid != gid) return false;
    is_listed = true;
    for (const auto member : split(group->members, ',')) {
      if (!member.empty()) members.emplace(member);
    }
    return false;  // it may have a second line
  });
  if (!is_listed && gid != 0) return false;
  bool has_others = false;
  bool has_ours = gid == 0;
  for_each_line(accounts, [&](std::string_view line) {
    const auto account = account_in(line);
    if (!account) return false;
    const auto member = members.find(account->name);
    const bool is_named = member != members.end();
    if (is_named) members.erase(member);
    if (!is_named && account->gid != gid) return false;
    const bool is_ours = account->uid == 0 || account->uid == uid;
    if (is_ours) has_ours = true;
    const bool is_reserved = gid == 0 && !is_named && account->uid < first_not_reserved;
    has_others = has_others || (!is_ours && !is_reserved);
    return has_others;
  });
  return has_ours && !has_others && members.empty();
}

bool is_unmapped_user(uid_t uid) {
  uid_t shown = 65534;
  for_each_line("/proc/sys/kernel/overflowuid", [&](std::string_view line) {
    shown = number_in<uid_t>(line).value_or(shown);
    return true;
  });
  if (uid != shown) return false;
  bool is_mapped = false;
  bool is_known = false;
  for_each_line("/proc/self/uid_map", [&](std::string_view line) {
    unsigned long inside = 0, outside = 0, count = 0;
    if (std::sscanf(std::string(line).c_str(), "%lu %lu %lu", &inside, &outside,
                    &count) != 3) {
      return false;
    }
    is_known = true;
    is_mapped = is_mapped || (uid >= inside && uid - inside < count);
    return false;
  });
  return is_known && !is_mapped;
}

}  // namespace dlock
