// Reads scenes and plays them.

#include "tests/contract/scenes.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <map>
#include <random>
#include <stdexcept>

#include "lease/holding.hpp"
#include "lock/history.hpp"
#include "rules/look.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/ended_process.hpp"
#include "tests/run_end.hpp"
#include "tests/scene.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using scene::Facts;
using scene::number_in;
using scene::Term;
using scene::time_in;
using scene::Words;
using scene::yes_or_no;

Fence fence_in(const std::string& text) {
  static const auto hour = wall_now() + std::chrono::hours(1);
  if (text == "in_an_hour") return Fence{static_cast<std::uint64_t>(hour.count())};
  return Fence{static_cast<std::uint64_t>(number_in(text))};
}
std::int64_t in_milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<milliseconds>(time).count();
}

const std::map<Failure::Kind, std::string> failures{
    {Failure::Kind::unreachable, "unreachable"},
    {Failure::Kind::rejected, "rejected"},
    {Failure::Kind::misconfigured, "misconfigured"},
    {Failure::Kind::unsupported, "unsupported"},
    {Failure::Kind::exhausted, "exhausted"},
    {Failure::Kind::interrupted, "interrupted"}};
class News final : public LeaseWatcher {
 public:
  void extend(Clock::time_point until) override { deadline = until; }
  void reclaimed() override { again = true; }
  void forfeit(Loss loss) override {
    told = loss;
    ++times;
  }

  std::optional<Clock::time_point> deadline;
  bool again = false;
  std::optional<Loss> told;
  int times = 0;
};

Facts heard(const News& news) {
  std::string is = "none";
  for (const auto& [name, loss] : scene::losses) {
    if (news.told == loss) is = name;
  }
  return {{"is", news.again ? "again" : is}, {"times", std::to_string(news.times)}};
}

// The events of some locks from its construction on.
class Watch final : private EventSink {
 public:
  Watch(asio::io_context& context, World& world, Watched watched)
      : context_(context),
        store_(world.connect(context, usual_timeout)),
        wakeup_(context),
        watched_(std::move(watched)),
        task_(context, with_result(store_->inspector().watch(watched_, *this, wakeup_))) {
    if (!eventually(context_, [&] { return begun_ || task_.is_done(); }) || !begun_) {
      throw std::runtime_error("did not begin to watch");
    }
  }
  ~Watch() override {
    wakeup_.give_up(true);
    eventually(context_, [&] { return task_.is_done(); });
  }

  std::vector<Event> events;

 private:
  void began() override { begun_ = true; }
  void happened(const Event& event) override { events.push_back(event); }
  void interrupted(const std::string&) override {}

  asio::io_context& context_;
  std::unique_ptr<Store> store_;
  Wakeup wakeup_;
  Watched watched_;
  bool begun_ = false;
  Task<Nothing> task_;
};

class Scene : public scene::Play {
 public:
  Scene(const Kind& kind, std::string steps) : Play(std::move(steps)), kind_(kind) {}

 private:
  // A process: a contender, and what is known of it once it is dead.
  struct Actor {
    Contender* contender = nullptr;
    std::optional<News> news;
    Claim claim;
    Grant grant;
    Fence fence;
    bool holds = false;
    Rate rate{2, std::chrono::hours(1)};
    std::optional<Task<Nothing>> sleep;
    std::optional<Task<Answer>> wait;
  };

  bool goes_on(const Words& condition) override {
    return look().store->leases_expire() == (condition.at(1) == "expiring");
  }

  bool is_played(const Words& words) override {
    before_ = std::exchange(now_, Clock::now());
    if (words[0] != "pause") return false;
    const auto end = Clock::now() + time_in(words.at(1));
    return eventually(context_, [&] { return Clock::now() > end; });
  }

  bool comes_true(const std::function<bool()>& is_true) override {
    return eventually(context_, is_true);
  }

