#include "store/redis_cluster/members.hpp"

#include <algorithm>
#include <charconv>

namespace dlock::redis_cluster {
namespace {

using redis::Reply;

constexpr auto npos = std::string_view::npos;

// The words of a line.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

std::optional<Address> address_from(std::string_view host, std::int64_t port,
                                    const Address& by) {
  if (port < 1 || port > 65535) return std::nullopt;
  // Empty or "?" for an endpoint that the member itself does not know.
  const bool is_left_out = host.empty() || host == "?";
  return Address{is_left_out ? by.host : std::string(host),
                 static_cast<std::uint16_t>(port)};
}

bool has_flag(std::string_view flags, std::string_view flag) {
  while (!flags.empty()) {
    const auto end = std::min(flags.find(','), flags.size());
    if (flags.substr(0, end) == flag) return true;
    flags.remove_prefix(std::min(end + 1, flags.size()));
  }
  return false;
}

}  // namespace

std::optional<Address> pointed_to(const Reply& error, const Address& by) {
  const auto words = words_of(error.text);
  if (!error.is_error() || words.size() != 3) return std::nullopt;
  const auto colon = words[2].rfind(':');
  if (colon == npos) return std::nullopt;
  const auto digits = words[2].substr(colon + 1);
  std::int64_t port = 0;
  const auto* last = digits.data() + digits.size();
  const auto [parsed, failure] = std::from_chars(digits.data(), last, port);
  if (failure != std::errc() || parsed != last) return std::nullopt;
  return address_from(words[2].substr(0, colon), port, by);
}

std::optional<Primaries> primaries_from(const Reply& slots, const Address& by) {
  if (slots.kind != Reply::Kind::array) return std::nullopt;
  Primaries found;
  for (const auto& range : slots.elements) {
    // The first and the last slot, the primary, then its replicas.
    if (range.elements.size() < 3 || range.elements[2].elements.size() < 2) {
      return std::nullopt;
    }
    const auto first = range.elements[0].integer;
    const auto last = range.elements[1].integer;
    const auto& primary = range.elements[2].elements;
    auto address = address_from(primary[0].text, primary[1].integer, by);
    if (!address || first < 0 || last < first || last >= all_slots) return std::nullopt;
    found.slots += static_cast<unsigned>(last - first + 1);
    auto& addresses = found.addresses;
    if (std::find(addresses.begin(), addresses.end(), *address) == addresses.end()) {
      addresses.push_back(std::move(*address));
    }
  }
  return found;
}

// Lines of "id address flags id-of-its-primary ...".
unsigned own_replicas_up(std::string_view nodes) {
  std::vector<std::vector<std::string_view>> members;
  while (!nodes.empty()) {
    const auto end = std::min(nodes.find('\n'), nodes.size());
    auto words = words_of(nodes.substr(0, end));
    if (words.size() >= 4) members.push_back(std::move(words));
    nodes.remove_prefix(std::min(end + 1, nodes.size()));
  }
  const auto self = std::find_if(members.begin(), members.end(), [](const auto& member) {
    return has_flag(member[2], "myself");
  });
  if (self == members.end()) return 0;
  return static_cast<unsigned>(
      std::count_if(members.begin(), members.end(), [&](const auto& member) {
        const auto flags = member[2];
        return member[3] == (*self)[0] && has_flag(flags, "slave") &&
               !has_flag(flags, "fail");
      }));
}

}  // namespace dlock::redis_cluster
