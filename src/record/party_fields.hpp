// The fields of those who hold a lock, wait for it, or take it from others.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "lock/history.hpp"
#include "record/record_fields.hpp"
#include "rules/state.hpp"
#include "util/users.hpp"

namespace dlock::record {

// The account name of this process. Looked up once, so that it does not delay a waiter
// when its turn comes.
inline const std::string& own_user() {
  static const std::string user = user_name(::geteuid());
  return user;
}

// This process as the one that makes a claim, with the part of its command that is kept;
// and as the one that takes a lock from its holder.
inline CommandInfo own_party(const Claim& claim) {
  CommandInfo party;
  party.host = host_name();
  party.pid = claim.on_behalf_of != 0 ? claim.on_behalf_of : ::getpid();
  party.user = own_user();
  party.label = claim.label;
  party.period = claim.period;
  party.command = shortened_command(claim.command);
  return party;
}
inline Taker own_taker(bool replaces) { return {own_user(), host_name(), replaces}; }

// The sessions of an embedded store: bytes of its file `sessions`.
constexpr rules::Session first_session = 1u << 16;
constexpr rules::Session last_session = (rules::Session{1} << 62u) - 1;
constexpr bool is_session(rules::Session session) {
  return session >= first_session && session < last_session;
}

template <Of<rules::Party> Party, typename Visit>
void fields_in_bytes(Party& party, Visit&& visit) {
  visit(party.token), visit(party.session), visit(party.pid);
  visit(party.pid_namespace), visit(as<uid>(party.user)), visit(party.host);
}

// Fields that were added later are in the file of a lock behind all others:
// state_bytes.cpp.
template <Of<rules::Holder> Holder, typename Visit>
void fields_in_bytes(Holder& holder, Visit&& visit) {
  visit(holder.party), visit(holder.command), visit(holder.command_after);
  visit(holder.command_before), visit(holder.mode), visit(holder.slot);
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
  visit("label", holder.label);
  visit("period", as<if_set>(holder.period));
  visit("counts", holder.counts);
}

template <Of<CommandInfo> Party, typename Visit>
void fields_in_event(Party& party, Visit&& visit) {
  visit("host", party.host);
  visit("pid", party.pid);
  visit("user", party.user);
  visit("label", party.label);
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
  visit("label", as<if_set>(party.label));
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
  visit("label", as<if_set>(party.label));
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
  visit("started", as<date>(run.started));
  visit("ended", as<date>(run.ended));
  visit("duration_ms", run.duration);
  visit("exit_code", run.exit_code);
  visit("signal", run.signal);
  visit("host", run.host);
  visit("uid", as<uid>(run.user));
  visit("outcome", run.outcome);
  visit("reason", as<if_set>(run.reason));
  visit("label", as<if_set>(run.label));
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
  visit("label", as<if_set>(run.label));
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
  visit("label", as<if_set>(run.label));
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

}  // namespace dlock::record
