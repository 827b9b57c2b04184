// The names of the rules that the local store uses throughout.
#pragma once

#include "record/party_fields.hpp"
#include "record/state_bytes.hpp"
#include "rules/events.hpp"
#include "rules/limit.hpp"
#include "rules/liveness.hpp"
#include "rules/moment.hpp"
#include "rules/state.hpp"

namespace dlock::local {

using record::decoded;
using record::decoded_limit;
using record::encoded;
using record::first_session;
using record::is_session;
using record::last_session;
using record::room_for_ends;
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
using rules::TakenBy;
using rules::Waiter;

}  // namespace dlock::local
