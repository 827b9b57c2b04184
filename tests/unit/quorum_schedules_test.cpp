// Random schedules of the quorum's rules, without any I/O: servers that are down, late or
// forgetful, with clocks that step; contenders that die in the middle of a round;
// requests that come after their sender has given up.
//
// DLOCK_TEST_ROUNDS has more of them than a unit test, DLOCK_TEST_SEED others.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>

#include "store/redis_quorum/majority.hpp"
#include "store/redis_quorum/ticket.hpp"

namespace dlock::redis_quorum {
namespace {

using Time = std::int64_t;  // in microseconds
constexpr Time ms = 1000;
constexpr Time lease = 2000 * ms;
constexpr Time drift = 22 * ms;
constexpr Time budget = 100 * ms;
constexpr Time promise = 300 * ms;
constexpr Time last_trouble = 8000 * ms;
constexpr Time the_end = 60'000 * ms;
constexpr Time epoch = 4'000'000'000'000'000;

struct Faults {
  bool clocks_of_clients = false;
  bool clocks_of_servers = false;
  bool forgets = false;
};

// What the scripts keep, as far as votes and tickets are concerned.
struct Server {
  struct Place {
    Time ticket;
    int who;
    auto operator<=>(const Place&) const = default;
  };

  bool is_up = true;
  Time votes_from = 0;
  Time clock_ahead = 0;
  std::uint64_t counter = 0;
  int holder = -1;  // or whom it is promised to
  bool is_promise = false;
  std::uint64_t fence = 0;
  Time ends = 0;
  std::set<Place> line;
  std::set<int> given_up;

  void expire(Time now) {
    if (holder >= 0 && now >= ends) {
      if (is_promise) leave(holder);  // it is passed over
      holder = -1;
    }
  }

  void leave(int who) {
    std::erase_if(line, [&](const Place& place) { return place.who == who; });
  }

  // Whom it promises the lock to; -1: nobody.
  int hand_on(Time now) {
    if (holder >= 0 || line.empty()) return -1;
    holder = line.begin()->who;
    is_promise = true;
    ends = now + promise;
    return holder;
  }

  Vote ask(int who, const Ballot& ballot, bool joins, Time now) {
    Vote vote;
    vote.server_time = WallTime(now + clock_ahead);
    if (now < votes_from) {
      vote.failure = Failure(Failure::Kind::unreachable, "up for too short");
      return vote;
    }
    expire(now);
    if (given_up.contains(who)) return vote;
    const bool is_own = holder == who && !is_promise;
    const bool waits = in_line(who);
    if (waits && ballot.ticket != 0) {
      leave(who);
      line.insert({ballot.ticket, who});
    }
    hand_on(now);
    const bool is_free = holder < 0 || (holder == who && is_promise);
    if (!is_own && !is_free) {
      if (joins && !waits) {
        line.insert({ballot.ticket != 0 ? ballot.ticket : now + clock_ahead, who});
      }
      vote.answer = busy(who);
      return vote;
    }
    if (is_own && ballot.raises) {
      fence = std::max(fence, ballot.fence.number);
      counter = std::max(counter, fence);
    } else if (!is_own) {
      leave(who);
      fence = std::max(counter + 1, ballot.fence.number);
      counter = fence;
    }
    holder = who;
    is_promise = false;
    ends = now + lease;
    Grant grant;
    grant.fence.number = fence;
    vote.answer = grant;
    return vote;
  }

  bool in_line(int who) const {
    return std::any_of(line.begin(), line.end(),
                       [&](const Place& place) { return place.who == who; });
  }

  Busy busy(int who) const {
    Busy busy;
    if (!is_promise) {
      HolderInfo info;
      info.fence.number = fence;
      busy.holders.push_back(info);
    }
    std::size_t place = 0;
    for (const auto& one : line) {
      ++place;
      if (one.who == who) busy.place = place;
    }
    busy.queued = place;
    return busy;
  }

  // The vote with that fence, for another round may have a newer one. Whom it promises
  // the lock to then; -1: nobody.
  int give_back(int who, std::uint64_t of_fence, Time now) {
    expire(now);
    if (holder != who || is_promise || fence != of_fence) return -1;
    holder = -1;
    return hand_on(now);
  }

  // All that it has, or is to be given by a request that is still under way.
  int release(int who, Time now) {
    expire(now);
    given_up.insert(who);
    leave(who);
    if (holder == who) holder = -1;
    return hand_on(now);
  }

