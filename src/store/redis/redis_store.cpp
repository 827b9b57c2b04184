#include "store/redis/redis_store.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <set>
#include <utility>

#include "lock/dedupe.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/listener.hpp"
#include "store/redis/records.hpp"
#include "util/host.hpp"
#include "util/random.hpp"
#include "util/text.hpp"

namespace dlock::redis {
namespace {

// What the first two in line wait for may end without a word; they ask again at that
// moment, and the others only so often that their entries stay. An idle waiter sends two
// commands each time, and an entry lapses after 90 s (PLACE_MS in common.lua).
constexpr milliseconds keep_place_every{45'000};

// What ask.lua says to those others.
constexpr std::int64_t others_watch = -2;

// For how long a request can be on its way though its connection is closed: the kernel
// gives up to send it again after some 100 s.
constexpr milliseconds comes_late_by{120'000};

// The first two in line look so often whether the server has forgotten the queue, and the
// second whether the lock was promised to the first, who may be dead: more often than a
// promise lasts (PROMISE_MS), so that it is there when that lapses, and than would make
// it be woken for that (WATCH_MS).
constexpr milliseconds look_every{2'500};

// A foreign holder tells nobody when it leaves, so the first in line has to look.
constexpr milliseconds look_at_foreign_every{250};

// Not at once, if the list of a waiter cannot be listened to.
constexpr milliseconds nap_after_trouble{300};

// What part of its ttl a lease that was handed to us may have lost before it comes.
constexpr int may_have_lost = 10;

// Connections say whose they are, for people who look at a server's list of them, once
// they have lasted so long; most have not, and are gone before anybody looks.
constexpr milliseconds names_itself_after{1000};

// How long one who was told to stop still tries to take back its claim.
constexpr milliseconds last_patience{80};

// Keys that SCAN looks at in one step, and locks that are asked for in one.
constexpr const char* scan_step = "500";
constexpr std::size_t inspect_step = 100;

// What is shown of the holder.
std::string info_of(const Claim& claim) {
  Claim kept = claim;
  kept.command = shortened_command(claim.command);
  return party_text(kept);
}

// What ask.lua takes for a mode: an x or an s, and a d behind it for a detached lease.
std::string mode_text(const Claim& claim) {
  std::string text(claim.mode == Mode::shared ? "s" : "x");
  if (!claim.attached) text += 'd';
  return text;
}

std::string number(std::int64_t value) { return std::to_string(value); }

// How long the server keeps a lease, in milliseconds.
std::int64_t kept_for(const Claim& claim) {
  return (claim.ttl + claim.lock_delay).count();
}

// As the scripts have it.
std::string text_of(const std::optional<Dedupe>& dedupe) {
  if (!dedupe) return "";
  const auto* kind = dedupe->joins ? " 2" : dedupe->retry_failed ? " 1" : " 0";
  return number(dedupe->window.count()) + kind;
}

std::string text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::succeeded: return "good";
    case Verdict::failed: return "failed";
    case Verdict::no_run: break;
  }
  return "none";
}

// Earlier by up to a tenth.
milliseconds jittered(milliseconds span) {
  const auto tenth = static_cast<std::uint64_t>(span.count()) / 10;
  return span - milliseconds(random_up_to(tenth));
}

}  // namespace

// Keeping goes on beside whatever the caller does, so it has its own sleeper, and what it
// uses lives as long as it does.
struct RedisStore::Keeping {
  Keeping(asio::io_context& context, const Options& options, std::string list)
      : wakeup(context),
        listener(context, options.target, std::move(list), options.timeout) {
    wakeup.prepare();
  }

  Wakeup wakeup;
  KeeperOrders orders;
  Listener listener;
  bool renews = false;  // at this moment, over the store's connection
  Wakeup* awaited_by = nullptr;
};

// One renewal, from beginning to end.
class RedisStore::Renewing {
 public:
  explicit Renewing(Keeping& keeping) : keeping_(keeping) { keeping_.renews = true; }
  ~Renewing() {
    keeping_.renews = false;
    if (keeping_.awaited_by != nullptr) keeping_.awaited_by->notify();
  }
  Renewing(const Renewing&) = delete;
  Renewing& operator=(const Renewing&) = delete;

