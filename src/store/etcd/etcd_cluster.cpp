#include "store/etcd/etcd_cluster.hpp"

#include <algorithm>
#include <utility>

#include "loop/wakeup.hpp"
#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock::etcd {

namespace {

using Remedy = CallFailure::Remedy;
using Kind = Failure::Kind;

constexpr std::string_view login_required = ": login required: ";

bool says(const grpc::CallOutcome& outcome, std::string_view text) {
  return outcome.message.find(text) != std::string::npos;
}

bool is_of_learner(const grpc::CallOutcome& outcome) {
  return says(outcome, "not supported for learner");
}

std::string text_of_error(const std::string& server, const grpc::CallOutcome& outcome) {
  if (!outcome.message.empty()) {
    return server + ": " + printable(outcome.message, 200) +
           (is_of_learner(outcome) ? ": name members that vote in the URL" : "");
  }
  return server + " returned gRPC status " +
         std::to_string(static_cast<int>(outcome.code));
}

// etcd's proxy passes on the text of an error, and for the code only "unknown".
grpc::CallOutcome as_etcd_sent_it(grpc::CallOutcome outcome) {
  constexpr std::pair<std::string_view, grpc::Code> codes[] = {
      {"etcdserver: requested lease not found", grpc::Code::not_found},
      {"etcdserver: lease already exists", grpc::Code::failed_precondition},
      {"etcdserver: authentication is not enabled", grpc::Code::failed_precondition},
      {"etcdserver: permission denied", grpc::Code::permission_denied},
      {"etcdserver: invalid auth token", grpc::Code::unauthenticated},
      {"etcdserver: user name is empty", grpc::Code::invalid_argument},
      {"etcdserver: revision of auth store is old", grpc::Code::invalid_argument},
      {"etcdserver: authentication failed", grpc::Code::invalid_argument},
      {"etcdserver: mvcc: database space exceeded", grpc::Code::resource_exhausted},
      {"etcdserver: too many requests", grpc::Code::resource_exhausted},
  };
  if (outcome.code != grpc::Code::unknown) return outcome;
  for (const auto& [text, code] : codes) {
    if (says(outcome, text)) outcome.code = code;
  }
  return outcome;
}

bool wants_login(const grpc::CallOutcome& outcome) {
  return outcome.code == grpc::Code::unauthenticated ||
         (outcome.code == grpc::Code::invalid_argument &&
          (says(outcome, "revision of auth store is old") ||
           says(outcome, "user name is empty")));
}

bool may_go_better_elsewhere(const grpc::CallOutcome& outcome) {
  switch (outcome.code) {
    case grpc::Code::unavailable:
    case grpc::Code::internal:
    case grpc::Code::unknown: return true;
    case grpc::Code::resource_exhausted: return says(outcome, "too many requests");
    case grpc::Code::failed_precondition: return is_of_learner(outcome);
    default: return false;
  }
}

}  // namespace

std::optional<Result> answer_in(const Request& request, const grpc::CallOutcome& sent) {
  const auto outcome = as_etcd_sent_it(sent);
  // The proxy cancels a keep-alive when its client has nothing more to send.
  if (std::holds_alternative<LeaseKeepAliveRequest>(request) &&
      (says(outcome, "context canceled") || says(outcome, grpc::no_reply) ||
       outcome.code == grpc::Code::unimplemented)) {
    LeaseKeepAliveResult result;
    result.is_unanswered = true;
    return result;
  }
  const bool not_found =
      outcome.code == grpc::Code::not_found && says(outcome, "lease not found");
  if (std::holds_alternative<LeaseGrantRequest>(request) &&
      outcome.code == grpc::Code::failed_precondition &&
      says(outcome, "lease already exists")) {
    LeaseGrantResult result;
    result.exists = true;
    return result;
  }
  if (std::holds_alternative<LeaseRevokeRequest>(request) && not_found) {
    LeaseRevokeResult result;
    result.was_there = false;
    return result;
  }
  if (std::holds_alternative<TxnRequest>(request) && not_found) {
    TxnResult result;
    result.lease_gone = true;
    return result;
  }
  if (std::holds_alternative<AuthenticateRequest>(request) &&
      outcome.code == grpc::Code::failed_precondition &&
      says(outcome, "authentication is not enabled")) {
    return AuthenticateResult{};
  }
  return std::nullopt;
}

