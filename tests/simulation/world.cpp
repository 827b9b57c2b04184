#include "tests/simulation/world.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <csignal>
#include <cstdlib>
#include <map>

#include "store/redis/node.hpp"
#include "tests/simulation/etcd_member.hpp"
#include "tests/simulation/pg_server.hpp"
#include "tests/simulation/redis_server.hpp"
#include "util/text.hpp"

namespace dlock::simulation {
namespace {

constexpr Time ttls[] = {2 * second, 3 * second, 5 * second};

std::string address_of(std::size_t server) {
  return "10.0.0." + std::to_string(server + 1);
}

// Signals stay as they are: the simulation is to be interrupted as any program.
const HeldSignals& held_signals() {
  static const auto held = [] {
    sigset_t before;
    ::sigprocmask(SIG_SETMASK, nullptr, &before);
    HeldSignals signals;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return signals;
  }();
  return held;
}

SupervisionPlan plan_of(const Run& run) {
  auto plan = run.options.supervision;
  plan.own_group = true;
  plan.lease = run.timing;
  return plan;
}

// Behind `key` in the variable, or at its beginning.
std::uint64_t number_in(const std::vector<std::string>& environment,
                        std::string_view name, const std::string& key = "") {
  for (const auto& variable : environment) {
    if (!variable.starts_with(name)) continue;
    const auto at = variable.find(key, name.size());
    return std::strtoull(variable.c_str() + at + key.size(), nullptr, 10);
  }
  return 0;
}

}  // namespace

World::World(std::uint64_t seed, StoreKind kind, bool traces)
    : kind_(kind), kernel_(seed) {
  kernel_.traces = traces;
  constexpr std::size_t first_line = 60;  // no other script has so much of it
  kernel_.asks = {redis::ask_script.sha1, {redis::ask_script.text, first_line}};
  if (kind == StoreKind::postgres) kernel_.asks = {" SET version", "INSERT INTO"};
  if (kind == StoreKind::etcd) kernel_.asks = {"/now/"};
  auto& random = kernel_.random;
  const bool is_one = kind == StoreKind::redis || kind == StoreKind::postgres;
  const bool is_sentinel = kind == StoreKind::sentinel;
  const bool is_group = is_sentinel || kind == StoreKind::cluster;
  const std::size_t count = is_one ? 1 : is_sentinel ? 5 : 3;
  const auto group = is_group ? made_group() : nullptr;
  const auto etcd = std::make_shared<EtcdCluster>();
  for (std::size_t i = 0; i < count; ++i) {
    const auto executes = [this, i](const Process& by, Peer::Act act) {
      executed(i, by, act);
    };
    auto& server = servers_.emplace_back();
    if (kind == StoreKind::postgres) {
      const auto lag = random.spread(20 * millisecond, 5 * second);
      server = std::make_unique<PgServer>(executes, random.chance(0.3) ? lag : 0);
    } else if (kind == StoreKind::etcd) {
      server = std::make_unique<EtcdMember>(etcd, executes);
    } else {
      auto redis = std::make_unique<RedisServer>(executes, group);
      if (group) group->add(*redis, address_of(i));
      server = std::move(redis);
    }
    server->rate = random.chance(0.5) ? 0 : (random.chance(0.5) ? 0.004 : -0.004);
    if (is_group && i > 0) {  // clocks that agree: fences are made of them
      server->rate = servers_.front()->rate;
      server->clock_offset = servers_.front()->clock_offset;
      kernel_.peers[address_of(i)] = server.get();
      continue;
    }
    server->clock_offset = random.chance(0.7) ? 0 : random.between(-3600, 3600) * second;
    kernel_.peers[address_of(i)] = server.get();
  }
  // A server of a quorum has a vote once it is up for --max-ttl.
  kernel_.now += 100 * second;
  has_ttls_ = random.chance(0.2);
  ttl_ = has_ttls_ ? ttls[2] : ttls[random.below(3)];
  if (kind != StoreKind::quorum && random.chance(0.3)) {
    has_readers_ = random.chance(0.5);
    slots_ = has_readers_ ? 1 : 2;
  }
  has_also_ = random.chance(0.15);
  kernel_.network.most = random.spread(100 * microsecond, 20 * millisecond);
  if (random.chance(0.6)) {
    kernel_.network.late = static_cast<double>(random.spread(2, 300)) / 1000;
    kernel_.network.latest = random.spread(50 * millisecond, 3 * second);
    has_late_packets_ = true;
  }
  kernel_.network.split = random.chance(0.3) ? 0.2 : 0;
  // Few runs show most faults; some need a third waiter.
  const bool is_crowded = random.chance(0.25);
  const auto contenders = 2 + random.below(is_crowded ? 4 : 2);
  runs_left_ = static_cast<int>(random.below(is_crowded ? 2 * contenders : 2));
  for (std::uint64_t i = 0; i < contenders; ++i) {
    start_later(kernel_.now + (random.chance(0.5) ? random.between(0, 50 * millisecond)
                                                  : random.between(0, ttl_)));
  }
  const auto by_hand =
      kind != StoreKind::quorum && random.chance(0.2) ? 1 + random.below(2) : 0;
  for (std::uint64_t i = 0; i < by_hand; ++i) {
    kernel_.at(kernel_.now + random.between(0, 3 * ttl_),
               [this] { start_client("acquire", &World::hold_by_hand); });
  }
  plan_faults();
}

World::~World() {
  for (auto& client : clients_) free(*client);
  for (auto& run : runs_) free(*run);
}

// Leases that were granted before the sentinels agree, or before the former primary in a
// cluster knows of the next one, may be lost with the former primary. Whoever has found
// it before that sends three requests more, at most: to connect, to ask, and to ask with
// the text of the script.
std::shared_ptr<ServerGroup> World::made_group() {
  ServerGroup::Observer observer;
  observer.replaced = [this](Time used) {
    const auto& network = kernel_.network;
    const auto last_asked =
        used + 3 * (2 * network.most + network.latest) + 2 * network.latest_ask;
    forgot_ = std::max(forgot_, last_asked);
    in_use_ = std::max(in_use_, used + 25 * second);
  };
  observer.unavailable = [this](Time until) { in_use_ = std::max(in_use_, until); };
  if (kind_ == StoreKind::cluster) return std::make_shared<ClusterGroup>(observer);
  return std::make_shared<SentinelGroup>(observer);
}

std::string World::url() const {
  if (kind_ == StoreKind::redis) return "redis://" + address_of(0);
  if (kind_ == StoreKind::postgres) {
    return "postgres://dlock@" + address_of(0) + "/dlock?sslmode=disable";
  }
  if (kind_ == StoreKind::sentinel) {
    return "redis+sentinel://" + address_of(2) + ',' + address_of(3) + ',' +
           address_of(4) + "/primary";
  }
  std::string url = kind_ == StoreKind::etcd      ? "etcd://"
                    : kind_ == StoreKind::cluster ? "redis+cluster://"
                                                  : "redis+quorum://";
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    url += (i > 0 ? "," : "") + address_of(i);
  }
  return url;
}

