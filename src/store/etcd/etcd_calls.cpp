#include "store/etcd/etcd_calls.hpp"

#include <algorithm>
#include <utility>

#include "util/text.hpp"

namespace dlock::etcd {

namespace {

// Requests that a member answers from its own data.
bool needs_leader(const Request& request) {
  return !std::holds_alternative<StatusRequest>(request) &&
         !std::holds_alternative<AlarmsRequest>(request) &&
         !std::holds_alternative<MemberListRequest>(request);
}

// The result, or why there is none.
std::optional<CallFailure> take_reply(const Request& request, const CallReply& reply,
                                      const std::string& server,
                                      std::vector<Result>& results) {
  const auto failed = [&](const grpc::CallOutcome& outcome) {
    return std::holds_alternative<AuthenticateRequest>(request)
               ? login_failure(outcome, server)
               : call_failure(outcome, server);
  };
  auto result = answer_in(request, reply.outcome);
  if (!result && reply.outcome.code != grpc::Code::ok) return failed(reply.outcome);
  if (!result) result = decoded(request, reply.message);
  if (!result) return failed({grpc::Code::internal, "not a valid etcd reply"});
  results.push_back(std::move(*result));
  return std::nullopt;
}

// A member fills in the term when it replies. If the leader that has written the request
// was stopped before the member knew of the write, that is the term of the next leader.
// But it is the term of the request if the member was also in it before.
void settle_terms(std::vector<Result>& results, std::uint64_t term_before) {
  for (auto& result : results) {
    auto* granted = std::get_if<LeaseGrantResult>(&result);
    if (granted != nullptr && granted->term != term_before) granted->term = 0;
  }
}

// A shorter time would not be enough for a connection with TLS and a login; the next
// address of a member is not tried before it is over.
constexpr milliseconds least_share{300};

// After this time without a reply, a cluster may have been set up again from a backup,
// and a waiter must not refuse the new one forever.
constexpr milliseconds replaced_after{60'000};

}  // namespace

EtcdAccess access_of(const StoreUrl& url) { return {url.servers, url.tls, url.login}; }

asio::awaitable<std::string> password_of(const EtcdAccess& access,
                                         asio::io_context& context, net::Budget& budget) {
  const auto& login = access.login;
  if (auto password = co_await login.secret(context, budget)) {
    co_return std::move(*password);
  }
  // Otherwise the calls would go out without a login.
  const bool is_alone = login.alone == Login::Alone::user;
  throw Failure::misconfigured(
      "no password for " +
      (is_alone ? std::string("the user before the @ of the store's URL")
                : "user '" + printable(login.user, 200) + "'") +
      ": use --password-file or DLOCK_PASSWORD");
}

Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left) {
  const auto span = std::max(until - now, Clock::duration::zero());
  const auto share = span / static_cast<Clock::duration::rep>(left);
  return std::min(until, now + std::max<Clock::duration>(share, least_share));
}

EtcdCalls::EtcdCalls(asio::io_context& context, EtcdAccess access, milliseconds timeout)
    : context_(context),
      access_(std::move(access)),
      timeout_(timeout),
      logs_in_(!access_.login.user.empty()) {
  for (const auto& server : access_.members) {
    members_.emplace_back(context_, server, access_.tls);
  }
}

asio::awaitable<void> EtcdCalls::retry_on_members(Try once, Call call) {
  const auto count = members_.size();
  std::optional<std::string> password;
  bool has_logged_in_anew = false;
  bool was_answered = false;
  std::size_t tries = 0;
  for (net::Attempts attempts(call, timeout_);;) {
    // Once for all members, and not within the share of one: a command may print it.
    if (has_to_log_in() && !password) {
      net::Budget budget(call, member().shown());
      password = co_await password_of(access_, context_, budget);
    }
    const Call share{share_of(Clock::now(), call.until, count - tries % count),
                     call.wakeup};
    const auto failed_call = co_await attempt(once, password, share);
    if (!failed_call) co_return;
    if (failed_call->remedy == CallFailure::Remedy::none) throw failed_call->failure;
    // A reply says more than that another member sent none.
    if (failed_call->was_answered || !was_answered) attempts.note(failed_call->failure);
    was_answered = was_answered || failed_call->was_answered;
    if (call.is_over()) throw Failure(attempts.reason());
    if (failed_call->remedy == CallFailure::Remedy::login) {
      if (access_.login.user.empty() || has_logged_in_anew) throw failed_call->failure;
      has_logged_in_anew = true;
      logs_in_ = true;
      token_.clear();
      password.reset();
      continue;
    }
    move_on();
    if (++tries % count != 0) continue;
    if (!co_await attempts.pause()) throw Failure(attempts.reason());
  }
}

// Turns exceptions into CallFailure, so that the caller can decide whether to retry.
asio::awaitable<std::optional<CallFailure>> EtcdCalls::attempt(
    const Try& once, const std::optional<std::string>& password, Call call) {
  net::Budget to_reach(call, member().shown());
  net::Budget to_answer(call, member().shown());
  try {
    to_reach.check();
    auto failed_call = co_await reach(password, to_reach);
    if (!failed_call) failed_call = co_await once(to_answer);
    co_return failed_call;
  } catch (const Failure& failure) {
    co_return call_failure(failure);
  }
}

asio::awaitable<std::optional<CallFailure>> EtcdCalls::reach(
    const std::optional<std::string>& password, net::Budget& budget) {
  auto& connection = member();
  connection.drop_if_closed();
  if (!connection.is_open()) co_await connection.open(budget);
  if (!has_to_log_in()) co_return std::nullopt;
  co_return co_await log_in(password, budget);
}

asio::awaitable<std::optional<CallFailure>> EtcdCalls::log_in(
    const std::optional<std::string>& password, net::Budget& budget) {
  AuthenticateRequest login;
  login.user = access_.login.user;
  if (password) {
    login.password = *password;
  } else {  // another call was just told that the login has to be repeated
    login.password = co_await password_of(access_, context_, budget);
  }
  const auto remark = remark_on_password(login.password);
  const auto secret = login.password == login.user ? "" : login.password;
  const Request request = std::move(login);
  std::vector<grpc::CallStart> calls;
  calls.push_back(start_of(path_of(request), encoded(request), true));
  auto reply = (co_await member().exchange(calls, budget)).front();
  reply.outcome.message = without_secret(reply.outcome.message, secret);
  std::vector<Result> results;
  auto refused = take_reply(request, reply, member().shown(), results);
  if (refused && refused->failure.kind() == Failure::Kind::rejected) {
    refused->failure = Failure::rejected(refused->failure.what() + remark);
  }
  if (refused) co_return refused;
  token_ = std::get<AuthenticateResult>(results.front()).token;
  note_term(term_in(reply.message));
  // Like etcd's own client: a user may be set before authentication is enabled.
  logs_in_ = !token_.empty();
  co_return std::nullopt;
}

bool EtcdCalls::is_same(std::uint64_t cluster) {
  if (cluster == 0) return true;
  const auto now = Clock::now();
  if (cluster != id_ && id_ != 0 && now - seen_ < replaced_after) return false;
  id_ = cluster;
  seen_ = now;
  return true;
}

std::uint64_t EtcdCalls::known_term() const {
  return told_by_ == current_ && told_on_ == members_[current_].times_opened() ? term_
                                                                               : 0;
}

void EtcdCalls::note_term(std::uint64_t term) {
  term_ = term;
  told_by_ = current_;
  told_on_ = member().times_opened();
}

grpc::CallStart EtcdCalls::start_of(std::string_view path, std::string message,
                                    bool needs_leader) const {
  grpc::CallStart start;
  start.path = path;
  start.message = std::move(message);
  if (needs_leader) start.metadata.push_back({"hasleader", "true"});
  if (!token_.empty()) start.metadata.push_back({"token", token_});
  return start;
}

void EtcdCalls::move_on() {
  member().close();
  current_ = (current_ + 1) % members_.size();
}

asio::awaitable<std::optional<CallFailure>> EtcdCalls::ask_member(
    const std::vector<Request>& requests, std::vector<Result>& results,
    net::Budget& budget) {
  std::vector<grpc::CallStart> calls;
  for (const auto& request : requests) {
    auto& call = calls.emplace_back(
        start_of(path_of(request), encoded(request), needs_leader(request)));
    call.timeout = std::chrono::ceil<milliseconds>(budget.until() - Clock::now());
  }
  const auto term_before = known_term();
  const auto replies = co_await member().exchange(calls, budget);
  results.clear();
  std::optional<CallFailure> failed_call;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto one = take_reply(requests[i], replies[i], member().shown(), results);
    // A lock in one cluster says nothing about the other, and what this one answers would
    // be taken for a loss.
    if (!one && !is_same(cluster_in(replies[i].message))) {
      const grpc::CallOutcome foreign{
          grpc::Code::unavailable,
          "it is in another cluster than the server that replied "
          "before: name members of one cluster"};
      one = call_failure(foreign, member().shown());
    }
    if (one && !failed_call) failed_call = std::move(one);
    if (const auto term = term_in(replies[i].message)) note_term(term);
  }
  settle_terms(results, term_before);
  co_return failed_call;
}