CallFailure call_failure(const grpc::CallOutcome& sent, const std::string& server) {
  const auto outcome = as_etcd_sent_it(sent);
  const auto text = text_of_error(server, outcome);
  if (wants_login(outcome)) {
    return {Failure(Kind::rejected,
                    text + std::string(login_required) +
                        "use --user with --password-file or DLOCK_PASSWORD, or a "
                        "certificate"),
            Remedy::login};
  }
  if (outcome.code == grpc::Code::permission_denied) {
    return {Failure(Kind::rejected, text), Remedy::none};
  }
  if (outcome.code == grpc::Code::unimplemented) {
    return {Failure(Kind::misconfigured, text + ": is it etcd 3.4 or later?"),
            Remedy::none};
  }
  return {Failure(Kind::unreachable, text),
          may_go_better_elsewhere(outcome) ? Remedy::next_member : Remedy::none};
}

CallFailure call_failure(const Failure& failure) {
  const bool may_pass = failure.kind() == Kind::unreachable;
  return {failure, may_pass ? Remedy::next_member : Remedy::none, false};
}

bool is_permission_denied(const Failure& failure) {
  return failure.kind() == Kind::rejected &&
         std::string_view(failure.what()).find("permission denied") !=
             std::string_view::npos;
}

bool is_login_required(const Failure& failure) {
  return failure.kind() == Kind::rejected &&
         std::string_view(failure.what()).find(login_required) != std::string_view::npos;
}

CallFailure login_failure(const grpc::CallOutcome& sent, const std::string& server) {
  const auto outcome = as_etcd_sent_it(sent);
  auto failed_call = call_failure(outcome, server);
  if (outcome.code == grpc::Code::invalid_argument ||
      failed_call.remedy == Remedy::login) {
    failed_call.failure = Failure(
        Kind::rejected, server + ": login refused: " + printable(outcome.message, 200));
    failed_call.remedy = Remedy::none;
  }
  return failed_call;
}

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

