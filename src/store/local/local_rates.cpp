#include "store/local/local_rates.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "record/state_bytes.hpp"
#include "store/local/file_name.hpp"
#include "store/local/record.hpp"
#include "store/local/registers.hpp"
#include "store/local/state_folder.hpp"
#include "util/host.hpp"
#include "util/text.hpp"

namespace dlock::local {

asio::awaitable<Admission> LocalRegisters::admit_fence(const LockName& resource,
                                                       Fence fence, Wakeup& wakeup) {
  return files_.repeated(
      wakeup, [this, resource, fence, &wakeup]() -> asio::awaitable<Admission> {
        files_.create_directory();
        const Files::MutexGuard guard =
            co_await files_.lock_mutex(registers_mutex, wakeup);
        co_return Registers(files_.directory()).admit(resource, fence);
      });
}

LimitState LocalRates::limit_in(const RecordFile& file, const LockName& limit) const {
  if (!file.exists()) return {};
  const auto named = named_in(file.payload());
  auto state = named && named->name == limit ? decoded_limit(named->value) : std::nullopt;
  if (!state) {
    throw damaged(files_.folder().path_of(key_of(limit, Kept::limit).file),
                  "damaged (it does not hold the state of its limit)");
  }
  return std::move(*state);
}

// The file to admit a claim by. A damaged one is replaced once everything that it can
// have contained is older than the period.
RecordFile LocalRates::file_to_admit(const RateClaim& claim,
                                     const std::string& name) const {
  const auto& folder = files_.folder();
  try {
    RecordFile file(folder, name, RecordFile::Access::write);
    limit_in(file, claim.limit);
    return file;
  } catch (const Damaged&) {
    struct stat status {};
    if (::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        WallTime(std::chrono::seconds(status.st_mtim.tv_sec + 1)) + claim.rate.period >
            wall_now()) {
      throw;
    }
  }
  ::unlinkat(folder.fd(), name.c_str(), 0);
  return {folder, name, RecordFile::Access::write};
}

asio::awaitable<RateAnswer> LocalRates::admit(const RateClaim& claim, Wakeup& wakeup) {
  return files_.repeated(wakeup, [this, claim, &wakeup]() -> asio::awaitable<RateAnswer> {
    if (admitted_ && admitted_->first == claim.token) co_return admitted_->second;
    if (files_.was_replaced()) files_.close();
    co_await files_.open_to_use(wakeup);
    RateAnswer answer;
    {
      const auto key = key_of(claim.limit, Kept::limit);
      const Files::MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
      files_.check_in_place();
      auto file = file_to_admit(claim, key.file);
      auto state = limit_in(file, claim.limit);
      const auto moment = Moment::now();
      answer = rules::admit(state, claim, moment.boot);
      if (std::holds_alternative<RateDiffers>(answer)) co_return answer;
      if (!file.exists()) files_.note_sweep(co_await files_.sound_head(wakeup));
      if (!state.stamps.empty() || !state.turns.empty()) {
        file.write(with_name(claim.limit, encoded(state)), moment);
      } else if (file.exists()) {
        file.remove();
      }
    }
    if (std::holds_alternative<Admitted>(answer)) admitted_.emplace(claim.token, answer);
    co_await files_.drop_unused(wakeup);
    co_return answer;
  });
}

asio::awaitable<void> LocalRates::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  if (!files_.are_open()) co_return;
  const auto key = key_of(claim.limit, Kept::limit);
  const Files::MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
  files_.check_in_place();
  RecordFile file(files_.folder(), key.file, RecordFile::Access::write);
  auto state = limit_in(file, claim.limit);
  if (!rules::withdraw(state, claim.token)) co_return;
  file.write(with_name(claim.limit, encoded(state)), Moment::now());
}

asio::awaitable<LimitInfo> LocalRates::look(const LockName& limit, Wakeup& wakeup) {
  return files_.repeated(wakeup, [this, limit]() -> asio::awaitable<LimitInfo> {
    if (!files_.open_to_look() || !files_.has_folder()) co_return LimitInfo{};
    const auto file_name = key_of(limit, Kept::limit).file;
    const RecordFile file(files_.folder(), file_name, RecordFile::Access::read);
    auto info = rules::look(limit_in(file, limit), Clock::now());
    for (auto& waiter : info.waiters) waiter.host = host_name();
    co_return info;
  });
}

asio::awaitable<void> LocalRates::reset(const LockName& limit, Wakeup& wakeup) {
  return files_.repeated(wakeup, [this, limit, &wakeup]() -> asio::awaitable<void> {
    if (!files_.open_existing()) co_return;
    const auto key = key_of(limit, Kept::limit);
    const Files::MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
    files_.check_in_place();
    RecordFile file(files_.folder(), key.file, RecordFile::Access::write);
    if (file.exists()) file.remove();
  });
}

}  // namespace dlock::local
