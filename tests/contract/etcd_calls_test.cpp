// Calls to etcd, with real members and with servers that misbehave.

#include "store/etcd/etcd_calls.hpp"

#include <gtest/gtest.h>

#include "store/etcd/etcd_claimant.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/etcd_server.hpp"
#include "tests/contract/peer.hpp"

namespace dlock::etcd {
namespace {

using namespace std::string_literals;
using std::chrono::seconds;

constexpr std::int64_t lease = 4711;

TxnRequest put_of(const std::string& key, const std::string& value,
                  std::int64_t of_lease = 0) {
  PutRequest put;
  put.key = key;
  put.value = value;
  put.lease = of_lease;
  TxnRequest txn;
  txn.then.emplace_back(std::move(put));
  return txn;
}

RangeRequest look_at(const std::string& key) {
  RangeRequest range;
  range.key = key;
  return range;
}

WatchRequest watch_of(const std::string& key) {
  WatchRequest watch;
  watch.key = key;
  return watch;
}

class EtcdMembers : public ::testing::Test {
 protected:
  Call soon(milliseconds span = seconds(5)) { return wakeup_.within(span); }

  std::string value_of(EtcdCalls& calls, const std::string& key) {
    const auto found = result_of(context_, calls.range(look_at(key), soon()));
    return found.pairs.size() == 1 ? found.pairs.front().value : "";
  }

  TxnResult put(EtcdCalls& calls, const std::string& key, const std::string& value,
                std::int64_t of_lease = 0) {
    return result_of(context_, calls.txn(put_of(key, value, of_lease), soon()));
  }

  // The failure of a range request.
  Failure failure_of(EtcdCalls& calls, milliseconds budget = seconds(5)) {
    try {
      result_of(context_, calls.range(look_at("any"), soon(budget)));
    } catch (const Failure& failure) {
      return failure;
    }
    ADD_FAILURE() << "it did not fail";
    return Failure(Failure::Kind::unreachable, "");
  }

  static EtcdAccess to(const PeerServer& server) {
    EtcdAccess access;
    access.members.push_back({"127.0.0.1", server.port()});
    return access;
  }

  asio::io_context context_;
  Wakeup wakeup_{context_};
};

class OneEtcd : public EtcdMembers {
 protected:
  static void SetUpTestSuite() { servers_ = std::make_unique<EtcdServers>(1); }
  static void TearDownTestSuite() { servers_.reset(); }

