#include "store/etcd/etcd_health.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "store/etcd/etcd_calls.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_errors.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/fan_out.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

// --- The checks ---

// etcd issue 20418, pull requests 21399 (a read index is used again) and 21375 (a read
// index and a change of the leader).
constexpr std::string_view old_reads =
    "a read can return old data after a member was paused or the leader changed; runs do "
    "not rely on reads, but status, list and history can show an old state";

// etcd issue 15247, pull request 16822.
constexpr std::string_view revoked_leases =
    "a former leader can revoke leases that were renewed since, and a run loses its lock";

// etcd pull request 13854 and the changelog of 3.5.3.
constexpr std::string_view lost_writes =
    "a member that crashes under load can lose acknowledged writes";

// The versions from the first on have the fault, up to the one of the same minor version
// that mends it.
constexpr std::tuple<Version, Version, std::string_view> known_faults[] = {
    {{3, 4, 20}, {3, 4, 42}, old_reads},     {{3, 5, 0}, {3, 5, 28}, old_reads},
    {{3, 6, 0}, {3, 6, 9}, old_reads},       {{3, 4, 0}, {3, 4, 31}, revoked_leases},
    {{3, 5, 0}, {3, 5, 13}, revoked_leases}, {{3, 5, 0}, {3, 5, 3}, lost_writes},
};

// Some versions since 3.5.28 report it only to the role root (etcd issue 21663).
constexpr const char* not_reported = "etcd does not report it to this user";

std::vector<StatusResult> statuses_of(const EtcdFacts& facts) {
  std::vector<StatusResult> all;
  for (const auto& member : facts.named) {
    if (member.status) all.push_back(*member.status);
  }
  return all;
}

// The URL need not name all members, so their number is no majority that is needed.
void reachable(const EtcdFacts& facts, CheckReport& say) {
  judge_reachable(servers_of(facts.named), 1, "--listen-client-urls", say,
                  !facts.failure || facts.is_denied);
}

// One finding, or one for each known fault.
void version(const EtcdFacts& facts, CheckReport& say) {
  std::set<std::string> found;
  for (const auto& one : statuses_of(facts)) found.insert(printable(one.version, 40));
  if (found.empty()) return say.not_checked(not_reported);
  const auto all = listed({found.begin(), found.end()});
  bool has_fault = false;
  for (const auto& one : found) {
    const auto version = version_in(one);
    if (version < Version{3, 4}) {
      return judge_version("etcd " + all, true, "etcd 3.4 or later", say);
    }
    for (const auto& [first, mended, what] : known_faults) {
      if (version < first || version >= mended) continue;
      has_fault = true;
      say.warning(joined(one, ": ", what, " (fixed in ", mended[0], ".", mended[1], ".",
                         mended[2], ")"),
                  "upgrade etcd");
    }
  }
  if (has_fault) return;
  if (found.size() == 1) return say.ok("etcd ", all);
  say.info(all + ": an upgrade is in progress");
}

void leader(const EtcdFacts& facts, CheckReport& say) {
  std::set<std::uint64_t> leaders;
  for (const auto& member : facts.named) {
    if (!member.status) continue;
    if (member.status->leader == 0) {
      return say.error(member.server + " has no leader",
                       "restore members until more than half of them run");
    }
    leaders.insert(member.status->leader);
  }
  if (leaders.empty()) return say.not_checked(not_reported);
  if (leaders.size() == 1) return say.ok("all members agree");
  say.warning("members follow different leaders: an election, or two clusters in one URL",
              "run doctor again; then check that all servers are members of one cluster");
}

void login(const EtcdFacts& facts, CheckReport& say) {
  if (facts.failure && !facts.is_denied && is_refusal(*facts.failure)) {
    return judge_refusal(*facts.failure, say);
  }
  if (facts.user.empty()) return say.ok("none, or by client certificate");
  const auto user = "user " + printable(facts.user, 200);
  if (facts.login_is_off) {
    return say.warning("not required: anyone can write to the cluster",
                       "run etcdctl auth enable, or leave out --user");
  }
  say.info(user + "; each run logs in",
           "where many runs start at once, log in by certificate (--tls-cert)");
}