 private:
  Keeping& keeping_;
};

RedisStore::RedisStore(asio::io_context& context, Options options)
    : context_(context),
      options_(std::move(options)),
      server_(options_.target.shown()),
      connection_(context, options_.target) {
  const auto bytes = random_bytes();
  waiter_id_ = hex(bytes.data(), 8);
}

RedisStore::~RedisStore() = default;

Clock::time_point RedisStore::budget_end() const {
  return later(Clock::now(), options_.timeout);
}

// What an answer means that is not the expected one.
Failure RedisStore::failure(const Reply& reply) const {
  if (reply.is_error()) return failure_from(reply, server_);
  return Failure(Failure::Kind::unreachable,
                 server_ + " answers with something that is not expected");
}

asio::awaitable<void> RedisStore::open(Clock::time_point until, Wakeup& wakeup) {
  if (connection_.is_open()) co_return;
  is_named_ = false;
  co_await connection_.open(until, wakeup);
  opened_at_ = Clock::now();
}

asio::awaitable<std::vector<Reply>> RedisStore::exchange(std::vector<Command> commands,
                                                         Clock::time_point until,
                                                         Wakeup& wakeup) {
  co_await open(until, wakeup);
  const bool names_itself = !is_named_ && Clock::now() - opened_at_ >= names_itself_after;
  if (names_itself) {
    commands.insert(commands.begin(), Command{"CLIENT", "SETNAME", "dlock"});
    is_named_ = true;
  }
  auto replies = co_await connection_.exchange(std::move(commands), until, wakeup);
  // A user without the right to it may use locks all the same.
  if (names_itself) replies.erase(replies.begin());
  co_return replies;
}

// The server keeps scripts until it is restarted or told to forget them.
asio::awaitable<Reply> RedisStore::run(const Script& script, const LockName& lock,
                                       std::vector<std::string> args,
                                       Clock::time_point until, Wakeup& wakeup) {
  Command command{"EVALSHA", script.sha1, "1", key_of(lock)};
  command.insert(command.end(), std::make_move_iterator(args.begin()),
                 std::make_move_iterator(args.end()));
  auto replies = co_await exchange(alone(command), until, wakeup);
  if (replies.front().error_code() == "NOSCRIPT") {
    command[0] = "EVAL";
    command[1] = script.text;
    replies = co_await exchange(alone(std::move(command)), until, wakeup);
  }
  co_return std::move(replies.front());
}

// A request that asks for the lock is about to be sent. One that had no answer may be
// under way still, and asks for it once more when it comes.
void RedisStore::expect_answer() {
  may_come_late_ = may_come_late_ || known_ == Known::unanswered;
  known_ = Known::unanswered;
}

asio::awaitable<Answer> RedisStore::ask(const Claim& claim, Queue queue, Wakeup& wakeup) {
  if (const auto handed = std::exchange(handed_, std::nullopt)) {
    const auto age = Clock::now() - handed->sent_at;
    if (age < claim.ttl / may_have_lost) {
      grant_ = *handed;
      co_return *handed;
    }
  }
  std::vector<std::string> args{text_of(claim.token),    waiter_id_,
                                mode_text(claim),        number(claim.slots),
                                number(kept_for(claim)), queue == Queue::join ? "1" : "0",
                                info_of(claim),          text_of(claim.dedupe),
                                number(arrived_)};
  for (const auto& fence : claim.held_above) {
    args.push_back(std::to_string(fence.number));
  }
  const auto until = budget_end();
  co_await open(until, wakeup);
  expect_answer();
  const auto sent_at = Clock::now();
  const auto reply = co_await run(ask_script, claim.lock, std::move(args), until, wakeup);
  const auto heard = heard_from(reply, claim, sent_at);
  if (!heard) throw failure(reply);
  known_ = Known::answered;
  asked_at_ = sent_at;
  const auto* busy = std::get_if<Busy>(&heard->answer);
  const bool has_place = busy != nullptr && busy->place > 0;
  if (!has_place) {
    arrived_ = 0;
  } else if (arrived_ == 0) {
    arrived_ = heard->server_time.count();
  }
  if (const auto* grant = std::get_if<Grant>(&heard->answer)) grant_ = *grant;
  if (busy != nullptr) {
    if (busy->place == 0) known_ = Known::nothing;
    watch_for(*busy, heard->blocked_for);
  } else if (std::holds_alternative<HeldAbove>(heard->answer) ||
             std::holds_alternative<Deduplicated>(heard->answer)) {
    known_ = Known::nothing;
  }
  co_return heard->answer;
}

// When to ask again though nobody told us to.
void RedisStore::watch_for(const Busy& busy, std::int64_t blocked_for) {
  auto after = jittered(keep_place_every);
  if (blocked_for != others_watch) {
    const bool is_first = busy.place == 1;
    const bool foreign = !busy.holders.empty() && busy.holders.front().foreign;
    if (is_first && foreign) {
      after = jittered(look_at_foreign_every);
    } else {
      after = jittered(look_every);
    }
    if (blocked_for >= 0) {
      // A millisecond later than it can last, and the second in line after the first.
      const milliseconds ends(blocked_for + 1);
      after = std::min(after, is_first ? ends : ends + milliseconds(100));
    }
  }
  ask_again_ = later(Clock::now(), after);
}

asio::awaitable<void> RedisStore::await_turn(const Claim& claim, Wakeup& wakeup,
                                             Clock::time_point until) {
  do {
    const auto reply = co_await listen(claim, wakeup, std::min(until, ask_again_));
    if (!reply) co_return;  // the next ask will find out what it is
    if (reply->is_error()) {
      co_await nap(wakeup, std::min(until, later(Clock::now(), nap_after_trouble)));
      co_return;
    }
    handed_ = handed_from(*reply, claim, asked_at_);
    const auto pause = pause_from(*reply);
    if (!pause) co_return;
    ask_again_ = std::min(ask_again_, later(Clock::now(), *pause));
  } while (Clock::now() < std::min(until, ask_again_));
}

// What comes on our own list or on that of all, or that nothing does in this time.
// Nothing if the connection broke: an element may have been popped into it.
asio::awaitable<std::optional<Reply>> RedisStore::listen(const Claim& claim,
                                                         Wakeup& wakeup,
                                                         Clock::time_point end) {
  const auto span =
      std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(1));
  // A list blocks at least that long, and an element in it does not wait for us.
  const auto key = key_of(claim.lock);
  Command pop{"BLPOP", key + ":w:" + waiter_id_, key + ":a",
              number(span.count() / 1000) + "." +
                  std::to_string(1000 + span.count() % 1000).substr(1)};
  std::optional<Reply> reply;
  try {
    auto replies =
        co_await exchange(alone(std::move(pop)), later(end, options_.timeout), wakeup);
    reply = std::move(replies.front());
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return reply;
}

asio::awaitable<void> RedisStore::nap(Wakeup& wakeup, Clock::time_point until) {
  while (Clock::now() < until && !wakeup.gives_up()) co_await wakeup.wait_until(until);
}

// A renewal under way is waited for: it has the connection. What else there is of keeping
// ends by itself, when there is time.
asio::awaitable<void> RedisStore::keeping_ends(Wakeup& wakeup) {
  if (!keeping_) co_return;
  keeping_->awaited_by = &wakeup;
  while (keeping_->renews) co_await wakeup.wait_until(Clock::time_point::max());
  keeping_->awaited_by = nullptr;
  keeping_.reset();
}

asio::awaitable<Release> RedisStore::release(const Claim& claim,
                                             const std::optional<RunEnd>& end,
                                             Wakeup& wakeup) {
  if (!end || !end->leaves_lease) co_return co_await give_back(claim, end, wakeup);
  // The lease is held on, whether or not the server learns how the run ended.
  try {
    const auto answer = co_await give_back(claim, end, wakeup);
    co_return answer == Release::released ? Release::left : answer;
  } catch (const Failure&) {
    known_ = Known::nothing;
    co_return Release::left;
  }
}

asio::awaitable<Release> RedisStore::give_back(const Claim& claim,
                                               const std::optional<RunEnd>& end,
                                               Wakeup& wakeup) {
  co_await keeping_ends(wakeup);
  handed_.reset();
  // A detached lease may have been another client's to ask for.
  if (known_ == Known::nothing && claim.attached) co_return Release::not_ours;

  // Not `wakeup`, which gives up: what is ours is given back all the same, if it is
  // quick.
  const bool hurries = wakeup.gives_up();
  const auto until = hurries
                         ? later(Clock::now(), std::min(options_.timeout, last_patience))
                         : budget_end();
  Wakeup own(context_);
  const bool may_come_late = may_come_late_ || known_ == Known::unanswered;
  std::vector<std::string> args{
      text_of(claim.token),
      waiter_id_,
      end ? run_end_text(*end, host_name()) : "",
      may_come_late ? number(comes_late_by.count()) : "0",
      text_of(end && !end->lost ? verdict_on(end->exit_code) : Verdict::no_run),
      number(claim.min_hold.count()),
      end && end->is_shared ? "1" : "0",
      end ? std::to_string(grant_.fence.number) : "0"};
  if (end && end->lost) {
    args.push_back(info_of(claim));
    args.push_back(end->leaves_lease ? "1" : "0");
  }
  auto reply = co_await run(release_script, claim.lock, args, until, own);
  auto released = release_from(reply);
  const bool vanished = released == Release::gone || released == Release::taken_over;
  if (vanished && claim.reclaim &&
      renewal_from(co_await reclaim(claim, grant_, until, own)) == Renewal::reclaimed) {
    // Nobody was granted the lock meanwhile.
    reply = co_await run(release_script, claim.lock, std::move(args), until, own);
    released = release_from(reply);
  }
  if (!released) throw failure(reply);
  if (loss_told_by(*released)) co_return *released;  // and to be released again
  grant_ = {};
  known_ = Known::nothing;
  may_come_late_ = false;
  co_return *released;
}

asio::awaitable<Renewal> RedisStore::renew(const Claim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim.token), number(claim.ttl.count())};
  const auto reply =
      co_await run(set_lease_script, claim.lock, std::move(args), budget_end(), wakeup);
  const auto renewal = renewal_from(reply);
  if (!renewal) throw failure(reply);
  co_return *renewal;
}

