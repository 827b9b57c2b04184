#include "store/address_map.hpp"

#include <algorithm>

namespace dlock {
namespace {

ServerAddress address_from(std::string_view text) {
  auto address = server_from(text, 0);
  address.host = normalized_host(address.host);
  return address;
}

}  // namespace

AddressMap AddressMap::parsed(std::string_view text) {
  AddressMap map;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto entry = text.substr(begin, end - begin);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos) {
      throw bad_url("expected FROM=TO, as in 10.0.0.5:6379=db.example:7001");
    }
    Entry one{address_from(entry.substr(0, equals)),
              address_from(entry.substr(equals + 1))};
    if (std::any_of(map.entries_.begin(), map.entries_.end(),
                    [&](const Entry& other) { return other.from == one.from; })) {
      throw bad_url("an address is mapped twice");
    }
    map.entries_.push_back(std::move(one));
    begin = end + 1;
  }
  return map;
}

ServerAddress AddressMap::used_for(ServerAddress announced) const {
  if (entries_.empty()) return announced;
  const auto host = normalized_host(announced.host);
  const Entry* found = nullptr;
  for (const auto& entry : entries_) {
    const bool is_exact = entry.from.port == announced.port;
    if (entry.from.host != host || !(is_exact || entry.from.port == 0)) continue;
    if (found == nullptr || is_exact) found = &entry;
  }
  if (found == nullptr) return announced;
  auto used = found->to;
  if (used.port == 0) used.port = announced.port;
  return used;
}

}  // namespace dlock