void members(const EtcdFacts& facts, CheckReport& say) {
  const auto voting =
      std::ranges::count(facts.members, false, &ClusterMember::is_learner);
  if (voting == 0) return say.not_checked("the cluster does not list them");
  const auto message = joined(voting, ", of which ", (voting - 1) / 2, " may fail");
  if (voting < 3) {
    return say.level(voting == 1 ? Finding::Level::info : Finding::Level::warning,
                     message, "run three or five, each on its own machine");
  }
  if (facts.named.size() >= facts.members.size()) return say.ok(message);
  say.info(joined(message, "; the URL names ", facts.named.size()),
           "name all of them in the URL, so that any of them may fail");
}

// Versions before 3.6 do not report the quota, so the default is assumed.
void quota(const EtcdFacts& facts, CheckReport& say) {
  constexpr std::uint64_t usual_quota = 2ULL << 30;
  const auto statuses = statuses_of(facts);
  if (statuses.empty()) return say.not_checked(not_reported);
  std::uint64_t size = 0;
  for (const auto& one : statuses) {
    size = std::max(size, static_cast<std::uint64_t>(one.size));
  }
  const auto message = "the database has " + shown_size(size);
  if (size <= usual_quota / 10 * 8) return say.ok(message);
  say.warning(
      message + ", and the default quota is " + shown_size(usual_quota),
      "run etcdctl compact and etcdctl defrag, or set a larger --quota-backend-bytes");
}

void alarms(const EtcdFacts& facts, CheckReport& say) {
  if (!facts.alarms) return say.not_checked(not_reported);
  for (const auto& alarm : *facts.alarms) {
    if (alarm.kind == Alarm::Kind::no_space) {
      return say.error("the database is full: no lock is granted (alarm NOSPACE)",
                       "run etcdctl compact, etcdctl defrag, then etcdctl alarm disarm");
    }
    if (alarm.kind == Alarm::Kind::none) continue;
    return say.error("a member's data differs from the others' (alarm CORRUPT)",
                     "run etcdctl alarm list, and replace that member");
  }
  say.ok("none");
}

void permissions(const EtcdFacts& facts, CheckReport& say) {
  const auto prefix = printable_command({facts.prefix}, 200);
  if (facts.is_denied) {
    return say.error(
        facts.failure->what(),
        "etcdctl role grant-permission ROLE readwrite --prefix=true " + prefix);
  }
  if (facts.failure) return;
  say.ok("keys that begin with ", prefix, " can be read and written");
}

void work(const EtcdFacts& facts, CheckReport& say) {
  if (facts.failure && !facts.is_denied) judge_work(facts.failure->what(), say);
}

void leases(const EtcdFacts& facts, CheckReport& say) {
  if (facts.least_ttl.count() == 0) return say.not_checked("no lease was granted");
  if (!facts.answers_keep_alive) {
    return say.warning(
        "keep-alives are not answered, as behind etcd grpc-proxy: each renewal takes a "
        "new lease, which is three writes instead of one",
        "name the members themselves in the URL");
  }
  say.ok("the shortest lease is " + for_people(facts.least_ttl) +
         ": the cluster keeps a lease that long even if --ttl is shorter");
}

// The shortest ttl is one and a half times the election timeout, rounded up, and a member
// begins an election after at most twice that timeout.
void failover(const EtcdFacts& facts, CheckReport& say) {
  if (facts.least_ttl.count() == 0 || facts.members.size() < 3) {
    return say.not_checked("no other members can take over");
  }
  judge_failover(facts.least_ttl * 4 / 3, "election-timeout",
                 "set a shorter --election-timeout for etcd, or a longer --ttl", say,
                 milliseconds(0));
}

constexpr Check<EtcdFacts> checks[] = {
    {"reachable", reachable, "", true},
    {"version", version},
    {"leader", leader},
    {"login", login, "", true},
    {"members", members},
    {"quota", quota},
    {"alarms", alarms},
    {"permissions", permissions},
    {"work", work, "", true},
    {"leases", leases},
    {"failover", failover},
};

// --- The questions ---

// Nothing if it may not be told to this user.
template <typename Answer, typename Question>
asio::awaitable<std::optional<Answer>> ask(EtcdCalls& calls, Question question,
                                           Wakeup& wakeup, bool has_login = true) {
  try {
    const auto call = calls.new_call(wakeup);
    co_return co_await calls.ask<Answer>(std::move(question), call);
  } catch (const Failure& failure) {
    const bool is_login = !has_login && is_login_required(failure);
    if (!is_permission_denied(failure) && !is_login) throw;
  }
  co_return std::nullopt;
}

