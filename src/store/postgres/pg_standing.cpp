#include "store/postgres/pg_standing.hpp"

#include <algorithm>
#include <charconv>

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

std::optional<std::uint32_t> timeline_in(std::string_view text) {
  std::uint32_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, 16);
  if (text.empty() || error != std::errc() || end != last) return std::nullopt;
  return value;
}

}  // namespace

// In recovery the name of the current file is refused. Only connections are counted that
// a standby can have: neither backups nor archives (pg_receivewal, which never replays)
// nor logical replication. Only a member of pg_monitor sees that a connection is one of
// the first two; of a logical one everyone sees the slot.
Statement standing_question(bool with_standbys) {
  std::string sql =
      "SELECT pg.pg_is_in_recovery(), CASE WHEN pg.pg_is_in_recovery() THEN NULL ELSE "
      "pg.substr(pg.pg_walfile_name(pg.pg_current_wal_lsn()), 1, 8) END, "
      "pg.date_part('epoch', pg.pg_postmaster_start_time()), pg.pg_backend_pid(), "
      "pg.current_setting('default_transaction_read_only')";
  if (with_standbys) {
    sql +=
        ", pg.current_setting('synchronous_standby_names'), (SELECT pg.count(*) FROM "
        "pg.pg_stat_replication r WHERE r.state IS DISTINCT FROM 'backup' AND "
        "(r.write_lsn IS NULL OR r.replay_lsn IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM "
        "pg.pg_replication_slots s WHERE s.active_pid OP(=) r.pid AND (s.slot_type OP(=) "
        "'logical' OR (s.temporary AND s.slot_name OP(~~) 'pg_basebackup%'))))";
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
  standing.standbys = number_in<unsigned>(row[6].value_or(""));
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
    // One server under two names.
    if (best.started == standings[i]->started && !best.started.empty()) continue;
    const bool is_newer = standings[i]->timeline > best.timeline;
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

std::optional<std::string> too_few_standbys(const Replicas& wanted,
                                            std::string_view setting,
                                            std::optional<unsigned> connected) {
  if (!wanted.all && wanted.count == 0) return std::nullopt;
  const auto awaited = awaited_standbys(setting);
  if (!awaited) return "synchronous_standby_names cannot be read";
  if (awaited->count == 0) {
    return "its commits wait for no standby (synchronous_standby_names is empty)";
  }
  const auto named = static_cast<unsigned>(awaited->names.size());
  if (wanted.all && awaited->may_be_any) {
    return "synchronous_standby_names must name every standby, and not *";
  }
  if (wanted.all && awaited->count < named) {
    return "its commits wait for " + counted(awaited->count) + " of the " +
           std::to_string(named) + " in synchronous_standby_names";
  }
  // Two standbys can have one name, and each that is connected can be promoted.
  if (wanted.all && connected && *connected > awaited->count) {
    return counted(*connected) + " are connected, and its commits wait for " +
           (awaited->count == 1 ? "only 1" : "only " + std::to_string(awaited->count)) +
           ": give each a separate name (application_name in primary_conninfo) in "
           "synchronous_standby_names; a backup or an archiver counts as one unless the "
           "user "
           "is a member of pg_monitor";
  }
  if (!wanted.all && awaited->count < wanted.count) {
    return "its commits wait for " + counted(awaited->count) +
           " (synchronous_standby_names), not for " + std::to_string(wanted.count);
  }
  if (!connected) return "it does not tell how many standbys are connected";
  if (*connected < awaited->count) {
    const std::string there = *connected == 0 ? "none is"
                              : *connected == 1
                                  ? "only 1 is"
                                  : "only " + std::to_string(*connected) + " are";
    return "its commits wait for " + counted(awaited->count) + ", and " + there +
           " connected";
  }
  return std::nullopt;
}

}  // namespace dlock::postgres
