#include "util/users.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>

#include "util/fd.hpp"

namespace dlock {
namespace {

template <typename Found>
void find_account(uid_t uid, Found found) {
  const auto is_it = [&](std::string_view line) {
    const auto account = account_in(line);
    if (!account || account->uid != uid) return false;
    found(*account);
    return true;
  };
  const Fd file(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  if (!file) return;
  std::array<char, 4096> block;
  std::string begun;  // a line that continues in the next block
  for (;;) {
    const auto size = ::read(file.get(), block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    std::string_view rest(block.data(), static_cast<std::size_t>(size));
    for (auto end = rest.find('\n'); end != std::string_view::npos;
         end = rest.find('\n')) {
      const auto line = rest.substr(0, end);
      if (is_it(begun.empty() ? line : begun.append(line))) return;
      begun.clear();
      rest.remove_prefix(end + 1);
    }
    begun += rest;
  }
  is_it(begun);
}

}  // namespace

std::optional<Account> account_in(std::string_view line) {
  constexpr std::size_t count = 7;
  std::array<std::string_view, count> fields;
  for (std::size_t i = 0; i < count; ++i) {
    const auto end = line.find(':');
    const bool is_last = i + 1 == count;
    if (is_last != (end == std::string_view::npos)) return std::nullopt;
    fields[i] = line.substr(0, end);
    if (!is_last) line.remove_prefix(end + 1);
  }
  Account account{0, fields[0], fields[5]};
  const auto number = fields[2];
  const auto* last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, account.uid);
  if (error != std::errc() || end != last || account.name.empty()) return std::nullopt;
  return account;
}

std::string user_name(uid_t uid) {
  std::string name;
  find_account(uid, [&](const Account& account) { name = account.name; });
  return name.empty() ? std::to_string(uid) : name;
}

std::string home_directory(uid_t uid) {
  std::string home;
  find_account(uid, [&](const Account& account) { home = account.home; });
  return home;
}

}  // namespace dlock
