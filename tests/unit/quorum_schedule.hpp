// A random schedule of clients and servers, without any I/O. Servers are down, reply late
// or lose their data, and their clocks step. Clients are cut off, or die in the middle of
// a round. Requests arrive after their sender has given up. The decisions are made by the
// real rules: Candidacy, tally(), strength(), why_no_vote() and LeaseTiming.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "lock/lease.hpp"
#include "store/redis_quorum/candidacy.hpp"
#include "tests/unit/quorum_server.hpp"

namespace dlock::redis_quorum {

constexpr Time budget = 100 * ms;
constexpr Time last_fault = 8000 * ms;
constexpr Time the_end = 60'000 * ms;

struct Faults {
  bool none = false;  // then waiters have to be served in order
  bool clocks_of_clients = false;
  bool clocks_of_servers = false;
  bool forgets = false;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Faults faults);

  // Runs to the end, or until there is a complaint.
  void run();

  std::string complaint;
  std::size_t wins = 0;
  std::size_t renewals = 0;  // those that extended a lease

 private:
  struct Event {
    Time when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::tie(when, number) > std::tie(other.when, other.number);
    }
  };

  struct Client {
    explicit Client(Candidacy::RandomUpTo random_up_to)
        : candidacy(Fence{}, false, std::move(random_up_to)) {}
    Candidacy candidacy;
    Queue queue = Queue::join;
    Time clock_ahead = 0;
    Time dies_at = the_end;
    Time cut_off_until = 0;  // until then the network loses all its messages

    std::uint64_t round = 0;  // of requests or of renewals
    bool is_asking = false;
    bool is_woken = false;
    Time came_at = -1;     // when it sent its first request
    Time settled_at = -1;  // when it was in all queues with the same ticket
    Time began = 0;        // when the round began
    Votes votes;

    bool holds = false;
    Time ends = 0;         // when its lease ends, as far as it knows
    Time wants_until = 0;  // until when it wants to hold the lock
    std::uint64_t fence = 0;
    Time renewed_at = 0;
    RenewalReplies confirmations;
    int may_forget = 0;  // how many servers may forget the lease while it is safe
    int forgotten = 0;   // how many may have forgotten it since the round began

    bool is_done = false;
    std::vector<bool> is_excused;  // servers that may not know that it is done
    std::size_t wins = 0;
  };

  std::size_t below(std::size_t most) { return random_() % most; }
  Time below_time(Time most) { return static_cast<Time>(random_() >> 1u) % most; }
  Time hours() { return (static_cast<Time>(below(5)) - 2) * 3'600'000 * ms + epoch; }
  bool has_faults() const { return !faults_.none && now_ < last_fault; }
  Time delay();
  bool is_lost(const Client& me);
  void at(Time when, std::function<void()> what) {
    events_.push_back({when, ++number_, std::move(what)});
    std::push_heap(events_.begin(), events_.end());
  }
  // Removes the next event.
  Event next() {
    std::pop_heap(events_.begin(), events_.end());
    auto event = std::move(events_.back());
    events_.pop_back();
    return event;
  }
  bool is_dead(int who) const { return now_ >= client(who).dies_at; }
  Client& client(int who) { return *clients_[static_cast<std::size_t>(who)]; }
  const Client& client(int who) const { return *clients_[static_cast<std::size_t>(who)]; }

  void add_client(Time rush);
  void send(int who, std::size_t to, std::function<void(ModelServer&)> what);
  void reply(int who, std::function<void()> what);
  void hand_on(int who, std::size_t from, const std::function<int(ModelServer&)>& what);

  void ask(int who, bool is_step = false);
  void put_to(int who, std::size_t number, const Ballot& ballot);
  void receive(int who, std::uint64_t round, std::size_t number, const Vote& vote);
  void count(int who, std::uint64_t round);
  void give_back(int who);
  void wait(int who, bool may_give_way);
  void settle(int who);

  void hold(int who, const Grant& grant, std::size_t servers);
  void check_alone(int who);
  void end_in_time(int who);
  void renew(int who);
  void receive_renewal(int who, std::uint64_t round, std::size_t number, Renewal said);
  void count_renewal(int who, std::uint64_t round);
  void repair(int who);
  void leave(int who);
  void check_left(int who);

  void inject_fault();
  void empty(ModelServer& server, std::size_t number);
  void check_end();

  static constexpr Time epoch = 4'000'000'000'000'000;

  std::mt19937_64 random_;
  Faults faults_;
  LeaseTiming timing_{milliseconds(lease / ms), milliseconds(100),
                      milliseconds(budget / ms)};
  std::vector<ModelServer> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Event> events_;  // a heap; std::priority_queue would copy each event
  std::uint64_t number_ = 0;
  Time now_ = 0;
  std::uint64_t last_fence_ = 0;
};

}  // namespace dlock::redis_quorum
