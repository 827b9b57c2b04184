#include "store/etcd/etcd_health.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "net/budget.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_errors.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/fan_out.hpp"
#include "util/text.hpp"

namespace dlock::etcd {
namespace {

// --- The checks ---

// Major, minor and patch.
using Version = std::array<int, 3>;

// "3.4.23" as three numbers; 0 for each that is missing.
Version version_from(std::string_view text) {
  Version version{};
  for (auto& part : version) {
    const auto number = take_number<int>(text);
    if (!number) break;
    part = *number;
    text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  }
  return version;
}

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

bool lacks_permission(const EtcdFacts& facts) {
  return facts.refuses_work && facts.refuses_work->kind() == Failure::Kind::rejected;
}

// The URL need not name all members, so their number is no majority that is needed.
void reachable(const EtcdFacts& facts, CheckReport& say) {
  const bool refuses_locks = facts.refuses_work && !lacks_permission(facts);
  judge_reachable(servers_of(facts.named), 1, "--listen-client-urls", say,
                  !facts.failure && !refuses_locks);
}

// One finding, or one for each known fault.
void version(const EtcdFacts& facts, CheckReport& say) {
  constexpr Version oldest{3, 4, 0};
  std::set<std::string> found;
  for (const auto& status : statuses_of(facts)) found.insert(status.version);
  if (found.empty()) return say.not_checked(not_reported);
  std::vector<std::string> shown;
  std::vector<std::string> faults;
  bool is_old = false;
  for (const auto& one : found) {
    const auto number = version_from(one);
    shown.push_back(printable(one, 40));
    is_old = is_old || number < oldest;
    for (const auto& [first, mended, what] : known_faults) {
      if (number < first || number >= mended) continue;
      faults.push_back(joined(shown.back(), ": ", what, " (fixed in ", mended[0], ".",
                              mended[1], ".", mended[2], ")"));
    }
  }
  if (is_old || (found.size() == 1 && faults.empty())) {
    return judge_version("etcd " + listed(shown), is_old, "etcd 3.4 or later", say);
  }
  if (faults.empty()) say.info(listed(shown) + ": an upgrade is in progress");
  for (auto& fault : faults) say.warning(std::move(fault), "upgrade etcd");
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
  if (facts.failure && is_refusal(*facts.failure)) {
    return judge_refusal(*facts.failure, "", say);
  }
  if (facts.user.empty()) return say.ok("none, or by client certificate");
  const auto user = "user " + printable(facts.user, 200);
  if (facts.login_is_off) {
    return say.warning("not required: anyone can write to the cluster",
                       "run etcdctl auth enable, or leave out --user");
  }
  if (!facts.login_took) return say.ok(user);
  say.info(
      user + "; each run logs in, which takes a member " + for_people(*facts.login_took),
      "where many runs start at once, log in by certificate (--tls-cert)");
}

void refused(const EtcdFacts& facts, CheckReport& say) {
  if (facts.failure) judge_work(facts.failure->what(), say);
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

bool has_alarm(const EtcdFacts& facts, Alarm::Kind kind) {
  return facts.alarms && std::ranges::count(*facts.alarms, kind, &Alarm::kind) > 0;
}

std::string shown_bytes(std::int64_t bytes) {
  constexpr std::int64_t mebibyte = 1 << 20;
  return joined((bytes + mebibyte - 1) / mebibyte, " MiB");
}

// Versions before 3.6 do not report the quota, so the default is assumed.
void quota(const EtcdFacts& facts, CheckReport& say) {
  constexpr std::int64_t usual_quota = 2LL << 30;
  if (has_alarm(facts, Alarm::Kind::no_space)) {
    return say.error("the database is full: no lock is granted (alarm NOSPACE)",
                     "run etcdctl compact, etcdctl defrag, then etcdctl alarm disarm");
  }
  std::int64_t size = -1;
  for (const auto& status : statuses_of(facts)) size = std::max(size, status.size);
  if (size < 0) return say.not_checked(not_reported);
  const auto message = "the database has " + shown_bytes(size);
  if (size <= usual_quota / 10 * 8) return say.ok(message);
  say.warning(
      message + ", and the default quota is " + shown_bytes(usual_quota),
      "run etcdctl compact and etcdctl defrag, or set a larger --quota-backend-bytes");
}

void alarms(const EtcdFacts& facts, CheckReport& say) {
  if (!facts.alarms) return say.not_checked(not_reported);
  if (has_alarm(facts, Alarm::Kind::corrupt) || has_alarm(facts, Alarm::Kind::other)) {
    return say.error("a member's data differs from the others' (alarm CORRUPT)",
                     "run etcdctl alarm list, and replace that member");
  }
  say.ok(has_alarm(facts, Alarm::Kind::no_space) ? "none but NOSPACE" : "none");
}

void permissions(const EtcdFacts& facts, CheckReport& say) {
  if (lacks_permission(facts)) {
    return say.error(facts.refuses_work->what(),
                     "etcdctl role grant-permission ROLE readwrite --prefix=true " +
                         printable_command({facts.prefix}, 200));
  }
  if (facts.refuses_work) return;
  say.ok("keys that begin with ", printable(facts.prefix, 200),
         " can be read and written");
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
  judge_failover(facts.least_ttl * 4 / 3, "", "the loss of the leader",
                 "set a shorter --election-timeout for etcd, or a longer --ttl", say);
}

void work(const EtcdFacts& facts, CheckReport& say) {
  if (!facts.refuses_work || lacks_permission(facts)) return;
  judge_work(facts.refuses_work->what(), say);
}

void clocks(const EtcdFacts&, CheckReport& say) {
  say.not_checked(
      "etcd does not report its time, and no lease depends on it; --dedupe and "
      "--min-hold use the clocks of the hosts",
      "synchronize the clocks of the hosts (chrony, ntpd)");
}

constexpr Check<EtcdFacts> checks[] = {
    {"reachable", reachable, "", true},
    {"version", version},
    {"leader", leader},
    {"login", login, "", true},
    {"work", refused, "", true},
    {"members", members},
    {"quota", quota},
    {"alarms", alarms},
    {"permissions", permissions},
    {"work", work},
    {"leases", leases},
    {"failover", failover},
    {"clocks", clocks},
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
asio::awaitable<MemberFacts> ask_member(asio::io_context& context, EtcdAccess access,
                                        milliseconds timeout, Wakeup& wakeup) {
  MemberFacts member;
  member.server = access.members.front().shown();
  const auto login = std::exchange(access.login, {});
  for (const bool logs_in : {false, true}) {
    if (logs_in) access.login = login;
    if (member.status || member.failure || (logs_in && login.user.empty())) break;
    EtcdCalls calls(context, access, timeout);
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

class ClusterExaminer {
 public:
  ClusterExaminer(asio::io_context& context, const EtcdAccess& access,
                  milliseconds timeout, EtcdFacts& facts, Wakeup& wakeup)
      : calls_(context, access, timeout), facts_(facts), wakeup_(wakeup) {}

  asio::awaitable<void> examine() {
    try {
      if (!facts_.user.empty()) co_await measure_login();
      auto alarms = co_await ask<AlarmsResult>(calls_, AlarmsRequest{}, wakeup_);
      if (alarms) facts_.alarms = std::move(alarms->alarms);
      auto members = co_await ask<MemberListResult>(calls_, MemberListRequest{}, wakeup_);
      if (members) facts_.members = std::move(members->members);
      co_await try_to_write();
      if (facts_.refuses_work) co_return;
      co_await measure(facts_, new_call().until, [this]() -> asio::awaitable<void> {
        RangeRequest look;
        look.key = facts_.prefix;
        co_await calls_.range(look, new_call());
      });
    } catch (const Failure& failure) {
      facts_.failure = let_pass(failure);
    }
  }

 private:
  Call new_call() { return calls_.new_call(wakeup_); }

  asio::awaitable<void> measure_login() {
    AuthenticateRequest login;
    login.user = facts_.user;
    net::Budget budget(new_call(), calls_.name());
    login.password = co_await password_of(calls_.access(), calls_.context(), budget);
    const auto began = Clock::now();
    const auto result =
        co_await ask<AuthenticateResult>(calls_, std::move(login), wakeup_);
    facts_.login_took = Clock::now() - began;
    facts_.login_is_off = result && result->token.empty();
  }

  // etcd checks permissions and the quota for everything that a transaction might do,
  // even if its condition does not hold.
  asio::awaitable<void> try_to_write() {
    Compare never;
    never.key = facts_.prefix;
    never.number = -1;
    PutRequest put;
    put.key = facts_.prefix;
    DeleteRequest deletion;
    deletion.key = facts_.prefix + ".";  // a key may occur only once
    TxnRequest txn;
    txn.conditions.push_back(never);
    txn.then.emplace_back(std::move(put));
    txn.then.emplace_back(std::move(deletion));
    LeaseGrantRequest shortest;
    shortest.ttl = 1;
    try {
      co_await calls_.txn(std::move(txn), new_call());
      const auto granted = co_await calls_.lease_grant(shortest, new_call());
      facts_.least_ttl = least_ttl_from(granted.ttl);
      const LeaseKeepAliveRequest keep{granted.id};
      const auto alive = co_await calls_.lease_keep_alive(keep, new_call());
      facts_.answers_keep_alive = !alive.is_unanswered && alive.term != 0;
      LeaseRevokeRequest back;
      back.id = granted.id;
      co_await calls_.lease_revoke(back, new_call());
    } catch (const Failure& failure) {
      facts_.refuses_work = let_pass(failure);
      const bool is_about_login =
          lacks_permission(facts_) && !is_permission_denied(failure);
      if (is_about_login) throw;
    }
  }

  EtcdCalls calls_;
  EtcdFacts& facts_;
  Wakeup& wakeup_;
};

}  // namespace

milliseconds least_ttl_from(std::int64_t seconds) {
  constexpr std::int64_t most = 24 * 3600;  // more than any cluster asks for
  return std::chrono::seconds(seconds < 1 || seconds > most ? 0 : seconds);
}

std::vector<Finding> findings_of(const EtcdFacts& facts) { return judged(checks, facts); }

asio::awaitable<Examination> examine(const ExaminationOrder& order,
                                     asio::io_context& context, Wakeup& wakeup) {
  auto access = access_of(order.url);
  const auto ask_one = [loop = &context, access, timeout = order.timeout](
                           std::size_t number, Wakeup& own) {
    EtcdAccess only = access;
    only.members.assign(1, access.members[number]);
    return ask_member(*loop, std::move(only), timeout, own);
  };
  EtcdFacts facts;
  facts.named =
      co_await ask_all<MemberFacts>(context, access.members.size(), ask_one, wakeup);
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
    ClusterExaminer examiner(context, access, order.timeout, facts, wakeup);
    co_await examiner.examine();
  }
  co_return examination_of(findings_of(facts), {facts});
}

}  // namespace dlock::etcd
