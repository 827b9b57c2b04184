#include "store/local/local_store.hpp"

#include <unistd.h>

#include <utility>

#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/takeover.hpp"
#include "store/local/examine.hpp"
#include "store/local/local_claimant.hpp"
#include "util/host.hpp"
#include "util/process.hpp"

namespace dlock::local {

LocalStore::LocalStore(asio::io_context& context, std::string path, milliseconds timeout)
    : files_(context, std::move(path), timeout),
      inspector_(files_),
      values_(files_),
      rates_(files_),
      registers_(files_) {}

std::string LocalStore::url() const { return "local:" + files_.path(); }

std::unique_ptr<Claimant> LocalStore::claimant(const Claim& claim) {
  return std::make_unique<LocalClaimant>(files_, claim);
}

asio::awaitable<std::vector<Broken>> LocalStore::break_leases(const LockName& lock,
                                                              const Break& order,
                                                              Wakeup& wakeup) {
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
          holders = rules::break_leases(change.state, fences, self, moment,
                                        files_.sessions(), consequences);
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

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<LocalStore>(context, url.path, timeout);
}

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string&,
                                     milliseconds timeout, asio::io_context&, Wakeup&) {
  Examination examination;
  examination.findings = findings_of(facts_of(url.path, timeout));
  co_return examination;
}

}  // namespace dlock::local
