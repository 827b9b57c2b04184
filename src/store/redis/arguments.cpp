#include "store/redis/arguments.hpp"

#include "lock/dedupe.hpp"
#include "record/party_fields.hpp"
#include "record/run_fields.hpp"
#include "util/host.hpp"

namespace dlock::redis {
namespace {

template <typename T>
std::string json_of(const T& value) {
  JsonLine json;
  fields_on_redis(value, record::JsonWriter(json));
  return json.finished();
}

std::string mode_text(const Claim& claim) {
  return claim.mode == Mode::shared ? "s" : "x";
}

// The mode argument of ask.lua, followed by the flags of the claim.
std::string mode_and_options(const Claim& claim) {
  auto text = mode_text(claim);
  if (!claim.attached) text += 'd';
  if (claim.supersedes) text += 'n';
  if (claim.replaces) text += 'r';
  return text;
}

std::string queue_text(Queue queue, const Claim& claim) {
  if (queue != Queue::join) return queue == Queue::refuse ? "2" : "0";
  return claim.max_queue ? "1 " + std::to_string(*claim.max_queue) : "1";
}

std::string place_in_queue(std::int64_t arrived, const std::optional<Ballot>& ballot) {
  if (!ballot || ballot->ticket == 0) return std::to_string(arrived);
  return "=" + std::to_string(ballot->ticket);
}

std::string fence_wanted(Fence fence_floor, const std::optional<Ballot>& ballot) {
  if (!ballot) return std::to_string(fence_floor.number);
  const auto* kind = ballot->is_repair ? "!" : ballot->raises ? "^" : "=";
  return kind + std::to_string(ballot->fence.number);
}

// How long the server keeps a lease, in milliseconds.
std::string lease_time(const Claim& claim) {
  return std::to_string((claim.ttl + claim.lock_delay).count());
}

std::string dedupe_text(const std::optional<Dedupe>& dedupe) {
  if (!dedupe) return "";
  const auto* kind = dedupe->joins ? " 2" : dedupe->retry_failed ? " 1" : " 0";
  return std::to_string(dedupe->window.count()) + kind;
}

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::succeeded: return "good";
    case Verdict::failed: return "failed";
    case Verdict::no_run: break;
  }
  return "none";
}

}  // namespace

std::string party_text(const Claim& claim) {
  record::RedisParty party{record::own_party(claim), claim.for_pid, std::nullopt};
  if (!claim.attached) party.ttl = claim.ttl;
  return json_of(party);
}

std::string taker_text() { return json_of(record::own_taker(false)); }

std::string run_end_text(const RunEnd& end, const std::string& host,
                         const std::string& user) {
  RunInfo run;
  run.host = host;
  run.user = user;
  set_end(run, end);
  return json_of(run);
}

std::vector<std::string> ask_arguments(const Claim& claim, Queue queue,
                                       const std::string& waiter_id, std::int64_t arrived,
                                       Fence fence_floor,
                                       const std::optional<Ballot>& ballot) {
  std::vector<std::string> arguments{text_of(claim.token),
                                     waiter_id,
                                     mode_and_options(claim),
                                     std::to_string(claim.slots),
                                     lease_time(claim),
                                     queue_text(queue, claim),
                                     party_text(claim),
                                     dedupe_text(claim.dedupe),
                                     place_in_queue(arrived, ballot),
                                     fence_wanted(fence_floor, ballot)};
  for (const auto& fence : claim.outer_fences) {
    arguments.push_back(std::to_string(fence.number));
  }
  return arguments;
}

std::vector<std::string> release_arguments(const Claim& claim,
                                           const std::optional<RunEnd>& end,
                                           const std::string& waiter_id, Fence fence,
                                           bool may_come_late) {
  std::vector<std::string> arguments{
      text_of(claim.token),
      waiter_id,
      end ? run_end_text(*end, host_name(), record::own_user()) : "",
      may_come_late ? std::to_string(comes_late_by.count()) : "0",
      verdict_text(end && !end->lost ? verdict_on(end->exit_code) : Verdict::no_run),
      std::to_string(claim.min_hold.count()),
      end && end->is_shared ? "1" : "0",
      end ? std::to_string(fence.number) : "0"};
  if (end && end->lost) {
    arguments.push_back(party_text(claim));
    arguments.push_back(end->leaves_lease ? "1" : "0");
  }
  return arguments;
}

std::vector<std::string> revoke_arguments(const Claim& claim,
                                          const std::string& waiter_id, Fence fence) {
  return {text_of(claim.token),          waiter_id, "",  "0",
          verdict_text(Verdict::no_run), "0",       "v", std::to_string(fence.number)};
}

std::vector<std::string> renew_arguments(const Claim& claim, Fence fence) {
  if (!claim.attached) {
    return {text_of(claim.token), std::to_string(claim.ttl.count()),
            claim.keeps_ttl ? "1" : "0"};
  }
  return {text_of(claim.token), std::to_string(fence.number), lease_time(claim)};
}

std::vector<std::string> reclaim_arguments(const Claim& claim, const Grant& grant) {
  return {text_of(claim.token),
          std::to_string(grant.fence.number),
          lease_time(claim),
          mode_text(claim),
          std::to_string(claim.slots),
          std::to_string(grant.slot),
          party_text(claim)};
}

}  // namespace dlock::redis
