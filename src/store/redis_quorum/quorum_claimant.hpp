// A claim on a lock of a quorum.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "lock/claimant.hpp"
#include "store/redis_quorum/voter.hpp"
#include "store/store_url.hpp"

namespace dlock::redis_quorum {

// It carries out the decisions of Candidacy and tally(): it asks all servers at once,
// counts the votes, and releases them if they are too few.
std::unique_ptr<Claimant> claimant_of(asio::io_context& context, const Voters& voters,
                                      const QuorumTerms& terms, milliseconds timeout,
                                      const Claim& claim,
                                      std::shared_ptr<Complaints> complaints);

}  // namespace dlock::redis_quorum