// Parsing takes longer than a schedule, so each command line is parsed once.
const Invocation& World::invocation(std::optional<Time> wait) {
  auto& random = kernel_.random;
  const auto ttl = has_ttls_ ? ttls[random.below(3)] : ttl_;
  std::vector<std::string> words{"run",     "--quiet", "--ttl", text_of_span(ttl),
                                 "--store", url()};
  if (kernel_.traces) words[1] = "--verbose";
  if (wait) words.push_back("--wait=" + (*wait < 0 ? "forever" : text_of_span(*wait)));
  const bool differs = random.chance(0.05);  // which only one of several slots shows
  if (slots_ > 1) words.push_back("--slots=" + std::to_string(slots_ + differs));
  if (has_readers_ && random.chance(0.6)) words.emplace_back("--shared");
  if (kind_ == StoreKind::redis && random.chance(0.2)) words.emplace_back("--reclaim");
  const bool has_priorities = kind_ != StoreKind::etcd;
  if (has_priorities && random.chance(0.1)) words.emplace_back("--priority=-5");
  if (random.chance(0.15)) {
    words.push_back("--min-hold=" + text_of_span(random.below(2) * 4 * second + second));
  }
  if (random.chance(0.15)) {
    words.push_back("--lock-delay=" +
                    text_of_span(random.below(2) * 3 * second + second));
  }
  if (has_also_ && random.chance(0.5)) {
    words.emplace_back(random.chance(0.5) ? "--also=a" : "--also=z");
  }
  // The first is for locks with one holder, and the others need --wait.
  constexpr const char* wishes[] = {"--dedupe=1m", "--supersede", "--replace"};
  if (kind_ != StoreKind::quorum && random.chance(0.15)) {
    const bool is_single = slots_ == 1 && !has_readers_;
    const auto wish = random.below(3);
    const bool fits = wish == 0   ? is_single
                      : wish == 1 ? wait && !words.back().starts_with("--also")
                                  : wait.has_value();
    if (fits) words.emplace_back(wishes[wish]);
  }
  for (const char* word : {"job", "--", "true"}) words.emplace_back(word);
  static std::map<std::vector<std::string>, Invocation> known;
  const auto found = known.find(words);
  if (found != known.end()) return found->second;
  return known.emplace(words, std::get<Invocation>(parsed(words))).first->second;
}

