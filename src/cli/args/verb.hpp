// The verbs, by which everything that belongs to one of them is found.
#pragma once

namespace dlock {

enum class Verb {
  run,
  acquire,
  renew,
  release,
  check,
  fence,
  status,
  list,
  watch,
  break_lock,
  cache,
  limit,
  history,
  doctor,
  config,
  help
};

}  // namespace dlock
