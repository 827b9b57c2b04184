#include "store/etcd/etcd_errors.hpp"

#include "util/text.hpp"

namespace dlock::etcd {

namespace {

using Remedy = CallFailure::Remedy;

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
    return {Failure::rejected(text + std::string(login_required) +
                              "use --user with --password-file or DLOCK_PASSWORD, or a "
                              "certificate"),
            Remedy::login};
  }
  if (outcome.code == grpc::Code::permission_denied) {
    return {Failure::rejected(text), Remedy::none};
  }
  if (outcome.code == grpc::Code::unimplemented) {
    return {Failure::misconfigured(text + ": is it etcd 3.4 or later?"), Remedy::none};
  }
  return {Failure::unreachable(text),
          may_go_better_elsewhere(outcome) ? Remedy::next_member : Remedy::none};
}

CallFailure call_failure(const Failure& failure) {
  const bool may_pass = failure.kind() == Failure::Kind::unreachable;
  return {failure, may_pass ? Remedy::next_member : Remedy::none, false};
}

bool is_permission_denied(const Failure& failure) {
  return failure.kind() == Failure::Kind::rejected &&
         std::string_view(failure.what()).find("permission denied") !=
             std::string_view::npos;
}

bool is_login_required(const Failure& failure) {
  return failure.kind() == Failure::Kind::rejected &&
         std::string_view(failure.what()).find(login_required) != std::string_view::npos;
}

CallFailure login_failure(const grpc::CallOutcome& sent, const std::string& server) {
  const auto outcome = as_etcd_sent_it(sent);
  auto failed_call = call_failure(outcome, server);
  if (outcome.code == grpc::Code::invalid_argument ||
      failed_call.remedy == Remedy::login) {
    failed_call.failure =
        Failure::rejected(server + ": login refused: " + printable(outcome.message, 200));
    failed_call.remedy = Remedy::none;
  }
  return failed_call;
}

}  // namespace dlock::etcd