void World::start_later(Time moment) {
  ++starting_;
  kernel_.at(moment, [this] { start_run(); });
}

// A run whose command is alive; null if there is none.
const Run* World::some_holder() {
  for (const auto& run : runs_) {
    if (run->guardian->is_alive && kernel_.random.chance(0.5)) return run.get();
  }
  return nullptr;
}

void World::start_run() {
  auto& random = kernel_.random;
  --starting_;
  const auto* const outer = random.chance(0.1) ? some_holder() : nullptr;
  auto& run = *runs_.emplace_back(std::make_unique<Run>());
  run.number = static_cast<int>(runs_.size());
  run.process.pid = 1000 + run.number;
  run.process.wall_offset = random.chance(0.8) ? 0 : random.between(-7200, 7200) * second;
  run.began = kernel_.now;
  run.outer = outer;
  const Time waits[] = {-1, -1, -1, 0, 500 * millisecond, 2 * second};
  const auto wait = waits[random.below(6)];
  run.invocation = &invocation(wait == 0 ? std::nullopt : std::optional(wait));
  run.options = run_options(run.invocation->settings, "job", run.invocation->command);
  has_takers_ = has_takers_ || run.options.replace;
  run.options.supervision.kill_after = milliseconds(random.below(2) * 200 + 100);
  run.timing.emplace(run.options.ttl, run.options.supervision.kill_after,
                     store_timeout(run.invocation->common, run.options.ttl));
  CommandPlan command;
  const auto length = random.below(4);
  command.runs_for = length <= 1   ? random.spread(microsecond * 500, 50 * millisecond)
                     : length == 2 ? random.between(50 * millisecond, ttl_)
                                   : random.between(ttl_, 3 * ttl_);
  if (random.chance(0.1)) command.signal = SIGTERM;
  command.obeys_term = random.chance(0.7);
  command.starts_after = random.chance(0.9) ? random.between(20, 2000) * microsecond
                                            : random.spread(millisecond, second);
  run.guardian_suffers = random.chance(0.2);
  if (random.chance(fault_at_step_)) {
    run.steps_to_fault = 1 + static_cast<int>(random.spread(1, 200));
  }
  run.guardian.emplace(kernel_, plan_of(run), command, run.process);
  run.guardian->started = [this, &run] { command_started(run); };
  run.guardian->ended = [this, &run](bool by_itself) { command_ended(run, by_itself); };
  run.additions.supervise = [&run](SignalInbox&, Wakeup& wakeup) {
    return std::make_unique<SimulatedSupervisor>(
        *run.guardian, plan_of(run), wakeup, [&run](const auto& environment) {
          run.fence = number_in(environment, "DLOCK_FENCE=");
          if (!run.options.also.empty()) {
            run.also_fence = number_in(
                environment, "DLOCK_FENCES=", run.options.also.front().name + '=');
          }
          run.slot = static_cast<unsigned>(number_in(environment, "DLOCK_SLOT="));
        });
  };
  kernel_.trace(
      "run " + std::to_string(run.number) + " starts" +
      (wait < 0   ? ", waits"
       : wait > 0 ? ", waits for " + text_of_span(wait)
                  : "") +
      (slots_ > 1 ? ", two slots" : "") + (run.options.shared ? ", shared" : "") +
      (run.options.supersede ? ", supersedes" : "") +
      (run.options.replace ? ", replaces" : "") +
      (run.options.also.empty() ? "" : ", needs " + run.options.also.front().name) +
      (run.options.dedupe ? ", may be skipped" : "") +
      (run.options.reclaim ? ", may reclaim" : "") +
      (outer != nullptr ? ", in run " + std::to_string(outer->number) : ""));
  kernel_.running = &run.process;
  if (outer != nullptr) {
    ::setenv("DLOCK_HELD", ("job=" + std::to_string(outer->fence)).c_str(), 1);
  }
  run.context = std::make_unique<Run::Context>();
  try {
    run.locked_run.emplace(RunParts{*run.context, *run.invocation, run.options,
                                    *run.timing, plan_of(run), held_signals(), nullptr,
                                    run.additions});
    asio::co_spawn(
        *run.context, [&run] { return run.locked_run->execute(); },
        [&run](std::exception_ptr thrown, RunResult ended) {
          run.error = thrown;
          run.result = std::move(ended);
          run.context->stop();
        });
  } catch (const std::exception& failure) {
    broken("P8", std::string("a run cannot start: ") + failure.what());
  }
  ::unsetenv("DLOCK_HELD");
  kernel_.running = nullptr;
}

