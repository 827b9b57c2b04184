// A claim on a lock of the embedded store.
#pragma once

#include <memory>

#include "lock/claimant.hpp"
#include "store/local/files.hpp"

namespace dlock::local {

// An attached lease ends when the last process that holds its session open ends; a
// detached lease expires by the clock. `files` must outlive the claimant.
std::unique_ptr<Claimant> claimant_of(Files& files, const Claim& claim);

}  // namespace dlock::local
