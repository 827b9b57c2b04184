#include "store/etcd/steps.hpp"

#include <chrono>
#include <utility>

#include "store/etcd/keys.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {
namespace {

using Target = Compare::Target;

RangeRequest all_below(std::string prefix) {
  RangeRequest range;
  range.range_end = end_of_prefix(prefix);
  range.key = std::move(prefix);
  return range;
}

std::string key_of(const Scene& scene, const Entry& entry) {
  return line_of(scene.lock) + entry.id;
}

PutRequest put(std::string key, std::string value, std::int64_t lease) {
  PutRequest request;
  request.key = std::move(key);
  request.value = std::move(value);
  request.lease = lease;
  return request;
}

DeleteRequest deletion(std::string key) {
  DeleteRequest request;
  request.key = std::move(key);
  return request;
}

PutRequest entry_put(const Scene& scene, const Entry& entry) {
  return put(key_of(scene, entry), text_of(entry), entry.lease);
}

Compare is(std::string key, Target target, std::int64_t number) {
  Compare compare;
  compare.key = std::move(key);
  compare.target = target;
  compare.number = number;
  return compare;
}

// An entry that is there is as it was; one that is not there yet still is not.
Compare is_as_it_was(const Scene& scene, const Entry& entry) {
  return is(key_of(scene, entry), Target::mod_revision, entry.modified);
}

Compare of_all(std::string prefix, Target target, Compare::Result result,
               std::int64_t number) {
  auto compare = is(prefix, target, number);
  compare.range_end = end_of_prefix(prefix);
  compare.result = result;
  return compare;
}

// Nothing came or was changed; who has left since only makes room.
Compare is_untouched_since(std::string prefix, std::int64_t revision) {
  return of_all(std::move(prefix), Target::mod_revision, Compare::Result::less,
                revision + 1);
}

void add_look(std::vector<Operation>& operations, const LockName& lock) {
  operations.emplace_back(all_below(line_of(lock)));
  operations.emplace_back(all_below(runs_of(lock)));
}

// That this one holds, and what will tell of it if it vanishes.
void add_holder(TxnRequest& txn, const Scene& scene, const Entry& own) {
  const auto until = scene.now + std::chrono::seconds(own.ttl);
  txn.then.emplace_back(entry_put(scene, own));
  txn.then.emplace_back(
      put(now_key(scene.lock, own.id), open_run_text(own, until), scene.day_lease));
}

void add_past_run(std::vector<Operation>& operations, const Scene& scene,
                  const Entry& holder, const RunInfo& run, bool is_shared) {
  operations.emplace_back(put(past_key(scene.lock, holder.fence()),
                              past_run_text(run, is_shared), scene.day_lease));
}

void add_loser(TxnRequest& txn, const Scene& scene, const Entry& holder,
               const Taker& taker) {
  txn.conditions.push_back(is_as_it_was(scene, holder));
  if (is_told_of_loss(holder)) {
    auto told = holder;
    told.standing = Standing::broken;
    told.taken_by = taker;
    txn.then.emplace_back(entry_put(scene, told));
    return;
  }
  txn.then.emplace_back(deletion(key_of(scene, holder)));
  // For those who watch. It is of no use for longer than the lease would have lasted, and
  // one that is not dlock's may have none.
  txn.then.emplace_back(put(taken_key(scene.lock, holder.id), taken_text(taker),
                            holder.lease != 0 ? holder.lease : scene.day_lease));
  if (holder.foreign || holder.standing == Standing::ended) return;
  txn.then.emplace_back(deletion(now_key(scene.lock, holder.id)));
  add_past_run(txn.then, scene, holder, ended_by_hand(holder, scene.now), false);
}

void add_rivals(TxnRequest& txn, const Scene& scene, const Entry& own,
                const Decision& decision) {
  for (const auto& waiter : decision.give_way) {
    txn.conditions.push_back(is_as_it_was(scene, waiter));
    txn.then.emplace_back(deletion(key_of(scene, waiter)));
    // With its lease, for it is of no use to anybody else.
    txn.then.emplace_back(put(told_key(scene.lock, waiter.id),
                              told_text({own.host, own.pid}), waiter.lease));
  }
  if (!decision.give_way.empty()) {
    txn.then.emplace_back(put(superseded_key(scene.lock), "", scene.day_lease));
  }
  for (const auto& holder : decision.lose) {
    add_loser(txn, scene, holder, taker(true));
  }
}

// What a claim goes by that has not looked at its own entry alone.
void add_guards(TxnRequest& txn, const Scene& scene, const Line& line,
                const Claim& claim) {
  txn.conditions.push_back(is_untouched_since(line_of(scene.lock), line.revision));
  // A whole run may have come and gone.
  if (!claim.dedupe) return;
  txn.conditions.push_back(is_untouched_since(runs_of(scene.lock), line.revision));
}

const RangeResult& range_at(const TxnResult& result, std::size_t index) {
  const auto* range = index < result.results.size()
                          ? std::get_if<RangeResult>(&result.results[index])
                          : nullptr;
  if (range != nullptr) return *range;
  throw Failure(Failure::Kind::unreachable, "etcd sent an unexpected reply");
}

}  // namespace

