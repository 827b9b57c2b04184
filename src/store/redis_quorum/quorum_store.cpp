#include "store/redis_quorum/quorum_store.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <map>
#include <set>
#include <variant>

#include "store/fan_out.hpp"
#include "store/redis_quorum/merge.hpp"
#include "store/redis_quorum/quorum_claimant.hpp"
#include "store/redis_quorum/voter.hpp"

namespace dlock::redis_quorum {
namespace {

Voters voters_of(asio::io_context& context, const StoreUrl& url, milliseconds timeout) {
  Voters voters;
  for (const auto& server : redis::targets_of(url)) {
    voters.push_back(
        std::make_shared<Voter>(context, server, timeout, url.terms.max_ttl));
  }
  return voters;
}

// A list of many locks takes several requests to each server.
constexpr milliseconds list_takes{60'000};

// The pause between attempts to watch a server that is unavailable.
constexpr milliseconds try_again_after{1000};

// Shared by the watches of all servers; `sink` outlives them.
struct SharedWatch {
  SharedWatch(EventSink& told, std::size_t servers)
      : sink(&told), count(servers), failures(servers) {}

  void began(std::size_t server) {
    listening.insert(server);
    failures[server].reset();
    count.begin_anew(server);
    if (sink == nullptr || is_on || listening.size() < needed(failures.size())) return;
    is_on = true;
    sink->began();
    if (awaited_by != nullptr) awaited_by->notify();
  }

  void interrupted(std::size_t server, const std::string& why) {
    listening.erase(server);
    if (sink == nullptr || !is_on || listening.size() >= needed(failures.size())) return;
    is_on = false;
    sink->interrupted(why);
  }

  void failed(std::size_t server, const Failure& failure) {
    interrupted(server, failure.what());
    failures[server] = failure;
    if (awaited_by != nullptr) awaited_by->notify();
  }

  EventSink* sink;
  EventCount count;
  std::set<std::size_t> listening;
  std::vector<std::optional<Failure>> failures;
  bool is_on = false;
  Wakeup* awaited_by = nullptr;
};

class OneServer final : public EventSink {
 public:
  OneServer(std::shared_ptr<SharedWatch> watch, std::size_t number)
      : watch_(std::move(watch)), number_(number) {}

  void began() override { watch_->began(number_); }
  void interrupted(const std::string& why) override { watch_->interrupted(number_, why); }
  void happened(const Event& event) override {
    const bool is_news = watch_->count.take(number_, event, Clock::now());
    if (is_news && watch_->sink != nullptr) watch_->sink->happened(event);
  }

 private:
  std::shared_ptr<SharedWatch> watch_;
  std::size_t number_;
};

asio::awaitable<void> watch_one(std::shared_ptr<SharedWatch> watch, std::size_t number,
                                std::shared_ptr<Voter> voter, Watched watched,
                                Wakeup& wakeup) {
  OneServer sink(watch, number);
  while (watch->sink != nullptr && !wakeup.gives_up()) {
    try {
      co_await voter->store().inspector().watch(watched, sink, wakeup);
    } catch (const Failure& failure) {
      watch->failed(number, failure);
    }
    const auto until = later(Clock::now(), try_again_after);
    co_await wakeup.sleep_until(until);
  }
}

// Why the watch cannot begin; nothing if it can.
std::optional<Failure> why_hopeless(const SharedWatch& watch) {
  std::vector<Failure> failures;
  for (const auto& failure : watch.failures) {
    if (failure) failures.push_back(*failure);
  }
  const auto servers = watch.failures.size();
  if (servers - failures.size() >= needed(servers)) return std::nullopt;
  return too_few(watch.listening.size(), servers, failures);
}

// Reports what a majority of servers shows (merge.hpp). Throws Failure if too few reply.
class QuorumStore final : public Store, private LockInspector {
 public:
  QuorumStore(asio::io_context& context, const StoreUrl& url, milliseconds timeout)
      : context_(context),
        url_(url),
        timeout_(timeout),
        voters_(voters_of(context, url, timeout)) {}

  ~QuorumStore() override {
    for (const auto& voter : voters_) voter->give_up();
  }

  std::string url() const override { return url_.text(); }
  bool leases_expire() const override { return true; }
  // Throws Failure: unsupported for slots, misconfigured for a lease longer than
  // --max-ttl, the time for which a restarted server does not vote.
  std::unique_ptr<Claimant> claimant(const Claim& claim) override {
    if (claim.slots > 1) {
      throw Failure::unsupported(
          "a quorum does not support --slots: if each of three servers granted " +
          std::to_string(claim.slots) +
          " leases, any two of them could admit one more holder");
    }
    return claimant_of(context_, voters_, url_.terms, timeout_, claim, complaints_);
  }

  asio::awaitable<std::vector<Broken>> break_leases(const LockName& lock,
                                                    const Break& order,
                                                    Wakeup& wakeup) override {
    using Holders = std::vector<HolderInfo>;
    const auto break_one = [lock, order](Store& store,
                                         Wakeup& own) -> asio::awaitable<Holders> {
      auto broken = co_await store.break_leases(lock, order, own);
      Holders holders;
      for (auto& one : broken) holders.push_back(std::move(one.holder));
      co_return holders;
    };
    const auto said = co_await ask<Holders>(break_one, timeout_, wakeup);
    std::vector<Broken> broken;
    for (auto& holder : told_by_most(said, voters_.size())) {
      broken.push_back({std::move(holder), {}});
    }
    co_return broken;
  }

  // A fence is admitted if a majority admits it, and a majority cannot have admitted a
  // greater one.
  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override {
    const auto admit = [resource, fence](Store& store, Wakeup& own) {
      return store.admit_fence(resource, fence, own);
    };
    const auto said = co_await ask<Admission>(admit, timeout_, wakeup);
    const auto stale =
        static_cast<std::size_t>(std::ranges::count(said, Admission::stale));
    const auto servers = voters_.size();
    if (stale == 0) co_return Admission::admitted;
    const auto unheard = servers - said.size();
    if (stale + unheard >= needed(servers) || said.size() - stale < needed(servers)) {
      co_return Admission::stale;
    }
    complaints_->note(std::to_string(stale) + " of " + std::to_string(servers) +
                      " servers report a greater fence, which most do not know");
    co_return Admission::admitted;
  }

  void report_complaints(std::function<void(const std::string&)> warn) override {
    complaints_->report_to(std::move(warn));
  }
  LockInspector& inspector() override { return *this; }

 private:
  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override {
    const auto look = [lock](Store& store, Wakeup& own) {
      return store.inspector().inspect(lock, own);
    };
    const auto told = co_await ask<LockInfo>(look, timeout_, wakeup);
    co_return merged(told, voters_.size());
  }

  // A server that leaves out a lock would seem to know that it is free.
  template <typename Answer>
  static asio::awaitable<Answer> whole(Store& store, asio::awaitable<Answer> asked) {
    auto answer = co_await std::move(asked);
    const auto left_out = store.inspector().left_out();
    if (!left_out.empty()) throw left_out.front();
    co_return answer;
  }

  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override {
    using Locks = std::vector<LockInfo>;
    const auto look = [name_space, matches](Store& store, Wakeup& own) {
      return whole(store, store.inspector().list(name_space, matches, own));
    };
    const auto told = co_await ask<Locks>(look, list_takes, wakeup);
    // A server that does not list a lock that another one lists reports it as free.
    std::map<LockName, std::vector<LockInfo>> by_name;
    for (const auto& locks : told) {
      for (const auto& lock : locks) by_name[lock.lock].push_back(lock);
    }
    Locks all;
    for (auto& [name, locks] : by_name) {
      LockInfo free;
      free.lock = name;
      locks.resize(told.size(), free);
      auto lock = merged(locks, voters_.size());
      if (lock.is_listed()) all.push_back(std::move(lock));
    }
    co_return all;
  }

  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override {
    using Runs = std::vector<RunInfo>;
    const auto look = [lock](Store& store, Wakeup& own) {
      return whole(store, store.inspector().history(lock, own));
    };
    const auto told = co_await ask<Runs>(look, timeout_, wakeup);
    co_return merged_runs(told, voters_.size());
  }

  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override {
    using Histories = std::vector<LockHistory>;
    const auto look = [name_space, matches](Store& store, Wakeup& own) {
      return whole(store, store.inspector().histories(name_space, matches, own));
    };
    const auto told = co_await ask<Histories>(look, list_takes, wakeup);
    std::map<LockName, std::vector<std::vector<RunInfo>>> by_name;
    WallTime now{};
    for (const auto& histories : told) {
      for (const auto& one : histories) {
        by_name[one.lock].push_back(one.runs);
        now = std::max(now, one.now);
      }
    }
    Histories all;
    for (auto& [name, runs] : by_name) {
      runs.resize(told.size());
      LockHistory history{name, merged_runs(runs, voters_.size()), now};
      if (!history.runs.empty()) all.push_back(std::move(history));
    }
    co_return all;
  }

  // Reports the events that a majority of servers reports.
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override {
    // Throws if two of the servers are the same one, whose events would count twice.
    const LockName any{watched.name_space, "watch"};
    co_await inspect(any, wakeup);
    const auto watch = std::make_shared<SharedWatch>(sink, voters_.size());
    for (std::size_t i = 0; i < voters_.size(); ++i) {
      const auto voter = voters_[i];
      voter->perform([watch, i, voter, watched](Wakeup& own) {
        return watch_one(watch, i, voter, watched, own);
      });
    }
    watch->awaited_by = &wakeup;
    bool has_begun = false;
    std::optional<Failure> failure;
    while (!wakeup.gives_up() && !failure) {
      has_begun = has_begun || watch->is_on;
      if (!has_begun) failure = why_hopeless(*watch);
      if (!failure) co_await wakeup.wait_until(Clock::time_point::max());
    }
    watch->awaited_by = nullptr;
    watch->sink = nullptr;
    for (const auto& voter : voters_) voter->give_up();
    if (failure) throw *failure;
  }

  // The replies that arrive within `timeout`, in the order of the voters; it does not
  // wait for servers that are much slower than the majority. Throws Failure if too few
  // reply, or two of them are the same server; complaints about those that do not are
  // noted.
  template <typename T>
  asio::awaitable<std::vector<T>> ask(
      std::function<asio::awaitable<T>(Store&, Wakeup&)> question, milliseconds timeout,
      Wakeup& wakeup) {
    const auto voters = voters_;
    FanOut<T> round(voters, [voters, question](std::size_t number, Wakeup& own) {
      return question(voters[number]->store(), own);
    });
    const auto is_enough = [](const typename FanOut<T>::Answers& answers) {
      const auto count = std::ranges::count_if(answers, [](const auto& said) {
        return said && std::holds_alternative<T>(*said);
      });
      return static_cast<std::size_t>(count) >= needed(answers.size());
    };
    co_await round.wait_for_most(is_enough, wakeup.within(timeout));
    std::vector<T> said;
    std::vector<Failure> failures;
    std::vector<std::string> run_ids;
    for (std::size_t i = 0; i < voters.size(); ++i) {
      const auto& answer = round.answers()[i];
      if (!answer) continue;
      if (const auto* failure = std::get_if<Failure>(&*answer)) {
        failures.push_back(*failure);
      } else {
        said.push_back(std::get<T>(*answer));
        run_ids.push_back(voters[i]->run_id());
      }
    }
    if (const auto twins = same_server_in(std::move(run_ids))) throw *twins;
    if (said.size() < needed(voters.size())) {
      throw too_few(said.size(), voters.size(), failures);
    }
    for (const auto& failure : failures) {
      if (is_for_administrators(failure)) complaints_->note(failure.what());
    }
    co_return said;
  }

  asio::io_context& context_;
  StoreUrl url_;
  milliseconds timeout_;
  Voters voters_;
  std::shared_ptr<Complaints> complaints_ = std::make_shared<Complaints>();
};

}  // namespace

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return std::make_unique<QuorumStore>(context, url, timeout);
}

}  // namespace dlock::redis_quorum
