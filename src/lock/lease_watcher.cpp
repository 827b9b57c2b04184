#include "lock/lease_watcher.hpp"

namespace dlock {

std::string loss_name(Loss loss) {
  switch (loss) {
    case Loss::taken_over: return "taken over";
    case Loss::failed_over: return "failed over";
    case Loss::gone: return "gone";
    case Loss::broken: return "broken";
    case Loss::unconfirmed: break;
  }
  return "unconfirmed";
}

}  // namespace dlock
