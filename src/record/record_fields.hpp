// The fields of each record, listed once. encoders.hpp says how such a list writes and
// reads. A field that stands elsewhere in some places is in the list for each position.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "lock/history.hpp"
#include "record/encoders.hpp"
#include "rules/state.hpp"

namespace dlock::record {

// What the user says, in records that are JSON. In bytes a new field follows the others:
// see newest_fields() and later_fields().
template <typename Described, typename Visit, typename... Forms>
void fields_of_description(Described& it, Visit&& visit, Forms... forms) {
  visit("label", it.label, forms...);
}

template <Of<rules::Party> Party, typename Visit>
void fields(Party& party, Visit&& visit) {
  visit("token", party.token, in<file>, if_set<row>);
  visit("session", party.session, in<file>);
  visit("host", party.host, in<runs_log | row>);
  visit("pid", party.pid, in<file | runs_log | row>);
  visit("pid_namespace", party.pid_namespace, in<file>);
  visit("uid", party.user, uid<file | runs_log>);
  visit("user", party.user, in<row>);
  visit("host", party.host, in<file>);
}

// A party as the scripts of Redis keep it.
struct RedisParty : CommandInfo {
  int priority = 0;
  bool spreads = false;
  bool for_pid = false;
  std::optional<milliseconds> ttl;  // of a detached lease
};

template <std::derived_from<CommandInfo> Party, typename Visit>
void fields(Party& party, Visit&& visit) {
  visit("host", party.host, in<news | redis | etcd_entry>);
  visit("pid", party.pid, in<news | redis | etcd_entry>);
  if constexpr (Of<Party, RedisParty>) {
    visit("priority", party.priority, small<redis>);  // queue.lua reads this one, and
    visit("spread", party.spreads, if_set<redis>);    // holders.lua the host and this one
    visit("for_pid", party.for_pid, if_set<redis>);
    visit("ttl_ms", party.ttl, if_set<redis>);
  }
  visit("user", party.user, in<news | redis | etcd_entry>);
  visit("command", party.command, in<redis>);
  fields_of_description(party, visit, in<news>, if_set<redis | etcd_entry>);
  visit("period", party.period, if_set<redis | etcd_entry>);
  visit("command", party.command, in<news | etcd_entry>);
}

template <Of<Superseded> Superseded, typename Visit>
void fields(Superseded& newer, Visit&& visit) {
  visit("host", newer.host, in<file | etcd | row>);
  visit("pid", newer.pid, in<file | etcd | row>);
}

// On Redis, the key of the object says how. An entry has none if it has no user.
template <Of<Taker> Taker, typename Visit>
void fields(Taker& taker, Visit&& visit) {
  visit("host", taker.host, in<redis>);
  visit("uid", taker.user, uid<file>);
  visit("user", taker.user, in<news | redis | etcd | row>);
  visit("host", taker.host, in<file | news | etcd | row>);
  visit("taken_by", taker.user, in<etcd_entry>);
  visit("taken_on", taker.host, in<etcd_entry>);
  visit("replaces", taker.replaces, in<file | news>, if_set<row>);
  visit("replaced", taker.replaces, if_set<etcd_entry | etcd>);
  visit("forced", taker.forced, if_set<etcd | row>);
}

template <Of<RunInfo> Run, typename Visit>
void fields(Run& run, Visit&& visit) {
  visit("fence", run.fence, in<file | runs_log | etcd_start | etcd | row>);
  visit("started", run.started, in<file | etcd_start | etcd | row>, date<runs_log>);
  visit("host", run.host, in<redis | etcd_start | etcd>);
  visit("user", run.user, in<redis | etcd_start | etcd>);
  fields_of_description(run, visit, if_set<redis | etcd_start | etcd>);
  visit("period", run.period, if_set<redis | etcd_start | etcd>);
  visit("counts", run.counts, if_set<etcd_start | etcd>);
  visit("outcome", run.outcome, in<news | redis>);
  visit("ended", run.ended, in<file | row>, date<runs_log>, if_set<etcd>);
  visit("duration_ms", run.duration, in<file | runs_log | news | redis | row>,
        if_set<etcd>);
  visit("exit_code", run.exit_code, in<file | runs_log | row>,
        if_set<news | redis | etcd>);
  visit("signal", run.signal, in<file | runs_log | row>, if_set<news | redis | etcd>);
  visit("host", run.host, in<file | runs_log | row>);
  visit("uid", run.user, uid<runs_log>);
  visit("user", run.user, in<row>);
  visit("outcome", run.outcome, in<file | runs_log | etcd | row>);
  visit("reason", run.reason, in<file>, if_set<runs_log | news | redis | etcd | row>);
  visit("user", run.user, in<file>);
  fields_of_description(run, visit, if_set<runs_log | row>);
  visit("period", run.period, if_set<runs_log | row>);
  visit("counts", run.counts, in<file | runs_log>, if_set<row>);
}

template <Of<PastRuns> Past, typename Visit>
void fields(Past& past, Visit&& visit) {
  visit("last", past.last, in<file | row>);
  visit("last_success", past.last_success, in<file | row>);
}

template <Of<Dedupe> Dedupe, typename Visit>
void fields(Dedupe& dedupe, Visit&& visit) {
  visit("window_ms", dedupe.window, in<file | row>);
  visit("retry_failed", dedupe.retry_failed, in<file>, if_set<row>);
  visit("joins", dedupe.joins, in<file>, if_set<row>);
}

// In the log, the grant of a lock.
template <Of<rules::Holder> Holder, typename Visit>
void fields(Holder& holder, Visit&& visit) {
  visit("fence", holder.fence, in<runs_log>);
  visit("slot", holder.slot, in<runs_log>);
  visit("mode", holder.mode, in<runs_log>);
  visit("started", holder.since, date<runs_log>);
  fields(holder.party, visit);
  visit("command_pid", holder.command, in<file>);
  visit("command_after", holder.command_after, in<file>);
  // 0.2 refuses bytes that it does not know, so the ttl of a detached lease, which has no
  // command, stands where a holder has the time before which that started.
  if constexpr (std::is_const_v<Holder>) {
    const bool is_ttl = holder.command == 0 && holder.ttl != rules::usual_ttl;
    visit("command_before",
          is_ttl ? std::int64_t{holder.ttl.count()} : holder.command_before, in<file>);
  } else {
    visit("command_before", holder.command_before, in<file>);
    if (holder.command == 0 && holder.command_before != 0) {
      holder.ttl = milliseconds(std::exchange(holder.command_before, 0));
    }
  }
  visit("mode", holder.mode, in<file>, if_set<row>);
  visit("slot", holder.slot, in<file>, if_set<row>);
  visit("fence", holder.fence, in<file | row>);
  visit("since", holder.since, in<file | row>);
  visit("granted_at", holder.granted_at, in<file | row>);
  visit("ends_at", holder.ends_at, in<file | row>);
  visit("lives_until", holder.lives_until, in<row>);
  visit("lease_ms", holder.lease, in<row>);
  visit("ttl_ms", holder.ttl, in<row>);
  visit("label", holder.label, in<file>);
  fields_of_description(holder, visit, in<runs_log>, if_set<row>);
  visit("period", holder.period, if_set<runs_log>);
  visit("command", holder.argv, in<file>, if_set<row>);
  visit("counts", holder.counts, in<file | runs_log>, if_set<row>);
  visit("min_hold_ms", holder.min_hold, in<file>, if_set<row>);
  visit("for_pid", holder.for_pid, in<file>, if_set<row>);
  visit("ended", holder.ended, in<file>, if_set<row>);
  visit("broken", holder.broken, in<file>, if_set<row>);
  visit("taken_by", holder.taken_by, in<row>);
  visit("period", holder.period, if_set<row>);
}

template <Of<rules::Waiter> Waiter, typename Visit>
void fields(Waiter& waiter, Visit&& visit) {
  fields(waiter.party, visit);
  visit("mode", waiter.mode, in<file>, if_set<row>);
  visit("since", waiter.since, in<file | row>);
  visit("queued_at", waiter.queued_at, in<file | row>);
  visit("lives_until", waiter.lives_until, in<row>);
  visit("promised_until", waiter.promised_until, in<file | row>);
  visit("passed_over", waiter.passed_over, in<file>, if_set<row>);
  visit("dedupe", waiter.dedupe, in<file | row>);
  visit("supersedes", waiter.supersedes, if_set<row>);
  visit("replaces", waiter.replaces, if_set<row>);
  visit("on_behalf_of", waiter.on_behalf_of, if_set<row>);
  fields_of_description(waiter, visit, if_set<row>);
  visit("spread", waiter.spreads, if_set<row>);
  visit("priority", waiter.priority, if_set<row>);
  visit("parked_to", waiter.parked_until, in<row>);
}

template <Of<rules::AnsweredWaiter> Answered, typename Visit>
void fields(Answered& answered, Visit&& visit) {
  visit("waiter", answered.waiter, in<file | row>);
  visit("by", answered.by, in<file | row>);
  visit("newer", answered.newer, in<row>);
}

template <Of<rules::GrantId> GrantId, typename Visit>
void fields(GrantId& grant, Visit&& visit) {
  visit("claim", grant.claim, if_set<row>);
  visit("fence", grant.fence, in<row>);
}

template <Of<rules::Restored> Restored, typename Visit>
void fields(Restored& restored, Visit&& visit) {
  visit("granted", restored.granted, in<row>);
  visit("leases", restored.vanished, if_set<row>);
}

template <Of<rules::State> State, typename Visit>
void fields(State& state, Visit&& visit) {
  visit("fence", state.last_fence, in<file | row>);
  visit("slots", state.slots, in<file | row>);
  visit("used", state.used, in<file | row>);
  visit("holders", state.holders, in<file>, if_set<row>);
  visit("waiters", state.waiters, in<file>, if_set<row>);
  visit("last_run", state.last_run, in<file | row>);
  visit("past", state.past, in<file>, if_set<row>);
  visit("answered", state.answered, in<file>, if_set<row>);
  visit("runs", state.runs, in<file>);
  visit("superseded", state.superseded, if_set<row>);
  visit("restored", state.restored, in<row>);
  visit("last_claim", state.last_claim, if_set<row>);
}

// One field of the elements of a list, for those in which it is not what `usual` has: the
// position of each, and the value; only the position if the value is a bool.
template <typename T, typename Element, typename Value>
struct Column {
  T& list;
  Value Element::*field;
  Value usual;
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
  group(Column{state.waiters, &rules::Waiter::on_behalf_of, pid_t{0}});
  group(Column{state.waiters, &rules::Waiter::label, std::string()},
        Column{state.waiters, &rules::Waiter::priority, 0},
        Column{state.waiters, &rules::Waiter::spreads, false});
}

}  // namespace dlock::record
