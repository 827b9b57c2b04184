// What every store answers and records when a lease is released that was lost before the
// end of its run.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool lost_scenes = add_scenes("Losing", every_kind(), R"(
a release reports that the lease no longer exists:
  a takes; server forgets; a ends gone
a release reports that the lease was broken:
  a takes; x breaks(a) found=1; a ends broken
a renewal and a release report who has broken the lease:
  a takes; x breaks(a) found=1; a renews broken taken !replaced; a ends(lost=broken)
  ; b takes; x breaks(b) found=1; b ends broken taken !replaced
a release that reports a loss does nothing else:
  a takes; x breaks(a) found=1; a ends broken; b is_busy; a ends broken
a broken lease is released by a holder that knows of the break:
  a takes; x breaks(a) found=1; a ends(code=76, lost=broken) released; b takes
a run that was lost is recorded with its reason:
  a takes; x breaks(a) found=1; a ends(code=76, lost=broken); last lost reason=broken
a lost run does not deduplicate others:
  a takes; a ends(code=76, lost=unconfirmed); b(dedupe=1h) takes
a release without a run reports no loss:
  a takes; server forgets; a leaves !gone !taken_over !broken !failed_over
a lease that was already released is not lost:
  a takes; a ends; a ends not_ours
)");

[[maybe_unused]] const bool lost_value_scenes =
    add_scenes("LosingWithValues", kinds_with(&Kind::keeps_values), R"(
a broken holder stores no value:
  a takes; x breaks(a) found=1; a puts(value) not_ours
)");

}  // namespace
}  // namespace dlock