// The only member of `access`: without a login, which may need the other members; if the
// member requires one, with it.
asio::awaitable<MemberFacts> ask_member(const ExaminationOrder& order, EtcdAccess access,
                                        Wakeup& wakeup) {
  MemberFacts member;
  member.server = access.members.front().shown();
  const auto login = std::exchange(access.login, {});
  for (const bool logs_in : {false, true}) {
    if (logs_in) access.login = login;
    if (member.status || member.failure || (logs_in && login.user.empty())) break;
    EtcdCalls calls(order.context, access, order.timeout);
    try {
      member.status = co_await ask<StatusResult>(calls, StatusRequest{}, wakeup, false);
    } catch (const Failure& failure) {
      // A member that has replied is there; a login that is refused is asked for later.
      const auto fact = let_pass(failure);
      if (!logs_in) member.failure = fact;
    }
  }
  co_return member;
}

struct ClusterExaminer {
  EtcdCalls calls;
  EtcdFacts& facts;
  Wakeup& wakeup;

  asio::awaitable<void> examine() {
    try {
      auto alarms = co_await ask<AlarmsResult>(calls, AlarmsRequest{}, wakeup);
      if (alarms) facts.alarms = std::move(alarms->alarms);
      auto members = co_await ask<MemberListResult>(calls, MemberListRequest{}, wakeup);
      if (members) facts.members = std::move(members->members);
      facts.login_is_off = !calls.logs_in();
      co_await try_to_write();
      co_await measure(facts, new_call().until, [this]() -> asio::awaitable<void> {
        RangeRequest look;
        look.key = facts.prefix;
        co_await calls.range(look, new_call());
      });
    } catch (const Failure& failure) {
      facts.failure = let_pass(failure);
      facts.is_denied = is_permission_denied(failure);
    }
  }

  Call new_call() { return calls.new_call(wakeup); }

  // etcd checks permissions and the quota for everything that a transaction might do,
  // even if its condition does not hold.
  asio::awaitable<void> try_to_write() {
    Compare never;
    never.key = facts.prefix;
    never.number = -1;
    PutRequest put;
    put.key = facts.prefix;
    DeleteRequest deletion;
    deletion.key = facts.prefix + ".";  // a key may occur only once
    TxnRequest txn;
    txn.conditions.push_back(never);
    txn.then.emplace_back(std::move(put));
    txn.then.emplace_back(std::move(deletion));
    LeaseGrantRequest shortest;
    shortest.ttl = 1;
    co_await calls.txn(std::move(txn), new_call());
    const auto granted = co_await calls.lease_grant(shortest, new_call());
    facts.least_ttl = least_ttl_from(granted.ttl);
    const LeaseKeepAliveRequest keep{granted.id};
    const auto alive = co_await calls.lease_keep_alive(keep, new_call());
    facts.answers_keep_alive = !alive.is_unanswered && alive.term != 0;
    LeaseRevokeRequest back;
    back.id = granted.id;
    co_await calls.lease_revoke(back, new_call());
  }
};

}  // namespace

milliseconds least_ttl_from(std::int64_t seconds) {
  constexpr std::int64_t most = 24 * 3600;  // more than any cluster asks for
  return std::chrono::seconds(seconds < 1 || seconds > most ? 0 : seconds);
}

Examination examination_of(const EtcdFacts& facts) { return judged(checks, facts); }

asio::awaitable<Examination> examine(const ExaminationOrder& order) {
  auto access = access_of(order.url);
  const auto ask_one = [order, access](std::size_t number, Wakeup& own) {
    EtcdAccess only = access;
    only.members.assign(1, access.members[number]);
    return ask_member(order, std::move(only), own);
  };
  EtcdFacts facts;
  facts.named = co_await ask_all<MemberFacts>(order.context, access.members.size(),
                                              ask_one, order.wakeup);
  facts.user = access.login.user;
  facts.prefix = namespace_prefix(order.name_space);
  // To connect, and to ask.
  facts.trips_to_renew = 2 + (access.tls ? 2 : 0) + (facts.user.empty() ? 0 : 1);
  facts.store_timeout = order.store_timeout;
  // Those that have not replied would cost time.
  const auto members = std::exchange(access.members, {});
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!facts.named[i].failure) access.members.push_back(members[i]);
  }
  if (!access.members.empty()) {
    ClusterExaminer examiner{{order.context, access, order.timeout}, facts, order.wakeup};
    co_await examiner.examine();
  }
  co_return examination_of(facts);
}

}  // namespace dlock::etcd
