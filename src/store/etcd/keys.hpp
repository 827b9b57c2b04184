// The keys of a lock in etcd.
//
//   NS/NAME/<lease>          a holder or waiter; the key that `etcdctl lock NS/NAME`
//                            creates, so that both share one queue
//   NS/.runs/NAME/now/<id>   a grant that has not been released
//   NS/.runs/NAME/past/<n>   a run that is over, by its fence
//   NS/.runs/NAME/told/<id>  why a waiter has lost its place in the queue
//   NS/.runs/NAME/taken/<id> who took the lock from a holder that could not be notified
//   NS/.runs/NAME/refused    its version is the number of refused claims,
//   NS/.runs/NAME/superseded and of superseded ones
//   NS/.runs/NAME/never      a key that never exists: see steps.hpp
//   NS/.fence/RESOURCE       the greatest fence that was admitted for it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"

namespace dlock::etcd {

// The prefixes of a lock's keys.
std::string queue_prefix(const LockName& lock);  // "NS/NAME/"
std::string runs_prefix(const LockName& lock);   // "NS/.runs/NAME/"

std::string now_key(const LockName& lock, std::string_view id);
std::string past_key(const LockName& lock, Fence fence);
std::string told_key(const LockName& lock, std::string_view id);
std::string taken_key(const LockName& lock, std::string_view id);
std::string refused_key(const LockName& lock);
std::string superseded_key(const LockName& lock);
std::string never_key(const LockName& lock);

std::string register_key(const LockName& resource);

// The prefixes of all keys of a namespace ("NS/"), and of all its records of runs.
std::string namespace_prefix(const std::string& name_space);
std::string namespace_runs_prefix(const std::string& name_space);

// The parts of a key of a namespace.
struct KeyParts {
  std::string name;  // of the lock
  bool in_queue = false;
  std::string rest;  // in the queue the id; otherwise what follows NS/.runs/NAME/
};

// Nothing for any other key, and for a register.
std::optional<KeyParts> parts_of(std::string_view key, const std::string& name_space);

// The lease id that a claim uses for its n-th lease. It is visible in key names and does
// not reveal the token. Never 0.
std::int64_t lease_for(const Token& token, unsigned times = 0);

// The lease id in the form that etcdctl uses.
std::string id_of(std::int64_t lease);

// The id of the lease for the history of a day, shared by all locks of a namespace.
std::int64_t lease_of_day(const std::string& name_space, WallTime now);

}  // namespace dlock::etcd
