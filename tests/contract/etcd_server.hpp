// A cluster of etcd for tests.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/etcd/etcd_calls.hpp"
#include "tests/contract/await.hpp"
#include "tests/contract/free_port.hpp"
#include "tests/contract/redis_server.hpp"

namespace dlock {

// One or more members on free ports of 127.0.0.1. The destructor kills them. They elect a
// leader within half a second, so their shortest lease is a second.
class EtcdServers {
 public:
  explicit EtcdServers(std::size_t count = 1, std::vector<std::string> options = {})
      : options_(std::move(options)) {
    while (client_ports_.size() < count) {
      const auto port = free_port(1);
      const bool is_taken = std::find(client_ports_.begin(), client_ports_.end(), port) !=
                            client_ports_.end();
      if (!is_taken) client_ports_.push_back(port);
    }
    for (std::size_t i = 0; i < count; ++i) start(i);
    for (std::size_t i = 0; i < count; ++i) await_member(i);
  }
  ~EtcdServers() {
    members_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(data_, ignored);
  }
  EtcdServers(const EtcdServers&) = delete;
  EtcdServers& operator=(const EtcdServers&) = delete;

  std::size_t size() const { return client_ports_.size(); }

  // How to reach all members, starting with member `first`.
  etcd::EtcdAccess access(std::size_t first = 0) const {
    etcd::EtcdAccess access;
    for (std::size_t i = 0; i < size(); ++i) {
      access.members.push_back(address((first + i) % size()));
    }
    return access;
  }
  etcd::EtcdAccess access_to(std::size_t member) const {
    etcd::EtcdAccess access;
    access.members.push_back(address(member));
    return access;
  }

  std::string url() const {
    std::string list;
    for (const auto& port : client_ports_) {
      list += (list.empty() ? "127.0.0.1:" : ",127.0.0.1:") + port;
    }
    return "etcd://" + list;
  }

  void send(std::size_t member, int signal) const { members_[member]->send(signal); }
  void kill(std::size_t member) { members_[member].reset(); }

  // Restarts a killed member with its data. Returns when it serves requests.
  void restart(std::size_t member) {
    start(member);
    await_member(member);
  }

  // The member that says that it is the leader; size() if there is none.
  std::size_t leader() const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (members_[i] == nullptr) continue;
      const auto status = status_of(i);
      if (status && status->leader != 0 && status->leader == status->member) return i;
    }
    return size();
  }

 private:
  ServerAddress address(std::size_t member) const {
    return {"127.0.0.1", static_cast<std::uint16_t>(std::stoul(client_ports_[member]))};
  }
  std::string url_of(std::size_t member, unsigned offset) const {
    return "http://127.0.0.1:" +
           std::to_string(std::stoul(client_ports_[member]) + offset);
  }

  void start(std::size_t member) {
    const auto name = "m" + std::to_string(member);
    std::string cluster;
    for (std::size_t i = 0; i < size(); ++i) {
      cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + url_of(i, 1);
    }
    std::vector<std::string> words{"etcd",
                                   "--name",
                                   name,
                                   "--data-dir",
                                   data_ + "/" + name,
                                   "--listen-client-urls",
                                   url_of(member, 0),
                                   "--advertise-client-urls",
                                   url_of(member, 0),
                                   "--listen-peer-urls",
                                   url_of(member, 1),
                                   "--initial-advertise-peer-urls",
                                   url_of(member, 1),
                                   "--initial-cluster",
                                   cluster,
                                   "--initial-cluster-token",
                                   data_,
                                   "--heartbeat-interval",
                                   "50",
                                   "--election-timeout",
                                   "500",
                                   "--logger",
                                   "zap",
                                   "--log-level",
                                   "error"};
    words.insert(words.end(), options_.begin(), options_.end());
    members_.resize(size());
    members_[member] =
        std::make_unique<ServerProcess>(std::move(words), data_ + "/" + name + ".log");
  }

  std::optional<etcd::StatusResult> status_of(std::size_t member) const {
    asio::io_context context;
    Wakeup wakeup(context);
    etcd::EtcdCalls calls(context, access_to(member), milliseconds(1000));
    std::vector<etcd::Request> requests;
    requests.emplace_back(etcd::StatusRequest{});
    try {
      auto results =
          result_of(context, calls.together(std::move(requests), calls.new_call(wakeup)));
      return std::get<etcd::StatusResult>(std::move(results.front()));
    } catch (const Failure&) {
      return std::nullopt;
    }
  }

  void await_member(std::size_t member) const {
    wait_for_server([&] {
      const auto status = status_of(member);
      return status && status->leader != 0;
    });
  }

  // In memory if possible, because etcd syncs every change to its disk.
  static std::string new_directory() {
    const std::filesystem::path memory("/dev/shm");
    const auto parent = std::filesystem::is_directory(memory)
                            ? memory
                            : std::filesystem::temp_directory_path();
    auto pattern = (parent / "dlock-etcd-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    return pattern;
  }

  std::vector<std::string> options_;
  std::string data_ = new_directory();
  std::vector<std::string> client_ports_;
  std::vector<std::unique_ptr<ServerProcess>> members_;
};

}  // namespace dlock
