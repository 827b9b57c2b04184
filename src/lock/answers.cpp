#include "lock/answers.hpp"

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

Release release_reporting(Loss loss) {
  switch (loss) {
    case Loss::taken_over: return Release::taken_over;
    case Loss::failed_over: return Release::failed_over;
    case Loss::broken: return Release::broken;
    case Loss::gone:
    case Loss::unconfirmed: break;
  }
  return Release::gone;
}

std::optional<Loss> loss_found_by(Release answer) {
  switch (answer) {
    case Release::taken_over: return Loss::taken_over;
    case Release::failed_over: return Loss::failed_over;
    case Release::gone: return Loss::gone;
    case Release::broken: return Loss::broken;
    case Release::released:
    case Release::not_ours:
    case Release::left: break;
  }
  return std::nullopt;
}

}  // namespace dlock
