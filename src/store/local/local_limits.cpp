// LocalStore: registers of fences, and limits, which have nothing to do with locks.
#include <utility>

#include "store/local/local_store.hpp"
#include "store/local/registers.hpp"
#include "store/local/state_folder.hpp"
#include "util/text.hpp"

namespace dlock::local {

asio::awaitable<Admission> LocalStore::admit_fence(const LockName& resource, Fence fence,
                                                   Wakeup& wakeup) {
  open(Directory::Missing::create);
  const Turn turn = co_await take_turn(registers_gate, wakeup);
  co_return Registers(*directory_).admit(resource, fence);
}

LimitState LocalStore::limit_in(const RecordFile& file, const LockName& limit) const {
  if (!file.exists()) return {};
  const auto named = named_in(file.payload());
  auto state = named && named->name == limit ? decoded_limit(named->value) : std::nullopt;
  if (!state) {
    throw damaged(folder_->path_of(key_of(limit, Kept::limit).file),
                  "damaged (it is not the state of its limit)");
  }
  return std::move(*state);
}

asio::awaitable<RateAnswer> LocalStore::admit(const RateClaim& claim, Wakeup& wakeup) {
  if (admitted_ && admitted_->first == claim.token) co_return admitted_->second;
  if (was_replaced_) close();
  co_await open_to_use(wakeup);
  RateAnswer answer;
  {
    const auto key = key_of(claim.limit, Kept::limit);
    const Turn turn = co_await take_turn(key.gate, wakeup);
    check_in_place();
    RecordFile file(*folder_, key.file, RecordFile::Access::write);
    auto state = limit_in(file, claim.limit);
    const auto moment = Moment::now();
    answer = rules::admit(state, claim, moment.boot);
    if (std::holds_alternative<RateDiffers>(answer)) co_return answer;
    if (!file.exists()) note_sweep(head_of(*folder_));
    if (!state.stamps.empty() || !state.turns.empty()) {
      file.write(with_name(claim.limit, encoded(state)), moment);
    } else if (file.exists()) {
      file.remove();
    }
  }
  if (std::holds_alternative<Admitted>(answer)) admitted_.emplace(claim.token, answer);
  co_await drop_unused(wakeup);
  co_return answer;
}

asio::awaitable<void> LocalStore::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  if (!gate_ || !folder_) co_return;
  const auto key = key_of(claim.limit, Kept::limit);
  const Turn turn = co_await take_turn(key.gate, wakeup);
  check_in_place();
  RecordFile file(*folder_, key.file, RecordFile::Access::write);
  auto state = limit_in(file, claim.limit);
  if (!rules::withdraw(state, claim.token)) co_return;
  file.write(with_name(claim.limit, encoded(state)), Moment::now());
}

}  // namespace dlock::local
