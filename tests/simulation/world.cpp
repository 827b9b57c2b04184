#include "tests/simulation/world.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <csignal>
#include <cstdlib>
#include <map>

#include "store/redis/node.hpp"
#include "tests/simulation/pg_server.hpp"
#include "tests/simulation/redis_server.hpp"
#include "util/text.hpp"

namespace dlock::simulation {
namespace {

std::string address_of(std::size_t server) {
  return "10.0.0." + std::to_string(server + 1);
}

std::string spans(Time span) { return std::to_string(span / millisecond) + "ms"; }

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

std::uint64_t number_in(const std::vector<std::string>& environment,
                        std::string_view name) {
  for (const auto& variable : environment) {
    if (variable.rfind(name, 0) == 0) {
      return std::strtoull(variable.c_str() + name.size(), nullptr, 10);
    }
  }
  return 0;
}

}  // namespace

World::World(std::uint64_t seed, StoreKind kind, bool traces)
    : kind_(kind), kernel_(seed) {
  kernel_.traces = traces;
  kernel_.asks = {redis::ask_script.sha1, redis::ask_script.text};
  if (kind == StoreKind::postgres) kernel_.asks = {" SET version", "INSERT INTO"};
  auto& random = kernel_.random;
  const std::size_t count = kind == StoreKind::quorum ? 3 : 1;
  const auto executes = [this](const Process& by, Peer::Act act) { executed(by, act); };
  for (std::size_t i = 0; i < count; ++i) {
    auto& server = servers_.emplace_back();
    if (kind == StoreKind::postgres) {
      server = std::make_unique<PgServer>(executes);
    } else {
      server = std::make_unique<RedisServer>(executes);
    }
    server->rate = random.chance(0.5) ? 0 : (random.chance(0.5) ? 0.004 : -0.004);
    server->clock_offset = random.chance(0.7) ? 0 : random.between(-3600, 3600) * second;
    kernel_.peers[address_of(i)] = server.get();
  }
  // A server of a quorum has a vote once it is up for --max-ttl.
  kernel_.now += 100 * second;
  const Time ttls[] = {2 * second, 3 * second, 5 * second};
  ttl_ = ttls[random.below(3)];
  if (kind != StoreKind::quorum && random.chance(0.3)) {
    has_readers_ = random.chance(0.5);
    slots_ = has_readers_ ? 1 : 2;
  }
  kernel_.network.most = random.spread(100 * microsecond, 20 * millisecond);
  if (random.chance(0.6)) {
    kernel_.network.late = static_cast<double>(random.spread(2, 300)) / 1000;
    kernel_.network.latest = random.spread(50 * millisecond, 3 * second);
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
  plan_faults();
}

World::~World() {
  for (auto& run : runs_) free(*run);
}

std::string World::url() const {
  if (kind_ == StoreKind::redis) return "redis://" + address_of(0);
  if (kind_ == StoreKind::postgres) {
    return "postgres://dlock@" + address_of(0) + "/dlock?sslmode=disable";
  }
  std::string url = "redis+quorum://";
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    url += (i > 0 ? "," : "") + address_of(i);
  }
  return url;
}

// Parsing takes longer than a schedule, so each command line is parsed once.
const Invocation& World::invocation(std::optional<Time> wait) {
  std::vector<std::string> words{"run",       "--quiet", "--ttl",
                                 spans(ttl_), "--store", url()};
  if (kernel_.traces) words[1] = "--verbose";
  if (wait) words.push_back("--wait=" + (*wait < 0 ? "forever" : spans(*wait)));
  auto& random = kernel_.random;
  if (slots_ > 1) words.push_back("--slots=" + std::to_string(slots_));
  if (has_readers_ && random.chance(0.6)) words.emplace_back("--shared");
  if (kind_ == StoreKind::redis && random.chance(0.2)) words.emplace_back("--reclaim");
  if (random.chance(0.1)) words.emplace_back("--priority=-5");
  // The first is for locks with one holder, and the others need --wait.
  constexpr const char* wishes[] = {"--dedupe=1m", "--supersede", "--replace"};
  if (kind_ != StoreKind::quorum && random.chance(0.15)) {
    const bool is_single = slots_ == 1 && !has_readers_;
    const auto wish = random.below(3);
    if (wish == 0 ? is_single : wait.has_value()) words.emplace_back(wishes[wish]);
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

void World::start_run() {
  auto& random = kernel_.random;
  --starting_;
  auto& run = *runs_.emplace_back(std::make_unique<Run>());
  run.number = static_cast<int>(runs_.size());
  run.process.pid = 1000 + run.number;
  run.process.wall_offset = random.chance(0.8) ? 0 : random.between(-7200, 7200) * second;
  run.began = kernel_.now;
  const Time waits[] = {-1, -1, -1, 0, 500 * millisecond, 2 * second};
  const auto wait = waits[random.below(6)];
  run.invocation = &invocation(wait == 0 ? std::nullopt : std::optional(wait));
  run.options = run_options(run.invocation->settings, "job", run.invocation->command);
  run.options.supervision.kill_after = milliseconds(random.below(2) * 200 + 100);
  run.timing.emplace(run.options.ttl, run.options.supervision.kill_after,
                     store_timeout(run.invocation->common, run.options.ttl));
  CommandPlan command;
  const auto length = random.below(3);
  command.runs_for = length == 0   ? random.spread(microsecond * 500, 50 * millisecond)
                     : length == 1 ? random.between(50 * millisecond, ttl_)
                                   : random.between(ttl_, 3 * ttl_);
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
          run.slot = static_cast<unsigned>(number_in(environment, "DLOCK_SLOT="));
        });
  };
  kernel_.trace("run " + std::to_string(run.number) + " starts" +
                (wait < 0   ? ", waits"
                 : wait > 0 ? ", waits for " + spans(wait)
                            : "") +
                (slots_ > 1 ? ", two slots" : "") +
                (run.options.shared ? ", shared" : "") +
                (run.options.supersede ? ", supersedes" : "") +
                (run.options.replace ? ", replaces" : "") +
                (run.options.dedupe ? ", may be skipped" : "") +
                (run.options.reclaim ? ", may reclaim" : ""));
  kernel_.running = &run.process;
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

void World::run_ready() {
  bool found = true;
  while (found && complaint_.empty()) {
    found = false;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      auto& run = *runs_[i];
      while (complaint_.empty() && run.context && run.process.is_ready &&
             run.process.stopped_until <= kernel_.now) {
        found = true;
        step(run);
      }
    }
  }
}

