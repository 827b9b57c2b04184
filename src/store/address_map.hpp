// The addresses to use in place of those that servers announce (--address-map).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/url_parts.hpp"

namespace dlock {

// Servers behind a port forwarding or in a network of containers announce addresses that
// only their neighbors can reach.
class AddressMap {
 public:
  // FROM=TO, separated by commas, each host, host:port or [address]:port. A FROM without
  // port stands for all ports of the host, a TO without port keeps the port. Throws
  // Failure (misconfigured) if it is something else, or a FROM is there twice.
  static AddressMap parsed(std::string_view text);

  // The address to use for an announced one: the same if nothing maps it. A FROM with a
  // port precedes one without.
  ServerAddress used_for(ServerAddress announced) const;

  bool operator==(const AddressMap&) const = default;

 private:
  struct Entry {
    ServerAddress from;  // port 0: any
    ServerAddress to;    // port 0: the same
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries_;
};

}  // namespace dlock
