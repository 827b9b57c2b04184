// The fields of each record, listed once for each place that keeps it. encoders.hpp says
// how such a list writes and reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "lock/history.hpp"
#include "record/encoders.hpp"
#include "rules/state.hpp"

namespace dlock::record {

// What the user says, in all records that are JSON. The log and the events of an embedded
// store have a label even if it is empty. In bytes a new field follows the others: see
// newest_fields() and later_fields().
enum class Label { if_any, always };
template <Label label = Label::if_any, typename Described, typename Visit>
void fields_of_description(Described& it, Visit&& visit) {
  if constexpr (label == Label::always) {
    visit("label", it.label);
  } else {
    visit("label", as<if_set>(it.label));
  }
}

template <Of<rules::Party> Party, typename Visit>
void fields_in_bytes(Party& party, Visit&& visit) {
  visit(party.token), visit(party.session), visit(party.pid);
  visit(party.pid_namespace), visit(as<uid>(party.user)), visit(party.host);
}

// Fields that were added later are in the file of a lock behind all others: see
// later_fields().
template <Of<rules::Holder> Holder, typename Visit>
void fields_in_bytes(Holder& holder, Visit&& visit) {
  visit(holder.party), visit(holder.command), visit(holder.command_after);
  // 0.2 refuses bytes that it does not know, so the ttl of a detached lease, which has no
  // command, stands where a holder has the time before which that started.
  if constexpr (std::is_const_v<Holder>) {
    const bool is_ttl = holder.command == 0 && holder.ttl != rules::usual_ttl;
    visit(is_ttl ? std::int64_t{holder.ttl.count()} : holder.command_before);
  } else {
    visit(holder.command_before);
    if (holder.command == 0 && holder.command_before != 0) {
      holder.ttl = milliseconds(std::exchange(holder.command_before, 0));
    }
  }
  visit(holder.mode), visit(holder.slot);
  visit(holder.fence), visit(holder.since), visit(holder.granted_at);
  visit(holder.ends_at), visit(holder.label), visit(holder.argv);
  visit(holder.counts), visit(holder.min_hold), visit(holder.for_pid);
  visit(holder.ended), visit(holder.broken);
}

template <Of<Dedupe> Dedupe, typename Visit>
void fields_in_bytes(Dedupe& dedupe, Visit&& visit) {
  visit(dedupe.window), visit(dedupe.retry_failed), visit(dedupe.joins);
}

template <Of<rules::Waiter> Waiter, typename Visit>
void fields_in_bytes(Waiter& waiter, Visit&& visit) {
  visit(waiter.party), visit(waiter.mode), visit(waiter.since);
  visit(waiter.queued_at), visit(waiter.promised_until), visit(waiter.passed_over);
  visit(waiter.dedupe);
}

template <Of<Superseded> Superseded, typename Visit>
void fields_in_bytes(Superseded& newer, Visit&& visit) {
  visit(newer.host), visit(newer.pid);
}

template <Of<Taker> Taker, typename Visit>
void fields_in_bytes(Taker& taker, Visit&& visit) {
  visit(as<uid>(taker.user)), visit(taker.host), visit(taker.replaces);
}

template <Of<RunInfo> Run, typename Visit>
void fields_in_bytes(Run& run, Visit&& visit) {
  visit(run.fence), visit(run.started), visit(run.ended);
  visit(run.duration), visit(run.exit_code), visit(run.signal);
  visit(run.host), visit(run.outcome), visit(run.reason);
  visit(run.user), visit(run.counts);
}

template <Of<rules::AnsweredWaiter> T, typename Visit>
void fields_in_bytes(T& answered, Visit&& visit) {
  visit(answered.waiter), visit(answered.by);
}

template <Of<PastRuns> T, typename Visit>
void fields_in_bytes(T& past, Visit&& visit) {
  visit(past.last), visit(past.last_success);
}

template <Of<rules::State> T, typename Visit>
void fields_in_bytes(T& state, Visit&& visit) {
  visit(state.last_fence), visit(state.slots), visit(state.used);
  visit(state.holders), visit(state.waiters), visit(state.last_run);
  visit(state.past), visit(state.answered), visit(state.runs);
}

// One field of the elements of a list, for those in which it is not what `usual` has: the
// position of each, and the value; only the position if the value is a bool.
template <typename T, typename Element, typename Value>
struct Column {
  T& list;
  Value Element::*field;
  Value usual;
};

// Fields of a waiter that earlier versions do not know: they refuse bytes behind those
// that they know, but accept several values of an element in a column, of which the last
// one counts. These bytes therefore stand in the column of on_behalf_of in front of its
// value, as numbers of four bytes. Later versions may add fields at the end.
template <Of<rules::Waiter> T, typename Visit>
void newest_fields(T& waiter, Visit&& visit) {
  visit(waiter.label), visit(waiter.priority), visit(waiter.spreads);
}

template <typename T>
struct WaitersColumn {
  T& list;
};

// The lists of fields that were added after the first version, in groups that were added
// together. They follow all other fields. A group is written only if it or a later one is
// not empty: this version reads what earlier ones wrote, and those can mostly read what
// this one writes.
template <Of<rules::State> T, typename Group>
void later_fields(T& state, Group&& group) {
  group(
      Column{state.waiters, &rules::Waiter::supersedes, false},
      Column{state.waiters, &rules::Waiter::replaces, false},
      Column{state.answered, &rules::AnsweredWaiter::newer, std::optional<Superseded>()});
  group(Column{state.holders, &rules::Holder::taken_by, std::optional<Taker>()});
  group(state.refused, state.superseded);
  group(WaitersColumn{state.waiters});
}

// The grant of a lock, in the log of an embedded store.
template <Of<rules::Holder> Holder, typename Visit>
void fields_in_log(Holder& holder, Visit&& visit) {
  visit("fence", holder.fence);
  visit("slot", holder.slot);
  visit("mode", holder.mode);
  visit("started", as<date>(holder.since));
  visit("host", holder.party.host);
  visit("pid", holder.party.pid);
  visit("uid", as<uid>(holder.party.user));
  fields_of_description<Label::always>(holder, visit);
  visit("period", as<if_set>(holder.period));
  visit("counts", holder.counts);
}

template <Of<CommandInfo> Party, typename Visit>
void fields_in_event(Party& party, Visit&& visit) {
  visit("host", party.host);
  visit("pid", party.pid);
  visit("user", party.user);
  fields_of_description<Label::always>(party, visit);
  visit("command", party.command);
}

template <Of<Taker> Taker, typename Visit>
void fields_in_event(Taker& taker, Visit&& visit) {
  visit("user", taker.user);
  visit("host", taker.host);
  visit("replaces", taker.replaces);
}

// A party as the scripts of Redis keep it.
struct RedisParty : CommandInfo {
  int priority = 0;
  bool spreads = false;
  bool for_pid = false;
  std::optional<milliseconds> ttl;  // of a detached lease
};

template <Of<RedisParty> Party, typename Visit>
void fields_on_redis(Party& party, Visit&& visit) {
  visit("host", party.host);
  visit("pid", party.pid);
  visit("priority", as<small>(party.priority));  // queue.lua reads this one, and
  visit("spread", as<if_set>(party.spreads));    // holders.lua the host and this one
  visit("for_pid", as<if_set>(party.for_pid));
  visit("ttl_ms", as<if_set>(party.ttl));
  visit("user", party.user);
  visit("command", party.command);
  fields_of_description(party, visit);
  visit("period", as<if_set>(party.period));
}

// The key of this object says how.
template <Of<Taker> Taker, typename Visit>
void fields_on_redis(Taker& taker, Visit&& visit) {
  visit("host", taker.host);
  visit("user", taker.user);
}

// In the entry of a holder or a waiter in etcd.
template <Of<CommandInfo> Party, typename Visit>
void fields_in_etcd(Party& party, Visit&& visit) {
  visit("host", party.host);
  visit("pid", party.pid);
  visit("user", party.user);
  fields_of_description(party, visit);
  visit("period", as<if_set>(party.period));
  visit("command", party.command);
}

template <Of<Superseded> Superseded, typename Visit>
void fields_in_etcd(Superseded& newer, Visit&& visit) {
  visit("host", newer.host);
  visit("pid", newer.pid);
}

// In the entry of the holder; there is none if it has no user.
template <Of<Taker> Taker, typename Visit>
void fields_of_taker_in_entry(Taker& taker, Visit&& visit) {
  visit("taken_by", taker.user);
  visit("taken_on", taker.host);
  visit("replaced", as<if_set>(taker.replaces));
}

// In a separate record.
template <Of<Taker> Taker, typename Visit>
void fields_in_etcd(Taker& taker, Visit&& visit) {
  visit("user", taker.user);
  visit("host", taker.host);
  visit("replaced", as<if_set>(taker.replaces));
  visit("forced", as<if_set>(taker.forced));
}

// In the log of an embedded store, `runs.jsonl`. Its runs have the user's number.
template <Of<RunInfo> Run, typename Visit>
void fields_in_log(Run& run, Visit&& visit) {
  visit("fence", run.fence);
  visit("started", as<date>(run.started));
  visit("ended", as<date>(run.ended));
  visit("duration_ms", run.duration);
  visit("exit_code", run.exit_code);
  visit("signal", run.signal);
  visit("host", run.host);
  visit("uid", as<uid>(run.user));
  visit("outcome", run.outcome);
  visit("reason", as<if_set>(run.reason));
  fields_of_description(run, visit);
  visit("period", as<if_set>(run.period));
  visit("counts", run.counts);
}

// How it ended, in an event.
template <Of<RunInfo> Run, typename Visit>
void fields_in_event(Run& run, Visit&& visit) {
  visit("outcome", run.outcome);
  visit("duration_ms", run.duration);
  visit("exit_code", as<if_set>(run.exit_code));
  visit("signal", as<if_set>(run.signal));
  visit("reason", as<if_set>(run.reason));
}

// How it ended, on a Redis server.
template <Of<RunInfo> Run, typename Visit>
void fields_on_redis(Run& run, Visit&& visit) {
  visit("host", run.host);
  visit("user", run.user);
  fields_of_description(run, visit);
  visit("period", as<if_set>(run.period));
  fields_in_event(run, visit);
}

// In etcd, while it runs.
template <Of<RunInfo> Run, typename Visit>
void fields_of_start_in_etcd(Run& run, Visit&& visit) {
  visit("fence", run.fence);
  visit("started", run.started);
  visit("host", run.host);
  visit("user", run.user);
  fields_of_description(run, visit);
  visit("period", as<if_set>(run.period));
  visit("counts", as<if_set>(run.counts));
}

// In etcd, once it has ended; after the fields of its start.
template <Of<RunInfo> Run, typename Visit>
void fields_of_end_in_etcd(Run& run, Visit&& visit) {
  visit("ended", as<if_set>(run.ended));
  visit("duration_ms", as<if_set>(run.duration));
  visit("exit_code", as<if_set>(run.exit_code));
  visit("signal", as<if_set>(run.signal));
  visit("outcome", run.outcome);
  visit("reason", as<if_set>(run.reason));
}

// The state of a lock as JSON (state_json.cpp).

template <Of<Superseded> T, typename Visit>
void fields_in_state(T& newer, Visit&& visit) {
  visit("host", newer.host), visit("pid", newer.pid);
}

template <Of<Taker> T, typename Visit>
void fields_in_state(T& taker, Visit&& visit) {
  visit("user", taker.user), visit("host", taker.host);
  visit("replaces", as<if_set>(taker.replaces)),
      visit("forced", as<if_set>(taker.forced));
}

template <Of<RunInfo> T, typename Visit>
void fields_in_state(T& run, Visit&& visit) {
  visit("fence", run.fence), visit("started", run.started), visit("ended", run.ended);
  visit("duration_ms", run.duration), visit("exit_code", run.exit_code);
  visit("signal", run.signal), visit("host", run.host), visit("user", run.user);
  visit("outcome", run.outcome), visit("reason", as<if_set>(run.reason));
  fields_of_description(run, visit), visit("period", as<if_set>(run.period));
  visit("counts", as<if_set>(run.counts));
}

template <Of<PastRuns> T, typename Visit>
void fields_in_state(T& past, Visit&& visit) {
  visit("last", past.last), visit("last_success", past.last_success);
}

template <Of<rules::Party> T, typename Visit>
void fields_in_state(T& party, Visit&& visit) {
  visit("token", as<if_set>(party.token)), visit("host", party.host);
  visit("pid", party.pid), visit("user", party.user);
}

template <Of<rules::Holder> T, typename Visit>
void fields_in_state(T& holder, Visit&& visit) {
  fields_in_state(holder.party, visit);
  visit("mode", as<if_set>(holder.mode)), visit("slot", as<if_set>(holder.slot));
  visit("fence", holder.fence), visit("since", holder.since);
  visit("granted_at", holder.granted_at), visit("ends_at", holder.ends_at);
  visit("lives_until", holder.lives_until), visit("lease_ms", holder.lease);
  visit("ttl_ms", holder.ttl), fields_of_description(holder, visit);
  visit("command", as<if_set>(holder.argv)), visit("counts", as<if_set>(holder.counts));
  visit("min_hold_ms", as<if_set>(holder.min_hold)),
      visit("for_pid", as<if_set>(holder.for_pid));
  visit("ended", as<if_set>(holder.ended)), visit("broken", as<if_set>(holder.broken));
  visit("taken_by", holder.taken_by), visit("period", as<if_set>(holder.period));
}

template <Of<Dedupe> T, typename Visit>
void fields_in_state(T& dedupe, Visit&& visit) {
  visit("window_ms", dedupe.window),
      visit("retry_failed", as<if_set>(dedupe.retry_failed));
  visit("joins", as<if_set>(dedupe.joins));
}

template <Of<rules::Waiter> T, typename Visit>
void fields_in_state(T& waiter, Visit&& visit) {
  fields_in_state(waiter.party, visit);
  visit("mode", as<if_set>(waiter.mode)), visit("since", waiter.since);
  visit("queued_at", waiter.queued_at), visit("lives_until", waiter.lives_until);
  visit("promised_until", waiter.promised_until);
  visit("passed_over", as<if_set>(waiter.passed_over)), visit("dedupe", waiter.dedupe);
  visit("supersedes", as<if_set>(waiter.supersedes));
  visit("replaces", as<if_set>(waiter.replaces));
  visit("on_behalf_of", as<if_set>(waiter.on_behalf_of));
  fields_of_description(waiter, visit), visit("spread", as<if_set>(waiter.spreads));
  visit("priority", as<if_set>(waiter.priority)), visit("parked_to", waiter.parked_until);
}

template <Of<rules::AnsweredWaiter> T, typename Visit>
void fields_in_state(T& left, Visit&& visit) {
  visit("waiter", left.waiter), visit("by", left.by), visit("newer", left.newer);
}

template <Of<rules::GrantId> T, typename Visit>
void fields_in_state(T& grant, Visit&& visit) {
  visit("claim", as<if_set>(grant.claim)), visit("fence", grant.fence);
}

template <Of<rules::Restored> T, typename Visit>
void fields_in_state(T& restored, Visit&& visit) {
  visit("granted", restored.granted), visit("leases", as<if_set>(restored.vanished));
}

template <Of<rules::State> T, typename Visit>
void fields_in_state(T& state, Visit&& visit) {
  visit("fence", state.last_fence), visit("slots", state.slots);
  visit("used", state.used), visit("holders", as<if_set>(state.holders));
  visit("waiters", as<if_set>(state.waiters)), visit("last_run", state.last_run);
  visit("past", as<if_set>(state.past)), visit("answered", as<if_set>(state.answered));
  visit("superseded", as<if_set>(state.superseded)), visit("restored", state.restored);
  visit("last_claim", as<if_set>(state.last_claim));
}

}  // namespace dlock::record