asio::awaitable<void> RedisStore::started(const Claim&, const CommandProcess&, Wakeup&) {
  co_return;
}

asio::awaitable<Renewal> RedisStore::renew(Claim claim, Grant grant, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim.token), std::to_string(grant.fence.number),
                                number(kept_for(claim))};
  const auto until = budget_end();
  auto reply = co_await run(renew_script, claim.lock, std::move(args), until, wakeup);
  auto renewal = renewal_from(reply);
  const bool vanished = renewal == Renewal::gone || renewal == Renewal::taken_over;
  if (vanished && claim.reclaim) {
    reply = co_await reclaim(claim, grant, until, wakeup);
    renewal = renewal_from(reply);
  }
  if (!renewal) throw failure(reply);
  co_return *renewal;
}

asio::awaitable<Reply> RedisStore::reclaim(const Claim& claim, const Grant& grant,
                                           Clock::time_point until, Wakeup& wakeup) {
  std::vector<std::string> args{
      text_of(claim.token),    std::to_string(grant.fence.number),
      number(kept_for(claim)), mode_text(claim),
      number(claim.slots),     number(grant.slot),
      info_of(claim)};
  // If it comes too late it must not set up what was given back in the meantime.
  expect_answer();
  auto reply = co_await run(reclaim_script, claim.lock, std::move(args), until, wakeup);
  known_ = Known::answered;
  co_return reply;
}