// Runs what the event loop of the process has to do, or one handler of it if the process
// is to be stopped or killed between two.
void World::step(Run& run) {
  kernel_.running = &run.process;
  auto& loop = *run.context;
  try {
    const auto handled = run.steps_to_fault > 0 ? loop.poll_one() : loop.poll();
    if (handled == 0) run.process.is_ready = false;
  } catch (const std::exception& error) {
    broken("P7", "run " + std::to_string(run.number) + ": " + error.what());
  }
  kernel_.running = nullptr;
  if (run.result) return finish(run);
  if (run.steps_to_fault > 0 && --run.steps_to_fault == 0) hit(run);
}

// Returns whether something was done.
bool World::run_ready_once() {
  bool found = false;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    auto& run = *runs_[i];
    while (complaint_.empty() && run.context && run.process.is_ready &&
           run.process.stopped_until <= kernel_.now) {
      found = true;
      step(run);
    }
  }
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    auto& client = *clients_[i];
    while (complaint_.empty() && client.context && client.process.is_ready) {
      found = true;
      step(client);
    }
  }
  return found;
}

void World::run_ready() {
  while (complaint_.empty() && run_ready_once()) {
  }
}

bool World::is_over() const {
  const auto has_ended = [](const auto& one) { return one->context == nullptr; };
  return starting_ == 0 && std::all_of(runs_.begin(), runs_.end(), has_ended) &&
         std::all_of(clients_.begin(), clients_.end(), has_ended);
}

// A server of the simulation throws if it does not know a request.
std::string World::run() {
  try {
    return judged();
  } catch (const std::exception& error) {
    return std::string("the simulation has failed: ") + error.what();
  }
}

std::string World::judged() {
  // A dead holder costs a lease, and each run takes as long as its command.
  end_ = faults_end_ + 400 * second;
  look_for_idleness();
  for (;;) {
    run_ready();
    if (is_over() || !complaint_.empty()) break;
    if (!kernel_.step(end_)) {
      broken("P6", "a run has not ended long after the last fault");
      break;
    }
  }
  // What was left by the dead expires, and what is late arrives.
  const auto quiet = kernel_.now + 40 * second;
  kernel_.at(quiet, [] {});
  while (complaint_.empty() && kernel_.step(quiet)) {
  }
  for (const auto* lock : {main_lock.c_str(), "a", "z"}) {
    if (servers_.size() == 3 && lock != main_lock && !has_also_) continue;
    if (!leases(lock).empty())
      broken("P8", std::string(lock) + " is held after all runs");
  }
  return complaint_;
}

void World::finish(Run& run) {
  run.ended = kernel_.now;
  kernel_.trace("run " + std::to_string(run.number) + " has ended" +
                (run.result ? ": " + name_of(run.result->outcome) : ""));
  if (run.result) judge_end(run);
  const bool has_left = run.result && run.result->outcome != RunOutcome::unavailable &&
                        !run.result->may_still_get;
  if (run.fence == 0 && !has_left) ++left_waiters_;
  free(run);
  kernel_.kill(run.process);  // its exit closes what is open
  if (runs_left_ == 0) return;
  --runs_left_;
  start_later(kernel_.now + kernel_.random.spread(millisecond, second));
}

void World::free(Run& run) {
  if (!run.context) return;
  kernel_.running = &run.process;
  run.context->end();
  run.locked_run.reset();
  run.context.reset();
  kernel_.running = nullptr;
}

}  // namespace dlock::simulation
