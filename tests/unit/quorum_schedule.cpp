#include "tests/unit/quorum_schedule.hpp"

#include "loop/wakeup.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {
namespace {

Clock::time_point moment_of(Time time) {
  return Clock::time_point(std::chrono::microseconds(time));
}

Time time_of(Clock::time_point moment) {
  return std::chrono::floor<std::chrono::microseconds>(moment.time_since_epoch()).count();
}

Vote failed(const char* why) {
  Vote vote;
  vote.failure = Failure(Failure::Kind::unreachable, why);
  return vote;
}

}  // namespace

Schedule::Schedule(std::uint64_t seed, Faults faults) : random_(seed), faults_(faults) {
  servers_.resize(3 + 2 * below(2));
  for (auto& server : servers_) {
    if (faults_.clocks_of_servers) server.clock_ahead = hours();
  }
  const auto contenders = 1 + below(8);
  const auto rush = below_time(last_fault / 2);  // when many of them start
  for (std::size_t i = 0; i < contenders; ++i) add_client(rush);
  const auto faults_to_come = faults_.none ? 0 : below(16);
  for (std::size_t i = 0; i < faults_to_come; ++i) {
    at(below_time(last_fault), [this] { inject_fault(); });
  }
  // A majority stays until the end.
  const auto gone = faults_to_come > 0 ? below(in_every_majority(servers_.size())) : 0;
  for (std::size_t i = 0; i < gone; ++i) {
    at(below_time(last_fault), [this, i] { servers_[i].is_gone = true; });
  }
}

void Schedule::add_client(Time rush) {
  const auto who = static_cast<int>(clients_.size());
  clients_.push_back(std::make_unique<Client>([this](std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random_);
  }));
  auto& me = client(who);
  if (faults_.clocks_of_clients) me.clock_ahead = hours();
  if (!faults_.none && below(4) == 0) me.dies_at = below_time(last_fault);
  if (below(5) == 0) me.queue = Queue::stay_out;
  me.is_excused.resize(servers_.size());
  const auto comes = below(3) > 0 ? rush + below_time(ms) : below_time(last_fault / 2);
  at(comes, [this, who] { ask(who); });
}

void Schedule::run() {
  while (!events_.empty() && complaint.empty()) {
    const auto event = next();
    if (event.when > the_end) break;
    now_ = event.when;
    event.what();
  }
  if (complaint.empty()) check_end();
}

void Schedule::check_end() {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto& me = *clients_[i];
    const bool waits = me.queue == Queue::join;
    if (waits && !is_dead(static_cast<int>(i)) && me.wins == 0) {
      complaint = "a contender starves";
    }
  }
  for (auto& server : servers_) {
    server.expire(now_ + lease);
    if (server.holder >= 0) complaint = "a server keeps a lease for longer than its TTL";
  }
}

// --- Messages ---

// Mostly short; while there are faults, some messages are late.
Time Schedule::delay() {
  if (has_faults() && below(20) == 0) return below_time(3 * budget);
  return ms / 2 + below_time(ms);
}

bool Schedule::is_lost(const Client& me) {
  return has_faults() && (now_ < me.cut_off_until || below(40) == 0);
}

void Schedule::send(int who, std::size_t to, std::function<void(ModelServer&)> what) {
  const bool lost = is_lost(client(who));
  if (lost) client(who).is_excused[to] = true;
  if (lost) return;
  at(now_ + delay(), [this, who, to, what = std::move(what)] {
    if (servers_[to].answers()) return what(servers_[to]);
    client(who).is_excused[to] = true;
  });
}

void Schedule::reply(int who, std::function<void()> what) {
  if (!is_lost(client(who))) at(now_ + delay(), std::move(what));
}

// Sends a request that may make the server promise the lock to another client, which is
// then notified.
void Schedule::hand_on(int who, std::size_t from,
                       const std::function<int(ModelServer&)>& what) {
  send(who, from, [this, what](ModelServer& server) {
    const int next = what(server);
    if (next < 0) return;
    reply(next, [this, next] {
      client(next).is_woken = true;
      ask(next);
    });
  });
}

// --- Asking ---

void Schedule::ask(int who, bool is_step) {
  auto& me = client(who);
  if (is_dead(who) || me.is_done || me.is_asking || me.holds) return;
  if (me.came_at < 0) me.came_at = now_;
  if (!is_step) me.candidacy.begin();
  me.is_asking = true;
  me.is_woken = false;
  me.forgotten = 0;
  me.began = now_;
  me.votes.assign(servers_.size(), {});
  const auto round = ++me.round;
  const auto ballot = me.candidacy.ballot(WallTime(now_ + me.clock_ahead));
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i].answers()) {
      me.votes[i] = failed("down");
      continue;
    }
    // Connecting may take a while, and a lease counts from when the request is sent.
    const auto connected = now_ + (has_faults() && below(20) == 0 ? delay() : 0);
    if (connected >= now_ + budget) continue;
    at(connected, [this, who, i, ballot, round] {
      if (!is_dead(who) && client(who).round == round) put_to(who, i, ballot);
    });
  }
  at(now_ + budget, [this, who, round] { count(who, round); });
}