namespace {

// A shorter time would not be enough for a connection with TLS and a login; the next
// address of a member is not tried before it is over.
constexpr milliseconds least_share{300};

// After this time without a reply, a cluster may have been set up again from a backup,
// and a waiter must not refuse the new one forever.
constexpr milliseconds replaced_after{60'000};

}  // namespace

Clock::time_point share_of(Clock::time_point now, Clock::time_point until,
                           std::size_t left) {
  const auto span = std::max(until - now, Clock::duration::zero());
  const auto share = span / static_cast<Clock::duration::rep>(left);
  return std::min(until, now + std::max<Clock::duration>(share, least_share));
}

EtcdCluster::EtcdCluster(asio::io_context& context, EtcdAccess access,
                         milliseconds timeout)
    : context_(context),
      access_(std::move(access)),
      timeout_(timeout),
      logs_in_(!access_.login.user.empty()) {
  for (const auto& server : access_.members) {
    members_.emplace_back(context_, server, access_.tls);
  }
}

asio::awaitable<void> EtcdCluster::retry_on_members(Try once, Call call) {
  const auto count = members_.size();
  std::optional<std::string> password;
  bool has_logged_in_anew = false;
  bool was_answered = false;
  std::size_t tries = 0;
  for (net::Attempts attempts(call, timeout_);;) {
    // Once for all members, and not within the share of one: a command may print it.
    if (has_to_log_in() && !password) {
      net::Budget budget(call, member().shown());
      const OnExit hand_on([&] { budget.hand_on(); });
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
asio::awaitable<std::optional<CallFailure>> EtcdCluster::attempt(
    const Try& once, const std::optional<std::string>& password, Call call) {
  net::Budget to_reach(call, member().shown());
  net::Budget to_answer(call, member().shown());
  std::optional<CallFailure> failed_call;
  try {
    to_reach.check();
    failed_call = co_await reach(password, to_reach);
    if (!failed_call) failed_call = co_await once(to_answer);
  } catch (const Failure& failure) {
    failed_call = call_failure(failure);
  }
  to_reach.hand_on();
  to_answer.hand_on();
  co_return failed_call;
}

asio::awaitable<std::optional<CallFailure>> EtcdCluster::reach(
    const std::optional<std::string>& password, net::Budget& budget) {
  auto& connection = member();
  connection.drop_if_closed();
  if (!connection.is_open()) co_await connection.open(budget);
  if (!has_to_log_in()) co_return std::nullopt;
  co_return co_await log_in(password, budget);
}

asio::awaitable<std::optional<CallFailure>> EtcdCluster::log_in(
    const std::optional<std::string>& password, net::Budget& budget) {
  AuthenticateRequest login;
  login.user = access_.login.user;
  if (password) {
    login.password = *password;
  } else {  // another call was just told that the login has to be repeated
    login.password = co_await password_of(access_, context_, budget);
  }
  const auto remark = remark_on_password(login.password);
  const auto secret = login.password;
  const Request request = std::move(login);
  std::vector<grpc::CallStart> calls;
  calls.push_back(start_of(path_of(request), encoded(request), true));
  const auto replies = co_await member().exchange(calls, budget);
  const auto& reply = replies.front();
  auto result = answer_in(request, reply.outcome);
  if (!result && reply.outcome.code != grpc::Code::ok) {
    auto outcome = reply.outcome;
    outcome.message = without_secret(outcome.message, secret);
    auto refused = login_failure(outcome, member().shown());
    if (refused.failure.kind() == Kind::rejected) {
      refused.failure = Failure(Kind::rejected, refused.failure.what() + remark);
    }
    co_return refused;
  }
  if (!result) result = decoded(request, reply.message);
  if (!result) {
    const grpc::CallOutcome nonsense{grpc::Code::internal, "not a valid etcd reply"};
    co_return login_failure(nonsense, member().shown());
  }
  token_ = std::get<AuthenticateResult>(*result).token;
  note_term(term_in(reply.message));
  // Like etcd's own client: a user may be set before authentication is enabled.
  logs_in_ = !token_.empty();
  co_return std::nullopt;
}

bool EtcdCluster::is_same(std::uint64_t cluster) {
  if (cluster == 0) return true;
  const auto now = Clock::now();
  if (cluster != id_ && id_ != 0 && now - seen_ < replaced_after) return false;
  id_ = cluster;
  seen_ = now;
  return true;
}

std::uint64_t EtcdCluster::known_term() const {
  return told_by_ == current_ && told_on_ == member().times_opened() ? term_ : 0;
}

void EtcdCluster::note_term(std::uint64_t term) {
  term_ = term;
  told_by_ = current_;
  told_on_ = member().times_opened();
}

grpc::CallStart EtcdCluster::start_of(std::string_view path, std::string message,
                                      bool needs_leader) const {
  grpc::CallStart start;
  start.path = path;
  start.message = std::move(message);
  if (needs_leader) start.metadata.push_back({"hasleader", "true"});
  if (!token_.empty()) start.metadata.push_back({"token", token_});
  return start;
}

void EtcdCluster::move_on() {
  member().close();
  current_ = (current_ + 1) % members_.size();
}

std::string_view path_of(const Request& request) {
  // In the order of the alternatives.
  constexpr std::string_view paths[] = {
      "/etcdserverpb.KV/Range",
      "/etcdserverpb.KV/Txn",
      "/etcdserverpb.Lease/LeaseGrant",
      "/etcdserverpb.Lease/LeaseRevoke",
      "/etcdserverpb.Lease/LeaseKeepAlive",
      "/etcdserverpb.Lease/LeaseTimeToLive",
      "/etcdserverpb.Maintenance/Status",
      "/etcdserverpb.Maintenance/Alarm",
      "/etcdserverpb.Cluster/MemberList",
      "/etcdserverpb.Auth/Authenticate",
  };
  static_assert(std::size(paths) == std::variant_size_v<Request>);
  return paths[request.index()];
}

}  // namespace dlock::etcd
