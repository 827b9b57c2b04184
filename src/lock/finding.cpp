#include "lock/finding.hpp"

#include <algorithm>

namespace dlock {

Finding::Level worst_of(const std::vector<Finding>& findings) {
  auto worst = Finding::Level::ok;
  for (const auto& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

}  // namespace dlock
