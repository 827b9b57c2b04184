#include "store/etcd/etcd_health.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "store/checks.hpp"
#include "util/text.hpp"

namespace dlock::etcd {

namespace {

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

constexpr KnownFault table[] = {
    {{3, 4, 20}, {3, 4, 42}, old_reads},     {{3, 5, 0}, {3, 5, 28}, old_reads},
    {{3, 6, 0}, {3, 6, 9}, old_reads},       {{3, 4, 0}, {3, 4, 31}, revoked_leases},
    {{3, 5, 0}, {3, 5, 13}, revoked_leases}, {{3, 5, 0}, {3, 5, 3}, lost_writes},
};

}  // namespace

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

std::string text_of(const Version& version) {
  return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
         std::to_string(version[2]);
}

std::vector<KnownFault> known_faults_of(const Version& version) {
  std::vector<KnownFault> found;
  std::copy_if(std::begin(table), std::end(table), std::back_inserter(found),
               [&](const KnownFault& fault) {
                 return fault.first <= version && version < fault.mended;
               });
  return found;
}

namespace {

using Level = Finding::Level;
using std::chrono::seconds;

std::size_t count_reached(const EtcdFacts& facts) {
  return static_cast<std::size_t>(
      std::count_if(facts.named.begin(), facts.named.end(),
                    [](const MemberFacts& one) { return !one.failure; }));
}

Finding reachable(const EtcdFacts& facts) {
  Reached reached;
  for (const auto& member : facts.named) reached.failures.push_back(member.failure);
  reached.advice_if_too_few =
      "check that etcd runs there and that this machine can reach its client port";
  reached.advice = "locks work while most members do: restore the others";
  return reached_finding("reachable", reached);
}

Finding login(const EtcdFacts& facts) {
  if (facts.user.empty()) {
    return {"login", Level::ok, "none, or by client certificate", ""};
  }
  const auto user = "user " + printable(facts.user, 200);
  if (facts.login_is_off) {
    return {"login", Level::warning, "not required: anyone can write to the cluster",
            "run etcdctl auth enable, or leave out --user"};
  }
  if (!facts.login_took) return {"login", Level::ok, user, ""};
  return {
      "login", Level::info,
      user + "; each run logs in, which takes a member " + for_people(*facts.login_took),
      "where many runs start at once, log in by certificate (--tls-cert)"};
}

// Some versions since 3.5.28 report it only to the role root (etcd issue 21663).
Finding not_reported(const std::string& check) {
  return not_checked(check, "etcd does not report it to this user");
}

Finding fault_finding(const std::string& version, const KnownFault& fault) {
  return {"version", Level::warning,
          printable(version, 40) + ": " + std::string(fault.what) + " (mended in " +
              text_of(fault.mended) + ")",
          "upgrade etcd"};
}

// One finding, or one for each known fault.
std::vector<Finding> versions(const EtcdFacts& facts) {
  constexpr Version oldest{3, 4, 0};
  std::set<std::string> found;
  for (const auto& member : facts.named) {
    if (member.status) found.insert(member.status->version);
  }
  if (found.empty()) return {not_reported("version")};
  std::string message;
  std::vector<Finding> faults;
  for (const auto& one : found) {
    message += (message.empty() ? "" : ", ") + printable(one, 40);
    for (const auto& fault : known_faults_of(version_from(one)))
      faults.push_back(fault_finding(one, fault));
  }
  const bool is_old = std::any_of(found.begin(), found.end(), [&](const auto& one) {
    return version_from(one) < oldest;
  });
  if (is_old) {
    return {{"version", Level::error, message + ": dlock needs 3.4 or later",
             "upgrade etcd"}};
  }
  if (!faults.empty()) return faults;
  if (found.size() > 1) {
    return {{"version", Level::info, message + ": an upgrade is in progress", ""}};
  }
  return {{"version", Level::ok, message, ""}};
}

Finding leader(const EtcdFacts& facts) {
  std::set<std::uint64_t> leaders;
  for (const auto& member : facts.named) {
    if (!member.status) continue;
    if (member.status->leader == 0) {
      return {"leader", Level::error, member.server + " has no leader",
              "restore members until more than half of them run"};
    }
    leaders.insert(member.status->leader);
  }
  if (leaders.empty()) return not_reported("leader");
  if (leaders.size() > 1) {
    return {"leader", Level::warning,
            "members follow different leaders: an election, or two clusters in one URL",
            "run doctor again; then check that all servers are members of one cluster"};
  }
  return {"leader", Level::ok, "all members agree", ""};
}

Finding members(const EtcdFacts& facts) {
  const auto voting = static_cast<std::size_t>(
      std::count_if(facts.members.begin(), facts.members.end(),
                    [](const ClusterMember& one) { return !one.is_learner; }));
  if (voting == 0) {
    return not_checked("members", "the cluster does not list them");
  }
  auto message = std::to_string(voting) + ", of which " +
                 std::to_string((voting - 1) / 2) + " may fail";
  if (voting < 3) {
    return {"members", voting == 1 ? Level::info : Level::warning, message,
            "run three or five, each on its own machine"};
  }
  if (facts.named.size() < facts.members.size()) {
    return {"members", Level::info,
            message + "; the URL names " + std::to_string(facts.named.size()),
            "name all of them in the URL, so that any of them may fail"};
  }
  return {"members", Level::ok, message, ""};
}

std::string shown_bytes(std::int64_t bytes) {
  constexpr std::int64_t mebibyte = 1 << 20;
  return std::to_string((bytes + mebibyte - 1) / mebibyte) + " MiB";
}

// Versions before 3.6 do not report the quota, so the default is assumed.
Finding quota(const EtcdFacts& facts) {
  for (const auto& alarm : facts.alarms.value_or(std::vector<Alarm>())) {
    if (alarm.kind != Alarm::Kind::no_space) continue;
    return {"quota", Level::error,
            "the database is full: no lock is granted (alarm NOSPACE)",
            "run etcdctl compact, etcdctl defrag, then etcdctl alarm disarm"};
  }
  constexpr std::int64_t usual_quota = 2LL << 30;
  std::optional<std::int64_t> largest;
  for (const auto& member : facts.named) {
    if (member.status) largest = std::max(largest.value_or(0), member.status->size);
  }
  if (!largest) return not_reported("quota");
  const auto size = *largest;
  const auto message = "the database has " + shown_bytes(size);
  if (size > usual_quota / 10 * 8) {
    return {
        "quota", Level::warning,
        message + ", and the default quota is " + shown_bytes(usual_quota),
        "run etcdctl compact and etcdctl defrag, or set a larger --quota-backend-bytes"};
  }
  return {"quota", Level::ok, message, ""};
}

Finding alarms(const EtcdFacts& facts) {
  if (!facts.alarms) return not_reported("alarms");
  for (const auto& alarm : *facts.alarms) {
    if (alarm.kind != Alarm::Kind::corrupt && alarm.kind != Alarm::Kind::other) continue;
    return {"alarms", Level::error,
            "a member's data differs from the others' (alarm CORRUPT)",
            "run etcdctl alarm list, and replace that member"};
  }
  return {"alarms", Level::ok, "none", ""};
}

Finding work(const EtcdFacts& facts) {
  if (!facts.refuses_work) {
    return {"permissions", Level::ok,
            "keys that begin with " + printable(facts.prefix, 200) +
                " can be read and written",
            ""};
  }
  const bool lacks_permission = facts.refuses_work->kind() == Failure::Kind::rejected;
  return {
      lacks_permission ? "permissions" : "work", Level::error, facts.refuses_work->what(),
      lacks_permission ? "etcdctl role grant-permission ROLE readwrite --prefix=true " +
                             printable_command({facts.prefix}, 200)
                       : "check the etcd log"};
}

std::optional<milliseconds> least_ttl_of(const EtcdFacts& facts) {
  // More than any cluster asks for.
  constexpr std::int64_t most = 24 * 3600;
  if (!facts.least_ttl || *facts.least_ttl < 1 || *facts.least_ttl > most) {
    return std::nullopt;
  }
  return seconds(*facts.least_ttl);
}

Finding leases(const EtcdFacts& facts) {
  const auto least = least_ttl_of(facts);
  if (!least) {
    return not_checked("leases", "no lease was granted");
  }
  if (!facts.answers_keep_alive) {
    return {"leases", Level::warning,
            "keep-alives are not answered, as behind etcd grpc-proxy: each renewal takes "
            "a new lease, which is three writes instead of one",
            "name the members themselves in the URL"};
  }
  return {"leases", Level::ok,
          "the shortest lease is " + for_people(*least) +
              ": the cluster keeps a lease that long even if --ttl is shorter",
          ""};
}

// The shortest ttl is one and a half times the election timeout, rounded up, and a member
// begins an election after at most twice that timeout.
Finding failover(const EtcdFacts& facts) {
  const auto least_ttl = least_ttl_of(facts);
  if (!least_ttl || facts.members.size() < 3) {
    return not_checked("failover", "no other members can take over");
  }
  return failover_finding(*least_ttl * 4 / 3, "", "the loss of the leader",
                          "set a shorter --election-timeout for etcd, or a longer --ttl");
}

Finding clocks(const EtcdFacts&) {
  return not_checked("clocks",
                     "etcd does not report its time, and no lease depends on it; "
                     "--dedupe and --min-hold use the clocks of the hosts",
                     "synchronize the clocks of the hosts (chrony, ntpd)");
}

}  // namespace

std::vector<Finding> findings_of(const EtcdFacts& facts) {
  std::vector<Finding> findings{reachable(facts)};
  if (count_reached(facts) == 0) return findings;
  for (auto& finding : versions(facts)) findings.push_back(std::move(finding));
  findings.push_back(leader(facts));
  if (facts.failure) {
    const bool is_login = facts.failure->kind() == Failure::Kind::rejected ||
                          facts.failure->kind() == Failure::Kind::misconfigured;
    findings.push_back({is_login ? "login" : "work", Level::error, facts.failure->what(),
                        is_login ? "set a user (--user) and a password (--password-file "
                                   "or DLOCK_PASSWORD), or a certificate (--tls-cert)"
                                 : "check the etcd log"});
    return findings;
  }
  for (const auto check :
       {login, members, quota, alarms, work, leases, failover, clocks}) {
    findings.push_back(check(facts));
  }
  if (auto found = round_trip_finding(facts.round_trips, facts.trips_to_renew)) {
    findings.push_back(std::move(*found));
  }
  return findings;
}

std::optional<milliseconds> smallest_ttl_of(const EtcdFacts& facts) {
  const auto median = median_of(facts.round_trips);
  if (!median) return std::nullopt;
  const auto by_answers = smallest_ttl_for(needed_budget(*median, facts.trips_to_renew));
  return std::max(by_answers, least_ttl_of(facts).value_or(by_answers));
}

}  // namespace dlock::etcd