void Schedule::put_to(int who, std::size_t number, const Ballot& ballot) {
  const auto round = client(who).round;
  const auto sent_at = moment_of(now_);
  const bool joins = client(who).queue == Queue::join;
  send(who, number, [=, this](ModelServer& server) {
    auto vote = server.ask(who, ballot, joins, now_);
    if (auto* answer = vote.answer ? std::get_if<Grant>(&*vote.answer) : nullptr) {
      answer->sent_at = sent_at;
    }
    const auto up = milliseconds((now_ - server.up_since) / ms);
    vote = counted(vote, why_no_vote("it", up, timing_.ttl()));
    reply(who, [=, this] { receive(who, round, number, vote); });
  });
}

void Schedule::receive(int who, std::uint64_t round, std::size_t number,
                       const Vote& vote) {
  auto& me = client(who);
  if (me.round != round || !me.is_asking) return;
  me.votes[number] = vote;
  const bool all = std::all_of(me.votes.begin(), me.votes.end(),
                               [](const Vote& one) { return one.answer || one.failure; });
  if (all) return count(who, round);
  if (is_certain(me.votes)) {
    at(now_ + 5 * ms, [this, who, round] { count(who, round); });
  }
}

void Schedule::count(int who, std::uint64_t round) {
  auto& me = client(who);
  if (is_dead(who) || me.round != round || !me.is_asking) return;
  me.is_asking = false;
  const auto step = me.candidacy.after(me.votes, me.queue, moment_of(now_),
                                       milliseconds((now_ - me.began) / ms));
  if (step.then == CandidacyStep::Then::ask) return ask(who, /*is_step=*/true);
  if (step.then == CandidacyStep::Then::give_back) return give_back(who);
  const auto* answer = std::get_if<Answer>(&step.said);
  const auto* grant = answer != nullptr ? std::get_if<Grant>(answer) : nullptr;
  if (grant != nullptr) return hold(who, *grant, step.servers);
  if (me.queue != Queue::join) return leave(who);
  if (answer != nullptr) settle(who);
  wait(who, answer != nullptr);
}

void Schedule::give_back(int who) {
  const auto& votes = client(who).votes;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const auto* vote = votes[i].grant();
    if (vote == nullptr) continue;
    const auto fence = vote->fence.number;
    hand_on(who, i, [=, this](ModelServer& server) {
      return server.give_back(who, fence, now_);
    });
  }
  at(now_ + 3 * ms, [this, who] { ask(who, /*is_step=*/true); });
}

// Asks again when the scripts say that a promise or a lease has ended, or earlier to
// give way.
void Schedule::wait(int who, bool may_give_way) {
  auto& me = client(who);
  auto again = now_ + promise;
  for (const auto& server : servers_) {
    if (server.holder >= 0) again = std::min(again, std::max(server.ends, now_) + ms);
  }
  if (may_give_way) {
    const auto gives_way = time_of(me.candidacy.gives_way_at());
    again = std::min(again, std::max<Time>(gives_way, now_ + ms));
  }
  at(me.is_woken ? now_ : again, [this, who] { ask(who); });
}

// Records when it is in all queues, with the same ticket.
void Schedule::settle(int who) {
  auto& me = client(who);
  if (me.settled_at >= 0) return;
  const auto ticket = me.candidacy.ballot(WallTime(0)).ticket;
  const bool everywhere =
      ticket != 0 &&
      std::all_of(servers_.begin(), servers_.end(), [&](const ModelServer& server) {
        return server.line.contains({ticket, who});
      });
  if (everywhere) me.settled_at = now_;
}

// --- Holding ---

void Schedule::hold(int who, const Grant& grant, std::size_t servers) {
  auto& me = client(who);
  me.ends = time_of(timing_.deadline(grant.sent_at));
  const auto may_forget = strength(servers_.size(), servers);
  if (may_forget < 0) complaint = "too few servers keep a grant";
  me.may_forget = may_forget - me.forgotten;
  if (now_ >= me.ends) return ask(who);
  ++me.wins;
  if (me.may_forget < 0) return leave(who);  // more have forgotten than are allowed
  check_alone(who);
  if (grant.fence.number <= last_fence_) complaint = "a fence does not grow";
  last_fence_ = grant.fence.number;
  me.fence = last_fence_;
  me.holds = true;
  ++wins;
  // Some want it for longer than a TTL, so that they have to renew the lease.
  me.wants_until = now_ + (below(2) == 0 ? below_time(2 * lease) : below_time(50 * ms));
  at(time_of(moment_of(me.began) + timing_.renew_every()), [this, who] { renew(who); });
  end_in_time(who);
}