TxnRequest look_at(const LockName& lock) {
  TxnRequest txn;
  add_look(txn.then, lock);
  return txn;
}

TxnRequest glance_at(const LockName& lock) {
  TxnRequest txn;
  txn.then.emplace_back(all_below(line_of(lock)));
  return txn;
}

Line line_from(const LockName& lock, const TxnResult& result, std::size_t first) {
  Line line;
  line.revision = result.revision;
  line.entries = entries_from(range_at(result, first).pairs, line_of(lock));
  if (result.results.size() == 1) return line;
  line.runs = runs_from(range_at(result, first + 1).pairs, runs_of(lock));
  return line;
}

TxnRequest enter_first(const Scene& scene, const Entry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  txn.conditions.push_back(of_all(line_of(scene.lock), Target::create_revision,
                                  Compare::Result::greater, own.created - 1));
  add_holder(txn, scene, own);
  add_look(txn.then, scene.lock);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest enter(const Scene& scene, const Line& line, const Claim& claim,
                 const Entry& own, const Decision& decision) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  // What lets it past a writer that waits has to be there still: no guard sees that a key
  // has gone.
  if (const auto* outer = outer_reader(line, claim)) {
    txn.conditions.push_back(
        is(key_of(scene, *outer), Target::create_revision, outer->created));
  }
  const bool waited = own.created != 0;
  // Its turn stays its turn, but two must not choose the same slot.
  if (!waited || claim.slots > 1 || claim.dedupe) add_guards(txn, scene, line, claim);
  add_rivals(txn, scene, own, decision);
  add_holder(txn, scene, own);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest join(const Scene& scene, const Line& line, const Claim& claim,
                const Entry& own, const Decision& decision) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  const bool goes_by_others = claim.max_queue || claim.dedupe || claim.supersedes ||
                              claim.replaces || claim.slots > 1;
  if (goes_by_others) add_guards(txn, scene, line, claim);
  add_rivals(txn, scene, own, decision);
  txn.then.emplace_back(entry_put(scene, own));
  add_look(txn.then, scene.lock);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest take_away(const Scene& scene, const std::vector<Entry>& holders,
                     const Taker& taker) {
  TxnRequest txn;
  for (const auto& holder : holders) add_loser(txn, scene, holder, taker);
  add_look(txn.then, scene.lock);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest rewrite(const Scene& scene, const Entry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  add_holder(txn, scene, own);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest set_up_again(const Scene& scene, const Line& line, const Entry& own) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  txn.conditions.push_back(is_untouched_since(line_of(scene.lock), line.revision));
  txn.conditions.push_back(is_untouched_since(runs_of(scene.lock), line.revision));
  add_holder(txn, scene, own);
  add_look(txn.otherwise, scene.lock);
  return txn;
}

TxnRequest give_back(const Scene& scene, const Entry& own, const Ending& ending) {
  TxnRequest txn;
  txn.conditions.push_back(is_as_it_was(scene, own));
  if (ending.kept_on != 0) {
    auto kept = own;
    kept.standing = Standing::ended;
    kept.lease = ending.kept_on;
    txn.then.emplace_back(entry_put(scene, kept));
  } else {
    txn.then.emplace_back(deletion(key_of(scene, own)));
  }
  if (own.holds()) txn.then.emplace_back(deletion(now_key(scene.lock, own.id)));
  if (ending.end) {
    add_past_run(txn.then, scene, own, ended_run(own, *ending.end, scene.now),
                 ending.end->is_shared);
  } else if (own.holds() && !own.attached) {
    add_past_run(txn.then, scene, own, ended_by_hand(own, scene.now), false);
  }
  auto runs = all_below(runs_of(scene.lock));
  runs.keys_only = true;
  runs.limit = 1;
  txn.then.emplace_back(std::move(runs));
  add_look(txn.otherwise, scene.lock);
  return txn;
}

std::int64_t runs_kept_after(const TxnResult& given_back) {
  return range_at(given_back, given_back.results.size() - 1).count;
}

TxnRequest record_lost(const Scene& scene, const Entry& own, const RunEnd& end) {
  TxnRequest txn;
  txn.then.emplace_back(deletion(now_key(scene.lock, own.id)));
  add_past_run(txn.then, scene, own, ended_run(own, end, scene.now), false);
  return txn;
}

TxnRequest forget(const std::vector<std::string>& keys) {
  TxnRequest txn;
  for (const auto& key : keys) {
    if (txn.then.size() == most_in_one_step) break;
    txn.then.emplace_back(deletion(key));
  }
  return txn;
}

TxnRequest count_refused(const Scene& scene) {
  TxnRequest txn;
  txn.then.emplace_back(put(refused_key(scene.lock), "", scene.day_lease));
  return txn;
}

}  // namespace dlock::etcd
