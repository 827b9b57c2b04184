#include "record/party_fields.hpp"

#include <unistd.h>

#include "util/host.hpp"
#include "util/users.hpp"

namespace dlock::record {

const std::string& own_user() {
  static const std::string user = user_name(::geteuid());
  return user;
}

CommandInfo own_party(const Claim& claim) {
  CommandInfo party;
  party.host = host_name();
  party.pid = claim.on_behalf_of != 0 ? claim.on_behalf_of : ::getpid();
  party.user = own_user();
  party.label = claim.label;
  party.command = shortened_command(claim.command);
  return party;
}

Taker own_taker(bool replaces) { return {own_user(), host_name(), replaces}; }

}  // namespace dlock::record