void Schedule::check_alone(int who) {
  for (const auto& other : clients_) {
    if (other->holds) complaint = "two holders";
  }
  if (!faults_.none || client(who).queue != Queue::join) return;
  for (const auto& other : clients_) {
    const bool waits = !other->is_done && !other->holds && other->settled_at >= 0;
    if (waits && other->settled_at < client(who).came_at) complaint = "one is overtaken";
  }
}

// Its work under the lock ends at the last moment at which the lease holds.
void Schedule::end_in_time(int who) {
  const auto& me = client(who);
  if (!me.holds) return;
  const auto until = std::min({me.wants_until, me.ends, me.dies_at});
  if (now_ >= until) return leave(who);
  at(until, [this, who] { end_in_time(who); });
}

void Schedule::renew(int who) {
  auto& me = client(who);
  if (is_dead(who) || !me.holds) return;
  me.renewed_at = now_;
  me.forgotten = 0;
  me.confirmations.assign(servers_.size(), {});
  const auto round = ++me.round;
  const auto fence = me.fence;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    send(who, i, [=, this](ModelServer& server) {
      const auto said = server.renew(who, fence, now_);
      reply(who, [=, this] { receive_renewal(who, round, i, said); });
    });
  }
  at(now_ + budget, [this, who, round] { count_renewal(who, round); });
}

void Schedule::receive_renewal(int who, std::uint64_t round, std::size_t number,
                               Renewal said) {
  auto& me = client(who);
  if (me.round != round || !me.holds) return;
  me.confirmations[number] = said;
  if (is_certain(me.confirmations)) count_renewal(who, round);
}

void Schedule::count_renewal(int who, std::uint64_t round) {
  auto& me = client(who);
  if (is_dead(who) || me.round != round || !me.holds) return;
  ++me.round;  // replies from now on are late
  const auto said = tally(me.confirmations);
  const auto* renewal = std::get_if<Renewal>(&said);
  if (renewal == nullptr) {
    return at(time_of(moment_of(now_) + first_retry), [this, who] { renew(who); });
  }
  if (*renewal != Renewal::confirmed) return leave(who);
  const auto confirmed = static_cast<std::size_t>(
      std::count_if(me.confirmations.begin(), me.confirmations.end(),
                    [](const auto& one) { return one && !is_missing(one); }));
  me.may_forget = strength(servers_.size(), confirmed) - me.forgotten;
  if (me.may_forget < 0) return leave(who);  // more have forgotten than are allowed
  me.ends = time_of(timing_.deadline(moment_of(me.renewed_at)));
  ++renewals;
  repair(who);
  at(time_of(moment_of(me.renewed_at) + timing_.renew_every()),
     [this, who] { renew(who); });
}

// Sets the lease up again where it is missing.
void Schedule::repair(int who) {
  auto& me = client(who);
  const auto ballot = me.candidacy.repair();
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!is_missing(me.confirmations[i])) continue;
    send(who, i, [=, this](ModelServer& server) {
      server.ask(who, ballot, /*joins=*/false, now_);
    });
  }
}

// Releases on all servers, also on those that have not replied: a request may still
// reach them.
void Schedule::leave(int who) {
  auto& me = client(who);
  me.holds = false;
  me.is_done = true;
  if (is_dead(who)) return;
  std::fill(me.is_excused.begin(), me.is_excused.end(), false);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    hand_on(who, i, [=, this](ModelServer& server) { return server.release(who, now_); });
  }
  at(now_ + 7 * budget, [this, who] { check_left(who); });
}

// Runs after the last of its messages has arrived.
void Schedule::check_left(int who) {
  const auto& me = client(who);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const bool has_some = servers_[i].holder == who || servers_[i].is_queued(who);
    if (has_some && !me.is_excused[i]) complaint = "a server keeps what was released";
  }
}

// --- Faults ---

void Schedule::inject_fault() {
  const auto number = below(servers_.size());
  auto& server = servers_[number];
  const auto kind = below(4);
  if (kind == 0) {
    // Goes down, and comes back with its data.
    server.is_up = false;
    at(std::min(now_ + below_time(lease), last_fault),
       [&server] { server.is_up = true; });
  } else if (kind == 1) {
    auto& victim = *clients_[below(clients_.size())];
    victim.cut_off_until = now_ + below_time(lease);
  } else if (faults_.forgets && kind == 2) {
    // Restarts without its data.
    empty(server, number);
    server.counter = 0;
    server.up_since = now_;
  } else if (faults_.forgets) {
    // Loses its data while it runs, or its clock steps: only as many servers as the
    // strength allows.
    for (const auto& one : clients_) {
      if (one->holds && one->may_forget <= 0) return;
    }
    for (const auto& one : clients_) {
      --one->may_forget;
      ++one->forgotten;
    }
    empty(server, number);
  }
}

void Schedule::empty(ModelServer& server, std::size_t number) {
  server.forget(below(2) == 0);
  // It has also forgotten whom it has to refuse.
  for (const auto& one : clients_) one->is_excused[number] = true;
}

}  // namespace dlock::redis_quorum
