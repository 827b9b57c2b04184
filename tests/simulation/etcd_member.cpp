#include "tests/simulation/etcd_member.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/simulation/etcd_requests.hpp"

namespace dlock::simulation {
namespace {

using etcd::KeyChange;

}  // namespace

EtcdMember::EtcdMember(std::shared_ptr<EtcdCluster> cluster, Executed executed)
    : cluster_(std::move(cluster)), executed_(std::move(executed)) {
  cluster_->members.push_back(this);
  if (cluster_->reign.leader == nullptr) cluster_->reign.leader = this;
}

bool EtcdMember::is_awake() const { return is_up && paused_until <= kernel().now; }

void EtcdMember::start() {
  is_up = true;
  if (cluster_->reign.leader == this) cluster_->begin_reign(*this);
}

void EtcdMember::crash() {
  is_up = false;
  for (auto& session : std::exchange(sessions_, {})) {
    session.connection->close_server(true);
  }
  connections.clear();
  if (cluster_->former.leader == this) cluster_->former = {};
  cluster_->elect_later(*this);
}

void EtcdMember::pause(Time span) {
  Peer::pause(span);
  cluster_->elect_later(*this);
}

// The leader is cut off from the others, or another becomes leader; watches end; what is
// old is removed.
void EtcdMember::disturb(Time span) {
  auto& random = kernel().random;
  switch (random.below(4)) {
    case 0:
    case 1:
      if (!is_awake() || !cluster_->can_write()) return;
      return cluster_->be_led_by(*this, random.chance(0.3), std::min(span, 3 * second));
    case 2:
      kernel().trace("etcd forgets what is old");
      cluster_->data.compacted = cluster_->data.revision;
      return;
    default: return end_watches();
  }
}

void EtcdMember::end_watches() {
  kernel().trace("watches end");
  for (auto& session : sessions_) {
    for (const auto& watch : std::exchange(session.watches, {})) {
      session.grpc->fail(watch.call, grpc::Code::unavailable, "etcdserver: no leader");
    }
    session.connection->send_down(session.grpc->output());
  }
}

EtcdMember::Session* EtcdMember::session_of(const Connection* connection) {
  for (auto& session : sessions_) {
    if (session.connection.get() == connection) return &session;
  }
  return nullptr;
}

void EtcdMember::received(const std::shared_ptr<Connection>& from,
                          std::string_view bytes) {
  auto* session = session_of(from.get());
  if (session == nullptr) {
    session = &sessions_.emplace_back();
    session->connection = from;
    session->grpc = std::make_unique<GrpcSession>(
        [this, session](int call, const std::string& path, const std::string& message) {
          take(*session, call, path, message);
        },
        [session](int call) {
          session->watches.remove_if([&](const auto& one) { return one.call == call; });
        });
  }
  session->grpc->feed(bytes);
  const auto output = session->grpc->output();
  if (!output.empty()) from->send_down(output);
}

void EtcdMember::closed(const std::shared_ptr<Connection>& by) {
  by->close_server(false);
  sessions_.remove_if([&](const auto& one) { return one.connection == by; });
}

bool EtcdMember::is_former() const { return cluster_->former.leader == this; }

// In which this member is, as far as it knows.
std::uint64_t EtcdMember::term() const {
  return is_former() ? cluster_->former.term : cluster_->reign.term;
}

std::int64_t EtcdMember::seen() const {
  return is_former() ? cluster_->seen_by_former.revision : cluster_->data.revision;
}

// The term is that of the member when it replies.
std::string EtcdMember::header(std::int64_t revision) const {
  return message_of([&](pbf_writer& to) {
    to.add_uint64(1, 7);  // the cluster
    to.add_uint64(2, 1);
    to.add_int64(3, revision);
    to.add_uint64(4, term());
  });
}

void EtcdMember::later(Time span, std::function<void()> work) {
  kernel().at(std::max(kernel().now + span, paused_until),
              [this, work = std::move(work)] {
                if (!is_up) return;
                if (paused_until > kernel().now) return later(0, work);
                work();
              });
}

void EtcdMember::answer(const Connection* to, int call, const EtcdReply& reply) {
  auto* session = session_of(to);
  if (session == nullptr) return;
  if (reply.code == grpc::Code::ok) {
    const auto revision = reply.revision != 0 ? reply.revision : seen();
    const auto first =
        message_of([&](pbf_writer& message) { append(message, 1, header(revision)); });
    session->grpc->reply(call, first + reply.message, true);
  } else {
    session->grpc->fail(call, reply.code, reply.why);
  }
  session->connection->send_down(session->grpc->output());
}

// By the leader, with a majority. The reply comes later, and tells the term of then.
void EtcdMember::write(Session& session, int call, Work work, Act act) {
  later(EtcdCluster::hop(), [this, connection = session.connection, call,
                             work = std::move(work), act] {
    auto& cluster = *cluster_;
    if (is_former() || !cluster.can_write()) {
      auto* waiting = session_of(connection.get());
      if (waiting != nullptr)
        later(20 * millisecond, [this, connection, call, work, act] {
          if (auto* again = session_of(connection.get())) write(*again, call, work, act);
        });
      return;
    }
    auto reply = work();
    reply.revision = cluster.data.revision;
    const auto after = cluster.leases(main_lock);
    const bool is_grant = !after.empty() && after.rbegin()->first > cluster.greatest;
    if (is_grant) cluster.greatest = after.rbegin()->first;
    const auto& by = *connection->process;
    const auto& leases = cluster.data.leases;
    const bool is_left =
        act == Act::release &&
        std::any_of(leases.begin(), leases.end(),
                    [&](const auto& lease) { return lease.second.owner == &by; });
    executed_(by, is_grant ? Act::ask : is_left ? Act::partial_release : act);
    later(EtcdCluster::hop(),
          [this, connection, call, reply] { answer(connection.get(), call, reply); });
  });
}

void EtcdMember::take(Session& session, int call, const std::string& path,
                      const std::string& bytes) {
  auto& cluster = *cluster_;
  if (kernel().traces) {
    kernel().trace(path + " of process " +
                   std::to_string(session.connection->process->pid) + ", " +
                   std::to_string(bytes.size()) + " bytes");
  }
  const auto is = [&](std::string_view method) { return path.ends_with(method); };
  if (is("/Watch")) return watch(session, call, bytes);
  if (is("/LeaseKeepAlive")) {
    const auto lease = numbers_in(bytes).first;
    const auto span =
        is_former() || cluster.reign.leader == this ? 0 : EtcdCluster::hop();
    return later(span, [this, connection = session.connection, call, lease] {
      // Without a leader, there is no reply.
      if (is_former()) {
        answer(connection.get(), call, keep_alive(lease, cluster_->former));
      } else if (cluster_->reign.leader->is_awake()) {
        answer(connection.get(), call, keep_alive(lease, cluster_->reign));
      }
    });
  }
  if (is("/LeaseGrant")) {
    return write(session, call, [this, bytes, owner = session.connection->process] {
      return granted(bytes, owner);
    });
  }
  if (is("/LeaseRevoke")) {
    return write(
        session, call,
        [this, lease = numbers_in(bytes).first]() -> EtcdReply {
          const bool exists = cluster_->data.leases.count(lease) > 0;
          cluster_->revoke(lease);
          if (exists) return {};
          return {"", grpc::Code::not_found, "etcdserver: requested lease not found"};
        },
        Act::release);
  }
  if (is("/LeaseTimeToLive")) {
    return write(session, call, [this, lease = numbers_in(bytes).first]() -> EtcdReply {
      const auto& ends = cluster_->reign.ends;
      const auto end = ends.find(lease);
      const bool exists = end != ends.end() && cluster_->data.leases.count(lease) > 0;
      return {message_of([&](pbf_writer& to) {
        to.add_int64(2, lease);
        to.add_int64(3, exists ? (end->second - kernel().now) / second : -1);
      })};
    });
  }
  if (!is("/Txn") && !is("/Range")) {
    throw std::runtime_error("the simulation has no request to etcd " + path);
  }
  etcd::TxnRequest txn;
  if (is("/Txn")) txn = txn_in(bytes);
  if (is("/Range")) {
    return write(session, call, [this, range = range_in(bytes)]() -> EtcdReply {
      const auto found = cluster_->data.range(range);
      return {encoded(found, range.keys_only)};
    });
  }
  if (is_former() && !writes(txn) && kernel().random.chance(0.5)) {
    const auto reply = executed_txn(txn, &cluster.seen_by_former);
    return answer(session.connection.get(), call, reply);
  }
  write(session, call, [this, txn] { return executed_txn(txn, nullptr); });
}

EtcdReply EtcdMember::keep_alive(std::int64_t lease, EtcdReign& by) {
  const bool exists = by.ends.count(lease) > 0 && cluster_->data.leases.count(lease) > 0;
  // Once it has ended, it waits to be revoked.
  const bool lasts = exists && by.ends[lease] > kernel().now;
  if (lasts) cluster_->set_end(by, lease);
  return {message_of([&](pbf_writer& to) {
    to.add_int64(2, lease);
    to.add_int64(3, lasts ? cluster_->data.leases[lease].ttl : 0);
  })};
}

EtcdReply EtcdMember::granted(std::string_view bytes, const Process* owner) {
  auto [ttl, id] = numbers_in(bytes);
  auto& leases = cluster_->data.leases;
  if (id != 0) owner = nullptr;
  if (id == 0) id = cluster_->data.next_lease++;
  if (leases.count(id) > 0) {
    return {"", grpc::Code::failed_precondition, "etcdserver: lease already exists"};
  }
  leases[id].ttl = ttl;
  leases[id].owner = owner;
  cluster_->set_end(cluster_->reign, id);
  return {message_of([&, lease = id, span = ttl](pbf_writer& to) {
    to.add_int64(2, lease);
    to.add_int64(3, span);
  })};
}

// From old data if there is some. Without the header.
EtcdReply EtcdMember::executed_txn(const etcd::TxnRequest& txn, EtcdData* old) {
  auto& data = old != nullptr ? *old : cluster_->data;
  const bool succeeds =
      std::all_of(txn.conditions.begin(), txn.conditions.end(),
                  [&](const etcd::Compare& compare) { return data.holds(compare); });
  const auto& operations = succeeds ? txn.then : txn.otherwise;
  for (const auto& operation : operations) {
    const auto* put = std::get_if<etcd::PutRequest>(&operation);
    if (put != nullptr && put->lease != 0 && data.leases.count(put->lease) == 0) {
      return {"", grpc::Code::not_found, "etcdserver: requested lease not found"};
    }
  }
  const auto events = cluster_->history.size();
  std::vector<std::string> results;
  ++data.revision;
  std::set<std::string> written;
  for (const auto& operation : operations) {
    std::string result;
    pbf_writer to(result);
    if (const auto* range = std::get_if<etcd::RangeRequest>(&operation)) {
      append(to, 1, encoded(data.range(*range), range->keys_only));
    } else if (const auto* put = std::get_if<etcd::PutRequest>(&operation)) {
      if (!written.insert(put->key).second) {
        throw std::runtime_error("a transaction writes twice: " + put->key);
      }
      cluster_->put(*put);
      append(to, 2, "");
    } else {
      cluster_->remove(std::get<etcd::DeleteRequest>(operation));
      append(to, 3, "");
    }
    results.push_back(std::move(result));
  }
  const bool has_changed = events != cluster_->history.size();
  if (!has_changed) --data.revision;
  if (has_changed) cluster_->changed();
  return {message_of([&](pbf_writer& to) {
    to.add_bool(2, succeeds);
    for (const auto& result : results) append(to, 3, result);
  })};
}

void EtcdMember::watch(Session& session, int call, std::string_view bytes) {
  Watch made;
  made.call = call;
  std::int64_t from = 0;
  read_all(bytes, [&](pbf_reader& request) {
    if (request.tag() != 1) return false;
    read_all(view(request), [&](pbf_reader& create) {
      switch (create.tag()) {
        case 1: made.key = create.get_bytes(); return true;
        case 2: made.range_end = create.get_bytes(); return true;
        case 3: from = create.get_int64(); return true;
        case 5: made.no_put = create.get_enum() == 0; return true;
        case 7: made.id = create.get_int64(); return true;
        default: return false;
      }
    });
    return true;
  });
  const auto& history = cluster_->history;
  const auto first = from == 0 ? seen() + 1 : from;
  made.next = static_cast<std::size_t>(
      std::find_if(history.begin(), history.end(),
                   [&](const auto& one) { return one.pair.mod_revision >= first; }) -
      history.begin());
  const auto compacted =
      from != 0 && from <= cluster_->data.compacted ? cluster_->data.compacted : 0;
  session.grpc->reply(call, message_of([&](pbf_writer& to) {
                        append(to, 1, header(seen()));
                        to.add_int64(2, made.id);
                        to.add_bool(3, true);
                      }),
                      false);
  if (compacted != 0) {
    session.grpc->reply(call, message_of([&](pbf_writer& to) {
                          append(to, 1, header(seen()));
                          to.add_int64(2, made.id);
                          to.add_bool(4, true);
                          to.add_int64(5, compacted);
                        }),
                        false);
    return;
  }
  session.watches.push_back(std::move(made));
  later(EtcdCluster::hop(), [this] { tell_watchers(); });
}

// A member that is behind tells later.
void EtcdMember::tell_watchers() {
  if (!is_up || is_former()) return;
  if (paused_until > kernel().now) return later(0, [this] { tell_watchers(); });
  const auto& history = cluster_->history;
  for (auto& session : sessions_) {
    for (auto& watch : session.watches) {
      std::string events;
      pbf_writer to(events);
      append(to, 1, header(seen()));
      to.add_int64(2, watch.id);
      bool has_some = false;
      for (; watch.next < history.size(); ++watch.next) {
        const auto& change = history[watch.next];
        const bool is_put = change.kind == KeyChange::Kind::put;
        if (is_put && watch.no_put) continue;
        if (!is_within(change.pair.key, watch.key, watch.range_end)) continue;
        has_some = true;
        append(to, 11, message_of([&](pbf_writer& event) {
                 event.add_enum(1, is_put ? 0 : 1);
                 append(event, 2, encoded(change.pair, false));
               }));
      }
      if (has_some) session.grpc->reply(watch.call, events, false);
    }
    const auto output = session.grpc->output();
    if (!output.empty()) session.connection->send_down(output);
  }
}

}  // namespace dlock::simulation
