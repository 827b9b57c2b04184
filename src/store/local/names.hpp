// The names of the rules that the local store uses throughout.
#pragma once

#include "rules/events.hpp"
#include "rules/limit.hpp"
#include "rules/liveness.hpp"
#include "rules/state.hpp"

namespace dlock::local {

using rules::AnsweredWaiter;
using rules::Cause;
using rules::Consequences;
using rules::Holder;
using rules::is_possible;
using rules::LimitState;
using rules::Liveness;
using rules::Moment;
using rules::Party;
using rules::Session;
using rules::State;
using rules::Waiter;

}  // namespace dlock::local