  Fence fence_of(const std::string& whom) const override {
    return actors_.count(whom) == 0 ? fence_in(whom) : actors_.at(whom).fence;
  }

  Facts facts_of(const Term& who, Words& expected) override {
    try {
      return facts_or_failure(who, expected);
    } catch (const Failure& failure) {
      if (expected.empty()) throw;
      return {{"is", failures.at(failure.kind())}, {"message", failure.what()}};
    }
  }

  // Does what the first word of `expected` says, and makes that what has to come of it.
  Facts facts_or_failure(const Term& who, Words& expected) {
    if (who.name == "lock") return facts_of_lock();
    if (who.name == "last") return facts_of_run(look().inspect().last_run);
    if (who.name == "success") return facts_of_run(look().inspect().last_success);
    if (who.name == "history") {
      const auto runs = look().history();
      const auto at = who.options.empty()
                          ? 0
                          : static_cast<std::size_t>(number_in(who.options[0].first));
      auto facts =
          facts_of_run(at < runs.size() ? std::optional(runs[at]) : std::nullopt);
      facts["runs"] = std::to_string(runs.size());
      return facts;
    }
    if (who.name == "holder") {
      const auto holders = look().inspect().holders;
      return holders.empty() ? Facts{{"is", "none"}} : facts_of(holders[0]);
    }
    if (who.name == "list") return facts_of_list(who);
    const Term action(expected.at(0));
    expected.erase(expected.begin());
    if (who.name == "watcher") return facts_of_watcher(action);
    if (who.name == "server") return tell_server(action);
    return facts_of(actor(who), action, expected);
  }

  // A command to a server may name a token, %a, or the moment %in_an_hour.
  Facts tell_server(const Term& action) {
    if (action.name == "forgets") world_->wipe_out();
    if (action.name == "goes_on") obstacle_.reset();
    if (action.name == "stalls") obstacle_ = world_->hold_up();
    if (action.name != "runs") return {};
    std::string command;
    for (const auto& word : scene::split(action.options.at(0).first, " ")) {
      const auto at = word.find('%');
      command += (command.empty() ? "" : " ") + word.substr(0, at);
      if (at == std::string::npos) continue;
      const auto name = word.substr(at + 1);
      command += name == "in_an_hour" ? std::to_string(fence_in(name).number)
                                      : text_of(actors_.at(name).claim.token);
    }
    auto reply = RedisWorld::command(command);
    for (std::size_t at; (at = reply.find("\r\n")) != std::string::npos;) {
      reply.replace(at, 2, "/");
    }
    return {{"reply", reply}};
  }

  Facts facts_of(Actor& actor, const Term& action, Words& expected) {
    auto facts = facts_of_action(actor, action, expected);
    facts["took"] = std::to_string(in_milliseconds(Clock::now() - before_));
    return facts;
  }

