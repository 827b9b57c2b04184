// Numbers that tests with random input take from the environment.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace dlock {

inline std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// DLOCK_TEST_ROUNDS; tests whose rounds take longer or shorter make a fraction or a
// multiple.
inline std::uint64_t test_rounds() { return setting("DLOCK_TEST_ROUNDS", 2000); }

}  // namespace dlock
