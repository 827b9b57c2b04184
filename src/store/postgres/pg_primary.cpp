#include "store/postgres/pg_primary.hpp"

#include <algorithm>
#include <utility>

#include "net/budget.hpp"
#include "net/password_command.hpp"
#include "store/fan_out.hpp"
#include "store/postgres/pg_trust.hpp"
#include "store/postgres/pg_url.hpp"

namespace dlock::postgres {
namespace {

// Each takes some kilobytes of the server's memory.
constexpr unsigned most_names = 40;

// A run that does not wait acquires and releases with fewer, and listens to nothing.
constexpr unsigned exchanges_of_a_short_session = 3;

bool listens(const std::vector<Batch>& batches) {
  for (const auto& batch : batches) {
    for (const auto& statement : batch) {
      if (statement.sql.starts_with("LISTEN ")) return true;
    }
  }
  return false;
}

// What a server that does not answer costs each session.
constexpr milliseconds longest_grace{200};

Failure is_standby(const std::string& server, bool is_alone) {
  return Failure::unreachable(server + " is a standby, and locks need the primary" +
                              (is_alone ? ": name it in the store URL" : ""));
}

// What the server has said in the login counts if it knows none of the functions.
PgStanding standing_of(const std::vector<Result>& results, const PgServerFacts& session) {
  if (const auto standing = standing_from(results.back())) return *standing;
  PgStanding standing;
  standing.is_standby = session.in_hot_standby.value_or(false);
  return standing;
}

}  // namespace

// Without parameters there is nothing to plan, and the text is often another one.
void KeptStatements::name(std::uint64_t session, std::vector<Batch>& batches) {
  new_.clear();
  if (std::exchange(session_, session) != session) {
    names_.clear();
    used_names_ = exchanges_ = 0;
    is_worth_it_ = false;
  }
  is_worth_it_ =
      is_worth_it_ || ++exchanges_ > exchanges_of_a_short_session || listens(batches);
  if (is_off_ || !is_worth_it_) return;
  for (auto& batch : batches) {
    for (auto& statement : batch) {
      if (statement.params.empty()) continue;
      const auto kept = names_.find(statement.sql);
      statement.is_kept = kept != names_.end();
      if (statement.is_kept) {
        statement.name = kept->second;
      } else if (used_names_ < most_names && !new_.contains(statement.sql)) {
        statement.name = "dlock_" + std::to_string(++used_names_);
        new_[statement.sql] = statement.name;
      }
    }
  }
}

void KeptStatements::note() {
  names_.insert(new_.begin(), new_.end());
  new_.clear();
}

bool KeptStatements::is_lost(const SqlError& error) {
  constexpr const char* no_such_statement = "26000";
  if (error.code() != no_such_statement) return false;
  is_off_ = true;
  return true;
}

// A server with which a session has begun.
struct PgPrimary::Found {
  std::shared_ptr<PgConnection> connection;
  PgStanding standing;
};

std::shared_ptr<PgHosts> hosts_of(const StoreUrl& url, milliseconds timeout) {
  auto hosts = std::make_shared<PgHosts>();
  hosts->url = completed(url, own_surroundings()).text();
  hosts->targets = targets_of(url, timeout);
  hosts->timeout = timeout;
  hosts->replicas = url.replicas;
  return hosts;
}

PgPrimary::PgPrimary(asio::io_context& context, std::shared_ptr<PgHosts> hosts)
    : context_(context),
      hosts_(std::move(hosts)),
      connection_(std::make_shared<PgConnection>(context, hosts_->targets.front())) {}

void PgPrimary::introduce(const std::string& name) {
  auto& targets = hosts_->targets;
  if (!targets.front().application_name.empty()) return;
  for (auto& target : targets) target.application_name = name;
  if (connection_->times_opened() > 0) return;
  connection_ = std::make_shared<PgConnection>(context_, targets.front());
}

bool PgPrimary::is_pooled() const {
  return standing_.pid != 0 && standing_.pid != server_facts().pid;
}

void PgPrimary::require_replicas() const {
  const auto why =
      too_few_standbys(hosts_->replicas, standing_.standby_names, standing_.followers);
  if (!why) return;
  const auto wanted =
      hosts_->replicas.all ? "all" : std::to_string(hosts_->replicas.count);
  throw Failure::unreachable("--replicas " + wanted + ": " + target().shown() + ": " +
                             *why);
}

void PgPrimary::use(std::shared_ptr<PgConnection> connection) {
  opened_before_ += connection_->times_opened();
  opened_before_ -= connection->times_opened() - 1;
  connection_ = std::move(connection);
}

// Closes the connection, and throws, if the server must not be used.
void PgPrimary::take(const std::optional<PgStanding>& standing) {
  known_session_ = times_opened();
  if (!standing) return;
  standing_ = *standing;
  auto& newest = hosts_->timeline;
  const bool is_old = standing_.timeline != 0 && standing_.timeline < newest;
  if (!standing_.is_standby && !is_old) {
    newest = std::max(newest, standing_.timeline);
    return;
  }
  const auto server = target().shown();
  close();
  if (standing_.is_standby) throw is_standby(server, !hosts_->are_several());
  throw Failure::unreachable(server +
                             " was the primary before a failover: its timeline is " +
                             std::to_string(standing_.timeline) + ", and " +
                             std::to_string(newest) + " was seen before");
}

// The question about the standing is the last batch, in a separate transaction: an answer
// of a standby, or of an old primary, is not passed on.
asio::awaitable<std::vector<Result>> PgPrimary::asked(std::vector<Batch> batches,
                                                      Call call) {
  const bool asks_standbys = hosts_->replicas.all || hosts_->replicas.count > 0;
  // A pooler may have changed the server behind the session.
  const bool asks =
      known_session_ != times_opened() || !is_open() || asks_standbys || is_pooled();
  if (asks) batches.push_back(Batch(1, standing_question(asks_standbys)));
  std::vector<Result> results;
  const bool is_alone = !is_in_transaction();
  for (bool repeats = true; repeats;) {
    repeats = false;
    bool is_refused = false;
    auto sent = batches;
    const bool is_new = trusted_session_ != times_opened() || !is_open();
    const bool is_guarded = is_new && guard(sent, target().schema);
    if (keeps_statements() && connection_->is_still_open()) {
      kept_.name(times_opened(), sent);
    }
    try {
      results = co_await connection_->exchange(std::move(sent), call);
      kept_.note();
      if (is_guarded) trusted_session_ = times_opened();
    } catch (const SqlError& refused) {
      // A standby says so here, if the login did not.
      if (server_facts().in_hot_standby.value_or(false)) {
        close();
        throw is_standby(target().shown(), !hosts_->are_several());
      }
      is_refused = is_guarded && is_of_guard(refused);
      repeats = kept_.is_lost(refused) && refused.batch() == 0 && is_alone;
      if (!repeats && !is_refused) throw;
    }
    if (!is_refused) continue;
    co_await demand_trust(call);
    repeats = true;
  }
  if (asks) {
    const auto standing = standing_of(results, server_facts());
    results.pop_back();
    take(standing);
  } else if (known_session_ != times_opened()) {
    const auto reply =
        co_await connection_->exchange(alone(standing_question(asks_standbys)), call);
    take(standing_of(reply, server_facts()));
  }
  co_return results;
}

// The guard has refused; nothing behind it was executed.
asio::awaitable<void> PgPrimary::demand_trust(Call call) {
  const auto& schema = target().schema;
  const auto results =
      co_await connection_->exchange(alone(in_catalog(trust_question, schema)), call);
  for (const auto& found : distrust_from(results.back().rows, schema)) {
    const auto why = target().shown() + ": " + found.what + ": " + found.advice;
    if (!found.is_copy) throw Failure(found.kind, why);
    hosts_->is_copy = true;
    hosts_->complain(why);
  }
  trusted_session_ = times_opened();
}

asio::awaitable<void> PgPrimary::open(Call call) {
  if (!is_open()) co_await exchange({}, call);
}

asio::awaitable<std::vector<Result>> PgPrimary::exchange(std::vector<Batch> batches,
                                                         Call call) {
  std::optional<std::string> printed;
  for (net::Attempts attempts(call, hosts_->timeout);;) {
    Clock::time_point end;
    try {
      // Otherwise a connection that has ended would be opened again to the same server.
      const bool searches = hosts_->are_several() && !connection_->is_still_open();
      if (searches) co_await find(printed, call);
      auto sent = batches;
      co_return co_await asked(std::move(sent), call);
    } catch (const net::Refusal& refusal) {
      // Nothing was executed.
      attempts.note(refusal);
      end = attempts.end_of_patience(refusal);
    } catch (const net::Timeout& timeout) {
      attempts.note(timeout);
      throw net::Timeout(attempts.reason().what());
    }
    if (!co_await attempts.pause(end)) throw Failure(attempts.reason());
  }
}

// A promotion may be complete at any moment. The password command runs once for all.
asio::awaitable<void> PgPrimary::find(std::optional<std::string>& printed, Call call) {
  const auto& command = hosts_->targets.front().password_command;
  if (!command.empty() && !printed) {
    net::Budget budget(call, target().shown());
    printed = co_await net::password_printed_by(context_, command, budget);
  }
  for (net::Attempts attempts(call, hosts_->timeout);;) {
    try {
      co_await find_once(printed, call);
      co_return;
    } catch (const Failure& failure) {
      if (failure.kind() != Failure::Kind::unreachable) throw;
      attempts.note(failure);
    }
    if (!co_await attempts.pause()) throw Failure(attempts.reason());
  }
}

asio::awaitable<void> PgPrimary::find_once(const std::optional<std::string>& printed,
                                           Call call) {
  const auto hosts = hosts_;
  const bool asks_standbys = hosts->replicas.all || hosts->replicas.count > 0;
  auto* context = &context_;
  const auto open_one = [=, until = call.until](std::size_t i,
                                                Wakeup& own) -> asio::awaitable<Found> {
    auto target = hosts->targets[i];
    target.printed = printed;
    Found found{std::make_shared<PgConnection>(*context, std::move(target)), {}};
    auto question = alone(standing_question(asks_standbys));
    const Call opening{until, own};
    const auto reply = co_await found.connection->exchange(std::move(question), opening);
    found.standing = standing_of(reply, found.connection->server_facts());
    co_return found;
  };
  const auto count = hosts->targets.size();
  FanOut<Found> round(Strangers{context_, count}, open_one);
  const auto is_enough = [](const auto& answers) {
    return std::ranges::any_of(answers, [](const auto& answer) {
      const auto* found = answer ? std::get_if<Found>(&*answer) : nullptr;
      return found != nullptr && !found->standing.is_standby;
    });
  };
  co_await round.wait(is_enough, call);
  // One of the others may be the primary of a later promotion.
  const auto took = std::chrono::ceil<milliseconds>(Clock::now() - round.began());
  const auto grace = std::max(took, std::min(hosts->timeout / 8, longest_grace));
  co_await round.wait(until_all_answer, call.within(grace));

  std::vector<std::optional<PgStanding>> standings(count);
  std::vector<std::string> servers;
  for (std::size_t i = 0; i < count; ++i) {
    servers.push_back(hosts->targets[i].shown());
    const auto& answer = round.answers()[i];
    const auto* found = answer ? std::get_if<Found>(&*answer) : nullptr;
    if (found != nullptr) standings[i] = found->standing;
  }
  const auto choice = chosen_primary(standings, servers);
  if (!choice.complaint.empty()) hosts->complain(choice.complaint);
  if (!choice.server) throw no_primary(round.answers());
  const auto& chosen = std::get<Found>(*round.answers()[*choice.server]);
  use(chosen.connection);
  take(chosen.standing);
}

// "no primary: a:5432 is a standby; cannot reach b:5432: connection refused"
Failure PgPrimary::no_primary(
    const std::vector<std::optional<std::variant<Found, Failure>>>& answers) const {
  std::string text;
  auto kind = Failure::Kind::unreachable;
  bool is_first = true;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto server = hosts_->targets[i].shown();
    auto reason = server + " did not reply";
    auto its_kind = Failure::Kind::unreachable;
    if (answers[i] && std::holds_alternative<Found>(*answers[i])) {
      reason = server + " is a standby";
    } else if (answers[i]) {
      const auto& failure = std::get<Failure>(*answers[i]);
      reason = failure.what();
      its_kind = failure.kind();
    }
    // What only one of them says may be no reason to give up.
    kind = is_first || kind == its_kind ? its_kind : Failure::Kind::unreachable;
    text += (is_first ? "" : "; ") + reason;
    is_first = false;
  }
  return Failure(kind, kind == Failure::Kind::unreachable ? "no primary: " + text : text);
}

}  // namespace dlock::postgres
