// LocalStore: registers of fences, and limits, which have nothing to do with locks.
#include <utility>

#include "store/local/keys.hpp"
#include "store/local/local_store.hpp"
#include "store/local/registers.hpp"
#include "util/text.hpp"

namespace dlock::local {
namespace {}  // namespace

// Not under the gate of the locks, which nobody may hold while a disk is written to.
asio::awaitable<Admission> LocalStore::admit_fence(const LockName& resource, Fence fence,
                                                   Wakeup& wakeup) {
  open(Directory::Missing::create);
  Gate gate(*directory_, true, Gate::To::registers);
  const Turn turn = co_await take_turn(gate, Gate::Access::write, wakeup);
  co_return Registers(*directory_).admit(resource, fence);
}

LimitState LocalStore::load_limit(Transaction& transaction, const LockName& limit) const {
  const auto bytes = transaction.get(key_of(limit, Kept::limit));
  if (!bytes) return {};
  auto state = decoded_limit(*bytes);
  if (!state) {
    throw Failure(Failure::Kind::misconfigured,
                  printable(directory_->path_of(Database::file_name())) +
                      " is damaged (a limit does not match its checksum); move it away "
                      "once no command runs under its locks");
  }
  return std::move(*state);
}

asio::awaitable<RateAnswer> LocalStore::admit(const RateClaim& claim, Wakeup& wakeup) {
  if (admitted_ && admitted_->first == claim.token) co_return admitted_->second;
  if (was_replaced_) close();
  open(Directory::Missing::create);
  const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
  check_in_place();
  open_database(Database::Access::write);
  Transaction transaction(*database_, Database::Access::write);
  auto state = load_limit(transaction, claim.limit);
  const auto moment = Moment::now();
  const auto answer = dlock::local::admit(state, claim, moment.boot);
  if (std::holds_alternative<RateDiffers>(answer)) co_return answer;
  if (state.stamps.empty() && state.turns.empty()) {
    transaction.erase(key_of(claim.limit, Kept::limit));
  } else {
    transaction.put(key_of(claim.limit, Kept::limit), encoded(state));
  }
  sweep(transaction, moment);
  transaction.commit();
  if (std::holds_alternative<Admitted>(answer)) admitted_.emplace(claim.token, answer);
  co_return answer;
}

asio::awaitable<void> LocalStore::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  if (!gate_) co_return;
  const Turn turn = co_await take_turn(Gate::Access::write, wakeup);
  check_in_place();
  open_database(Database::Access::write);
  Transaction transaction(*database_, Database::Access::write);
  auto state = load_limit(transaction, claim.limit);
  if (!dlock::local::withdraw(state, claim.token)) co_return;
  transaction.put(key_of(claim.limit, Kept::limit), encoded(state));
  transaction.commit();
}

}  // namespace dlock::local
