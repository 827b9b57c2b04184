#pragma once

#include <iterator>
#include <random>

namespace dlock {

// Random numbers that are the same with every library, unlike those of std's
// distributions.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}

  unsigned below(unsigned end) { return static_cast<unsigned>(engine_() % end); }
  bool one_in(unsigned chances) { return below(chances) == 0; }
  template <typename Container>
  auto& pick(Container& from) {
    return from[below(static_cast<unsigned>(std::size(from)))];
  }

 private:
  std::mt19937 engine_;
};

}  // namespace dlock
