#include "store/postgres/pg_news.hpp"

#include <array>
#include <utility>

#include "record/run_lines.hpp"
#include "store/postgres/pg_schema.hpp"
#include "util/bits.hpp"
#include "util/json.hpp"
#include "util/text.hpp"

namespace dlock::postgres {
std::string channel_of(rules::Session party) {
  std::array<std::uint8_t, sizeof party> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(party >> 56u);
    party <<= 8u;
  }
  return "dlock_" + hex(bytes.data(), bytes.size());
}

std::string events_channel(const std::string& schema, const std::string& name_space) {
  return "dlock_ev_" + checksum_text(checksum(schema + '\0' + name_space));
}

Batch to_wake(const std::vector<rules::Session>& wake,
              const std::vector<rules::Session>& in_front) {
  Batch batch;
  std::string channels;
  for (const auto party : wake) {
    if (party != 0) channels += (channels.empty() ? "{" : ",") + channel_of(party);
  }
  if (wake.size() == 1 && !channels.empty()) {
    // Without a function, which a new session would have to look up.
    batch.push_back({"NOTIFY " + channel_of(wake[0]), {}, true});
  } else if (!channels.empty()) {
    batch.push_back({"SELECT pg.pg_notify(c, '') FROM pg.unnest($1::pg.text[]) c",
                     {channels + "}"},
                     true});
  }
  for (const auto party : in_front) {
    const auto payload = ", '" + std::string(in_front_payload) + "'";
    batch.push_back({"NOTIFY " + channel_of(party) + payload, {}, true});
  }
  return batch;
}

std::string lines_of(const std::vector<Event>& events) {
  std::string array = "{";
  for (const auto& event : events) {
    const auto object = object_from(record::line_of(event));
    const auto line = object ? object->dump(-1, ' ', true, Json::error_handler_t::replace)
                             : std::string("{}");
    array += array.back() == '{' ? "\"" : ",\"";
    for (const char c : line) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + "}";
}

std::string to_record(const std::string& schema, const std::string& lines) {
  return "INSERT INTO " + in_schema(schema, "event") +
         " (namespace, xact, line, keep_until) SELECT $1, pg.txid_current(), e.line, "
         "pg.clock_timestamp() OP(+) pg.make_interval(secs => " +
         std::to_string(watcher_lasts.count()) + ") FROM pg.unnest(" + lines +
         "::pg.text[]) WITH ORDINALITY AS e(line, n)";
}

Statement to_hint(const std::string& schema, const std::string& name_space) {
  return {"NOTIFY " + events_channel(schema, name_space), {}, true};
}

Batch to_tell(const std::string& schema, const LockName& lock,
              const std::vector<Event>& events) {
  return {
      {to_record(schema, "$2") + " ORDER BY e.n", {lock.name_space, lines_of(events)}},
      to_hint(schema, lock.name_space)};
}

std::string is_watched(const std::string& schema) {
  return "EXISTS (SELECT 1 FROM " + in_schema(schema, "watcher") +
         " w WHERE w.namespace OP(=) $1 AND w.until OP(>) pg.clock_timestamp())";
}

// There was none when the lock was read. It does not renew its row within seconds, so the
// row says when it began.
Statement watcher_question(const std::string& schema, const std::string& name_space,
                           std::optional<WallTime> until) {
  if (!until) return {"SELECT " + is_watched(schema), {name_space}, true};
  return {"SELECT EXISTS (SELECT 1 FROM " + in_schema(schema, "watcher") +
              " w WHERE w.namespace OP(=) $1 AND w.until OP(<) "
              "pg.to_timestamp($2::pg.float8))",
          {name_space, seconds_text(*until + watcher_lasts)},
          true};
}

bool says_yes(const Result& reply) {
  return !reply.rows.empty() && !reply.rows[0].empty() && reply.rows[0][0] == "t";
}

Statement for_listeners(std::string_view version) {
  const auto major = major_version(version);
  std::string sql = "SELECT pg.set_config('tcp_keepalives_idle', '30', false)";
  sql += ", pg.set_config('tcp_user_timeout', '30000', false)";
  if (major >= 14) sql += ", pg.set_config('idle_session_timeout', '0', false)";
  // Who listens executes a kept statement again soon.
  sql += ", pg.set_config('plan_cache_mode', 'force_generic_plan', false)";
  return {std::move(sql), {}};
}

}  // namespace dlock::postgres
