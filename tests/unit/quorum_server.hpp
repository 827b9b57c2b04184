// A server of a quorum in random schedules: a model of what the scripts store and reply,
// as far as votes, leases and tickets are concerned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>

#include "store/redis/script_calls.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

using Time = std::int64_t;  // in microseconds
constexpr Time ms = 1000;
constexpr Time lease = 2000 * ms;
constexpr Time promise = 300 * ms;

struct ModelServer {
  struct Place {
    Time ticket;
    int who;
    auto operator<=>(const Place&) const = default;
  };

  bool is_up = true;
  bool is_gone = false;  // for good
  Time up_since = -lease;
  Time clock_ahead = 0;
  std::uint64_t counter = 0;
  int holder = -1;  // or the client that the lock is promised to
  bool is_promise = false;
  std::uint64_t fence = 0;
  Time ends = 0;
  std::set<Place> line;
  std::set<int> given_up;

  bool answers() const { return is_up && !is_gone; }

  void expire(Time now) {
    if (holder >= 0 && now >= ends) {
      if (is_promise) leave(holder);  // it has missed its turn
      holder = -1;
    }
  }

  void leave(int who) {
    std::erase_if(line, [&](const Place& place) { return place.who == who; });
  }

  bool is_queued(int who) const {
    return std::any_of(line.begin(), line.end(),
                       [&](const Place& place) { return place.who == who; });
  }

  bool has_lease_of(int who) const { return holder == who && !is_promise; }

  // Returns the client to which it promises the lock; -1: none.
  int hand_on(Time now) {
    if (holder >= 0 || line.empty()) return -1;
    holder = line.begin()->who;
    is_promise = true;
    ends = now + promise;
    return holder;
  }

  Vote ask(int who, const redis::Ballot& ballot, bool joins, Time now) {
    Vote vote;
    vote.server_time = WallTime(now + clock_ahead);
    expire(now);
    if (!has_lease_of(who) && given_up.contains(who)) return vote;
    const bool waits = is_queued(who);
    if (waits && ballot.ticket != 0) {
      leave(who);
      line.insert({ballot.ticket, who});
    }
    hand_on(now);
    const bool is_free = holder < 0 || (holder == who && is_promise);
    if (!has_lease_of(who) && !is_free) {
      if (joins && !waits) {
        line.insert({ballot.ticket != 0 ? ballot.ticket : now + clock_ahead, who});
      }
      vote.answer = busy(who);
      return vote;
    }
    vote.answer = granted(who, ballot, now);
    return vote;
  }

  // Releases the vote with that fence only, because another round may have a newer one.
  // Returns as hand_on().
  int give_back(int who, std::uint64_t of_fence, Time now) {
    expire(now);
    if (!has_lease_of(who) || fence != of_fence) return -1;
    holder = -1;
    return hand_on(now);
  }

  // Releases everything that the client has, and refuses what a request under way would
  // still give it. Returns as hand_on().
  int release(int who, Time now) {
    expire(now);
    given_up.insert(who);
    leave(who);
    if (holder == who) holder = -1;
    return hand_on(now);
  }

  Renewal renew(int who, std::uint64_t of_fence, Time now) {
    expire(now);
    if (!has_lease_of(who) || fence != of_fence) {
      return holder >= 0 && !is_promise ? Renewal::taken_over : Renewal::gone;
    }
    ends = now + lease;
    return Renewal::confirmed;
  }

  void forget(bool counts_on) {
    if (!counts_on) counter = 0;
    holder = -1;
    line.clear();
    given_up.clear();
  }

 private:
  Grant granted(int who, const redis::Ballot& ballot, Time now) {
    const auto wanted = ballot.fence.number;
    if (ballot.is_repair) {
      fence = wanted;
    } else if (!has_lease_of(who)) {
      fence = std::max(counter + 1, wanted);
    } else if (ballot.raises) {
      fence = std::max(fence, wanted);
    }
    counter = std::max(counter, fence);
    leave(who);
    holder = who;
    is_promise = false;
    ends = now + lease;
    Grant grant;
    grant.fence.number = fence;
    return grant;
  }

  Busy busy(int who) const {
    Busy busy;
    if (!is_promise) {
      HolderInfo info;
      info.fence.number = fence;
      info.pid = holder + 1;
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
};

}  // namespace dlock::redis_quorum
