// Every promise of lock/store.hpp, tested with every store.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/contract/faulty_store.hpp"
#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

[[maybe_unused]] const bool store_scenes = add_scenes("StoreContract", every_kind(), R"(
# The lock is free, held by another claim, or by this one.
grants a free lock:
  a takes
a held lock is busy for another:
  a takes; b is_busy
busy says who holds the lock:
  a(label=nightly) takes; b is_busy holders=1 fence=a here label=nightly command=./job
a repeated claim finds its own grant:
  a takes slot=0; a takes again slot=0
a repeated claim finds its own slot:
  a(slots=3) takes; b(slots=3) takes slot=1; a leaves; b takes again slot=1
the fence of each grant is greater than that of the one before:
  a takes; a leaves; b takes; b leaves; c takes; c leaves; d takes; d leaves; e takes; e leaves; f takes
a claim that is granted again has a greater fence:
  a takes; a leaves; a takes

# The queue.
a claim that does not join has no place in the queue:
  a takes; b is_busy place=0; lock waiters=0
a claim that joins has a place behind all others:
  a takes; b queues 1; c queues 2; d queues 3
a claim that joins counts as a waiter:
  a takes; b queues 1 queued=1; c queues 2 queued=2
a repeated claim keeps its place:
  a takes; b queues 1; c queues 2; b queues 1 queued=2
a free lock is granted to a claim that would queue:
  a gets
a newcomer does not overtake a waiter:
  a takes; b queues 1; a leaves; c is_busy
waiters are granted the lock in the order of their arrival:
  a takes; b queues 1; c queues 2; d queues 3; e queues 4
  ; a leaves; c is_busy; d is_busy; e is_busy; b takes; b leaves; d is_busy; e is_busy; c takes
  ; c leaves; e is_busy; d takes; d leaves; e takes; lock waiters=0
# A waiter that has just asked counts as alive if the lock was held only briefly.
a dead waiter is passed over:
  a takes; b(ttl=600ms) queues 1; c queues 2; b dies; pause 20ms; a leaves; soon c takes
the lock of a dead holder goes to the first waiter:
  a(ttl=500ms) takes; b queues 1; a dies; soon b takes

# Slots.
as many claims are granted as there are slots and no more:
  a(slots=3) takes; b(slots=3) takes; c(slots=3) takes; d(slots=3) is_busy
holders have different slots:
  a(slots=3) takes slot=0; b(slots=3) takes slot=1 fence>a; c(slots=3) takes slot=2 fence>b
a slot that was released is granted again:
  a(slots=3) takes; b(slots=3) takes; c(slots=3) takes; b leaves; d(slots=3) takes slot=1
a slot goes to the first waiter:
  a(slots=2) takes; b(slots=2) takes; c(slots=2) queues 1; a leaves; d(slots=2) is_busy; c takes
each slot that becomes free goes to one waiter:
  a(slots=2) takes; b(slots=2) takes; c(slots=2) queues 1; d(slots=2) queues 2; a leaves; d is_busy
  ; b leaves; e(slots=2) is_busy; d takes; c takes
a slot for which no one waits is granted to a newcomer:
  a(slots=2) takes; b(slots=2) takes; c(slots=2) queues 1; a leaves; b leaves; d(slots=2) takes; c takes
another number of slots is refused while the lock is in use:
  a(slots=3) takes; b(slots=2) asks differs slots=3; c asks differs slots=3
  ; d(shared) asks differs slots=3; e(slots=4) joins differs slots=3; lock waiters=0
another number of slots is refused while a claim waits:
  a(slots=2) takes; b(slots=2) takes; c(slots=2) queues 1; a leaves; b leaves; d(slots=3) asks differs slots=2
another number of slots is accepted when no one uses the lock:
  a(slots=3) takes; a leaves; lock slots=1; b(slots=2) takes

# Readers and writers.
readers hold together:
  a(shared) takes slot=0; b(shared) takes slot=0 fence>a
readers and writers exclude each other:
  a(shared) takes; b is_busy; a leaves; b takes; c(shared) is_busy
a waiting writer blocks readers that come later:
  a(shared) takes; b queues 1; c(shared) is_busy
readers in the queue are granted together:
  a takes; b(shared) queues 1; c(shared) queues 2; a leaves; c takes; b takes
a reader behind a writer does not join the readers before it:
  a takes; b(shared) queues 1; c queues 2; d(shared) queues 3; a leaves; d is_busy; b takes; d is_busy
  ; b leaves; d is_busy; c takes
a lock that a reader can take now excludes writers and no readers:
  a takes; b(shared) queues 1; a leaves; c is_busy; d(shared) takes; b takes
a writer that stops waiting lets the readers behind it in:
  a(shared) takes; b queues 1; c(shared) queues 2; c sleeps; b leaves; c wakes; c takes
a writer is granted the lock when the last reader releases:
  a(shared) takes; b(shared) takes; c queues 1; a leaves; c is_busy; b leaves; c takes

# Inside an outer run.
an inner run does not wait for the lock of its outer run:
  a takes; b(inside=a) joins nested fence=a; lock waiters=0
an outer run that is over does not count:
  a takes; a leaves; b takes; c(inside=a) is_busy
a reader inside a writer does not wait:
  a takes; b(shared, inside=a) asks nested
a writer inside a reader does not wait:
  a(shared) takes; b(inside=a) asks nested; c(shared) takes; d(inside=a) asks nested
a reader inside a reader is granted even before a waiting writer:
  a(shared) takes; b queues 1; c(shared, inside=a) takes; c ends; b is_busy; a leaves; d queues 2; b takes; b ends; d takes
another slot is granted inside an outer run:
  a(slots=2) takes; b(slots=2, inside=a) takes
an inner run does not wait if its outer runs hold all slots:
  a(slots=2) takes; b(slots=2, inside=a) takes; c(slots=2, inside=a, inside=b) joins nested
an inner run can wait for a slot that others hold:
  a(slots=2) takes; b(slots=2) takes; c(slots=2, inside=a) queues 1; b leaves; d(slots=2, inside=a) queues 2

# Release.
a release wakes the first waiter:
  a takes; b queues 1; b sleeps; a leaves; b wakes; b takes
a released lock is free:
  a takes; a leaves released; b takes
never releases the lock of another holder:
  a takes; b is_busy; b ends not_ours; c is_busy
the release of a claim that never asked does nothing:
  a takes; b leaves not_ours; lock holders=1
a repeated release finds that it is done:
  a takes; a leaves; b takes; a ends(code=1) not_ours; lock holders=1; last none
a repeated release does not take the lock from the next waiter:
  a takes; b queues 1; a leaves; a ends(code=1) not_ours; c is_busy; b takes; last none
a waiter that releases leaves the queue:
  a takes; b queues 1; b leaves not_ours; lock waiters=0
a waiter that releases at its turn hands the lock to the next:
  a takes; b queues 1; c queues 2; a leaves; b leaves !gone; c takes
the end of a run is recorded:
  a takes; a ends(code=3); last ran fence=a code=3 signal=none lasted=1500 ended here
the end of a run by a signal is recorded:
  a takes; a ends(signal=TERM); last ran code=none signal=TERM
a grant released before its command started is not a run:
  a takes; a leaves; last none; history runs=0
an abandoned lease expires where leases expire:
  only expiring; a takes; a ends(code=76, lost=unconfirmed, leaves_lease) left; b is_busy; last code=76
an abandoned lease is free where leases do not expire:
  only lasting; a takes; a ends(code=76, lost=unconfirmed, leaves_lease) released; b takes; last code=76
an abandoned lease cannot be renewed:
  a takes; a ends(code=76, lost=unconfirmed, leaves_lease) !not_ours; a ends not_ours
  ; only expiring; lock holders=1; holder fence=a ended
a claim that holds nothing abandons nothing:
  a ends(code=76, leaves_lease) not_ours
the start of a command changes nothing for its holder:
  a takes; a starts; a takes again; b is_busy

# What is shown.
an unused lock is free:
  lock holders=0 waiters=0 free=1; last none
a held lock shows its holder and its waiters:
  a takes; b queues 1; c queues 2; lock holders=1 waiters=2 free=0 here; holder fence=a
a semaphore shows its slots:
  a(slots=3) takes; b(slots=3) takes; lock slots=3 free=1 holders=2
a shared lock shows its readers:
  a(shared) takes; b(shared) takes; lock shared holders=2 free=0
inspecting a lock does not take it:
  lock free=1; a takes
locks in different namespaces are independent:
  a takes; b(space=other) takes
namespaces and names are never confused:
  a(space=a, name=b:c) takes; b(space=a:b, name=c) takes
an unused store has no locks:
  list names=
locks in use are listed by name:
  b(name=b) takes; c(name=c) takes; a(name=a) takes; list names=a,b,c
a lock with a last run is listed:
  a(name=ran) takes; a ends; list names=ran
a lock that was held without a run is not listed:
  a(name=held) takes; a leaves; list names=
locks that do not match are not listed:
  a(name=a) takes; b(name=b) takes; list(but=a) names=b
locks of other namespaces are not listed:
  a(name=a) takes; b(space=dlockb) takes; c(space=dloc) takes; d(space=d) takes; e(space=other) takes
  ; list names=a
a lease that no one changes is not lost:
  a(ttl=600ms) takes; a keeps; b queues 1; b leaves; a rests; a hears none
a lease that vanishes is lost:
  a(ttl=600ms) takes; a keeps; server forgets; soon a hears gone; a rests
a lease that vanishes is set up again where leases expire:
  only expiring; a(ttl=600ms, reclaim) takes; a keeps; server forgets; soon a hears again; a rests
a lease that vanishes is lost where leases do not expire:
  only lasting; a(ttl=600ms, reclaim) takes; a keeps; server forgets; soon a hears gone; a rests
a lease that is no longer kept is not reported as lost:
  a(ttl=600ms, slots=2) takes; a keeps; b(ttl=600ms, slots=2) takes; b keeps; a rests; server forgets
  ; soon b hears gone; a hears none; b rests
a store that does not answer is unreachable:
  a(hurries) takes; server stalls; a asks unreachable; a leaves unreachable
a failed request can be repeated:
  a(hurries) takes; server stalls; a leaves unreachable; server goes_on; a leaves !unreachable; b takes
a store keeps a lease longer than its holder by the lock delay:
  only expiring; a(delay=100s) takes lasts<30s; a takes again lasts<30s; holder expires_in>128s
)");

