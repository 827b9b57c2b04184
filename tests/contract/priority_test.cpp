// What every store does for --priority and --spread.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool priority_scenes =
    add_scenes("Priority", kinds_with(&Kind::orders_by_priority), R"(
waiters go by priority and then in order of arrival:
  a takes; b queues 1; c(priority=-20) queues 1; d(priority=19) queues 3; e(priority=-20) queues 2
  ; f queues 4; b queues 3; lock priorities=-20,-20,0,0,19
  ; a leaves; c takes; c leaves; e takes; e leaves; b takes; b leaves; f takes; f leaves; d takes
a claim overtakes only less important ones:
  a(shared) takes; b(priority=3) queues 1; c(shared, priority=3) is_busy; d(shared, priority=4) is_busy
  ; e(shared, priority=2) takes; lock priorities=3
all waiters count for a claim that waits only in a short queue:
  a takes; b(priority=19) queues 1; c(priority=-20, max=1) queues 0
)");

[[maybe_unused]] const bool promise_scenes = add_scenes(
    "Priority", kinds_with(&Kind::orders_by_priority, &Kind::raises_fences), R"(
a promise stays when a more important claim comes:
  a takes; b(floor=1) queues 1; c queues 2; a leaves; d(priority=-1) queues 1; b takes; d queues 1
  ; b leaves; d takes; d leaves; c takes
)");

[[maybe_unused]] const bool spread_scenes =
    add_scenes("Spread", kinds_with(&Kind::spreads), R"(
a host gets one slot and those behind the others:
  a(slots=3, spreads) takes; b(slots=3, spreads) is_busy; b queues 1; c(slots=3) takes; b queues 1
  ; a leaves; b queues 1; c leaves; b takes
one behind waiters that it may pass does not rely on them:
  a(slots=3, ttl=500ms) takes; b(slots=3, ttl=500ms) takes; c(slots=3, ttl=500ms) takes
  ; d(slots=3, spreads) queues 1; e(slots=3, spreads) queues 2
  ; a dies; b dies; c dies; d dies; e dies; f(slots=3) acquires(for=8s) granted
)");

[[maybe_unused]] const bool no_priority_scenes = add_scenes("NoPriority", {kinds[6]}, R"(
a claim with priority or spread is refused:
  a(priority=1) asks unsupported; b(slots=3, spreads) asks unsupported
)");

}  // namespace
}  // namespace dlock