  EtcdCalls calls_{context_, servers_->access(), seconds(2)};
  static inline std::unique_ptr<EtcdServers> servers_;
};

TEST_F(OneEtcd, a_transaction_takes_the_branch_of_its_condition) {
  auto txn = put_of("conditional", "first");
  Compare absent;
  absent.key = "conditional";
  txn.conditions.push_back(absent);
  txn.otherwise.emplace_back(look_at("conditional"));

  const auto first = result_of(context_, calls_.txn(txn, soon()));
  const auto second = result_of(context_, calls_.txn(txn, soon()));

  EXPECT_TRUE(first.succeeded);
  EXPECT_FALSE(second.succeeded);
  const auto& found = std::get<RangeResult>(second.results.at(0)).pairs.at(0);
  EXPECT_EQ(found.value, "first");
  EXPECT_EQ(found.create_revision, first.revision);
  EXPECT_GT(second.term, 0U);
}

TEST_F(OneEtcd, the_term_of_a_lease_is_known_if_the_reply_before_told_it) {
  EtcdCalls calls(context_, servers_->access(), seconds(2));
  const auto grant = [&](std::int64_t id) {
    const LeaseGrantRequest request{id, 60};
    return result_of(context_, calls.lease_grant(request, soon())).term;
  };
  EXPECT_FALSE(calls.knows_term());

  EXPECT_EQ(grant(lease + 1001), 0U);
  EXPECT_TRUE(calls.knows_term());
  const auto term = put(calls, "any", "value").term;
  EXPECT_GT(term, 0U);
  EXPECT_EQ(grant(lease + 1002), term);
}

TEST_F(OneEtcd, a_range_that_is_cut_says_how_many_keys_there_are) {
  for (const std::string key : {"order/b", "order/a", "order/c"}) put(calls_, key, "");

  RangeRequest range = look_at("order/");
  range.range_end = end_of_prefix(range.key);
  range.limit = 2;
  const auto found = result_of(context_, calls_.range(range, soon()));

  ASSERT_EQ(found.pairs.size(), 2U);
  EXPECT_EQ(found.pairs[0].key + found.pairs[1].key, "order/aorder/b");
  EXPECT_TRUE(found.more);
  EXPECT_EQ(found.count, 3);
}

TEST_F(OneEtcd, a_lease_exists_until_it_is_revoked) {
  const auto granted = result_of(context_, calls_.lease_grant({lease, 30}, soon()));
  const auto again = result_of(context_, calls_.lease_grant({lease, 30}, soon()));
  put(calls_, "leased", "value", lease);
  const auto kept = result_of(context_, calls_.lease_keep_alive({lease}, soon()));

  EXPECT_FALSE(granted.exists);
  EXPECT_EQ(granted.id, lease);
  EXPECT_EQ(granted.ttl, 30);
  EXPECT_TRUE(again.exists);
  EXPECT_EQ(kept.ttl, 30);
  EXPECT_GT(kept.term, 0U);

  EXPECT_TRUE(result_of(context_, calls_.lease_revoke({lease}, soon())).was_there);

  EXPECT_FALSE(result_of(context_, calls_.lease_revoke({lease}, soon())).was_there);
  EXPECT_EQ(result_of(context_, calls_.lease_keep_alive({lease}, soon())).ttl, 0);
  EXPECT_EQ(value_of(calls_, "leased"), "");
}

TEST_F(OneEtcd, each_request_for_a_lease_without_an_id_is_granted_another_one) {
  const auto grant = [&] {
    return result_of(context_, calls_.lease_grant({0, 30}, soon())).id;
  };
  const auto first = grant();
  const auto second = grant();

  EXPECT_NE(first, 0);
  EXPECT_NE(second, 0);
  EXPECT_NE(first, second);
}

// As if the reply about the move had been lost.
TEST_F(OneEtcd, a_renewal_ends_the_lease_that_its_entry_has_no_longer) {
  Claim claim;
  claim.lock = {"dlock", "moved"};
  claim.token.bytes[0] = 1;
  claim.ttl = seconds(30);
  const auto claimant = claimant_of(calls_, claim);
  const auto answer = result_of(context_, claimant->ask(Queue::stay_out, wakeup_));
  ASSERT_TRUE(std::holds_alternative<Grant>(answer));
  RangeRequest entries;
  entries.key = "dlock/moved/";
  entries.range_end = "dlock/moved0";
  const auto entry = [&] {
    return result_of(context_, calls_.range(entries, soon())).pairs.at(0);
  };
  const auto before = entry();
  const auto fresh = result_of(context_, calls_.lease_grant({0, 30}, soon())).id;
  put(calls_, before.key, before.value, fresh);

  const auto renewal = result_of(context_, claimant->renew(wakeup_));

  EXPECT_EQ(renewal, Renewal::confirmed);
  const auto left = [&](std::int64_t of) {
    return result_of(context_, calls_.lease_keep_alive({of}, soon())).ttl;
  };
  EXPECT_EQ(left(before.lease), 0);
  EXPECT_GT(left(entry().lease), 0);
}

TEST_F(OneEtcd, a_put_with_a_missing_lease_fails_and_writes_nothing) {
  const auto result = put(calls_, "orphan", "value", lease + 1);

  EXPECT_TRUE(result.lease_gone);
  EXPECT_EQ(value_of(calls_, "orphan"), "");
}

TEST_F(OneEtcd, concurrent_requests_are_answered_in_their_order) {
  put(calls_, "together", "value");
  std::vector<Request> requests;
  requests.emplace_back(look_at("together"));
  requests.emplace_back(LeaseKeepAliveRequest{lease + 2});
  requests.emplace_back(MemberListRequest{});
  requests.emplace_back(AlarmsRequest{});

  const auto results = result_of(context_, calls_.together(requests, soon()));

  EXPECT_EQ(std::get<RangeResult>(results.at(0)).pairs.at(0).value, "value");
  EXPECT_EQ(std::get<LeaseKeepAliveResult>(results.at(1)).ttl, 0);
  EXPECT_EQ(std::get<MemberListResult>(results.at(2)).members.size(), 1U);
  EXPECT_TRUE(std::get<AlarmsResult>(results.at(3)).alarms.empty());
}

TEST_F(OneEtcd, messages_larger_than_the_flow_control_window_go_both_ways) {
  const std::string large(300'000, 'x');

  for (const std::string key : {"large/1", "large/2", "large/3", "large/4", "large/5"}) {
    put(calls_, key, large);
  }
  RangeRequest range = look_at("large/");
  range.range_end = end_of_prefix(range.key);
  const auto found = result_of(context_, calls_.range(range, soon()));

  ASSERT_EQ(found.pairs.size(), 5U);
  for (const auto& pair : found.pairs) EXPECT_EQ(pair.value, large);
}

TEST_F(OneEtcd, a_watch_reports_events_while_its_connection_carries_calls) {
  KeyWatch watch(calls_);
  result_of(context_, watch.start(watch_of("watched"), soon()));
  const auto quiet = result_of(context_, watch.next(soon(milliseconds(20))));

  put(calls_, "watched", "value");
  put(calls_, "other", "value");
  const auto update = result_of(context_, watch.next(soon()));

  EXPECT_EQ(quiet.kind, WatchUpdate::Kind::nothing);
  ASSERT_EQ(update.kind, WatchUpdate::Kind::events);
  ASSERT_EQ(update.events.size(), 1U);
  EXPECT_EQ(update.events[0].kind, KeyChange::Kind::put);
  EXPECT_EQ(update.events[0].pair.value, "value");
}

TEST_F(OneEtcd, a_watch_can_report_deletions_alone) {
  put(calls_, "deleted", "old");
  auto deletions = watch_of("deleted");
  deletions.no_put = true;
  KeyWatch watch(calls_);
  result_of(context_, watch.start(deletions, soon()));

  put(calls_, "deleted", "new");
  DeleteRequest deletion;
  deletion.key = "deleted";
  TxnRequest txn;
  txn.then.emplace_back(deletion);
  result_of(context_, calls_.txn(txn, soon()));
  const auto update = result_of(context_, watch.next(soon()));

  ASSERT_EQ(update.kind, WatchUpdate::Kind::events);
  ASSERT_EQ(update.events.size(), 1U);
  EXPECT_EQ(update.events[0].kind, KeyChange::Kind::deletion);
  EXPECT_EQ(update.events[0].pair.key, "deleted");
}

TEST_F(OneEtcd, a_watch_from_a_revision_reports_everything_since) {
  const auto first = put(calls_, "since", "1").revision;
  put(calls_, "since", "2");
  auto request = watch_of("since");
  request.start_revision = first;
  KeyWatch watch(calls_);

  result_of(context_, watch.start(request, soon()));
  const auto update = result_of(context_, watch.next(soon()));

  ASSERT_EQ(update.events.size(), 2U);
  EXPECT_EQ(update.events[0].pair.value + update.events[1].pair.value, "12");
}

TEST_F(OneEtcd, an_interrupted_wait_leaves_the_watch_and_its_connection_intact) {
  KeyWatch watch(calls_);
  result_of(context_, watch.start(watch_of("interrupted"), soon()));
  Task<WatchUpdate> waiting(context_, watch.next(soon()));
  context_.restart();
  context_.run_for(milliseconds(5));
  wakeup_.give_up(true);
  try {
    waiting.result();
    ADD_FAILURE() << "not interrupted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::interrupted);
  }
  wakeup_.give_up(false);

  put(calls_, "interrupted", "value");

  EXPECT_EQ(result_of(context_, watch.next(soon())).kind, WatchUpdate::Kind::events);
}

// A waiter may be destroyed before its connection.
TEST_F(OneEtcd, the_current_waiter_is_woken_and_not_an_earlier_one) {
  KeyWatch watch(calls_);
  {
    Wakeup first(context_);
    result_of(context_, watch.start(watch_of("handed"), first.within(seconds(5))));
    result_of(context_, watch.next(first.within(milliseconds(5))));
  }
  EtcdCalls other(context_, servers_->access(), seconds(2));
  Task<WatchUpdate> waiting(context_, watch.next(soon()));
  const auto began = Clock::now();

  put(other, "handed", "value");

  EXPECT_EQ(waiting.result().kind, WatchUpdate::Kind::events);
  EXPECT_LT(Clock::now() - began, seconds(2));
}

TEST_F(OneEtcd, a_restarted_server_is_connected_to_again) {
  EtcdServers servers(1);
  EtcdCalls calls(context_, servers.access(), seconds(5));
  put(calls, "kept", "value");
  KeyWatch watch(calls);
  result_of(context_, watch.start(watch_of("kept"), soon()));

  servers.kill(0);
  servers.restart(0);

  EXPECT_EQ(value_of(calls, "kept"), "value");
  EXPECT_TRUE(watch.is_broken());
  EXPECT_EQ(result_of(context_, watch.next(soon())).kind, WatchUpdate::Kind::broken);
}

TEST_F(EtcdMembers, the_next_member_answers_for_one_that_is_dead_or_stopped) {
  EtcdServers servers(3);
  const auto leader = servers.leader();
  ASSERT_LT(leader, servers.size());
  EtcdCalls calls(context_, servers.access((leader + 1) % 3), seconds(2));
  put(calls, "asked", "value");

  servers.send((leader + 1) % 3, SIGSTOP);
  EXPECT_EQ(value_of(calls, "asked"), "value");
  servers.send((leader + 1) % 3, SIGCONT);
  servers.kill((leader + 2) % 3);

  EXPECT_EQ(value_of(calls, "asked"), "value");
}

TEST_F(EtcdMembers, a_member_of_another_cluster_does_not_answer_for_the_first_one) {
  EtcdServers first(1);
  const EtcdServers second(1);
  auto access = first.access();
  access.members.push_back(second.access().members.front());
  EtcdCalls calls(context_, access, seconds(2));
  put(calls, "asked", "value");

  first.kill(0);
  const auto failure = failure_of(calls, milliseconds(1500));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_NE(std::string(failure.what()).find("in another cluster"), std::string::npos)
      << failure.what();
}

TEST_F(EtcdMembers, a_minority_grants_nothing_and_says_why) {
  EtcdServers servers(3);
  const auto leader = servers.leader();
  EtcdCalls calls(context_, servers.access(leader), seconds(2));
  put(calls, "before", "value");

  servers.kill((leader + 1) % 3);
  servers.kill((leader + 2) % 3);
  const auto failure = failure_of(calls, milliseconds(1500));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
}

TEST_F(EtcdMembers, an_unavailable_cluster_is_reported_within_the_budget) {
  EtcdAccess access;
  access.members.push_back(
      {"127.0.0.1", static_cast<std::uint16_t>(std::stoul(free_port()))});
  EtcdCalls calls(context_, access, seconds(2));
  const auto began = Clock::now();

  const auto failure = failure_of(calls, milliseconds(500));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_NE(std::string(failure.what()).find("connection refused"), std::string::npos)
      << failure.what();
  EXPECT_LT(Clock::now() - began, milliseconds(1500));
}

TEST_F(EtcdMembers, a_silent_server_is_a_failure_when_the_budget_is_over) {
  const PeerServer silent([](const Peer& peer) { peer.read_all(); });
  EtcdCalls calls(context_, to(silent), seconds(2));

  const auto failure = failure_of(calls, milliseconds(400));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_NE(std::string(failure.what()).find("did not reply within"), std::string::npos)
      << failure.what();
}

TEST_F(EtcdMembers, a_server_of_another_protocol_is_refused) {
  const PeerServer other([](const Peer& peer) {
    peer.send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    peer.read_all();
  });
  EtcdCalls calls(context_, to(other), seconds(2));

  const auto failure = failure_of(calls, milliseconds(400));

  EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  EXPECT_NE(std::string(failure.what()).find("does not speak HTTP/2"), std::string::npos)
      << failure.what();
}

TEST_F(EtcdMembers, a_call_without_a_reply_is_repeated_for_as_long_as_it_may_take) {
  // Listens, reads the call, and closes the connection.
  const PeerServer hangs_up([](const Peer& peer) { peer.read_until("any"); });
  EtcdCalls calls(context_, to(hangs_up), seconds(2));

  EXPECT_THROW(
      result_of(context_, calls.txn(put_of("k", "any"), soon(milliseconds(800)))),
      Failure);

  EXPECT_GT(hangs_up.connections(), 1);
}

}  // namespace
}  // namespace dlock::etcd