[[maybe_unused]] const bool fence_scenes =
    add_scenes("FenceFloor", kinds_with(&Kind::raises_fences), R"(
the fence of a grant is above the floor of its claim:
  a(floor=in_an_hour) takes fence>in_an_hour; a leaves; b takes fence>a
the fence of a waiter is above its floor:
  a takes; b(floor=in_an_hour) queues 1; a leaves; b takes fence>in_an_hour
)");

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender(const Claim& claim, milliseconds timeout = usual_timeout) {
    return contenders_.emplace_back(context_, *world_, claim, timeout);
  }
  Contender& exclusive(const std::string& name = "job") {
    return contender(claim_of(name));
  }
  // As if its process had been killed.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  std::vector<std::string> listed() {
    auto& reader = exclusive();
    const auto all = [](const std::string&) { return true; };
    std::vector<std::string> names;
    for (const auto& lock : result_of(
             context_, reader.store->inspector().list("dlock", all, reader.wakeup))) {
      names.push_back(lock.lock.name);
    }
    return names;
  }

  static Failure::Kind failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Failure& failure) {
      return failure.kind();
    }
    throw std::logic_error("did not fail");
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

// In the order of their bytes.
// clang-format off
const std::string unusual_names[] = {
    "\"", "$(a)", "%", "%20", "%61", "'", "*", "-", "--", ".", "..", "../x", ":h",
    "?[a-z]", "A", "a", "a b", "a%20b", "a/b", "a:b", "a:s", "a=b", "a\\b", "ab",
    "a}{b", "nai\xCC\x88ve", "na\xC3\xAFve", "{", "{a}", "{}", "}"};
