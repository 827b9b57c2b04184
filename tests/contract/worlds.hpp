// Every kind of store with the servers it needs; a new kind is one row in `kinds`.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "store/directory.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/local/local_store.hpp"
#include "store/open.hpp"
#include "tests/contract/etcd_server.hpp"
#include "tests/contract/free_port.hpp"
#include "tests/contract/memory_store.hpp"
#include "tests/contract/postgres_server.hpp"
#include "tests/contract/redis_server.hpp"
#include "tests/unit/temporary_directory.hpp"
#include "util/bits.hpp"
#include "util/fd.hpp"

namespace dlock {

// A lock service for one test.
class World {
 public:
  virtual ~World() = default;

  // A new client of the service, as each process has its own.
  virtual std::unique_ptr<Store> connect(asio::io_context& context,
                                         milliseconds timeout) = 0;

  // The service answers no request until the returned object is destroyed.
  virtual std::shared_ptr<void> hold_up() = 0;

  // Deletes all locks of the service, whoever holds them.
  virtual void wipe_out() = 0;
};

class LocalWorld final : public World {
 public:
  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return local::store_at(context, path(), timeout);
  }

  std::shared_ptr<void> hold_up() override {
    const auto directory = Directory::open(path(), false, Directory::Missing::create);
    auto file = std::make_shared<Fd>(directory->open_file("sessions", O_RDWR, true));
    // The set-up and the registers first, then all locks.
    constexpr off_t first_of_locks = off_t{1} << 62;
    for (const auto& [start, length] :
         {std::pair<off_t, off_t>{0, 2}, {first_of_locks, 0}}) {
      struct flock range {};
      range.l_type = F_WRLCK;
      range.l_start = start;
      range.l_len = length;
      if (::fcntl(file->get(), F_OFD_SETLK, &range) != 0)
        throw std::logic_error("in use");
    }
    return file;
  }

  void wipe_out() override { std::filesystem::rename(path(), root_.file("elsewhere")); }

  std::string path() const { return root_.file("store"); }

 private:
  TemporaryDirectory root_;
};

// Every third write loses against another one, except of counts: those are not repeated.
class MemoryWorld final : public World {
 public:
  MemoryWorld() {
    service_.fate = [this](bool only_counts) {
      const bool loses = !only_counts && ++writes_ % 3 == 0;
      return loses ? Fate::lost_race : Fate::done;
    };
  }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return std::make_unique<MemoryStore>(context, service_, timeout);
  }

  std::shared_ptr<void> hold_up() override {
    service_.is_held_up = true;
    return {nullptr, [this](void*) { service_.is_held_up = false; }};
  }

  void wipe_out() override {
    service_.locks.clear();
    for (const auto& [session, on_news] : service_.listeners) on_news();
  }

 private:
  MemoryService service_;
  unsigned writes_ = 0;
};

// A server for all tests of this process, emptied before each.
class RedisWorld final : public World {
 public:
  RedisWorld() { server().command("FLUSHALL"); }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return open_store(parsed_store_url("redis+unix:" + server().socket()), timeout,
                      context);
  }

  std::shared_ptr<void> hold_up() override {
    server().send(SIGSTOP);
    return {nullptr, [](void*) { server().send(SIGCONT); }};
  }

  void wipe_out() override { command("FLUSHALL"); }

  // As in RedisServer.
  static std::string command(const std::string& line) { return server().command(line); }

 private:
  static RedisServer& server() {
    static RedisServer only;
    return only;
  }
};

