#include "store/local/local_values.hpp"

#include <utility>

#include "rules/look.hpp"
#include "store/local/cache_files.hpp"
#include "store/local/file_name.hpp"

namespace dlock::local {

// No mutex: a file is complete or does not exist.
asio::awaitable<ValueLookup> LocalValues::get(const LockName& lock, std::size_t most,
                                              Wakeup&) {
  if (!files_.open_directory()) co_return ValueLookup{};
  auto found = CacheFiles(files_.directory()).get(lock);
  if (found.value && found.value->bytes.size() > most) {
    co_return too_large(found.value->bytes.size(), most);
  }
  co_return found;
}

asio::awaitable<ValueLook> LocalValues::describe(const LockName& lock, Wakeup&) {
  if (!files_.open_directory()) co_return ValueLook{};
  co_return CacheFiles(files_.directory()).look(lock);
}

asio::awaitable<Storing> LocalValues::put(const Claim& claim, const std::string& bytes,
                                          Lifetime lifetime, Wakeup& wakeup) {
  if (!files_.are_open() || !files_.in_place()) co_return Storing::not_ours;
  // Written before the mutex is locked, which must not be held during disk writes.
  auto draft = CacheFiles(files_.directory()).write(claim.lock, bytes, lifetime);
  const Files::MutexGuard guard =
      co_await files_.lock_mutex(key_of(claim.lock, Kept::lock).mutex, wakeup);
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
