// One schedule: servers, runs of dlock that compete for a lock, what goes wrong and when,
// and the judge. Everything follows from the seed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cli/run/locked_run.hpp"
#include "lock/store.hpp"
#include "tests/simulation/command.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

class ServerGroup;

enum class StoreKind { redis, quorum, sentinel, cluster, postgres, etcd };

// One process of dlock, with its guardian and command.
struct Run {
  struct Context : asio::io_context {
    Context() : asio::io_context(1) {}
    // Destroys the coroutines, which use the LockedRun.
    void end() { shutdown(); }
  };

  int number = 0;
  Process process;
  const Invocation* invocation = nullptr;
  RunOptions options;
  std::optional<LeaseTiming> timing;
  RunAdditions additions;
  std::optional<SimulatedGuardian> guardian;
  std::optional<LockedRun> locked_run;
  std::unique_ptr<Context> context;
  std::optional<RunResult> result;
  std::exception_ptr error;

  Time began = 0;
  Time ended = 0;
  Time signalled = 0;            // while it waited
  Time last_fault = 0;           // of this process, or of its network
  std::uint64_t fence = 0;       // of the grant that its command relies on
  std::uint64_t also_fence = 0;  // the same, of the lock of --also
  unsigned slot = 0;
  Time command_began = 0;
  Time command_ended = 0;
  bool ended_by_itself = false;  // the command
  bool was_held_at_end = false;  // and then
  Time lease_seen_until = 0;     // while the command is alive: when its lease ends
  Time confirmed = 0;            // when it last wrote beside its lease
  Time removed = 0;              // when its lease was removed by hand
  int steps_to_fault = 0;        // the steps of its code until it is stopped or killed
  const Run* outer = nullptr;    // whose command has started it
  Time met_holder = 0;           // when a server last executed a request beside a lease
  std::map<std::size_t, Time> releases;  // when each server last executed its release
  Time released = 0;                     // when as many had as have to agree
  Time partly_released = 0;
  std::uint64_t granted_before_release = 0;  // World::granted_ before that
  // Its guardian suffers, or its dlock: not both, because then no process is left to stop
  // the command.
  bool guardian_suffers = false;
};

// A `dlock break`; or a detached lease, and who has its token.
struct Client {
  std::string name;
  bool by_force = false;
  Process process;
  const CommonOptions* common = nullptr;
  std::unique_ptr<Run::Context> context;
  std::unique_ptr<Store> store;
  std::optional<Wakeup> wakeup;
  bool is_over = false;
  bool asks = false;          // it may be in the queue
  std::uint64_t fence = 0;    // of its lease
  Time lease_seen_until = 0;  // as of a Run
  bool may_end = false;       // sooner, by a request without a reply
};

class World {
 public:
  World(std::uint64_t seed, StoreKind kind, bool traces);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs it. Returns which promise was broken, and how; empty if none was.
  std::string run();

  std::uint64_t digest() const { return kernel_.digest(); }
  int commands() const { return commands_; }
  int losses() const { return losses_; }

 private:
  std::string judged();
  std::shared_ptr<ServerGroup> made_group();
  std::string url() const;
  const Invocation& invocation(std::optional<Time> wait);
  const Run* some_holder();
  void start_run();
  void start_later(Time moment);
  void step(Run& run);
  void finish(Run& run);  // it has exited, or was killed
  void free(Run& run);
  Client& start_client(const std::string& verb,
                       asio::awaitable<void> (World::*work)(Client&));
  void start_break();
  asio::awaitable<void> break_lock(Client& client);
  asio::awaitable<void> hold_by_hand(Client& client);
  void step(Client& client);
  void free(Client& client);
  bool run_ready_once();
  void run_ready();
  bool is_over() const;

  void plan_faults();
  enum class Fault { hit, cut, reset, pause, disturb, guardian, crash, order, signal };
  void inject_fault();
  Time span();  // of a fault
  void hit(Run& run);
  void delay_reply(Run& run);
  void stop(Run& run, Time span);
  void kill(Run& run);

  void broken(const std::string& promise, const std::string& how);
  void command_started(Run& run);
  void command_ended(Run& run, bool by_itself);
  void executed(std::size_t server, const Process& by, Peer::Act act);
  std::size_t majority() const;  // the servers that have to agree
  // Those that most servers have: their fences, and when they end.
  using Leases = Peer::Leases;
  Leases leases(const std::string& lock);
  void look_at(const Leases& held);
  void note_whether_released(const Leases& held, Peer::Act act);
  void confirm(Run& run);
  bool is_excused(const Run& run) const;
  void look_for_idleness();
  bool is_calm() const;
  bool is_steady() const;
  void judge_order(const Run& run);
  void judge_delay(const Run& run);
  Time kept_until(const Run& run) const;
  Time longest_idleness() const;
  void judge_end(const Run& run);
  void judge_wait(const Run& run);
  std::optional<Time> lease_of(const Run& run);
  bool has_also(const Run& run);

  StoreKind kind_;
  Kernel kernel_;
  std::vector<std::unique_ptr<Peer>> servers_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Fault> faults_;       // the kinds that this schedule has
  std::set<std::uint64_t> forced_;  // the fences of holders that are not waited for
  int starting_ = 0;                // runs that will start
  int runs_left_ = 0;               // runs that will follow others
  Time ttl_ = 0;                    // the longest
  bool has_ttls_ = false;           // some runs have a shorter one
  unsigned slots_ = 1;
  bool has_readers_ = false;  // some runs share the lock
  bool has_also_ = false;     // some need another lock as well, "a" or "z"
  bool has_takers_ = false;   // some take the lock from holders
  Time faults_end_ = 0;
  Time end_ = 0;
  double fault_at_step_ = 0;  // the part of runs that are stopped or killed at a step
  bool has_late_packets_ = false;
  double late_replies_ = 0;  // the part of replies after which nothing comes

  std::string complaint_;
  // Of a quorum: whose grant a fence of a server is.
  std::map<std::tuple<std::string, std::size_t, std::uint64_t>, const Run*> owners_;
  std::uint64_t greatest_fence_ = 0;
  Time crashed_ = 0;  // when a server last did
  Time forgot_ = 0;   // when a server last lost its data
  Time in_use_ = 0;   // when the lock was last held, or no run could take it
  Leases held_;       // after the last request that a server executed
  bool was_released_ =
      false;  // the lock is free since a release, not since a lease ended
  std::uint64_t granted_ = 0;                 // the greatest fence of a lease
  std::map<std::uint64_t, Time> granted_at_;  // when a lease was first seen, by its fence
  int commands_ = 0;
  int losses_ = 0;
  int left_waiters_ = 0;  // that have died or given up, and may still be in the queue
};

}  // namespace dlock::simulation