// A primary that a sentinel names, without a replica.
class SentinelWorld final : public World {
 public:
  SentinelWorld() { fleet().server.command("FLUSHALL"); }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    const auto place = "127.0.0.1:" + fleet().sentinel_port;
    return open_store(parsed_store_url("redis+sentinel://" + place + "/main"), timeout,
                      context);
  }

  std::shared_ptr<void> hold_up() override {
    fleet().server.send(SIGSTOP);
    return {nullptr, [](void*) { fleet().server.send(SIGCONT); }};
  }

  void wipe_out() override { fleet().server.command("FLUSHALL"); }

 private:
  struct Fleet {
    std::string port = free_port();
    RedisServer server{{"--port", port, "--bind", "127.0.0.1"}};
    std::string sentinel_port = free_port();
    TemporaryDirectory root;
    ServerProcess sentinel{{server_program(), written_settings(), "--sentinel"},
                           root.file("log")};

    Fleet() {
      wait_for_server([this] { return listens(sentinel_port); });
    }

    // It must not take a stopped server for dead.
    std::string written_settings() const {
      const auto file = root.file("conf");
      std::ofstream(file) << "port " << sentinel_port << "\nbind 127.0.0.1\ndir "
                          << root.path() << "\nsentinel monitor main 127.0.0.1 " << port
                          << " 1\nsentinel down-after-milliseconds main 3600000\n";
      return file;
    }
  };

  static Fleet& fleet() {
    static Fleet only;
    return only;
  }
};

// A cluster of one member that has all slots.
class ClusterWorld final : public World {
 public:
  ClusterWorld() { cluster().server.command("FLUSHALL"); }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return open_store(parsed_store_url("redis+cluster://127.0.0.1:" + cluster().port),
                      timeout, context);
  }

  std::shared_ptr<void> hold_up() override {
    cluster().server.send(SIGSTOP);
    return {nullptr, [](void*) { cluster().server.send(SIGCONT); }};
  }

  void wipe_out() override { cluster().server.command("FLUSHALL"); }

 private:
  struct Cluster {
    std::string port = free_port(10'000);
    RedisServer server{
        {"--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes"}};

    Cluster() {
      constexpr int slots = 16384;
      constexpr int at_once = 1024;
      for (int first = 0; first < slots; first += at_once) {
        std::string add = "CLUSTER ADDSLOTS";
        for (int slot = first; slot < first + at_once; ++slot) {
          add += " " + std::to_string(slot);
        }
        server.command(add);
      }
      wait_for_server([this] {
        return server.command("CLUSTER INFO").find("cluster_state:ok") !=
               std::string::npos;
      });
    }
  };

  static Cluster& cluster() {
    static Cluster only;
    return only;
  }
};

// Three independent servers that may vote soon after their start.
class QuorumWorld final : public World {
 public:
  QuorumWorld() { wipe_out(); }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    std::string list;
    for (const auto& server : servers()) {
      list += (list.empty() ? "127.0.0.1:" : ",127.0.0.1:") + server.port;
    }
    auto url = parsed_store_url("redis+quorum://" + list);
    url.terms.max_ttl = milliseconds(0);
    return open_store(url, timeout, context);
  }

  // Two are enough.
  std::shared_ptr<void> hold_up() override {
    for (int i = 0; i < 2; ++i) servers()[i].process.send(SIGSTOP);
    return {nullptr, [](void*) {
              for (int i = 0; i < 2; ++i) servers()[i].process.send(SIGCONT);
            }};
  }

  void wipe_out() override {
    for (const auto& server : servers()) server.process.command("FLUSHALL");
  }

 private:
  struct Server {
    std::string port = free_port();
    RedisServer process{{"--port", port, "--bind", "127.0.0.1"}};
  };

  static std::array<Server, 3>& servers() {
    static std::array<Server, 3> all;
    return all;
  }
};

// A cluster of etcd with this many members, for all tests of this process, emptied before
// each.
template <std::size_t count>
class EtcdWorld final : public World {
 public:
  EtcdWorld() { wipe_out(); }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return etcd::store_of(servers().url(), servers().access(), timeout, context);
  }

  std::shared_ptr<void> hold_up() override {
    for (std::size_t i = 0; i < count; ++i) servers().send(i, SIGSTOP);
    return {nullptr, [](void*) {
              for (std::size_t i = 0; i < count; ++i) servers().send(i, SIGCONT);
              wait_for_server([] { return servers().leader() < count; });
            }};
  }

  void wipe_out() override {
    asio::io_context context;
    Wakeup wakeup(context);
    etcd::EtcdCalls calls(context, servers().access(), milliseconds(5000));
    etcd::DeleteRequest all;
    all.key = std::string(1, '\0');
    all.range_end = all.key;
    etcd::TxnRequest request;
    request.then.emplace_back(all);
    result_of(context, calls.txn(std::move(request), calls.new_call(wakeup)));
  }

 private:
  static EtcdServers& servers() {
    static EtcdServers only(count);
    return only;
  }
};

