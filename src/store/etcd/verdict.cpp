#include "store/etcd/verdict.hpp"

#include <string_view>
#include <utility>

#include "util/text.hpp"

namespace dlock::etcd {
namespace {

using Remedy = CallFailure::Remedy;
using Kind = Failure::Kind;

constexpr std::string_view login_required = ": login required: ";

bool says(const Outcome& outcome, std::string_view text) {
  return outcome.message.find(text) != std::string::npos;
}

std::string text_of_error(const std::string& server, const Outcome& outcome) {
  if (!outcome.message.empty()) return server + ": " + printable(outcome.message, 200);
  return server + " returned gRPC status " +
         std::to_string(static_cast<int>(outcome.code));
}

// etcd's proxy passes on the text of an error, and for the code only "unknown".
Outcome as_etcd_sent_it(Outcome outcome) {
  constexpr std::pair<std::string_view, Code> codes[] = {
      {"etcdserver: requested lease not found", Code::not_found},
      {"etcdserver: lease already exists", Code::failed_precondition},
      {"etcdserver: authentication is not enabled", Code::failed_precondition},
      {"etcdserver: permission denied", Code::permission_denied},
      {"etcdserver: invalid auth token", Code::unauthenticated},
      {"etcdserver: user name is empty", Code::invalid_argument},
      {"etcdserver: revision of auth store is old", Code::invalid_argument},
      {"etcdserver: authentication failed", Code::invalid_argument},
      {"etcdserver: mvcc: database space exceeded", Code::resource_exhausted},
      {"etcdserver: too many requests", Code::resource_exhausted},
  };
  if (outcome.code != Code::unknown) return outcome;
  for (const auto& [text, code] : codes) {
    if (says(outcome, text)) outcome.code = code;
  }
  return outcome;
}

bool wants_login(const Outcome& outcome) {
  return outcome.code == Code::unauthenticated ||
         (outcome.code == Code::invalid_argument &&
          (says(outcome, "revision of auth store is old") ||
           says(outcome, "user name is empty")));
}

// Members without a leader propose nothing, and overloaded ones refuse before proposing.
bool is_surely_not_executed(const Outcome& outcome) {
  return outcome.was_not_begun || says(outcome, "etcdserver: no leader") ||
         says(outcome, "etcdserver: too many requests") ||
         says(outcome, "not supported for learner") ||
         says(outcome, "etcdserver: not capable");
}

bool may_go_better_elsewhere(const Outcome& outcome) {
  switch (outcome.code) {
    case Code::unavailable:
    case Code::internal:
    case Code::unknown: return true;
    case Code::resource_exhausted: return says(outcome, "too many requests");
    case Code::failed_precondition: return says(outcome, "not supported for learner");
    default: return false;
  }
}

}  // namespace

std::optional<Result> answer_in(const Request& request, const Outcome& sent) {
  const auto outcome = as_etcd_sent_it(sent);
  // The proxy cancels a keep-alive when its client has nothing more to send.
  if (std::holds_alternative<LeaseKeepAliveRequest>(request) &&
      (says(outcome, "context canceled") || says(outcome, no_reply) ||
       outcome.code == Code::unimplemented)) {
    LeaseKeepAliveResult result;
    result.is_unanswered = true;
    return result;
  }
  const bool not_found =
      outcome.code == Code::not_found && says(outcome, "lease not found");
  if (std::holds_alternative<LeaseGrantRequest>(request) &&
      outcome.code == Code::failed_precondition &&
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
      outcome.code == Code::failed_precondition &&
      says(outcome, "authentication is not enabled")) {
    return AuthenticateResult{};
  }
  return std::nullopt;
}

CallFailure call_failure(const Outcome& sent, const std::string& server) {
  const auto outcome = as_etcd_sent_it(sent);
  const auto text = text_of_error(server, outcome);
  if (wants_login(outcome)) {
    return {Failure(Kind::rejected,
                    text + std::string(login_required) +
                        "use --user with --password-file or DLOCK_PASSWORD, or a "
                        "certificate"),
            Remedy::login, false};
  }
  if (outcome.code == Code::permission_denied) {
    return {Failure(Kind::rejected, text), Remedy::none, false};
  }
  if (outcome.code == Code::unimplemented) {
    return {Failure(Kind::misconfigured, text + ": is it etcd 3.4 or later?"),
            Remedy::none, false};
  }
  return {Failure(Kind::unreachable, text),
          may_go_better_elsewhere(outcome) ? Remedy::next_member : Remedy::none,
          !is_surely_not_executed(outcome)};
}

CallFailure call_failure(const Failure& failure, bool was_sent) {
  const bool may_pass = failure.kind() == Kind::unreachable;
  return {failure, may_pass ? Remedy::next_member : Remedy::none, was_sent};
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

CallFailure login_failure(const Outcome& sent, const std::string& server) {
  const auto outcome = as_etcd_sent_it(sent);
  auto failed_call = call_failure(outcome, server);
  failed_call.may_be_executed = false;  // the request that needs the login
  if (outcome.code == Code::invalid_argument || failed_call.remedy == Remedy::login) {
    failed_call.failure = Failure(
        Kind::rejected, server + ": login refused: " + printable(outcome.message, 200));
    failed_call.remedy = Remedy::none;
  }
  return failed_call;
}

}  // namespace dlock::etcd
