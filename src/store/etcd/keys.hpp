// Where in etcd's flat space of keys a lock is.
//
//   NS/NAME/<lease>          one who holds the lock, or waits for it: what etcdctl lock
//                            NS/NAME makes, so that both stand in one line
//   NS/.runs/NAME/now/<id>   a grant under which something may run, until it is over
//   NS/.runs/NAME/past/<n>   a run that is over, by its fence
//   NS/.runs/NAME/told/<id>  why one that waited has no place any more
//   NS/.runs/NAME/taken/<id> who took the lock from a holder that nobody could tell
//   NS/.runs/NAME/refused    its version is how many claims were refused,
//   NS/.runs/NAME/superseded and superseded
//   NS/.fence/RESOURCE       the greatest fence that was admitted for it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lock/lease.hpp"

namespace dlock::etcd {

// Of a lock; each begins with it and goes on.
std::string line_of(const LockName& lock);  // "NS/NAME/"
std::string runs_of(const LockName& lock);  // "NS/.runs/NAME/"

std::string now_key(const LockName& lock, std::string_view id);
std::string past_key(const LockName& lock, Fence fence);
std::string told_key(const LockName& lock, std::string_view id);
std::string taken_key(const LockName& lock, std::string_view id);
std::string refused_key(const LockName& lock);
std::string superseded_key(const LockName& lock);

std::string register_key(const LockName& resource);

// Of all locks of a namespace: "NS/", and of all that is known of their runs.
std::string all_of(const std::string& name_space);
std::string all_runs_of(const std::string& name_space);

// What a key of a namespace is about.
struct KeyParts {
  std::string name;  // of the lock
  bool in_line = false;
  std::string rest;  // in the line the id; else what follows NS/.runs/NAME/
};

// Nothing for a key that is none of these, or a register.
std::optional<KeyParts> parts_of(std::string_view key, const std::string& name_space);

// Which lease a claim asks for the n-th time that it starts to: nobody who reads it in
// the name of a key learns the token from it. Never 0.
std::int64_t lease_for(const Token& token, unsigned times = 0);

// As etcdctl writes it.
std::string id_of(std::int64_t lease);

// Of what outlives the runs of a day: see history. All of a namespace use one.
std::int64_t lease_of_day(const std::string& name_space, WallTime now);

}  // namespace dlock::etcd
