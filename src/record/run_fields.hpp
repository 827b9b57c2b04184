// The fields of a run: its start, its end, and its outcome.
//
// Everywhere the same, but in different orders, which must not change: others read what
// this version writes.
#pragma once

#include <string>

#include "lock/history.hpp"
#include "record/json_fields.hpp"

namespace dlock::record {

template <Of<RunInfo> Run, typename Visit>
void fields_in_bytes(Run& run, Visit&& visit) {
  visit(run.fence), visit(run.started), visit(run.ended);
  visit(run.duration), visit(run.exit_code), visit(run.signal);
  visit(run.host), visit(run.outcome), visit(run.reason);
  visit(run.user), visit(run.counts);
}

// In the log of an embedded store, `runs.jsonl`. Its runs have the user's number.
template <Of<RunInfo> Run, typename Visit>
void fields_in_log(Run& run, Visit&& visit) {
  visit("fence", run.fence);
  visit("started", as_date(run.started));
  visit("ended", as_date(run.ended));
  visit("duration_ms", run.duration);
  visit("exit_code", run.exit_code);
  visit("signal", run.signal);
  visit("host", run.host);
  visit("uid", as_uid(run.user));
  visit("outcome", run.outcome);
  visit("reason", if_set(run.reason));
  visit("counts", run.counts);
}

// How it ended, in an event.
template <Of<RunInfo> Run, typename Visit>
void fields_in_event(Run& run, Visit&& visit) {
  visit("outcome", run.outcome);
  visit("duration_ms", run.duration);
  visit("exit_code", if_set(run.exit_code));
  visit("signal", if_set(run.signal));
  visit("reason", if_set(run.reason));
}

// How it ended, on a Redis server.
template <Of<RunInfo> Run, typename Visit>
void fields_on_redis(Run& run, Visit&& visit) {
  visit("host", run.host);
  visit("user", run.user);
  fields_in_event(run, visit);
}

// In etcd, while it runs.
template <Of<RunInfo> Run, typename Visit>
void fields_of_start_in_etcd(Run& run, Visit&& visit) {
  visit("fence", run.fence);
  visit("started", run.started);
  visit("host", run.host);
  visit("user", run.user);
  visit("counts", if_set(run.counts));
}

// In etcd, once it has ended; after the fields of its start.
template <Of<RunInfo> Run, typename Visit>
void fields_of_end_in_etcd(Run& run, Visit&& visit) {
  visit("ended", if_set(run.ended));
  visit("duration_ms", if_set(run.duration));
  visit("exit_code", if_set(run.exit_code));
  visit("signal", if_set(run.signal));
  visit("outcome", run.outcome);
  visit("reason", if_set(run.reason));
}

}  // namespace dlock::record