asio::awaitable<std::vector<Result>> EtcdCalls::together(std::vector<Request> requests,
                                                         Call call) {
  std::vector<Result> results;
  Try once = [&](net::Budget& budget) { return ask_member(requests, results, budget); };
  co_await retry_on_members(std::move(once), call);
  co_return results;
}

namespace {

constexpr std::string_view watch_path = "/etcdserverpb.Watch/Watch";

grpc::CallOutcome nonsense() {
  return {grpc::Code::internal, "not a valid etcd watch reply"};
}

// Why a watch was canceled before it was created. Versions before 3.5 report an expired
// login as missing permissions.
CallFailure refusal(const WatchAnswer& answer, const std::string& server) {
  const bool lacks_permission =
      answer.reason.find("permission denied") != std::string::npos;
  auto failed_call = call_failure(
      grpc::CallOutcome{
          lacks_permission ? grpc::Code::permission_denied : grpc::Code::unavailable,
          answer.reason.empty() ? "the watch was canceled" : answer.reason},
      server);
  if (lacks_permission) failed_call.remedy = CallFailure::Remedy::login;
  return failed_call;
}

}  // namespace

// The stream, bound to the connection on which it was begun.
class KeyWatch::Feed {
 public:
  explicit Feed(EtcdConnection& connection)
      : connection_(connection), opened_(connection.times_opened()) {}

