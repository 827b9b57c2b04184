#include "tests/simulation/pg_server.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "store/postgres/pg_news.hpp"

namespace dlock::simulation {
namespace {

using postgres::encoded_message;

std::uint32_t number_in(std::string_view bytes, std::size_t at, std::size_t size = 4) {
  std::uint32_t number = 0;
  for (const char byte : bytes.substr(at, size)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return number;
}

std::string big_endian(std::size_t number, int size = 4) {
  std::string bytes;
  while (--size >= 0) bytes += static_cast<char>(number >> 8 * size);
  return bytes;
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The fences of those that hold the lock in a state, and when their leases end by the
// clock of the server. To read all of the state as dlock does takes ten times as long.
std::map<std::uint64_t, std::int64_t> ends_in(std::string_view state) {
  constexpr std::string_view fence_key = "\"fence\":";
  const auto number_at = [](std::string_view text) {
    return std::strtoll(text.data(), nullptr, 10);  // a comma or brace follows
  };
  std::map<std::uint64_t, std::int64_t> ends;
  const auto begin = state.find("\"holders\":[");
  if (begin == state.npos) return ends;
  const auto end = state.find("}]", begin);  // what follows has holders that are none now
  for (const std::string_view key : {"\"lives_until\":", "\"ends_at\":"}) {
    for (auto at = state.find(key, begin); at < end; at = state.find(key, at + 1)) {
      const auto fence = state.rfind(fence_key, at);
      const auto rest = state.substr(at, state.find('}', at) - at);
      if (rest.find("\"ended\":") != rest.npos) continue;
      ends[static_cast<std::uint64_t>(number_at(
          state.substr(fence + fence_key.size())))] = number_at(rest.substr(key.size()));
    }
  }
  return ends;
}

Time span_in(const std::optional<std::string>& milliseconds) {
  return std::strtoll(milliseconds.value().c_str(), nullptr, 10) * millisecond;
}

}  // namespace

void PgServer::start() { is_up = true; }

void PgServer::crash() {
  auto& kernel = *Kernel::current();
  is_up = false;
  const bool fails_over = lag_ > 0;
  if (fails_over) ++timeline_, failed_over = kernel.now;
  for (auto& [name, lock] : locks_) {
    lock.owner = nullptr;
    lock.wait_for.clear();
    if (fails_over) lock.durable = copied_[name];
    lock.row = lock.durable;
  }
  for (auto& session : std::exchange(sessions_, {})) {
    session.connection->close_server(true);
  }
  connections.clear();
}

bool PgServer::remove(const std::string& name) {
  auto& lock = locks_[name];
  if (lock.owner == nullptr) lock.row = lock.durable = std::nullopt;
  return lock.owner == nullptr;
}

void PgServer::copy_to_standby() {
  std::map<std::string, std::optional<Row>> rows;
  for (const auto& [name, lock] : locks_) rows[name] = lock.row;
  auto& kernel = *Kernel::current();
  kernel.at(kernel.now + lag_, [this, rows = std::move(rows), on = timeline_] {
    if (on == timeline_) copied_ = rows;
  });
}

PgServer::Leases PgServer::leases(const std::string& name) {
  Leases leases;
  auto& lock = locks_[name];
  const auto& row = lock.committed();
  if (!row) return leases;
  if (row->state != lock.parsed) {
    lock.parsed = row->state;
    lock.ends = ends_in(lock.parsed);
  }
  for (const auto& [fence, end] : lock.ends) {
    if (moment_of(end) > Kernel::current()->now) leases[fence] = moment_of(end);
  }
  return leases;
}

PgServer::Session* PgServer::session_of(const Connection& connection) {
  for (auto& session : sessions_) {
    if (session.connection.get() == &connection) return &session;
  }
  return nullptr;
}

void PgServer::received(const std::shared_ptr<Connection>& from, std::string_view bytes) {
  auto* session = session_of(*from);
  if (session == nullptr) {
    session = &sessions_.emplace_back();
    session->connection = from;
  }
  session->bytes += bytes;
  proceed(*session);
}

// A session that waits for a lock notices it only afterwards.
void PgServer::closed(const std::shared_ptr<Connection>& by) {
  auto* session = session_of(*by);
  by->close_server(false);
  if (session == nullptr) return;
  session->is_closed = true;
  proceed(*session);
}

void PgServer::remove(Session& session) {
  end_transaction(session, false);
  sessions_.remove_if([&](const auto& one) { return &one == &session; });
}

void PgServer::proceed(Session& session) {
  while (session.waits == 0) {
    if (session.pid == 0) {
      if (!take_startup(session)) break;
      continue;
    }
    const auto& bytes = session.bytes;
    if (bytes.size() < 5 || bytes.size() <= number_in(bytes, 1)) break;
    const auto size = number_in(bytes, 1);
    const auto type = bytes[0];
    const auto body = bytes.substr(5, size - 4);
    session.bytes.erase(0, size + 1);
    take(session, type, body);
  }
  if (session.is_closed && session.waits == 0) remove(session);
}

// False if it has to wait for more of it, or has ended.
bool PgServer::take_startup(Session& session) {
  const auto& bytes = session.bytes;
  if (bytes.size() < 8 || bytes.size() < number_in(bytes, 0)) return false;
  constexpr std::uint32_t cancels = 80877102;
  if (number_in(bytes, 4) == cancels) {
    for (auto& other : sessions_) {
      const bool is_meant = other.pid == static_cast<int>(number_in(bytes, 8));
      if (is_meant && other.waits != 0) fail(other, "57014");
    }
    session.connection->close_server(false);
    session.is_closed = true;
    return false;
  }
  session.bytes.erase(0, number_in(bytes, 0));
  session.pid = ++pids_;
  const auto pid = big_endian(static_cast<std::size_t>(session.pid));
  session.connection->send_down(
      encoded_message('R', big_endian(0)) +
      encoded_message('S', std::string("server_version\00015.5\0", 20)) +
      encoded_message('S', std::string("in_hot_standby\0off\0", 19)) +
      encoded_message('K', pid + pid) + encoded_message('Z', "I"));
  return true;
}

void PgServer::take(Session& session, char type, std::string_view body) {
  if (type == 'S') return sync(session);
  if (session.skips) return;
  if (type == 'P') {
    const auto end = body.find('\0');
    session.statements[std::string(body.substr(0, end))] =
        body.substr(end + 1, body.find('\0', end + 1) - end - 1);
    session.unsent += encoded_message('1', "");
  } else if (type == 'B') {
    const auto end = body.find('\0', 1);
    const auto kept = session.statements.find(std::string(body.substr(1, end - 1)));
    if (kept == session.statements.end()) return fail(session, "26000");
    session.sql = kept->second;
    session.params.clear();
    std::size_t at = end + 5;
    for (auto left = number_in(body, end + 3, 2); left > 0; --left) {
      const auto size = number_in(body, at);
      at += 4;
      auto& param = session.params.emplace_back();
      if (size == UINT32_MAX) continue;
      param = body.substr(at, size);
      at += size;
    }
    session.unsent += encoded_message('2', "");
  } else if (type == 'E') {
    execute(session);
  }
}

void PgServer::execute(Session& session) {
  if (session.transaction == 'I' && !std::exchange(session.is_implicit, true)) {
    session.began_at = clock();
  }
  if (session.transaction == 'E' && session.sql != "ROLLBACK") {
    return fail(session, "25P02");
  }
  if (perform(session) == Progress::done) {
    session.waits = 0;
    auto tag = session.sql.substr(0, session.sql.find(' '));
    if (tag == "WITH") tag = "SELECT";
    session.unsent += encoded_message('C', tag + std::string(1, '\0'));
    return;
  }
  session.waits = ++waits_;
  lock_of(session).wait_for.push_back(&session);
  if (session.lock_timeout == 0) return;
  auto& kernel = *Kernel::current();
  kernel.at(kernel.now + session.lock_timeout, [this, wait = session.waits] {
    for (auto& one : sessions_) {
      if (one.waits != wait) continue;
      fail(one, "55P03");
      return proceed(one);
    }
  });
}

PgServer::Progress PgServer::perform(Session& session) {
  const auto& sql = session.sql;
  if (sql.starts_with("BEGIN")) {
    session.transaction = 'T';
  } else if (sql == "COMMIT" || sql == "ROLLBACK") {
    end_transaction(session, sql == "COMMIT");
  } else if (has(sql, "set_config(")) {
    set(session);
  } else if (sql.starts_with("LISTEN ")) {
    session.channels.insert(sql.substr(7));
  } else if (has(sql, "pg_notify(c")) {
    notify(session.params[0].value(), "");
  } else if (sql.starts_with("NOTIFY ")) {
    notify(sql, has(sql, ", '") ? postgres::in_front_payload : "");
  } else if (has(sql, "pg_is_in_recovery")) {
    row(session, {"f", "0000000" + std::to_string(timeline_), "1",
                  std::to_string(session.pid), "off"});
  } else if (sql.starts_with("SELECT 1 FROM") && has(sql, "FOR UPDATE")) {
    return may_change(session) ? Progress::done : Progress::waits;
  } else if (sql.starts_with("SELECT l.version")) {
    read(session);
  } else if (has(sql, " SET version") || sql.starts_with("INSERT INTO")) {
    return change(session);
  } else if (has(sql, " SET refused")) {
    auto& row = lock_of(session).row;
    if (row && may_change(session)) ++row->refused;
  } else if (sql.starts_with("SELECT EXISTS")) {
    row(session, {"f"});
  } else if (has(sql, "who owns the schema")) {  // whether a stranger owns the schema
    row(session, {""});
  } else if (!sql.starts_with("DELETE FROM")) {  // of rows that are out of use
    std::fprintf(stderr, "the simulation has no statement %s\n", sql.c_str());
    std::abort();
  }
  return Progress::done;
}

void PgServer::set(Session& session) {
  const auto& sql = session.sql;
  if (has(sql, "'synchronous_commit'")) {
    session.is_durable = !has(sql, "'synchronous_commit', 'off'");
  }
  if (has(sql, "'lock_timeout'")) session.lock_timeout = span_in(session.params[0]);
  if (has(sql, "'idle_in_")) session.idle_timeout = span_in(session.params[1]);
  row(session, {""});
}

// Takes the lock of the row. It lasts until the end of the transaction.
bool PgServer::may_change(Session& session) {
  auto& lock = lock_of(session);
  if (lock.owner == &session) return true;
  if (lock.owner != nullptr) return false;
  lock.owner = &session;
  lock.before = lock.row;
  return true;
}

PgServer::Progress PgServer::change(Session& session) {
  if (!may_change(session)) return Progress::waits;
  const auto& params = session.params;
  auto& kept = lock_of(session).row;
  const bool is_new = session.sql.starts_with("INSERT");
  const bool compares = has(session.sql, "OPERATOR(pg_catalog.=) $9");
  const auto version = is_new ? 0 : std::strtoll(params[8]->c_str(), nullptr, 10);
  const bool fits = is_new ? !kept : kept && (!compares || kept->version == version);
  if (!fits) return Progress::done;
  if (is_new) kept.emplace().version = has(session.sql, "$2, 1,") ? 1 : clock();
  if (!is_new) ++kept->version;
  kept->format = params[2].value();
  kept->state = params[3].value();
  kept->runs = params[4].value_or(kept->runs);
  kept->refused += std::strtoll(params[5]->c_str(), nullptr, 10);
  row(session, {"1"});
  return Progress::done;
}

void PgServer::read(Session& session) {
  const auto& lock = lock_of(session);
  const auto& seen = lock.owner == &session ? lock.row : lock.committed();
  const bool is_late = has(session.sql, "now()");
  const auto now = std::to_string(is_late ? session.began_at : clock());
  if (!seen) return row(session, {{}, {}, {}, {}, {}, now, "f"});
  row(session, {std::to_string(seen->version), seen->format, seen->state, seen->runs,
                std::to_string(seen->refused), now, "f"});
  executed_(*session.connection->process, Act::look);
}

void PgServer::notify(std::string_view channels, std::string_view payload) {
  for (auto& session : sessions_) {
    for (const auto& channel : session.channels) {
      if (session.is_closed || channels.find(channel) == std::string_view::npos) continue;
      session.connection->send_down(encoded_message(
          'A', big_endian(1) + channel + '\0' + std::string(payload) + '\0'));
    }
  }
}

void PgServer::row(Session& session, const postgres::Row& columns) {
  auto body = big_endian(columns.size(), 2);
  for (const auto& column : columns) {
    body += big_endian(column ? column->size() : UINT32_MAX) + column.value_or("");
  }
  session.unsent += encoded_message('D', body);
}

void PgServer::fail(Session& session, const char* code) {
  if (session.waits != 0) std::erase(lock_of(session).wait_for, &session);
  session.waits = 0;
  session.skips = true;
  const std::string end(1, '\0');
  session.unsent += encoded_message(
      'E', "SERROR" + end + "VERROR" + end + "C" + code + end + "Mno" + end + end);
  if (session.transaction == 'T') session.transaction = 'E';
}

void PgServer::sync(Session& session) {
  if (session.transaction == 'I') end_transaction(session, !session.skips);
  session.skips = false;
  const auto state = std::string(1, session.transaction);
  session.connection->send_down(std::exchange(session.unsent, "") +
                                encoded_message('Z', state));
  ++session.syncs;
  if (session.transaction == 'I' || session.idle_timeout == 0) return;
  auto& kernel = *Kernel::current();
  kernel.at(kernel.now + session.idle_timeout,
            [this, pid = session.pid, syncs = session.syncs] {
              for (auto& one : sessions_) {
                if (one.pid != pid || one.syncs != syncs || one.waits != 0) continue;
                one.connection->close_server(false);
                return remove(one);
              }
            });
}

void PgServer::end_transaction(Session& session, bool commits) {
  const bool is_durable = std::exchange(session.is_durable, true);
  session.transaction = 'I';
  session.is_implicit = false;
  session.lock_timeout = session.idle_timeout = 0;
  for (auto& [name, lock] : locks_) {
    std::erase(lock.wait_for, &session);
    if (lock.owner == &session) end_change(lock, session, commits, is_durable);
  }
}

// A commit that is not durable is lost if the server crashes soon.
void PgServer::end_change(Lock& lock, Session& session, bool commits, bool is_durable) {
  auto& kernel = *Kernel::current();
  const auto before = leases(main_lock);
  // An UPDATE that finds another version than the one that was read changes nothing.
  const bool is_changed =
      lock.row && !(lock.before && lock.row->version == lock.before->version);
  lock.owner = nullptr;
  if (!commits) lock.row = lock.before;
  if (commits && lag_ > 0) copy_to_standby();
  if (commits && is_durable) lock.durable = lock.row;
  if (commits && !is_durable) {
    kernel.at(kernel.now + 600 * millisecond, [this, &lock] {
      if (is_up) lock.durable = lock.committed();
    });
  }
  const auto after = leases(main_lock);
  const bool is_grant = !after.empty() && after.rbegin()->first > greatest_;
  if (is_grant) greatest_ = after.rbegin()->first;
  const bool is_release = std::any_of(before.begin(), before.end(), [&](const auto& one) {
    return after.count(one.first) == 0;
  });
  const bool is_of_main = &lock == &locks_[main_lock];
  const auto act = is_grant                   ? Act::ask
                   : is_release               ? Act::release
                   : is_of_main && is_changed ? Act::other
                                              : Act::look;
  if (commits) executed_(*session.connection->process, act);
  if (lock.wait_for.empty()) return;
  auto& next = *lock.wait_for.front();
  lock.wait_for.erase(lock.wait_for.begin());
  kernel.at(kernel.now, [this, wait = next.waits] {
    for (auto& one : sessions_) {
      if (one.waits != wait) continue;
      execute(one);
      return proceed(one);
    }
  });
}

}  // namespace dlock::simulation
