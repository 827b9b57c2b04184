// What the errors of etcd mean for a call.

#include <gtest/gtest.h>

#include "store/etcd/etcd_calls.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

using Remedy = CallFailure::Remedy;
using namespace std::chrono_literals;

CallFailure failed_call(grpc::Code code, const std::string& message) {
  return call_failure(grpc::CallOutcome{code, message}, "host:1");
}

TEST(EtcdVerdict, an_existing_or_missing_lease_is_an_answer_and_not_an_error) {
  const grpc::CallOutcome exists{grpc::Code::failed_precondition,
                                 "etcdserver: lease already exists"};
  const grpc::CallOutcome gone{grpc::Code::not_found,
                               "etcdserver: requested lease not found"};

  EXPECT_TRUE(std::get<LeaseGrantResult>(*answer_in(LeaseGrantRequest{}, exists)).exists);
  EXPECT_FALSE(
      std::get<LeaseRevokeResult>(*answer_in(LeaseRevokeRequest{}, gone)).was_there);
  EXPECT_TRUE(std::get<TxnResult>(*answer_in(TxnRequest{}, gone)).lease_gone);
  EXPECT_FALSE(answer_in(RangeRequest{}, gone));
  EXPECT_FALSE(answer_in(LeaseGrantRequest{}, gone));
}

TEST(EtcdVerdict, a_proxy_that_passes_on_only_the_text_of_an_error_changes_nothing) {
  const auto text = [](const std::string& message) {
    return grpc::CallOutcome{grpc::Code::unknown, message};
  };

  EXPECT_TRUE(std::get<TxnResult>(
                  *answer_in(TxnRequest{}, text("etcdserver: requested lease not found")))
                  .lease_gone);
  EXPECT_TRUE(
      std::get<LeaseGrantResult>(
          *answer_in(LeaseGrantRequest{}, text("etcdserver: lease already exists")))
          .exists);
  EXPECT_TRUE(is_permission_denied(
      failed_call(grpc::Code::unknown, "etcdserver: permission denied").failure));
  EXPECT_EQ(failed_call(grpc::Code::unknown, "etcdserver: invalid auth token").remedy,
            Remedy::login);
  EXPECT_EQ(failed_call(grpc::Code::unknown, "etcdserver: mvcc: database space exceeded")
                .remedy,
            Remedy::none);
  EXPECT_EQ(failed_call(grpc::Code::unknown, "anything else").remedy,
            Remedy::next_member);
}

TEST(EtcdVerdict, a_keep_alive_that_ends_without_a_reply_is_an_answer) {
  const auto is_unanswered = [](grpc::Code code, std::string message) {
    const auto result =
        answer_in(LeaseKeepAliveRequest{}, grpc::CallOutcome{code, std::move(message)});
    return result && std::get<LeaseKeepAliveResult>(*result).is_unanswered;
  };

  EXPECT_TRUE(is_unanswered(grpc::Code::unknown, "context canceled"));
  EXPECT_TRUE(is_unanswered(grpc::Code::unavailable, "context canceled"));
  EXPECT_TRUE(is_unanswered(grpc::Code::internal, std::string(grpc::no_reply)));
  EXPECT_TRUE(is_unanswered(grpc::Code::unimplemented, "unknown service"));
  EXPECT_FALSE(is_unanswered(grpc::Code::unavailable, "etcdserver: no leader"));
  EXPECT_FALSE(answer_in(RangeRequest{}, {grpc::Code::unknown, "context canceled"}));
}

TEST(EtcdVerdict, a_missing_permission_and_a_missing_login_differ_from_other_refusals) {
  const auto denied =
      failed_call(grpc::Code::permission_denied, "etcdserver: permission denied").failure;
  const auto anonymous =
      failed_call(grpc::Code::invalid_argument, "etcdserver: user name is empty").failure;
  const Failure certificate(Failure::Kind::rejected, "host:1: certificate has expired");

  EXPECT_TRUE(is_permission_denied(denied));
  EXPECT_FALSE(is_login_required(denied));
  EXPECT_TRUE(is_login_required(anonymous));
  EXPECT_FALSE(is_permission_denied(anonymous));
  EXPECT_FALSE(is_permission_denied(certificate));
  EXPECT_FALSE(is_login_required(certificate));
}

TEST(EtcdVerdict, the_next_member_is_tried_without_a_leader_or_after_a_timeout) {
  const auto none = failed_call(grpc::Code::unavailable, "etcdserver: no leader");
  EXPECT_EQ(none.remedy, Remedy::next_member);

  const auto late = failed_call(grpc::Code::unavailable, "etcdserver: request timed out");
  EXPECT_EQ(late.remedy, Remedy::next_member);
}

TEST(EtcdVerdict, an_expired_token_needs_a_new_login) {
  for (const auto& [code, message] :
       {std::pair{grpc::Code::unauthenticated, "etcdserver: invalid auth token"},
        {grpc::Code::invalid_argument, "etcdserver: revision of auth store is old"},
        {grpc::Code::invalid_argument, "etcdserver: user name is empty"}}) {
    const auto one = failed_call(code, message);

    EXPECT_EQ(one.remedy, Remedy::login) << message;
    EXPECT_EQ(one.failure.kind(), Failure::Kind::rejected) << message;
  }
}

TEST(EtcdVerdict, missing_permissions_and_a_full_database_have_no_remedy) {
  const auto permissions =
      failed_call(grpc::Code::permission_denied, "etcdserver: permission denied");
  EXPECT_EQ(permissions.remedy, Remedy::none);
  EXPECT_EQ(permissions.failure.kind(), Failure::Kind::rejected);

  const auto room = failed_call(grpc::Code::resource_exhausted,
                                "etcdserver: mvcc: database space exceeded");
  EXPECT_EQ(room.remedy, Remedy::none);
  EXPECT_EQ(room.failure.kind(), Failure::Kind::unreachable);
}

TEST(EtcdVerdict, a_refused_login_is_not_retried) {
  const grpc::CallOutcome wrong{
      grpc::Code::invalid_argument,
      "etcdserver: authentication failed, invalid user ID or password"};

  const grpc::CallOutcome lapsed{grpc::Code::unauthenticated,
                                 "etcdserver: invalid auth token"};

  for (const auto& outcome : {wrong, lapsed}) {
    const auto refused = login_failure(outcome, "host:1");

    EXPECT_EQ(refused.remedy, Remedy::none);
    EXPECT_EQ(refused.failure.kind(), Failure::Kind::rejected);
  }
}

TEST(EtcdVerdict, a_message_is_escaped) {
  EXPECT_TRUE(is_printable_utf8(
      failed_call(grpc::Code::unknown, "\x1b[2J\n\xff").failure.what()));
}

TEST(EtcdShare, members_not_yet_tried_get_equal_shares_of_the_time) {
  const Clock::time_point now(100s);

  EXPECT_EQ(share_of(now, now + 3s, 3), now + 1s);
  EXPECT_EQ(share_of(now, now + 3s, 1), now + 3s);
  EXPECT_EQ(share_of(now, now + 500ms, 5), now + 300ms);
  EXPECT_EQ(share_of(now, now + 100ms, 5), now + 100ms);
  EXPECT_EQ(share_of(now, now - 1s, 5), now - 1s);
}

}  // namespace
}  // namespace dlock::etcd
