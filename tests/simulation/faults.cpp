// What goes wrong in a schedule.
#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tests/simulation/world.hpp"

namespace dlock::simulation {

// Each schedule has only some kinds of faults, which thus meet more often.
void World::plan_faults() {
  auto& random = kernel_.random;
  const auto length = random.between(ttl_, random.chance(0.2) ? 6 * ttl_ : 3 * ttl_);
  faults_end_ = kernel_.now + length;
  kernel_.at(faults_end_, [this] {
    kernel_.network.late = kernel_.network.late_asks = 0;
    in_use_ = std::max(in_use_, kernel_.now + kernel_.network.latest);
  });
  if (random.chance(0.1)) return;  // nothing goes wrong
  constexpr Fault kinds[] = {Fault::hit,   Fault::cut,     Fault::reset,
                             Fault::pause, Fault::disturb, Fault::guardian,
                             Fault::crash, Fault::order,   Fault::signal};
  for (const auto kind : kinds) {
    const bool is_rare = kind == Fault::crash || kind == Fault::order;
    if (random.chance(is_rare ? 0.3 : 0.5)) faults_.push_back(kind);
  }
  fault_at_step_ = random.chance(0.5) ? 0.3 : 0;
  late_replies_ = random.chance(0.3) ? 0.1 : 0;
  if (random.chance(0.3)) {
    kernel_.network.late_asks = random.chance(0.5) ? 0.1 : 0.5;
    kernel_.network.latest_ask = 3 * second;
  }
  const auto faults = faults_.empty() ? 0 : random.below(10);
  for (std::uint64_t i = 0; i < faults; ++i) {
    kernel_.at(kernel_.now + random.between(0, length), [this] { inject_fault(); });
  }
}

// Often just more or less than a part of a lease.
Time World::span() {
  auto& random = kernel_.random;
  if (random.chance(0.5)) return random.spread(20 * millisecond, 2 * ttl_);
  const Time parts[] = {ttl_ / 3, ttl_ / 2, 2 * ttl_ / 3, ttl_};
  return parts[random.below(4)] + random.between(-100, 100) * millisecond;
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
  const auto lasts = span();
  switch (faults_[random.below(faults_.size())]) {
    case Fault::hit: return hit(run);
    case Fault::cut: {
      kernel_.trace("cut of run " + std::to_string(run.number) + " for " +
                    text_of_span(lasts));
      kernel_.cut(&run.process, &server) = kernel_.now + lasts;
      run.last_fault = kernel_.now + lasts;
      return;
    }
    case Fault::reset: {
      kernel_.trace("resets");
      for (auto& connection : std::vector(server.connections)) {
        const auto open = connection.lock();
        if (open && random.chance(0.5)) open->reset();
      }
      in_use_ = std::max(in_use_, kernel_.now + 2 * second);
      return;
    }
    case Fault::pause: {
      kernel_.trace("a server pauses for " + text_of_span(lasts));
      in_use_ = std::max(in_use_, kernel_.now + lasts + 2 * second);
      return server.pause(lasts);
    }
    case Fault::disturb: {
      in_use_ = std::max(in_use_, kernel_.now + lasts + 2 * second);
      return server.disturb(lasts);
    }
    case Fault::guardian: {
      if (!run.guardian_suffers || !run.guardian->is_alive) return;
      kernel_.trace("guardian of run " + std::to_string(run.number));
      if (random.chance(0.5)) return run.guardian->stop(lasts);
      run.guardian->kill();
      run.process.is_ready = true;
      run.guardian->notify();
      return;
    }
    case Fault::order: return start_break();
    case Fault::signal: {
      if (run.fence != 0 || run.signalled != 0) return;
      kernel_.trace("run " + std::to_string(run.number) + " gets a signal");
      run.signalled = kernel_.now;
      return kernel_.signal(run.process, SIGTERM);
    }
    case Fault::crash: break;
  }
  // Of a quorum, one server: another one might know no fences either.
  const bool is_one_too_many = kind_ == StoreKind::quorum && forgot_ > 0;
  if (!server.is_up || is_one_too_many) return hit(run);
  kernel_.trace("a server is killed");
  const bool is_in_memory = kind_ == StoreKind::redis || kind_ == StoreKind::quorum;
  crashed_ = kernel_.now;
  server.crash();
  const bool fails_over = server.failed_over == kernel_.now;
  if (is_in_memory || fails_over) forgot_ = kernel_.now;
  // A server of a quorum has no vote until it is up for --max-ttl.
  const auto absent = (kind_ == StoreKind::quorum ? 65 : fails_over ? 30 : 5) * second;
  in_use_ = std::max(in_use_, kernel_.now + lasts + absent);
  kernel_.at(kernel_.now + lasts / 2, [&server] { server.start(); });
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
  kernel_.trace("run " + std::to_string(run.number) + " is stopped for " +
                text_of_span(span));
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
