// A member of an etcd cluster, as its clients see it.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "store/etcd/etcd_messages.hpp"
#include "tests/simulation/etcd_model.hpp"
#include "tests/simulation/grpc_session.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

// A reply: a message, or an error.
struct EtcdReply {
  std::string message;
  grpc::Code code = grpc::Code::ok;
  std::string why{};
  std::int64_t revision = 0;  // when it was executed
};

class EtcdMember final : public Peer {
 public:
  EtcdMember(std::shared_ptr<EtcdCluster> cluster, Executed executed);

  void received(const std::shared_ptr<Connection>& from, std::string_view bytes) override;
  void closed(const std::shared_ptr<Connection>& by) override;
  void crash() override;  // it loses nothing that was written
  void start() override;
  void pause(Time span) override;
  void disturb(Time span) override;
  Leases leases(const std::string& lock) override { return cluster_->leases(lock); }

  bool is_awake() const;
  void tell_watchers();

 private:
  struct Watch {
    int call = 0;
    std::int64_t id = 0;
    std::string key, range_end;
    bool no_put = false;
    std::size_t next = 0;  // in the history
  };
  struct Session {
    std::shared_ptr<Connection> connection;
    std::unique_ptr<GrpcSession> grpc;
    std::list<Watch> watches;
  };
  using Work = std::function<EtcdReply()>;

  Session* session_of(const Connection* connection);
  bool is_former() const;
  std::uint64_t term() const;
  void take(Session& session, int call, const std::string& path,
            const std::string& bytes);
  void write(Session& session, int call, Work work, Act act = Act::other);
  void answer(const Connection* to, int call, const EtcdReply& reply);  // with a header
  void later(Time span, std::function<void()> work);                    // once it runs
  std::string header(std::int64_t revision) const;
  std::int64_t seen() const;  // the revision that it knows
  EtcdReply keep_alive(std::int64_t lease, EtcdReign& by);
  EtcdReply granted(std::string_view bytes, const Process* owner);
  EtcdReply executed_txn(const etcd::TxnRequest& txn, EtcdData* old);
  void watch(Session& session, int call, std::string_view bytes);
  void end_watches();

  std::shared_ptr<EtcdCluster> cluster_;
  Executed executed_;
  std::list<Session> sessions_;
};

}  // namespace dlock::simulation