// A database for all tests of this process, emptied before each. Clients of a pooler
// share its sessions, one a transaction.
template <bool pooled>
class PostgresWorld final : public World {
 public:
  static PostgresServer& server() {
    static PostgresServer only;
    return only;
  }

  PostgresWorld() {
    if (tables().empty()) make_tables();
    wipe_out();
  }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    const auto url = pooled ? server().pooled_url() : server().url();
    return open_store(parsed_store_url(url), timeout, context);
  }

  // Another session has locked everything.
  std::shared_ptr<void> hold_up() override {
    auto session = std::make_shared<SqlSession>(server().session());
    session->command("BEGIN; LOCK TABLE " + tables() + " IN ACCESS EXCLUSIVE MODE");
    return session;
  }

  void wipe_out() override {
    server().session().command(
        "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE "
        "schemaname = 'dlock' LOOP EXECUTE 'DELETE FROM dlock.' || t; END LOOP; END $$");
  }

 private:
  static std::string tables() {
    return server().session().command(
        "SELECT string_agg('dlock.' || tablename, ', ') FROM pg_tables WHERE schemaname "
        "= "
        "'dlock'");
  }

  // The first claim makes them.
  void make_tables() {
    asio::io_context context;
    Wakeup wakeup(context);
    const auto store = connect(context, std::chrono::seconds(10));
    Claim claim;
    claim.lock = {"dlock", "first"};
    claim.token.bytes = random_bytes();
    const auto claimant = store->claimant(claim);
    result_of(context, claimant->ask(Queue::stay_out, wakeup));
  }
};

// A store timeout that a busy machine does not use up, as an answer takes milliseconds,
// and well below the 20 s for which tests wait.
constexpr milliseconds usual_timeout{5'000};

struct Kind {
  const char* name;
  std::unique_ptr<World> (*make)();
  bool is_shared_by_processes;

  // Features that a store may lack.
  bool keeps_values = true;
  bool keeps_rates = true;
  bool raises_fences = true;  // Claim::fence_floor: not if the server makes the numbers
  // How long the shortest lease lasts there, whatever the claim says, including the time
  // until its end is noticed.
  milliseconds shortest_lease{0};
  // A store timeout that is enough for an answer.
  milliseconds brief_timeout{250};
  bool watches = true;  // LockInspector::watch()
  bool orders_by_priority = true;
  bool spreads = true;
  // Not if each server tells the events: one may have begun behind the others.
  bool tells_in_order = true;
};

template <typename SomeWorld>
std::unique_ptr<World> make_world() {
  return std::make_unique<SomeWorld>();
}

constexpr Kind kinds[] = {
    {"memory", make_world<MemoryWorld>, false},
    {"local", make_world<LocalWorld>, true},
    {"redis", make_world<RedisWorld>, true},
    {"sentinel", make_world<SentinelWorld>, true},
    {"cluster", make_world<ClusterWorld>, true},
    {"quorum", make_world<QuorumWorld>, true, false, false, true, milliseconds(0),
     milliseconds(250), true, true, false, false},
    {"etcd", make_world<EtcdWorld<1>>, true, false, false, false, milliseconds(2'000),
     milliseconds(250), true, false, false},
    {"etcd3", make_world<EtcdWorld<3>>, true, false, false, false, milliseconds(2'000),
     milliseconds(250), true, false, false},
    {"postgres", make_world<PostgresWorld<false>>, true, true, true, true,
     milliseconds(0), milliseconds(1'000)},
    {"postgres_pooled", make_world<PostgresWorld<true>>, true, true, true, true,
     milliseconds(0), milliseconds(1'000), false},
};

inline std::vector<Kind> every_kind() { return {std::begin(kinds), std::end(kinds)}; }

// The kinds that have these features.
template <typename... Features>
std::vector<Kind> kinds_with(Features... features) {
  std::vector<Kind> found;
  std::copy_if(std::begin(kinds), std::end(kinds), std::back_inserter(found),
               [&](const Kind& kind) { return ((kind.*features) && ...); });
  return found;
}

inline std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

}  // namespace dlock
