// LocalStore: values that are kept under the name of a lock.
#include <utility>

#include "store/local/cache_files.hpp"
#include "store/local/local_store.hpp"

namespace dlock::local {

// No gate: a file is whole or not there.
asio::awaitable<ValueLookup> LocalStore::get_value(const LockName& lock, Wakeup&) {
  if (!directory_) {
    directory_ = Directory::open(options_.path, ours_, Directory::Missing::accept);
  }
  if (!directory_) co_return ValueLookup{};
  co_return CacheFiles(*directory_).get(lock);
}

asio::awaitable<Storing> LocalStore::put_value(const Claim& claim,
                                               const std::string& bytes,
                                               Lifetime lifetime, Wakeup& wakeup) {
  if (!gate_ || !folder_ || !session_ || !in_place()) co_return Storing::not_ours;
  // Written before the gate is ours, which nobody may hold while a disk is written to.
  auto draft = CacheFiles(*directory_).write(claim.lock, bytes, lifetime);
  const Turn turn = co_await take_turn(key_of(claim.lock, Kept::lock).gate, wakeup);
  const auto state = look_at(claim.lock).state;
  if (loss_of(state, claim.token)) co_return Storing::not_ours;
  draft.put_in_place();
  co_return Storing::stored;
}

asio::awaitable<void> LocalStore::forget_value(const LockName& lock, Wakeup&) {
  if (!directory_) {
    directory_ = Directory::open(options_.path, ours_, Directory::Missing::accept);
  }
  if (directory_) CacheFiles(*directory_).forget(lock);
  co_return;
}

}  // namespace dlock::local
