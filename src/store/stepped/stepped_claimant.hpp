// A claim in a store that is built on the rules.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "lock/claimant.hpp"
#include "store/stepped/state_store.hpp"

namespace dlock::stepped {

// For the last step of a caller that wants to exit: two round trips, also of a distant
// client.
constexpr milliseconds last_patience{250};

// What such a store keeps of a token: enough to recognize it, and not enough to renew or
// release the lease, for whoever may only read.
Token kept_token(const Token& token);

// `states` must outlive it.
std::unique_ptr<Claimant> claimant_of(asio::io_context& context, StateStore& states,
                                      const Claim& claim);

}  // namespace dlock::stepped