void RedisStore::start_keeping(const Claim& claim, const Grant& grant, LeaseTiming timing,
                               LeaseWatcher& watcher) {
  keeping_ = std::make_shared<Keeping>(
      context_, options_,
      key_of(claim.lock) + ":b:" + std::to_string(grant.fence.number));
  const auto keeping = keeping_;
  auto renew_once = [this, claim, grant, keeping]() -> asio::awaitable<Renewal> {
    const Renewing renewing(*keeping);
    co_return co_await renew(claim, grant, keeping->wakeup);
  };
  // Once whoever calls this waits for something: until then it starts a command, say.
  asio::post(context_,
             [this, keeping, renew_once, timing, sent_at = grant.sent_at, &watcher] {
               if (keeping->orders.stop) return;  // the watcher may be gone
               asio::co_spawn(context_,
                              keep_lease(renew_once, timing, sent_at, watcher,
                                         keeping->wakeup, keeping->orders),
                              [keeping](std::exception_ptr error) {
                                if (error) std::rethrow_exception(error);
                              });
               auto heard = [keeping] {
                 keeping->orders.renew_now = true;
                 keeping->wakeup.notify();
               };
               // Without it the next renewal tells, so no failure of it matters.
               asio::co_spawn(context_, keeping->listener.listen(std::move(heard)),
                              [keeping](const std::exception_ptr&) {});
             });
}

void RedisStore::stop_keeping() {
  if (!keeping_) return;
  keeping_->orders.stop = true;
  keeping_->wakeup.notify();
  keeping_->listener.stop();
}