  Facts facts_of_action(Actor& actor, const Term& action, Words& expected) {
    const auto& verb = action.name;
    auto& contender = *actor.contender;
    if (verb == "asks") return facts_of(actor, contender.ask(Queue::stay_out));
    if (verb == "joins") return facts_of(actor, contender.ask(Queue::join));
    if (verb == "asks_last") return facts_of(actor, contender.ask(Queue::refuse));
    if (verb == "takes" || verb == "gets") {
      const auto before = actor.fence;
      const bool again = !expected.empty() && expected[0] == "again";
      if (again) expected[0] = "fence=" + std::to_string(before.number);
      if (!has(expected, "broken")) expected.push_back("!broken");
      expected.push_back("grows");
      expected.push_back("granted");
      return facts_of(actor,
                      contender.ask(verb == "takes" ? Queue::stay_out : Queue::join));
    }
    if (verb == "is_busy" || verb == "is_refused") {
      expected.push_back("busy");
      return facts_of(actor,
                      contender.ask(verb == "is_busy" ? Queue::stay_out : Queue::refuse));
    }
    if (verb == "queues") {
      if (!expected.empty() && expected[0].find('=') == std::string::npos) {
        expected[0] = "place=" + expected[0];
      }
      expected.push_back("busy");
      return facts_of(actor, contender.ask(Queue::join));
    }
    if (verb == "acquires") {
      return facts_of(actor, result_of(context_, acquire_by(contender, action)));
    }
    if (verb == "waits") {
      const auto waiting = look().inspect().waiters.size();
      actor.wait.emplace(context_, acquire_by(contender, action));
      const auto has_queued = [&] {
        return actor.wait->is_done() || look().inspect().waiters.size() > waiting;
      };
      if (!eventually(context_, has_queued)) throw std::runtime_error("does not queue");
      return {};
    }
    if (verb == "waited") return facts_of(actor, actor.wait->result());
    if (verb == "sleeps") {
      actor.sleep.emplace(
          context_,
          with_result(contender.claimant().await_turn(endless(contender.wakeup))));
      return {{"woken", yes_or_no(actor.sleep->is_done())}};
    }
    if (verb == "wakes") {
      actor.sleep->result();
      return {};
    }
    if (verb == "leaves" || verb == "ends") {
      if (expected.empty()) expected.push_back(actor.holds ? "released" : "not_ours");
      std::optional<RunEnd> end;
      if (verb == "ends")
        scene::set(end.emplace(exit_with(0)), scene::options_of_ends, action);
      const auto answer = contender.release(end);
      if (answer == Release::released && actor.claim.lock.name == "job") {
        ended_ = std::max(ended_, actor.fence);
      }
      if (answer == Release::released || answer == Release::left) actor.holds = false;
      return with_taker(contender, scene::releases.at(answer));
    }
    if (verb == "renews") {
      if (expected.empty()) expected.emplace_back("confirmed");
      contender.claim = claim_with(contender.claim, action);
      if (contender.claim.attached) {
        return with_taker(contender, scene::renewals.at(contender.renew()));
      }
      // By its token, with another client.
      const auto another = contender.store->claimant(contender.claim);
      const auto answer = result_of(context_, another->renew(contender.wakeup));
      return {{"is", scene::renewals.at(answer)},
              {"ttl", std::to_string(another->claim().ttl.count())}};
    }
    if (verb == "runs") {
      run_often(contender.claim, action);
      return {};
    }
    if (verb == "foresees") {
      const auto queue = action.options.empty() ? Queue::stay_out : Queue::join;
      const auto answer =
          rules::foregone_answer(look().inspect(), contender.claim, queue, host_name());
      return answer ? facts_of(actor, *answer) : Facts{{"is", "none"}};
    }
    if (verb == "keeps") {
      contender.keep(actor.grant, actor.news.emplace());
      return {};
    }
    if (verb == "hears") return heard(*actor.news);
    if (verb == "kept") {
      auto& news = actor.news.emplace();
      contender.keep(actor.grant, news);
      eventually(context_, [&] { return news.deadline || news.told; });
      contender.stop_keeping();
      auto facts = heard(news);
      if (facts["is"] == "none") facts["is"] = "confirmed";
      facts["lost"] = yes_or_no(news.told.has_value());
      if (news.deadline) {
        facts["lasts"] = std::to_string(in_milliseconds(*news.deadline - Clock::now()));
      }
      return facts;
    }
    if (verb == "rests") {
      contender.stop_keeping();
      return {};
    }
    if (verb == "anew") {
      contender.claim = claim_with(contender.claim, action);
      contender.start_anew();
      return {};
    }
    if (verb == "puts") {
      const auto answer = put(contender, action);
      return {{"is", answer == Storing::stored ? "stored" : "not_ours"}};
    }
    if (verb == "reads") return facts_of(contender.look_up());
    if (verb == "forgets") {
      contender.forget();
      return {};
    }
    if (verb == "enters" || verb == "waits_for_turn") return enter(actor, action);
    if (verb == "withdraws") {
      auto& rates = rates_of(*contender.store);
      result_of(context_, rates.withdraw(rate_claim_of(actor), contender.wakeup));
      return {};
    }
    if (verb == "starts") {
      contender.start(ended_process());
      return {};
    }
    if (verb == "stops") {
      contender.wakeup.give_up(true);
      return {};
    }
    if (verb == "dies") {
      actor.contender = nullptr;
      contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
      return {};
    }
    if (verb == "breaks" || verb == "forces") return break_by(contender, action);
    if (verb == "admits") {
      const auto fence =
          static_cast<std::uint64_t>(number_in(action.options.at(0).first));
      const auto answer = contender.admit(fence);
      return {{"is", answer == Admission::admitted ? "admitted" : "stale"}};
    }
    throw std::logic_error("no one " + verb);
  }