// clang-format on

INSTANTIATE_TEST_SUITE_P(stores, StoreContract, ::testing::ValuesIn(kinds), name_of);

// The store itself

TEST_P(StoreContract, all_clients_of_a_store_report_the_same_url) {
  EXPECT_FALSE(exclusive().store->url().empty());
  EXPECT_EQ(exclusive().store->url(), exclusive().store->url());
}

TEST_P(StoreContract, excludes_other_claims) {
  EXPECT_TRUE(exclusive().store->protects());
}

// ask: the lock is free, held by another claim, or by this one

TEST_P(StoreContract, a_claim_whose_reply_was_lost_finds_its_own_grant) {
  auto& holder = exclusive();
  FaultyClaimant faulty(
      holder.claimant(),
      {{1, {Failure(Failure::Kind::unreachable, "lost"), Fault::When::after}}});
  const auto ask = [&] {
    return result_of(context_, faulty.ask(Queue::stay_out, holder.wakeup));
  };

  EXPECT_THROW(ask(), Failure);
  EXPECT_EQ(std::get<Grant>(ask()).fence, holder.granted().fence);
}

// ask: which lock

TEST_P(StoreContract, locks_with_different_names_are_independent) {
  for (const auto& name : unusual_names) {
    EXPECT_TRUE(exclusive(name).is_granted()) << name;
    EXPECT_TRUE(exclusive(name).is_busy()) << name;
    kill(contenders_.back());
  }

  EXPECT_EQ(listed(),
            std::vector<std::string>(std::begin(unusual_names), std::end(unusual_names)));
}

