#include "store/postgres/pg_standing.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "util/text.hpp"

namespace dlock::postgres {
namespace {

// A word of the setting, without its quotes.
struct SettingWord {
  enum class Kind { end, name, number, sign, broken };
  Kind kind = Kind::end;
  std::string text;

  bool is(char sign) const { return kind == Kind::sign && text[0] == sign; }
  // Names are compared in any case, as the server does.
  bool is_word(std::string_view word) const { return kind == Kind::name && text == word; }
};

bool is_number(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

SettingWord quoted_token(std::string_view& rest) {
  SettingWord token{SettingWord::Kind::name, ""};
  for (rest.remove_prefix(1); !rest.empty(); rest.remove_prefix(1)) {
    if (rest.starts_with("\"\"")) {
      rest.remove_prefix(1);
    } else if (rest.front() == '"') {
      rest.remove_prefix(1);
      token.text = lower_case(token.text);
      return token;
    }
    token.text += rest.front();
  }
  return {SettingWord::Kind::broken, ""};
}

SettingWord next_token(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n\r\f\v"), rest.size()));
  if (rest.empty()) return {};
  if (rest.front() == '"') return quoted_token(rest);
  if (std::string_view("(),*").find(rest.front()) != std::string_view::npos) {
    SettingWord token{SettingWord::Kind::sign, std::string(1, rest.front())};
    rest.remove_prefix(1);
    return token;
  }
  const auto end = std::min(rest.find_first_of(" \t\n\r\f\v(),*\""), rest.size());
  const auto word = rest.substr(0, end);
  rest.remove_prefix(end);
  return {is_number(word) ? SettingWord::Kind::number : SettingWord::Kind::name,
          lower_case(word)};
}

std::optional<unsigned> count_in(const SettingWord& token) {
  constexpr unsigned most = 10'000;
  const auto count = number_in<unsigned>(token.text);
  if (token.kind != SettingWord::Kind::number || !count || *count == 0 || *count > most) {
    return std::nullopt;
  }
  return count;
}

// The names up to the end, or up to a ) if they are in brackets. `token` is the first.
bool take_names(SettingWord token, std::string_view& rest, bool in_brackets,
                AwaitedStandbys& awaited) {
  for (;; token = next_token(rest)) {
    const bool is_name =
        token.kind == SettingWord::Kind::name || token.kind == SettingWord::Kind::number;
    if (!is_name && !token.is('*')) return false;
    if (token.is('*') || token.text == "*") {
      awaited.may_be_any = true;
    } else if (std::ranges::find(awaited.names, token.text) == awaited.names.end()) {
      awaited.names.push_back(token.text);
    }
    const auto behind = next_token(rest);
    if (behind.is(',')) continue;
    if (!in_brackets) return behind.kind == SettingWord::Kind::end;
    return behind.is(')') && next_token(rest).kind == SettingWord::Kind::end;
  }
}

std::string counted(unsigned count) {
  return std::to_string(count) + (count == 1 ? " standby" : " standbys");
}

std::vector<PgFollower> followers_in(std::string_view text) {
  std::vector<PgFollower> followers;
  for (const auto& line : split(text, '\n')) {
    if (line.empty()) continue;
    using Kind = PgFollower::Kind;
    const auto kind = line[0] == 's'   ? Kind::standby
                      : line[0] == 'x' ? Kind::other
                                       : Kind::unknown;
    followers.push_back({kind, lower_case(line.substr(1))});
  }
  return followers;
}

std::optional<std::uint32_t> timeline_in(std::string_view text) {
  std::uint32_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, 16);
  if (text.empty() || error != std::errc() || end != last) return std::nullopt;
  return value;
}

// Of the setting alone.
std::optional<std::string> too_few_awaited(const Replicas& wanted,
                                           const AwaitedStandbys& awaited) {
  if (awaited.count == 0) {
    return "its commits wait for no standby (synchronous_standby_names is empty)";
  }
  const auto named = static_cast<unsigned>(awaited.names.size());
  if (wanted.all && awaited.may_be_any) {
    return "synchronous_standby_names must name every standby, and not *";
  }
  if (wanted.all && awaited.count < named) {
    return "its commits wait for " + counted(awaited.count) + " of the " +
           std::to_string(named) + " in synchronous_standby_names";
  }
  if (!wanted.all && awaited.count < wanted.count) {
    return "its commits wait for " + counted(awaited.count) +
           " (synchronous_standby_names), not for " + std::to_string(wanted.count);
  }
  return std::nullopt;
}

// Of what is connected.
std::optional<std::string> too_few_connected(const Replicas& wanted,
                                             const AwaitedStandbys& awaited,
                                             const std::vector<PgFollower>& connected) {
  const auto named = static_cast<unsigned>(awaited.names.size());
  // Each that can be promoted must be awaited.
  unsigned standbys = 0;
  std::string unnamed;
  // Those that are awaited, and of these, those that acknowledge and are no standby.
  unsigned there = 0;
  unsigned others = 0;
  std::string other;
  std::set<std::string> names;
  for (const auto& [kind, name] : connected) {
    const bool is_other = kind == PgFollower::Kind::other;
    const bool is_awaited =
        awaited.may_be_any || std::ranges::count(awaited.names, name) > 0;
    standbys += is_other ? 0 : 1;
    if (!is_awaited && !is_other) unnamed = name;
    if (!is_awaited) continue;
    ++there;
    names.insert(name);
    others += is_other ? 1 : 0;
    if (is_other) other = name;
  }
  constexpr const char* separate_names =
      ": give each a separate name (application_name in primary_conninfo) in "
      "synchronous_standby_names";
  if (wanted.all && standbys > awaited.count) {
    return counted(standbys) + " are connected, and its commits wait for " +
           (awaited.count == 1 ? "only 1" : "only " + std::to_string(awaited.count)) +
           separate_names +
           "; a backup or an archiver counts as one unless the user is a member of "
           "pg_monitor";
  }
  if (wanted.all && !unnamed.empty()) {
    return "its commits do not wait for the standby " + printable(unnamed, 100) +
           separate_names;
  }
  if (there < awaited.count) {
    const std::string those = there == 0   ? "none is"
                              : there == 1 ? "only 1 is"
                                           : "only " + std::to_string(there) + " are";
    return "its commits wait for " + counted(awaited.count) + ", and " + those +
           " connected";
  }
  if (wanted.all && (there > awaited.count || names.size() < named)) {
    return "of the standbys in synchronous_standby_names some share a name" +
           std::string(separate_names);
  }
  if (others > 0 && awaited.count < others + std::max(wanted.count, 1U)) {
    return "its commits may wait only for " + printable(other, 100) +
           ", which archives or is logical replication and cannot be promoted: leave it "
           "out of synchronous_standby_names";
  }
  return std::nullopt;
}

}  // namespace

// In recovery the name of the current file is refused. Numbers that are compared are
// integers: how many digits of another one are sent is a setting.
//
// What follows the log is told with a letter before its name: x for what acknowledges
// commits and is no standby, s for a standby, ? for what may be one. Only a member of
// pg_monitor sees that something is a backup or an archiver (pg_receivewal, which never
// replays); of logical replication everyone sees the slot. Servers replace what is not
// printable in names.
Statement standing_question(bool with_standbys) {
  std::string sql =
      "SELECT pg.pg_is_in_recovery(), CASE WHEN pg.pg_is_in_recovery() THEN NULL ELSE "
      "pg.substr(pg.pg_walfile_name(pg.pg_current_wal_lsn()), 1, 8) END, "
      "(pg.date_part('epoch', pg.pg_postmaster_start_time()) OP(*) 1000000)::pg.int8, "
      "pg.pg_backend_pid(), pg.current_setting('default_transaction_read_only')";
  if (with_standbys) {
    sql +=
        ", pg.current_setting('synchronous_standby_names'), (SELECT "
        "COALESCE(pg.string_agg(pg.concat(CASE WHEN r.write_lsn IS NOT NULL AND "
        "r.replay_lsn IS NULL OR EXISTS (SELECT 1 FROM pg.pg_replication_slots s WHERE "
        "s.active_pid OP(=) r.pid AND (s.slot_type OP(=) 'logical' OR (s.temporary AND "
        "s.slot_name OP(~~) 'pg_basebackup%'))) THEN 'x' WHEN r.replay_lsn IS NULL THEN "
        "'?' ELSE 's' END, r.application_name), pg.chr(10)), '') FROM "
        "pg.pg_stat_replication r WHERE r.state IS DISTINCT FROM 'backup' AND "
        "(r.write_lsn IS NULL OR r.replay_lsn IS NOT NULL OR r.flush_lsn IS NOT NULL))";
  }
  return {std::move(sql), {}, true};
}

std::optional<PgStanding> standing_from(const Result& reply) {
  if (reply.rows.empty() || reply.rows.front().size() < 5) return std::nullopt;
  const auto& row = reply.rows.front();
  PgStanding standing;
  standing.is_standby = row[0] == "t";
  standing.timeline = timeline_in(row[1].value_or("")).value_or(0);
  standing.started = row[2].value_or("");
  standing.pid = number_in<std::int32_t>(row[3].value_or("")).value_or(0);
  standing.is_read_only = row[4] == "on";
  if (row.size() < 7) return standing;
  standing.standby_names = row[5].value_or("");
  if (row[6]) standing.followers = followers_in(*row[6]);
  return standing;
}

PrimaryChoice chosen_primary(const std::vector<std::optional<PgStanding>>& standings,
                             const std::vector<std::string>& servers) {
  PrimaryChoice choice;
  std::optional<std::size_t> other;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    if (!standings[i] || standings[i]->is_standby) continue;
    if (!choice.server) {
      choice.server = i;
      continue;
    }
    const auto& best = *standings[*choice.server];
    const bool is_newer = standings[i]->timeline > best.timeline;
    // One server under two names.
    const bool is_same = standings[i]->timeline == best.timeline &&
                         best.started == standings[i]->started && !best.started.empty();
    if (is_same) continue;
    other = is_newer ? *choice.server : i;
    if (is_newer) choice.server = i;
  }
  if (!other) return choice;
  const auto text = [&](std::size_t i) {
    return servers.at(i) + " (timeline " + std::to_string(standings[i]->timeline) + ")";
  };
  choice.complaint = text(*other) + " also says that it is the primary, and " +
                     text(*choice.server) + " is used: stop the old primary";
  return choice;
}

std::optional<AwaitedStandbys> awaited_standbys(std::string_view setting) {
  AwaitedStandbys awaited;
  auto first = next_token(setting);
  if (first.kind == SettingWord::Kind::end) return awaited;
  auto rest = setting;
  const bool has_word = first.is_word("first") || first.is_word("any");
  const auto count = count_in(has_word ? next_token(rest) : first);
  if (count && next_token(rest).is('(')) {
    awaited.count = *count;
    if (take_names(next_token(rest), rest, true, awaited)) return awaited;
    return std::nullopt;
  }
  awaited.count = 1;
  if (take_names(std::move(first), setting, false, awaited)) return awaited;
  return std::nullopt;
}

std::optional<std::string> too_few_standbys(
    const Replicas& wanted, std::string_view setting,
    const std::optional<std::vector<PgFollower>>& connected) {
  if (!wanted.all && wanted.count == 0) return std::nullopt;
  const auto awaited = awaited_standbys(setting);
  if (!awaited) return "synchronous_standby_names cannot be read";
  if (auto why = too_few_awaited(wanted, *awaited)) return why;
  if (!connected) return "it does not tell how many standbys are connected";
  return too_few_connected(wanted, *awaited, *connected);
}

}  // namespace dlock::postgres