  // A text, or random bytes of this size.
  static Storing put(Contender& contender, const Term& action) {
    std::string bytes = action.options.at(0).first;
    Lifetime lifetime{milliseconds(60'000), {}};
    for (const auto& [name, value] : action.options) {
      if (name == "ttl") lifetime.ttl = time_in(value);
      if (name == "stale") lifetime.stale = time_in(value);
      if (name != "size") continue;
      std::mt19937 random(4711);
      bytes.resize(static_cast<std::size_t>(number_in(value)));
      for (auto& byte : bytes) byte = static_cast<char>(random());
    }
    return contender.put(bytes, lifetime);
  }

  static Facts facts_of(const ValueLookup& found) {
    const auto& value = found.value;
    return {{"is", value ? "found" : "missing"},
            {"value", value ? value->bytes.substr(0, 20) : "none"},
            {"fresh", yes_or_no(value && value->is_fresh)},
            {"damage", found.damage}};
  }

  static RateClaim rate_claim_of(const Actor& actor) {
    const auto& claim = actor.contender->claim;
    return {claim.lock, claim.token, actor.rate, {}};
  }

  // With how long the claim would wait for its turn.
  Facts enter(Actor& actor, const Term& action) {
    auto& contender = *actor.contender;
    auto& rates = rates_of(*contender.store);
    auto claim = rate_claim_of(actor);
    const milliseconds wait =
        action.options.empty() ? milliseconds(0) : time_in(action.options[0].first);
    RateAnswer answer;
    if (action.name == "waits_for_turn") {
      TurnPatience patience;
      patience.until = later(Clock::now(), wait);
      answer =
          result_of(context_, await_admission(rates, claim, patience, contender.wakeup));
    } else {
      claim.patience = wait;
      answer = result_of(context_, rates.admit(claim, contender.wakeup));
    }
    if (const auto* admitted = std::get_if<Admitted>(&answer)) {
      return {{"is", "admitted"}, {"remaining", std::to_string(admitted->remaining)}};
    }
    if (const auto* later_turn = std::get_if<NotAdmitted>(&answer)) {
      return {{"is", "turned_away"},
              {"remaining", std::to_string(later_turn->remaining)},
              {"turn", yes_or_no(later_turn->has_turn)},
              {"next_in", std::to_string(later_turn->next_in.count())}};
    }
    const auto& rate = std::get<RateDiffers>(answer).in_use;
    return {{"is", "differs"},
            {"most", std::to_string(rate.most)},
            {"period", std::to_string(rate.period.count())}};
  }

  static bool has(const Words& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  static asio::awaitable<Answer> acquire_by(Contender& contender, Term action) {
    Patience patience;
    patience.until = Clock::now() + std::chrono::seconds(20);
    for (const auto& [name, value] : action.options) {
      patience.until.reset();
      if (name == "for") patience.until = Clock::now() + time_in(value);
    }
    co_return co_await acquire(contender.claimant(), patience, contender.wakeup);
  }

  // Each run exits with its number, unless another code is said.
  void run_often(Claim claim, const Term& action) {
    const auto times = number_in(action.options.at(0).first);
    for (int number = 1; number <= times; ++number) {
      claim.token.bytes = random_bytes();
      Contender runner(context_, *world_, claim);
      runner.granted();
      auto end = exit_with(number);
      Term options = action;
      options.options.erase(options.options.begin());
      scene::set(end, scene::options_of_ends, options);
      runner.release(claim.attached ? std::optional(end) : std::nullopt);
    }
  }

  Facts break_by(Contender& breaker, const Term& action) {
    Break order;
    order.by_force = action.name == "forces";
    for (const auto& [name, nothing] : action.options) {
      order.fences.push_back(fence_of(name));
    }
    Facts facts;
    Task<Nothing> task(context_, collect(breaker, order, facts));
    task.result();
    return facts;
  }
  static asio::awaitable<Nothing> collect(Contender& breaker, Break order, Facts& facts) {
    const auto found =
        co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
    if (!found.empty()) facts = facts_of(found[0].holder);
    facts["found"] = std::to_string(found.size());
    co_return Nothing{};
  }

  Facts facts_of(Actor& actor, const Answer& answer) {
    Facts facts;
    if (const auto* grant = std::get_if<Grant>(&answer)) {
      const bool grows = grant->fence > ended_ || grant->fence == actor.fence ||
                         actor.claim.lock != LockName{"dlock", "job"};
      actor.fence = grant->fence;
      actor.grant = *grant;
      const auto lasts = grant->deadline == Clock::time_point::max()
                             ? milliseconds::max().count()
                             : in_milliseconds(grant->deadline - Clock::now());
      actor.holds = true;
      facts = {{"is", "granted"},
               {"fence", std::to_string(grant->fence.number)},
               {"slot", std::to_string(grant->slot)},
               {"lasts", std::to_string(lasts)},
               {"grows", yes_or_no(grows)},
               {"broken", yes_or_no(grant->broken)}};
    } else if (const auto* busy = std::get_if<Busy>(&answer)) {
      if (!busy->holders.empty()) facts = facts_of(busy->holders[0]);
      facts["is"] = "busy";
      facts["place"] = std::to_string(busy->place);
      facts["queued"] = std::to_string(busy->queued);
      facts["holders"] = std::to_string(busy->holders.size());
    } else if (const auto* outer = std::get_if<HeldByOuterRun>(&answer)) {
      facts = {{"is", "nested"}, {"fence", std::to_string(outer->fence.number)}};
    } else if (const auto* differ = std::get_if<SlotsDiffer>(&answer)) {
      facts = {{"is", "differs"}, {"slots", std::to_string(differ->in_use)}};
    } else if (const auto* other = std::get_if<Deduplicated>(&answer)) {
      facts = facts_of_run(other->by);
      facts["is"] = "deduplicated";
    } else if (const auto* newer = std::get_if<Superseded>(&answer)) {
      facts = {
          {"is", "superseded"},
          {"here", yes_or_no(newer->host == host_name() && newer->pid == ::getpid())}};
    }
    const auto is = facts["is"];
    return with_taker(*actor.contender, is, std::move(facts));
  }

  // Whoever took the lock is this process.
  static Facts with_taker(Contender& contender, const std::string& is, Facts facts = {}) {
    facts["is"] = is;
    const auto taker = contender.claim.attached ? contender.claimant().taken_by()
                                                : std::optional<Taker>();
    facts["taken"] =
        yes_or_no(taker && taker->host == host_name() && !taker->user.empty());
    facts["replaced"] = yes_or_no(taker && taker->replaces);
    return facts;
  }

  static Facts facts_of(const HolderInfo& holder) {
    return {{"fence", std::to_string(holder.fence.number)},
            {"slot", std::to_string(holder.slot)},
            {"label", holder.label},
            {"command", holder.command.empty() ? "" : holder.command[0]},
            {"pid", std::to_string(holder.pid)},
            {"here", yes_or_no(holder.pid == ::getpid() && !holder.host.empty() &&
                               !holder.user.empty())},
            {"broken", yes_or_no(holder.broken)},
            {"ended", yes_or_no(holder.run_ended)},
            {"attached", yes_or_no(holder.attached)},
            {"gone", yes_or_no(holder.dlock_gone)},
            {"expires_in",
             std::to_string(holder.expires_in.value_or(milliseconds(-1)).count())}};
  }

  Facts facts_of_run(const std::optional<RunInfo>& run) {
    if (!run) return {{"is", "none"}};
    auto outcome = run->outcome;
    std::replace(outcome.begin(), outcome.end(), ' ', '_');
    return {{"is", outcome},
            {"outcome", outcome},
            {"fence", std::to_string(run->fence.number)},
            {"code", run->exit_code ? std::to_string(*run->exit_code) : "none"},
            {"signal", run->signal.value_or("none")},
            {"reason", run->reason},
            {"label", run->label},
            {"period", run->period},
            {"forced", yes_or_no(forced_by(*run).has_value())},
            {"lasted", std::to_string(run->duration.value_or(milliseconds(-1)).count())},
            {"ended", yes_or_no(run->ended && *run->ended >= run->started)},
            {"started", yes_or_no(run->started >= began_)},
            {"here", yes_or_no(run->host == host_name() && !run->user.empty())}};
  }

  // "granted/a/0": an event of the claim with the label `a` that leaves no slot free.
  Facts facts_of_watcher(const Term& action) {
    if (action.name == "begins") {
      Watched watched{"dlock", {}};
      for (const auto& [name, nothing] : action.options) watched.names.insert(name);
      watch_.emplace(context_, *world_, watched);
      return {};
    }
    Words lines;
    bool in_order = true;
    auto events = watch_->events;
    if (!kind_.tells_in_order) {
      std::stable_sort(
          events.begin(), events.end(),
          [](const Event& one, const Event& other) { return one.time < other.time; });
    }
    for (const auto& event : events) {
      lines.push_back(std::string(event_name(event.kind)) + '/' + event.label + '/' +
                      std::to_string(event.free));
      in_order = in_order && events[0].time <= event.time;
    }
    const auto joined = [&] {
      std::string text;
      for (const auto& line : lines) text += (text.empty() ? "" : ",") + line;
      return text;
    };
    Facts facts{{"events", joined()}, {"in_order", yes_or_no(in_order)}};
    std::sort(lines.begin(), lines.end());
    facts["sorted"] = joined();
    if (events.empty()) return facts;
    const auto& last = events.back();
    const bool here = last.pid == ::getpid() && last.host == host_name() &&
                      !last.user.empty() && last.command == Words{"./job"};
    facts["here"] = yes_or_no(here);
    facts["fence"] = std::to_string(last.fence.number);
    facts["code"] =
        last.run && last.run->exit_code ? std::to_string(*last.run->exit_code) : "none";
    facts["outcome"] = last.run ? last.run->outcome : "none";
    facts["taken"] = yes_or_no(last.taken_by && last.taken_by->host == host_name());
    return facts;
  }

  Facts facts_of_lock() {
    const auto lock = look().inspect();
    std::string places;
    for (const auto& waiter : lock.waiters) {
      places += (places.empty() ? "" : ",") + std::to_string(waiter.priority);
    }
    const auto is_before = [](const HolderInfo& one, const HolderInfo& other) {
      return one.fence < other.fence;
    };
    const bool ascend =
        std::is_sorted(lock.holders.begin(), lock.holders.end(), is_before);
    const bool is_here = !lock.waiters.empty() && lock.waiters[0].pid == ::getpid();
    return {{"is", "known"},
            {"here", yes_or_no(is_here)},
            {"ascending", yes_or_no(ascend)},
            {"label", lock.waiters.empty() ? "" : lock.waiters[0].label},
            {"holders", std::to_string(lock.holders.size())},
            {"waiters", std::to_string(lock.waiters.size())},
            {"priorities", places},
            {"free", std::to_string(lock.free)},
            {"slots", std::to_string(lock.slots)},
            {"shared", yes_or_no(lock.mode == Mode::shared)},
            {"refused", std::to_string(lock.refused)},
            {"superseded", std::to_string(lock.superseded)},
            {"known", yes_or_no(lock.known)}};
  }

  // Of the locks of the namespace, without one.
  Facts facts_of_list(const Term& list) {
    const auto matches = [&](const std::string& name) {
      return list.options.empty() || name != list.options[0].second;
    };
    auto& reader = look();
    const auto locks = result_of(
        context_, reader.store->inspector().list("dlock", matches, reader.wakeup));
    std::string names;
    for (const auto& lock : locks) names += (names.empty() ? "" : ",") + lock.lock.name;
    return {{"names", names}};
  }

  // One that looks at the lock and makes no claim.
  Contender& look() {
    if (!look_) look_.emplace(context_, *world_, claim_of("job"));
    return *look_;
  }

  Actor& actor(const Term& who) {
    auto& found = actors_[who.name];
    if (found.contender == nullptr) {
      found.holds = false;
      auto timeout = usual_timeout;
      auto options = who;
      std::erase_if(options.options, [&](const auto& option) {
        if (option.first != "rate") return false;
        const auto slash = option.second.find('/');
        found.rate.most =
            static_cast<unsigned>(number_in(option.second.substr(0, slash)));
        found.rate.period = time_in(option.second.substr(slash + 1));
        return true;
      });
      if (!options.options.empty() && options.options[0].first == "hurries") {
        options.options.erase(options.options.begin());
        timeout = kind_.brief_timeout;
      }
      auto claim = claim_with(claim_of("job"), options);
      found.contender = &contenders_.emplace_back(context_, *world_, claim, timeout);
    }
    found.claim = found.contender->claim;
    return found;
  }

  Claim claim_with(Claim claim, Term term) {
    auto& options = term.options;
    // These name others.
    const auto is_set = [&](const auto& option) {
      if (option.first == "floor") claim.fence_floor = fence_of(option.second);
      if (option.first == "like") claim = actors_.at(option.second).claim;
      if (option.first != "inside")
        return option.first == "like" || option.first == "floor";
      claim.outer_fences.push_back(actors_.at(option.second).fence);
      return true;
    };
    options.erase(std::remove_if(options.begin(), options.end(), is_set), options.end());
    scene::set(claim, scene::options_of_claims, term);
    return claim;
  }

  const Kind& kind_;
  asio::io_context context_{1};
  std::unique_ptr<World> world_ = kind_.make();
  std::shared_ptr<void> obstacle_;
  std::map<std::string, Actor> actors_;
  std::list<Contender> contenders_;
  std::optional<Contender> look_;
  std::optional<Watch> watch_;
  WallTime began_ = wall_now();
  Fence ended_;               // the greatest of the grants of the lock that were released
  Clock::time_point before_;  // when the step before began
  Clock::time_point now_;
};

}  // namespace

bool add_scenes(const std::string& suite, const std::vector<Kind>& on, const char* text,
                int line, const char* file) {
  static std::list<Kind> stores;
  for (const auto& kind : on) {
    stores.push_back(kind);
    for (const auto& [name, steps] : scene::scenes_in(text)) {
      ::testing::RegisterTest(
          ("scenes/" + suite).c_str(), (name + '/' + kind.name).c_str(), nullptr,
          kind.name, file, line,
          [&kind = stores.back(), steps = steps]() -> ::testing::Test* {
            return new Scene(kind, steps);
          });
    }
  }
  return true;
}

}  // namespace dlock