TEST_P(StoreContract, the_longest_names_work_like_any_other) {
  const LockName longest{std::string(255, 'n'), std::string(255, 'x')};
  auto& holder = exclusive();
  holder.claim.lock = longest;
  auto& other = exclusive();
  other.claim.lock = longest;
  auto& neighbour = exclusive();
  neighbour.claim.lock = {longest.name_space, std::string(254, 'x') + "y"};

  EXPECT_TRUE(holder.is_granted());
  EXPECT_TRUE(other.is_busy());
  EXPECT_TRUE(neighbour.is_granted());
}

// await_turn

TEST_P(StoreContract, a_waiter_sleeps_no_longer_than_its_wait) {
  exclusive().granted();
  auto& waiter = exclusive();
  waiter.queued();

  result_of(context_,
            waiter.claimant().await_turn(waiter.wakeup.within(milliseconds(20))));
}

TEST_P(StoreContract, a_waiter_that_is_told_to_stop_does_so_at_once) {
  exclusive().granted();
  auto& waiter = exclusive();
  waiter.queued();
  // A sleep may end early by itself, so the test can only check that it ends.
  Task sleep(context_, with_result(waiter.claimant().await_turn(endless(waiter.wakeup))));

  waiter.wakeup.give_up(true);

  try {
    sleep.result();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::interrupted);
  }
}

// session, started, keeping

TEST_P(StoreContract, a_session_is_closed_on_exec_unless_it_is_passed_on) {
  auto& holder = exclusive();
  holder.granted();
  const int session = holder.claimant().session();

  EXPECT_TRUE(session == -1 || (::fcntl(session, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_P(StoreContract, the_record_of_a_start_is_a_file_and_its_content) {
  auto& holder = exclusive();
  holder.granted();

  const auto note = holder.claimant().start_note();

  EXPECT_TRUE(!note || (note->file && !note->before_pid.empty()));
}

// A service that does not reply

// Nothing can block readers of a local store, who read its state themselves.
TEST_P(StoreContract, the_inspection_of_a_store_that_does_not_answer_ends) {
  auto& holder = contender(claim_of("job"), GetParam().brief_timeout);
  holder.granted();
  const auto obstacle = world_->hold_up();
  try {
    EXPECT_EQ(holder.inspect().holders.size(), 1u);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  }
}

TEST_P(StoreContract, stops_asking_when_told_to) {
  auto& asker = exclusive();
  const auto obstacle = world_->hold_up();
  Task answer(context_, asker.claimant().ask(Queue::stay_out, asker.wakeup));

  asker.wakeup.give_up(true);

  EXPECT_EQ(failure_of([&] { answer.result(); }), Failure::Kind::interrupted);
}

}  // namespace
}  // namespace dlock
