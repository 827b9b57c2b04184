#include "store/redis/redis_claimant.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
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
// commands each time, and an entry lapses after 90 s (PLACE_MS in the scripts).
constexpr milliseconds keep_place_every{45'000};

// A server that is cut off wakes nobody, and says nothing either: where another one may
// have taken over, the others must not sleep there for so long.
constexpr milliseconds keep_place_where_servers_fail_over{10'000};

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

// What is shown of the holder.
std::string info_of(const Claim& claim) {
  Claim kept = claim;
  kept.command = shortened_command(claim.command);
  return party_text(kept);
}

std::string mode_text(const Claim& claim) {
  return claim.mode == Mode::shared ? "s" : "x";
}

// What ask.lua takes for a mode: what the claim wants besides stands behind it.
std::string mode_and_wishes(const Claim& claim) {
  auto text = mode_text(claim);
  if (!claim.attached) text += 'd';
  if (claim.supersedes) text += 'n';
  if (claim.replaces) text += 'r';
  return text;
}

std::string number(std::int64_t value) { return std::to_string(value); }

// As ask.lua takes it.
std::string text_of(Queue queue, const Claim& claim) {
  if (queue != Queue::join) return queue == Queue::refuse ? "2" : "0";
  return claim.max_queue ? "1 " + std::to_string(*claim.max_queue) : "1";
}

// As ask.lua takes them: when the claim came first, and of which fence it wants to be
// granted.
std::string order_in_line(std::int64_t arrived, const std::optional<Ballot>& ballot) {
  if (!ballot || ballot->ticket == 0) return number(arrived);
  return "=" + number(ballot->ticket);
}

std::string fence_wanted(const Claim& claim, const std::optional<Ballot>& ballot) {
  if (!ballot) return std::to_string(claim.fence_floor.number);
  const auto* kind = ballot->is_repair ? "!" : ballot->raises ? "^" : "=";
  return kind + std::to_string(ballot->fence.number);
}

// How long the server keeps a lease, in milliseconds.
std::int64_t lease_time(const Claim& claim) {
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

Failure not_on_replicas(const Response& response, unsigned wanted) {
  return Failure(Failure::Kind::unreachable,
                 response.node->name() + ": " + std::to_string(response.acknowledged) +
                     " of " + std::to_string(wanted) +
                     " replicas have acknowledged the lease (--replicas)");
}

Failure not_confirmed(const Response& response) {
  return Failure(Failure::Kind::unreachable,
                 "not more than half of the sentinels confirm that " +
                     response.node->name() + " is the primary");
}

bool is_loss(Renewal renewal) {
  return renewal == Renewal::gone || renewal == Renewal::taken_over ||
         renewal == Renewal::failed_over;
}

// Goes on beside whatever the caller does, so what it uses lives as long as it does.
// Without it the next renewal tells, so no failure of it matters.
class Listening final : public LeaseNews {
 public:
  Listening(const Node& node, std::string list, std::function<void()> heard)
      : listener_(std::make_shared<Listener>(node.context(), node.target(),
                                             std::move(list), node.timeout())) {
    asio::co_spawn(node.context(), listener_->listen(std::move(heard)),
                   [listener = listener_](const std::exception_ptr&) {});
  }
  ~Listening() override { listener_->stop(); }
  std::shared_ptr<Listener> listener() const { return listener_; }
  void stop() override { listener_->stop(); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  std::shared_ptr<Listener> listener_;
};

}  // namespace

RedisClaimant::RedisClaimant(asio::io_context& context, Route& route, const Claim& claim)
    : Claimant(claim), context_(context), route_(route) {
  const auto bytes = random_bytes();
  waiter_id_ = hex(bytes.data(), 8);
}

// A request that asks for the lock is about to be sent. One that had no answer may be
// under way still, and asks for it once more when it comes.
void RedisClaimant::expect_answer() {
  may_come_late_ = may_come_late_ || known_ == Known::unanswered;
  known_ = Known::unanswered;
}

asio::awaitable<Answer> RedisClaimant::ask(Queue queue, Wakeup& wakeup) {
  const auto handed = std::exchange(handed_, std::nullopt);
  // Where servers fail over it takes an answer to know that this one still is the one.
  if (handed && !route_.fails_over() && !ballot_) {
    const auto age = Clock::now() - handed->sent_at;
    if (age < claim().ttl / may_have_lost) {
      grant_ = *handed;
      confirmed_by_ = handed_by_;
      co_return *handed;
    }
  }
  std::vector<std::string> args{text_of(claim().token),
                                waiter_id_,
                                mode_and_wishes(claim()),
                                number(claim().slots),
                                number(lease_time(claim())),
                                text_of(queue, claim()),
                                info_of(claim()),
                                text_of(claim().dedupe),
                                order_in_line(arrived_, ballot_),
                                fence_wanted(claim(), ballot_)};
  for (const auto& fence : claim().held_above) {
    args.push_back(std::to_string(fence.number));
  }
  const auto began = Clock::now();
  const auto until = route_.budget_end();
  co_await route_.open(claim().lock, until, wakeup);
  expect_answer();
  const auto sent_at = Clock::now();
  const auto response = co_await route_.run(ask_script, claim().lock, std::move(args),
                                            until, wakeup, Durability::replicas);
  const auto heard = heard_from(response.reply(), claim(), sent_at);
  if (!heard) throw response.failure();
  note(*heard, sent_at);
  if (std::holds_alternative<Grant>(heard->answer)) {
    co_await make_certain(response, began, until, wakeup);
    confirmed_by_ = response.node;
  }
  co_return heard->answer;
}

// A grant counts only where the server is the primary for those who know, and if as many
// replicas have it as are wanted. Else it is given back.
asio::awaitable<void> RedisClaimant::make_certain(const Response& response,
                                                  Clock::time_point began,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup) {
  std::optional<Failure> failure;
  try {
    if (auto inquiry = route_.inquire(*response.node, began, until)) {
      const auto word = co_await inquiry->word(until, wakeup);
      if (word != Word::confirmed) failure = not_confirmed(response);
    }
    if (!failure) co_await check_replicas(response, until, wakeup);
  } catch (const Failure& error) {
    failure = error;
  }
  if (!failure) co_return;
  try {
    co_await give_back_grant(wakeup);
  } catch (const Failure&) {
    // Then it ends by itself.
  }
  response.node->distrust();
  throw *failure;
}

// Behind what is learnt of the replicas while the request is under way: one that is back
// counts, too.
asio::awaitable<void> RedisClaimant::check_replicas(const Response& response,
                                                    Clock::time_point until,
                                                    Wakeup& wakeup) {
  const auto wanted = co_await route_.replicas_of(*response.node, until, wakeup);
  if (response.acknowledged < wanted) throw not_on_replicas(response, wanted);
}

// What the server knows of us by that answer, and when to ask again.
void RedisClaimant::note(const Heard& heard, Clock::time_point sent_at) {
  known_ = Known::answered;
  asked_at_ = sent_at;
  const auto* busy = std::get_if<Busy>(&heard.answer);
  const bool has_place = busy != nullptr && busy->place > 0;
  if (!has_place) {
    arrived_ = 0;
  } else if (arrived_ == 0) {
    arrived_ = heard.server_time.count();
  }
  if (const auto* grant = std::get_if<Grant>(&heard.answer)) grant_ = *grant;
  taken_by_ = heard.taken_by;
  if (busy != nullptr) {
    // Of one that has waited, a request that comes late would take a place.
    if (busy->place == 0 && !may_come_late_) known_ = Known::nothing;
    busy_at_ = heard.server_time;
    watch_for(*busy, heard.blocked_for);
  } else if (std::holds_alternative<HeldAbove>(heard.answer) ||
             std::holds_alternative<Deduplicated>(heard.answer) ||
             // A request that comes late would be the newest, and has to be refused.
             (std::holds_alternative<Superseded>(heard.answer) && !may_come_late_)) {
    known_ = Known::nothing;
  }
}

// When to ask again though nobody told us to.
void RedisClaimant::watch_for(const Busy& busy, std::int64_t blocked_for) {
  auto after = jittered(route_.fails_over() ? keep_place_where_servers_fail_over
                                            : keep_place_every);
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

asio::awaitable<void> RedisClaimant::await_turn(Wakeup& wakeup, Clock::time_point until) {
  do {
    const auto reply = co_await pop(wakeup, std::min(until, ask_again_));
    if (!reply) co_return;  // the next ask will find out what it is
    if (reply->is_error()) {
      co_await nap(wakeup, std::min(until, later(Clock::now(), nap_after_trouble)));
      co_return;
    }
    handed_ = handed_from(*reply, claim(), asked_at_);
    const auto pause = pause_from(*reply);
    if (!pause) co_return;
    ask_again_ = std::min(ask_again_, later(Clock::now(), *pause));
  } while (Clock::now() < std::min(until, ask_again_));
}

// What comes on our own list or on that of all, or that nothing does in this time.
// Nothing if the connection broke: an element may have been popped into it.
asio::awaitable<std::optional<Reply>> RedisClaimant::pop(Wakeup& wakeup,
                                                         Clock::time_point end) {
  const auto span =
      std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(1));
  // A list blocks at least that long, and an element in it does not wait for us.
  const auto key = key_of(claim().lock);
  Command command{"BLPOP", key + ":w:" + waiter_id_, key + ":a",
                  number(span.count() / 1000) + "." +
                      std::to_string(1000 + span.count() % 1000).substr(1)};
  std::optional<Reply> reply;
  try {
    // Not repeated at another server, which has to be asked for the lock first.
    const auto until = later(end, route_.timeout());
    auto* node = co_await route_.open(claim().lock, until, wakeup);
    auto replies = co_await node->exchange(alone(std::move(command)), until, wakeup);
    handed_by_ = node;
    reply = std::move(replies.front());
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
  }
  co_return reply;
}

asio::awaitable<void> RedisClaimant::nap(Wakeup& wakeup, Clock::time_point until) {
  while (Clock::now() < until && !wakeup.gives_up()) co_await wakeup.wait_until(until);
}

asio::awaitable<Release> RedisClaimant::release(const std::optional<RunEnd>& end,
                                                Wakeup& wakeup) {
  if (!end || !end->leaves_lease) co_return co_await give_back(end, wakeup);
  // The lease is held on, whether or not the server learns how the run ended.
  try {
    const auto answer = co_await give_back(end, wakeup);
    co_return answer == Release::released ? Release::left : answer;
  } catch (const Failure&) {
    known_ = Known::nothing;
    co_return Release::left;
  }
}

asio::awaitable<Release> RedisClaimant::give_back(const std::optional<RunEnd>& end,
                                                  Wakeup& wakeup) {
  handed_.reset();
  // A detached lease may have been another client's to ask for.
  if (known_ == Known::nothing && claim().attached) co_return Release::not_ours;

  // Not `wakeup`, which gives up: what is ours is given back all the same, if it is
  // quick.
  Wakeup own(context_);
  const auto until =
      later(Clock::now(), wakeup.gives_up() ? std::min(route_.timeout(), last_patience)
                                            : route_.timeout());
  const bool may_come_late = may_come_late_ || known_ == Known::unanswered;
  std::vector<std::string> args{
      text_of(claim().token),
      waiter_id_,
      end ? run_end_text(*end, host_name(), own_user()) : "",
      may_come_late ? number(comes_late_by.count()) : "0",
      text_of(end && !end->lost ? verdict_on(end->exit_code) : Verdict::no_run),
      number(claim().min_hold.count()),
      end && end->is_shared ? "1" : "0",
      end ? std::to_string(grant_.fence.number) : "0"};
  if (end && end->lost) {
    args.push_back(info_of(claim()));
    args.push_back(end->leaves_lease ? "1" : "0");
  }
  Response response;
  if (ballot_ && may_come_late) {
    response = co_await tell_all(args, until, own);
  } else {
    response = co_await route_.run(release_script, claim().lock, args, until, own);
  }
  auto released = release_from(response.reply());
  const bool vanished = released == Release::gone || released == Release::taken_over;
  if (vanished) {
    auto renewal = Renewal::gone;
    try {
      renewal = co_await found_lost(renewal, response, until, own);
    } catch (const Failure&) {
      // That it is lost is known all the same.
    }
    if (renewal == Renewal::reclaimed) {
      // Nobody was granted the lock meanwhile.
      response =
          co_await route_.run(release_script, claim().lock, std::move(args), until, own);
      released = release_from(response.reply());
    } else if (renewal == Renewal::failed_over) {
      released = Release::failed_over;
    }
  }
  if (!released) throw response.failure();
  if (released == Release::broken) taken_by_ = taker_from(response.reply());
  if (loss_told_by(*released)) co_return *released;  // and to be released again
  grant_ = {};
  known_ = Known::nothing;
  may_come_late_ = false;
  co_return *released;
}

// To a server that may not answer any more. It can be so far behind that it reads what it
// is told when we are gone: then it gets no further than to what it reads first, and so
// that is what refuses the request of which it knows nothing yet.
asio::awaitable<Response> RedisClaimant::tell_all(const std::vector<std::string>& args,
                                                  Clock::time_point until,
                                                  Wakeup& wakeup) {
  const auto keys = route_.keys_for(release_script, claim().lock);
  Command release{"EVAL", release_script.text, std::to_string(keys.size())};
  release.insert(release.end(), keys.begin(), keys.end());
  release.insert(release.end(), args.begin(), args.end());
  std::vector<Command> commands;
  commands.push_back({"SET", keys.front() + ":t:" + text_of(claim().token), "1", "PX",
                      number(comes_late_by.count())});
  commands.push_back(std::move(release));
  auto response =
      co_await route_.exchange(claim().lock, std::move(commands), until, wakeup);
  response.replies.erase(response.replies.begin());
  co_return response;
}

// Nothing that comes late is refused from then on: the claim would be, too. With the
// fence of the grant, for if this comes late itself, the next one may be there already.
asio::awaitable<void> RedisClaimant::give_back_grant(Wakeup& wakeup) {
  std::vector<std::string> args{
      text_of(claim().token),   waiter_id_, "",  "0",
      text_of(Verdict::no_run), "0",        "v", std::to_string(grant_.fence.number)};
  const auto response =
      co_await route_.run(release_script, claim().lock, std::move(args), wakeup);
  if (!release_from(response.reply())) throw response.failure();
}

asio::awaitable<Renewal> RedisClaimant::renew(Wakeup& wakeup) {
  const auto until = route_.budget_end();
  auto* node = co_await route_.open(claim().lock, until, wakeup);
  // Beside the request, for it takes about as long.
  auto inquiry = route_.inquire(*node, Clock::now(), until);
  auto response = co_await set_lease(until, wakeup);
  if (inquiry && response.node == node && co_await is_denied(*inquiry, until, wakeup)) {
    node->distrust();
    response = co_await set_lease(until, wakeup);
    if (response.node == node) throw not_confirmed(response);
  }
  auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (*renewal == Renewal::gone || *renewal == Renewal::taken_over) {
    if (claim().attached)
      renewal = co_await found_lost(*renewal, response, until, wakeup);
  } else if (*renewal != Renewal::broken) {
    co_await check_replicas(response, until, wakeup);
  }
  if (*renewal == Renewal::broken) taken_by_ = taker_from(response.reply());
  if (!is_loss(*renewal)) confirmed_by_ = response.node;
  if (const auto listener = listener_.lock()) listener->follow(response.node->target());
  co_return *renewal;
}

asio::awaitable<Response> RedisClaimant::set_lease(Clock::time_point until,
                                                   Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim().token)};
  if (claim().attached) {
    args.push_back(std::to_string(grant_.fence.number));
    args.push_back(number(lease_time(claim())));
  } else {
    args.push_back(number(claim().ttl.count()));
  }
  const auto& script = claim().attached ? renew_script : set_lease_script;
  co_return co_await route_.run(script, claim().lock, std::move(args), until, wakeup,
                                Durability::replicas);
}

// Silence is no veto: without those who know which server is the primary, one that is
// well still protects.
asio::awaitable<bool> RedisClaimant::is_denied(Inquiry& inquiry, Clock::time_point until,
                                               Wakeup& wakeup) {
  const auto half = Clock::now() + (until - Clock::now()) / 2;
  const auto word = co_await inquiry.word(half, wakeup);
  co_return word == Word::denied;
}

// A server that has taken over may know less than the one that granted the lease. There
// its last fence says whether anybody was granted the lock since; on the same one the
// lease is gone because somebody wanted it to be.
asio::awaitable<Renewal> RedisClaimant::found_lost(Renewal said, const Response& response,
                                                   Clock::time_point until,
                                                   Wakeup& wakeup) {
  const bool has_failed_over = is_elsewhere(response);
  if (!claim().reclaim && !has_failed_over) co_return said;
  const auto renewal = co_await reclaim(until, wakeup);
  if (renewal == Renewal::reclaimed || !has_failed_over) co_return renewal;
  co_return Renewal::failed_over;
}

bool RedisClaimant::is_elsewhere(const Response& response) const {
  return confirmed_by_ != nullptr && confirmed_by_ != response.node;
}

std::unique_ptr<LeaseNews> RedisClaimant::listen(std::function<void()> heard) {
  if (!claim().attached) return nullptr;  // nobody is told of those
  auto list = key_of(claim().lock) + ":b:" + std::to_string(grant_.fence.number);
  auto listening =
      std::make_unique<Listening>(*confirmed_by_, std::move(list), std::move(heard));
  listener_ = listening->listener();
  return listening;
}

asio::awaitable<Renewal> RedisClaimant::reclaim(Clock::time_point until, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim().token),
                                std::to_string(grant_.fence.number),
                                number(lease_time(claim())),
                                mode_text(claim()),
                                number(claim().slots),
                                number(grant_.slot),
                                info_of(claim())};
  // If it comes too late it must not set up what was given back in the meantime.
  expect_answer();
  const auto response = co_await route_.run(reclaim_script, claim().lock, std::move(args),
                                            until, wakeup, Durability::replicas);
  known_ = Known::answered;
  const auto renewal = renewal_from(response.reply());
  if (!renewal) throw response.failure();
  if (*renewal == Renewal::reclaimed) co_await check_replicas(response, until, wakeup);
  co_return *renewal;
}

}  // namespace dlock::redis