asio::awaitable<std::vector<Broken>> RedisStore::break_leases(
    const LockName& lock, const std::vector<Fence>& fences, Wakeup& wakeup) {
  std::vector<std::string> args;
  args.reserve(fences.size());
  for (const auto& fence : fences) args.push_back(std::to_string(fence.number));
  const auto reply =
      co_await run(break_script, lock, std::move(args), budget_end(), wakeup);
  auto holders = broken_from(reply);
  if (!holders) throw failure(reply);
  std::vector<Broken> broken;
  for (auto& holder : *holders) broken.push_back({std::move(holder), {}});
  co_return broken;
}

asio::awaitable<LockInfo> RedisStore::inspect(const LockName& lock, Wakeup& wakeup) {
  std::vector<std::string> none;
  const auto reply =
      co_await run(inspect_script, lock, std::move(none), budget_end(), wakeup);
  const auto info = lock_from(reply, lock);
  if (!info) throw failure(reply);
  co_return *info;
}

asio::awaitable<std::vector<LockInfo>> RedisStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  // SCAN may tell of a key more than once, and a lock has several keys.
  std::set<LockName> names;
  std::string cursor = "0";
  do {
    Command scan{"SCAN", cursor, "MATCH", pattern_for(name_space), "COUNT", scan_step};
    const auto replies = co_await exchange(alone(std::move(scan)), budget_end(), wakeup);
    const auto& reply = replies.front();
    if (reply.kind != Reply::Kind::array || reply.elements.size() != 2 ||
        reply.elements[1].kind != Reply::Kind::array) {
      throw failure(reply);
    }
    cursor = reply.elements[0].text;
    for (const auto& key : reply.elements[1].elements) {
      auto lock = lock_of(key.text);
      if (lock && lock->name_space == name_space && matches(lock->name)) {
        names.insert(std::move(*lock));
      }
    }
  } while (cursor != "0");

  std::vector<LockInfo> locks;
  for (auto next = names.begin(); next != names.end();) {
    // The first one alone, for the server may not know the script yet.
    const bool is_first = next == names.begin();
    const auto most = is_first ? 1 : inspect_step;
    std::vector<Command> commands;
    const auto first = next;
    for (; next != names.end() && commands.size() < most; ++next) {
      commands.push_back({is_first ? "EVAL" : "EVALSHA",
                          is_first ? inspect_script.text : inspect_script.sha1, "1",
                          key_of(*next)});
    }
    const auto replies = co_await exchange(std::move(commands), budget_end(), wakeup);
    auto name = first;
    for (const auto& reply : replies) {
      const auto& lock = *name++;
      // Somebody's key that only looks like a lock's.
      if (reply.text.find("WRONGTYPE") != std::string::npos) continue;
      auto info = lock_from(reply, lock);
      if (!info) throw failure(reply);
      locks.push_back(std::move(*info));
    }
  }
  std::erase_if(locks, [](const LockInfo& lock) {
    return lock.holders.empty() && lock.waiters.empty() && !lock.last_run;
  });
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> RedisStore::history(const LockName& lock,
                                                          Wakeup& wakeup) {
  std::vector<std::string> none;
  const auto reply =
      co_await run(history_script, lock, std::move(none), budget_end(), wakeup);
  const auto runs = history_from(reply);
  if (!runs) throw failure(reply);
  co_return *runs;
}

asio::awaitable<Admission> RedisStore::admit_fence(const LockName& resource, Fence fence,
                                                   Wakeup& wakeup) {
  std::vector<std::string> args{std::to_string(fence.number)};
  const auto reply =
      co_await run(admit_fence_script, resource, std::move(args), budget_end(), wakeup);
  const auto admission = admission_from(reply);
  if (!admission) throw failure(reply);
  co_return *admission;
}

asio::awaitable<RateAnswer> RedisStore::admit(const RateClaim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim.token), std::to_string(claim.rate.most),
                                number(claim.rate.period.count()),
                                number(claim.patience.count())};
  const auto reply =
      co_await run(limit_script, claim.limit, std::move(args), budget_end(), wakeup);
  const auto answer = rate_answer_from(reply);
  if (!answer) throw failure(reply);
  co_return *answer;
}

// As release(): not `wakeup`, which gives up.
asio::awaitable<void> RedisStore::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim.token)};
  const auto budget =
      wakeup.gives_up() ? std::min(options_.timeout, last_patience) : options_.timeout;
  Wakeup own(context_);
  const auto reply = co_await run(withdraw_script, claim.limit, std::move(args),
                                  later(Clock::now(), budget), own);
  if (reply.is_error()) throw failure(reply);
}

}  // namespace dlock::redis
