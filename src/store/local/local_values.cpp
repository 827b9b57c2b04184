#include "store/local/local_values.hpp"

#include <utility>

#include "rules/look.hpp"
#include "store/local/cache_files.hpp"
#include "store/local/file_name.hpp"

namespace dlock::local {

// No gate: a file is whole or not there.
asio::awaitable<ValueLookup> LocalValues::get(const LockName& lock, Wakeup&) {
  if (!files_.open_directory()) co_return ValueLookup{};
  co_return CacheFiles(files_.directory()).get(lock);
}

asio::awaitable<ValueLook> LocalValues::describe(const LockName& lock, Wakeup&) {
  if (!files_.open_directory()) co_return ValueLook{};
  co_return CacheFiles(files_.directory()).look(lock);
}

asio::awaitable<Storing> LocalValues::put(const Claim& claim, const std::string& bytes,
                                          Lifetime lifetime, Wakeup& wakeup) {
  if (!files_.are_open() || !files_.in_place()) co_return Storing::not_ours;
  // Written before the gate is ours, which nobody may hold while a disk is written to.
  auto draft = CacheFiles(files_.directory()).write(claim.lock, bytes, lifetime);
  const Files::Turn turn =
      co_await files_.take_turn(key_of(claim.lock, Kept::lock).gate, wakeup);
  const auto state = files_.look_at(claim.lock).state;
  if (rules::loss_of(state, claim.token)) co_return Storing::not_ours;
  draft.put_in_place();
  co_return Storing::stored;
}

asio::awaitable<void> LocalValues::forget(const LockName& lock, Wakeup&) {
  if (files_.open_directory()) CacheFiles(files_.directory()).forget(lock);
  co_return;
}

}  // namespace dlock::local