  bool is_on_connection() const {
    return connection_.is_open() && connection_.times_opened() == opened_;
  }

  // Begins the stream; returns when the watch is created.
  asio::awaitable<std::optional<CallFailure>> begin(const EtcdCalls& calls,
                                                    const WatchRequest& request,
                                                    net::Budget& budget) {
    auto start = calls.start_of(watch_path, encoded(request), true);
    start.is_last = false;
    call_ = connection_.begin(start);
    for (bool is_created = false; !is_created;) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      const auto ended = connection_.outcome(call_);
      if (!bytes && !ended) throw budget.timeout(connection_.shown());
      if (!bytes) co_return call_failure(*ended, connection_.shown());
      auto answer = decoded_watch(*bytes);
      if (!answer) co_return call_failure(nonsense(), connection_.shown());
      is_created = answer->created;
      if (answer->canceled && answer->compact_revision == 0) {
        co_return refusal(*answer, connection_.shown());
      }
      take(*answer);
      if (update_.events.size() > most_elements) {
        co_return call_failure(nonsense(), connection_.shown());
      }
    }
    co_return std::nullopt;
  }

  asio::awaitable<WatchUpdate> next(net::Budget& budget) {
    while (is_on_connection() && !has_news()) {
      const auto bytes = co_await connection_.next_message(call_, budget);
      if (!bytes && !connection_.outcome(call_)) co_return WatchUpdate{};
      const auto answer = bytes ? decoded_watch(*bytes) : std::nullopt;
      if (!answer) break;
      take(*answer);
      if (answer->canceled && answer->compact_revision == 0) break;
    }
    if (has_news()) co_return std::exchange(update_, {});
    drop();
    WatchUpdate deaf;
    deaf.kind = WatchUpdate::Kind::broken;
    co_return deaf;
  }

  bool is_broken() const {
    return !has_news() &&
           (is_dropped_ || !is_on_connection() || connection_.outcome(call_).has_value());
  }

  // The member is notified with the next output.
  void drop() {
    if (is_on_connection()) connection_.drop(call_);
    is_dropped_ = true;
  }

 private:
  bool has_news() const { return update_.kind != WatchUpdate::Kind::nothing; }

  void take(const WatchAnswer& answer) {
    if (answer.compact_revision != 0) {
      update_ = {WatchUpdate::Kind::compacted, {}, answer.compact_revision};
      return;
    }
    if (answer.events.empty() || update_.kind == WatchUpdate::Kind::compacted) return;
    update_.kind = WatchUpdate::Kind::events;
    update_.events.insert(update_.events.end(), answer.events.begin(),
                          answer.events.end());
    update_.revision = std::max(update_.revision, answer.revision);
  }

  EtcdConnection& connection_;
  std::uint64_t opened_;
  grpc::CallId call_ = 0;
  WatchUpdate update_;
  bool is_dropped_ = false;
};

KeyWatch::KeyWatch(EtcdCalls& calls) : calls_(calls) {}

KeyWatch::~KeyWatch() {
  if (feed_) feed_->drop();
}

asio::awaitable<void> KeyWatch::start(WatchRequest request, Call call) {
  EtcdCalls::Try once = [&](net::Budget& budget) {
    if (feed_) feed_->drop();
    feed_ = std::make_unique<Feed>(calls_.member());
    return feed_->begin(calls_, request, budget);
  };
  try {
    co_await calls_.retry_on_members(std::move(once), call);
  } catch (const Failure&) {
    if (feed_) feed_->drop();
    throw;
  }
}

asio::awaitable<WatchUpdate> KeyWatch::next(Call call) {
  WatchUpdate update;
  update.kind = WatchUpdate::Kind::broken;
  if (!feed_ || feed_->is_broken()) co_return update;
  net::Budget budget(call, calls_.name());
  try {
    update = co_await feed_->next(budget);
  } catch (const Failure& failure) {
    if (failure.kind() != Failure::Kind::unreachable) throw;
  }
  co_return update;
}

bool KeyWatch::is_broken() const { return !feed_ || feed_->is_broken(); }

}  // namespace dlock::etcd
