#include "store/local/local_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "store/local/local_claimant.hpp"
#include "store/local/local_inspector.hpp"
#include "store/local/local_values.hpp"
#include "store/local/record_file.hpp"
#include "store/local/text_files.hpp"
#include "util/process.hpp"

namespace dlock::local {
namespace {

class LocalRates final : public RateLimits {
 public:
  explicit LocalRates(Files& files) : files_(files) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override {
    return files_.repeated(
        wakeup, [this, claim, &wakeup]() -> asio::awaitable<RateAnswer> {
          if (admitted_ && admitted_->first == claim.token) co_return admitted_->second;
          if (files_.was_replaced()) files_.close();
          co_await files_.open_to_use(wakeup);
          RateAnswer answer;
          {
            const auto key = key_of(claim.limit, StateKind::limit);
            const MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
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
          if (std::holds_alternative<Admitted>(answer))
            admitted_.emplace(claim.token, answer);
          co_await files_.drop_unused(wakeup);
          co_return answer;
        });
  }

  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override {
    if (!files_.are_open()) co_return;
    const auto key = key_of(claim.limit, StateKind::limit);
    const MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
    files_.check_in_place();
    RecordFile file(files_.folder(), key.file, RecordFile::Access::write);
    auto state = limit_in(file, claim.limit);
    if (!rules::withdraw(state, claim.token)) co_return;
    file.write(with_name(claim.limit, encoded(state)), Moment::now());
  }

  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override {
    return files_.repeated(wakeup, [this, limit]() -> asio::awaitable<LimitInfo> {
      if (!files_.open_to_look() || !files_.has_folder()) co_return LimitInfo{};
      const auto file_name = key_of(limit, StateKind::limit).file;
      const RecordFile file(files_.folder(), file_name, RecordFile::Access::read);
      auto info = rules::look(limit_in(file, limit), Clock::now());
      for (auto& waiter : info.waiters) waiter.host = host_name();
      co_return info;
    });
  }

  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override {
    return files_.repeated(wakeup, [this, limit, &wakeup]() -> asio::awaitable<void> {
      if (!files_.open_existing()) co_return;
      const auto key = key_of(limit, StateKind::limit);
      const MutexGuard guard = co_await files_.lock_mutex(key.mutex, wakeup);
      files_.check_in_place();
      RecordFile file(files_.folder(), key.file, RecordFile::Access::write);
      if (file.exists()) file.remove();
    });
  }

 private:
  // The file to admit a claim by. A damaged one is replaced once everything that it can
  // have contained is older than the period.
  RecordFile file_to_admit(const RateClaim& claim, const std::string& name) const {
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

  Files& files_;
  std::optional<std::pair<Token, RateAnswer>>
      admitted_;  // the last one, in case it is repeated
};

class LocalStore final : public Store {
 public:
  LocalStore(asio::io_context& context, std::string path, milliseconds timeout)
      : files_(context, std::move(path), timeout) {}

  std::string url() const override { return "local:" + files_.path(); }
  bool leases_expire() const override { return false; }
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    auto own = claim;
    own.reclaim = false;  // nothing here forgets a lease
    return claimant_of(files_, own);
  }
  LockInspector& inspector() override {
    if (!inspector_) inspector_ = inspector_of(files_);
    return *inspector_;
  }
  ValueStore* values() override {
    if (!values_) values_ = value_store_of(files_);
    return values_.get();
  }
  RateLimits* rates() override {
    if (!rates_) rates_ = std::make_unique<LocalRates>(files_);
    return rates_.get();
  }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override {
    return files_.repeated(
        wakeup,
        [this, lock, fences = order.fences,
         &wakeup]() -> asio::awaitable<std::vector<Broken>> {
          if (!files_.open_to_look() || !files_.has_folder())
            co_return std::vector<Broken>{};
          files_.open_sessions_to_lock();

          const Taker self{std::to_string(::geteuid()), host_name(), false};
          std::vector<Holder> holders;
          Consequences consequences;
          Moment moment;
          {
            auto change = co_await files_.begin_change(lock, wakeup);
            moment = Moment::now();
            holders = rules::break_leases(
                {change.state, moment, files_.sessions(), consequences}, fences, self);
            for (const auto& run : consequences.vanished)
              record_past_run(change.state, run);
            // Not the ones that had already ended.
            files_.commit(change, lock,
                          {std::nullopt, std::nullopt, rules::fences_of(holders), self});
            // A dlock that holds a lock for longer than a moment watches its file.
            if (!holders.empty()) change.file.touch();
          }
          files_.notify(consequences);
          co_await files_.log_ends(lock, consequences.vanished, wakeup);

          std::vector<Broken> broken;
          for (const auto& holder : holders) {
            auto& added = broken.emplace_back();
            added.holder = rules::info_of(holder, moment);
            name_user(added.holder.user);
            if (holder.party.session == 0 || !dlock_is_gone(holder)) continue;
            added.holder.dlock_gone = true;
            if (holder.command != 0) added.holder.pid = holder.command;
            added.processes = files_.sessions().processes_of(holder);
          }
          co_return broken;
        });
  }

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    return files_.repeated(
        wakeup, [this, resource, fence, &wakeup]() -> asio::awaitable<Admission> {
          files_.create_directory();
          const MutexGuard guard = co_await files_.lock_mutex(registers_mutex, wakeup);
          co_return Registers(files_.directory()).admit(resource, fence);
        });
  }

 private:
  Files files_;
  // Most runs need none of these.
  std::unique_ptr<LockInspector> inspector_;
  std::unique_ptr<ValueStore> values_;
  std::unique_ptr<RateLimits> rates_;
};

}  // namespace

std::unique_ptr<Store> store_at(asio::io_context& context, std::string path,
                                milliseconds timeout) {
  return std::make_unique<LocalStore>(context, std::move(path), timeout);
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return store_at(context, url.path, timeout);
}

}  // namespace dlock::local