  void forget(bool counts_on) {
    if (!counts_on) counter = 0;
    holder = -1;
    line.clear();
    given_up.clear();
  }
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Faults faults) : random_(seed), faults_(faults) {
    servers_.resize(3 + 2 * below(2));
    const auto contenders = 1 + below(8);
    const auto rush = below_time(last_trouble / 2);  // many of them come then
    for (std::size_t i = 0; i < contenders; ++i) {
      clients_.push_back(std::make_unique<Client>([this](std::uint64_t most) {
        return std::uniform_int_distribution<std::uint64_t>(0, most)(random_);
      }));
      if (faults_.clocks_of_clients) clients_.back()->clock_ahead = hours();
      clients_.back()->dies_at = below(4) == 0 ? below_time(last_trouble) : the_end;
      const auto comes =
          below(3) > 0 ? rush + below_time(ms) : below_time(last_trouble / 2);
      at(comes, [this, i] { ask(static_cast<int>(i)); });
    }
    for (auto& server : servers_) {
      if (faults_.clocks_of_servers) server.clock_ahead = hours();
    }
    const auto troubles = below(16);
    for (std::size_t i = 0; i < troubles; ++i) {
      at(below_time(last_trouble), [this] { trouble(); });
    }
  }

  void run() {
    while (!events_.empty() && complaint.empty()) {
      auto event = events_.top();
      events_.pop();
      now_ = event.when;
      if (now_ > the_end) break;
      event.what();
    }
    for (std::size_t i = 0; i < clients_.size() && complaint.empty(); ++i) {
      if (!is_dead(static_cast<int>(i)) && clients_[i]->wins == 0) {
        complaint = "a contender starves";
      }
    }
    for (auto& server : servers_) {
      server.expire(now_ + lease);
      if (server.holder >= 0) complaint = "something is left after a lease";
    }
  }

  std::string complaint;
  std::size_t wins = 0;

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
    explicit Client(Candidacy::Dice dice) : candidacy(Fence{}, false, std::move(dice)) {}
    Candidacy candidacy;
    Time clock_ahead = 0;
    Time dies_at = the_end;
    std::uint64_t round = 0;
    bool is_asking = false;
    bool is_woken = false;
    bool is_done = false;
    Time began = 0;
    Votes votes;
    bool holds = false;
    int may_forget = 0;  // so many servers, before it is not safe
    int forgotten = 0;   // since the round began
    std::size_t wins = 0;
  };

  std::size_t below(std::size_t most) { return random_() % most; }
  Time below_time(Time most) { return static_cast<Time>(random_() >> 1u) % most; }
  Time hours() { return (static_cast<Time>(below(5)) - 2) * 3'600'000 * ms + epoch; }
  void at(Time when, std::function<void()> what) {
    events_.push({when, ++number_, std::move(what)});
  }
  bool is_dead(int who) const { return now_ >= client(who).dies_at; }
  Client& client(int who) { return *clients_[static_cast<std::size_t>(who)]; }
  const Client& client(int who) const { return *clients_[static_cast<std::size_t>(who)]; }

  // Mostly quick; in troubled times some messages are late and some lost.
  Time delay() {
    if (now_ < last_trouble && below(20) == 0) return below_time(3 * budget);
    return ms / 2 + below_time(ms);
  }
  bool is_lost() { return now_ < last_trouble && below(40) == 0; }

  void deliver(std::size_t to, std::function<void(Server&)> what) {
    if (is_lost()) return;
    at(now_ + delay(), [this, to, what] {
      if (servers_[to].is_up) what(servers_[to]);
    });
  }

