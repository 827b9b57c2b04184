#include "lock/lease.hpp"

namespace dlock {

std::vector<std::string> shortened_command(const std::vector<std::string>& command) {
  constexpr std::size_t most = 4096;
  std::vector<std::string> kept;
  std::size_t size = 0;
  for (const auto& word : command) {
    size += word.size() + 1;
    if (size > most) {
      kept.emplace_back("...");
      break;
    }
    kept.push_back(word);
  }
  return kept;
}

}  // namespace dlock
