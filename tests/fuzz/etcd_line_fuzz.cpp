// Keys and values that anyone may have written below a namespace in etcd: entries of
// the queue, runs in progress or ended, and messages to waiters.

#include <algorithm>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_inspector.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/etcd_runs.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// Each line of the input is a key, a tab and a value.
std::vector<etcd::KeyValue> pairs_from(std::string_view input) {
  std::vector<etcd::KeyValue> pairs;
  while (!input.empty()) {
    const auto end = std::min(input.find('\n'), input.size());
    const auto snapshot = input.substr(0, end);
    const auto tab = std::min(snapshot.find('\t'), snapshot.size());
    etcd::KeyValue pair;
    pair.key = "dlock/" + std::string(snapshot.substr(0, tab));
    pair.value = snapshot.substr(std::min(tab + 1, snapshot.size()));
    pair.create_revision = static_cast<std::int64_t>(pairs.size()) + 1;
    pair.mod_revision = pair.create_revision;
    pair.version = 1;
    pairs.push_back(std::move(pair));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return pairs;
}

// What is read can be written, and is then read as the same.
void check(const etcd::QueueEntry& entry, const LockName& lock) {
  if (entry.foreign) return;
  etcd::KeyValue pair;
  pair.key = etcd::queue_prefix(lock) + entry.id;
  pair.value = etcd::text_of(entry);
  const auto again = etcd::entry_from(pair, etcd::queue_prefix(lock));
  require(!again.foreign, "dlock knows what it has written");
  require(etcd::text_of(again) == pair.value, "an entry is written as it was read");
}

void check(const etcd::LockSnapshot& snapshot, const LockName& lock, const Claim& claim) {
  for (const auto& entry : snapshot.entries) {
    check(entry, lock);
    etcd::watched_by(snapshot, entry);
    etcd::can_be_set_up_again(snapshot, entry);
  }
  const WallTime now(1'000'000);
  etcd::info_of(snapshot, lock, now);
  etcd::kept_runs(snapshot.runs, snapshot.entries, now);
  etcd::to_forget(snapshot.runs, snapshot.entries, now);
  for (const auto queue : {Queue::stay_out, Queue::join, Queue::refuse}) {
    const auto decision = etcd::decide(snapshot, claim, "new", queue, now);
    const bool answers = decision.kind == etcd::Decision::Kind::answer ||
                         decision.kind == etcd::Decision::Kind::join;
    require(!answers || decision.answer.has_value(), "there is an answer");
    // No claim is granted the lock beside an exclusive holder.
    const bool enters = decision.kind == etcd::Decision::Kind::enter;
    for (const auto& entry : snapshot.entries) {
      const bool is_alone = entry.holds() && entry.mode == Mode::exclusive;
      require(!enters || !is_alone || claim.replaces || entry.slots > 1,
              "no claim enters beside one who holds the lock alone");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto pairs = pairs_from(fuzz::text_of(data, size));
  for (const auto& [name, snapshot] : etcd::snapshots_from(pairs, "dlock", 99)) {
    const LockName lock{"dlock", name};
    require(is_valid(lock), "a name is one that a lock can have");
    Claim claim;
    claim.lock = lock;
    check(snapshot, lock, claim);
    claim.mode = Mode::shared;
    check(snapshot, lock, claim);
    claim.mode = Mode::exclusive;
    claim.replaces = true;
    claim.supersedes = true;
    claim.dedupe = Dedupe{milliseconds(1000)};
    check(snapshot, lock, claim);
  }
  return 0;
}