  void ask(int who) {
    auto& me = client(who);
    if (is_dead(who) || me.is_done || me.is_asking || me.holds) return;
    me.is_asking = true;
    me.is_woken = false;
    me.forgotten = 0;
    me.began = now_;
    me.votes.assign(servers_.size(), {});
    const auto round = ++me.round;
    const auto ballot = me.candidacy.ballot(WallTime(now_ + me.clock_ahead));
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (!servers_[i].is_up) {
        me.votes[i].failure = Failure(Failure::Kind::unreachable, "down");
        continue;
      }
      deliver(i, [this, who, round, ballot, i](Server& server) {
        const auto vote = server.ask(who, ballot, true, now_);
        if (is_lost()) return;
        at(now_ + delay(), [this, who, round, vote, i] { hear(who, round, i, vote); });
      });
    }
    at(now_ + budget, [this, who, round] { count(who, round); });
  }

  void hear(int who, std::uint64_t round, std::size_t number, const Vote& vote) {
    auto& me = client(who);
    if (me.round != round || !me.is_asking) return;
    me.votes[number] = vote;
    const bool all = std::all_of(me.votes.begin(), me.votes.end(), [](const Vote& one) {
      return one.answer || one.failure;
    });
    if (all) return count(who, round);
    if (is_certain(me.votes)) {
      at(now_ + 5 * ms, [this, who, round] { count(who, round); });
    }
  }

  void count(int who, std::uint64_t round) {
    auto& me = client(who);
    if (is_dead(who) || me.round != round || !me.is_asking) return;
    me.is_asking = false;
    const auto step = me.candidacy.after(me.votes, Queue::join,
                                         Clock::time_point(nanoseconds(now_ * 1000)),
                                         milliseconds((now_ - me.began) / ms));
    switch (step.then) {
      case Step::Then::ask: return ask(who);
      case Step::Then::give_back:
        for (std::size_t i = 0; i < servers_.size(); ++i) {
          const auto* vote = me.votes[i].grant();
          if (vote == nullptr) continue;
          const auto fence = vote->fence.number;
          hand_on(i, [=, this](Server& server) {
            return server.give_back(who, fence, now_);
          });
        }
        return at(now_ + 3 * ms, [this, who] { ask(who); });
      case Step::Then::done: break;
    }
    const auto* answer = std::get_if<Answer>(&step.said);
    const auto* grant = answer != nullptr ? std::get_if<Grant>(answer) : nullptr;
    if (grant != nullptr) return hold(who, *grant, step.servers);
    // Asks again as the scripts have it, or earlier to give way.
    auto again = now_ + promise;
    const auto gives_way =
        me.candidacy.gives_way_at().time_since_epoch() / nanoseconds(1000);
    again = std::min(again, std::max<Time>(gives_way, now_ + ms));
    at(me.is_woken ? now_ : again, [this, who] { ask(who); });
  }

  void hand_on(std::size_t from, const std::function<int(Server&)>& what) {
    deliver(from, [this, what](Server& server) {
      const int next = what(server);
      if (next < 0) return;
      at(now_ + delay(), [this, next] {
        client(next).is_woken = true;
        ask(next);
      });
    });
  }

  void hold(int who, const Grant& grant, std::size_t servers) {
    auto& me = client(who);
    const auto ends = me.began + lease - drift;
    me.may_forget = strength(servers_.size(), servers) - me.forgotten;
    if (now_ >= ends) return ask(who);
    ++me.wins;
    if (me.may_forget < 0) return leave(who);  // more have forgotten than may
    for (const auto& other : clients_) {
      if (other->holds) complaint = "two holders";
    }
    if (grant.fence.number <= last_fence_) complaint = "a fence that does not grow";
    last_fence_ = grant.fence.number;
    me.holds = true;
    ++wins;
    // One that dies, or cannot say that it has ended, holds to the end of its lease.
    const auto span = below_time(below(2) == 0 ? lease : 50 * ms);
    const auto until = std::min({now_ + span, ends, me.dies_at});
    at(until, [this, who] { leave(who); });
  }

  void leave(int who) {
    auto& me = client(who);
    me.holds = false;
    me.is_done = true;
    if (is_dead(who)) return;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      hand_on(i, [=, this](Server& server) { return server.release(who, now_); });
    }
  }

  void trouble() {
    auto& server = servers_[below(servers_.size())];
    if (below(2) == 0) {
      // Goes, and comes back as it was.
      server.is_up = false;
      at(std::min(now_ + below_time(lease), last_trouble),
         [&server] { server.is_up = true; });
      return;
    }
    if (!faults_.forgets) return;
    if (below(2) == 0) {
      // Restarted without its data: it has no vote for as long as a lease.
      server.forget(false);
      server.votes_from = now_ + lease;
      return;
    }
    // Emptied while it goes on, or its clock steps: as many as the strength has it.
    for (const auto& one : clients_) {
      if (one->holds && one->may_forget <= 0) return;
    }
    for (const auto& one : clients_) {
      --one->may_forget;
      ++one->forgotten;
    }
    server.forget(below(2) == 0);
  }

  std::mt19937_64 random_;
  Faults faults_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::priority_queue<Event> events_;
  std::uint64_t number_ = 0;
  Time now_ = 0;
  std::uint64_t last_fence_ = 0;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void expect_all_well(Faults faults) {
  const auto rounds = setting("DLOCK_TEST_ROUNDS", 3000);
  const auto seed = setting("DLOCK_TEST_SEED", 1);
  std::size_t wins = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Schedule schedule(seed + i, faults);
    schedule.run();
    ASSERT_EQ(schedule.complaint, "") << "seed " << seed + i;
    wins += schedule.wins;
  }
  EXPECT_GT(wins, rounds);
}

// Servers may be away, late and cut off in all of these.

TEST(QuorumSchedules, hold_while_clocks_of_clients_and_servers_are_hours_apart) {
  expect_all_well({.clocks_of_clients = true, .clocks_of_servers = true});
}

TEST(QuorumSchedules, hold_while_servers_forget_as_many_as_the_strength_allows) {
  expect_all_well({.clocks_of_servers = true, .forgets = true});
}

}  // namespace
}  // namespace dlock::redis_quorum