std::string World::run() {
  // A dead holder costs a lease, and each run takes as long as its command.
  end_ = faults_end_ + 400 * second;
  look_for_idleness();
  for (;;) {
    run_ready();
    const bool is_over =
        starting_ == 0 && std::none_of(runs_.begin(), runs_.end(), [](const auto& run) {
          return run->context != nullptr;
        });
    if (is_over || !complaint_.empty()) break;
    if (!kernel_.step(end_)) {
      broken("P6", "a run has not ended long after the last fault");
      break;
    }
  }
  // What was left by the dead expires, and what is late arrives.
  const auto quiet = kernel_.now + ttl_ + 15 * second;
  while (complaint_.empty() && kernel_.step(quiet)) {
  }
  if (complaint_.empty() && !leases().empty())
    broken("P8", "the lock is held after all runs");
  return complaint_;
}

void World::finish(Run& run) {
  run.ended = kernel_.now;
  kernel_.trace("run " + std::to_string(run.number) + " has ended" +
                (run.result ? ": " + name_of(run.result->outcome) : ""));
  if (run.result) judge_end(run);
  const bool has_left = run.result && run.result->outcome != RunOutcome::unavailable;
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

void World::plan_faults() {
  auto& random = kernel_.random;
  const auto length = random.between(ttl_, 6 * ttl_);
  faults_end_ = kernel_.now + length;
  if (random.chance(0.1)) return;  // nothing goes wrong
  fault_at_step_ = random.chance(0.7) ? 0.3 : 0;
  late_replies_ = random.chance(0.3) ? 0.1 : 0;
  restarts_ = random.chance(0.3);
  const auto faults = random.below(12);
  for (std::uint64_t i = 0; i < faults; ++i) {
    kernel_.at(kernel_.now + random.between(0, length), [this] { inject_fault(); });
  }
}

void World::inject_fault() {
  auto& random = kernel_.random;
  auto& server = *servers_[random.below(servers_.size())];
  std::vector<Run*> alive;
  for (auto& run : runs_) {
    if (run->context) alive.push_back(run.get());
  }
  if (alive.empty()) return;
  auto& run = *alive[random.below(alive.size())];
  const auto span = random.spread(20 * millisecond, 2 * ttl_);
  switch (random.below(8)) {
    case 0:
    case 1: return hit(run);
    case 2:
    case 3: {
      kernel_.trace("cut of run " + std::to_string(run.number) + " for " + spans(span));
      kernel_.cut(&run.process, &server) = kernel_.now + span;
      run.last_fault = kernel_.now + span;
      return;
    }
    case 4: {
      kernel_.trace("resets");
      for (auto& connection : std::vector(server.connections)) {
        const auto open = connection.lock();
        if (open && random.chance(0.5)) open->reset();
      }
      in_use_ = std::max(in_use_, kernel_.now + 2 * second);
      return;
    }
    case 5: {
      kernel_.trace("a server pauses for " + spans(span));
      server.paused_until = kernel_.now + span;
      in_use_ = std::max(in_use_, kernel_.now + span + 2 * second);
      return;
    }
    case 6: {
      if (!run.guardian_suffers || !run.guardian->is_alive) return;
      kernel_.trace("guardian of run " + std::to_string(run.number));
      if (random.chance(0.5)) return run.guardian->stop(span);
      run.guardian->kill();
      run.process.is_ready = true;
      run.guardian->notify();
      return;
    }
    default: break;
  }
  if (!restarts_ || !server.is_up) return hit(run);
  kernel_.trace("a server is killed");
  if (kind_ != StoreKind::postgres) forgot_ = kernel_.now;  // it has its data in memory
  server.crash();
  // A server of a quorum has no vote until it is up for --max-ttl.
  const auto absent = kind_ == StoreKind::quorum ? 65 * second : 5 * second;
  in_use_ = std::max(in_use_, kernel_.now + span + absent);
  kernel_.at(kernel_.now + span / 2, [&server] { server.start(); });
}

void World::hit(Run& run) {
  if (kernel_.now > faults_end_ || run.guardian_suffers) return;
  if (kernel_.random.chance(0.4)) return kill(run);
  stop(run, kernel_.random.spread(20 * millisecond, 3 * ttl_));
}

// A reply is late, and then nothing comes for longer than a lease: whoever counts a lease
// from the reply believes in it for too long.
void World::delay_reply(Run& run) {
  auto& random = kernel_.random;
  if (kernel_.now > faults_end_ || !random.chance(late_replies_)) return;
  const auto cut = [this, &run](Time until) {
    for (const auto& server : servers_) kernel_.cut(&run.process, server.get()) = until;
    run.last_fault = until;
  };
  const auto late = kernel_.now + random.spread(20 * millisecond, ttl_ / 8);
  kernel_.trace("a reply to run " + std::to_string(run.number) + " is late");
  cut(late);
  kernel_.at(late + random.spread(5 * millisecond, 300 * millisecond),
             [this, cut] { cut(kernel_.now + 2 * ttl_); });
}

void World::stop(Run& run, Time span) {
  kernel_.trace("run " + std::to_string(run.number) + " is stopped for " + spans(span));
  run.process.stopped_until = kernel_.now + span;
  run.last_fault = kernel_.now + span;
  kernel_.at(run.process.stopped_until, [] {});
}

void World::kill(Run& run) {
  if (!run.context) return;
  kernel_.trace("run " + std::to_string(run.number) + " is killed");
  kernel_.kill(run.process);
  run.last_fault = kernel_.now;
  kernel_.at(kernel_.now, [&run] {
    if (run.guardian->phase == SimulatedGuardian::Phase::idle) {
      run.guardian->is_dead = true;
    }
    run.guardian->look();
  });
  finish(run);
}

}  // namespace dlock::simulation
