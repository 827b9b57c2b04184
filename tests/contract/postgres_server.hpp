// A PostgreSQL server for tests, and PgBouncer before it.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/free_port.hpp"
#include "tests/contract/redis_server.hpp"

namespace dlock {

// A session of the role `postgres`, which may do everything, on a unix socket where it
// needs no password. It does not use the code under test.
class SqlSession {
 public:
  // No session if the server does not let it in.
  SqlSession(const std::string& socket, const std::string& database)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
    const auto* generic =
        static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (::connect(fd_.get(), generic, sizeof address) != 0) return;
    const std::string names =
        std::string("user\0postgres\0database\0", 23) + database + std::string(2, '\0');
    send(number(8 + names.size()) + number(3 << 16) + names);
    is_open_ = is_ready();
  }

  bool is_open() const { return is_open_; }

  // Carries out statements, and returns the first column of the last row. Throws if one
  // fails.
  std::string command(const std::string& sql) {
    send("Q" + number(sql.size() + 5) + sql + '\0');
    if (!is_ready()) throw std::runtime_error(sql + ": " + error_);
    return column_;
  }

 private:
  static std::string number(std::size_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(value >> shift & 0xff);
    }
    return bytes;
  }
  static std::size_t number_in(const std::string& bytes, std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes.at(i));
    }
    return value;
  }

  void send(const std::string& bytes) const {
    if (::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
  }
  std::string received(std::size_t size) const {
    std::string bytes(size, '\0');
    if (::recv(fd_.get(), bytes.data(), size, MSG_WAITALL) !=
        static_cast<ssize_t>(size)) {
      return "";
    }
    return bytes;
  }

  // Reads up to the end of the answer. Returns whether it comes, and is no error.
  bool is_ready() {
    error_.clear();
    column_.clear();
    for (;;) {
      const auto head = received(5);
      if (head.empty()) return false;
      const auto size = number_in(head, 1) - 4;
      const auto body = size > 0 ? received(size) : "";
      if (head[0] == 'Z') return error_.empty();
      if (head[0] == 'E') error_ = body;
      if (head[0] != 'D') continue;
      const auto length = static_cast<std::int32_t>(number_in(body, 2));
      column_ = length < 0 ? "" : body.substr(6, static_cast<std::size_t>(length));
    }
  }

  Fd fd_;
  bool is_open_ = false;
  std::string error_;
  std::string column_;
};

// Listens on a unix socket. It has the database `app`, which belongs to the role `app`.
class PostgresServer {
 public:
  PostgresServer() {
    const auto made = " initdb.log 2>&1";
    run(word(programs() + "/initdb") +
        " --no-sync --auth trust --username postgres --encoding UTF8 --locale C -D data "
        ">" +
        made);
    process_ = std::make_unique<ServerProcess>(
        as_postgres({programs() + "/postgres", "-D", root_ + "/data", "-k", root_, "-p",
                     port(), "-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c",
                     "dynamic_shared_memory_type=mmap"}),
        root_ + "/log");
    wait_for_server([this] { return SqlSession(socket(), "postgres").is_open(); });
    SqlSession first(socket(), "postgres");
    first.command("CREATE ROLE app LOGIN");
    first.command("CREATE DATABASE app OWNER app");
  }
  ~PostgresServer() {
    // A forked child of the test has a copy of this object.
    if (::getpid() != owner_) return;
    pooler_.reset();
    // Unlike SIGKILL, this ends its other processes as well, and frees its shared memory.
    process_->end(SIGQUIT);
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  std::string url() const {
    return "postgres://app@/app?host=" + root_ + "&port=" + port();
  }

  SqlSession session() const { return {socket(), "app"}; }

  // Starts PgBouncer in transaction mode at the first call. Returns the URL there.
  std::string pooled_url() {
    if (!pooler_) start_pooler();
    return "postgres://app@127.0.0.1:" + pooler_port_ + "/app";
  }

 private:
  static std::string port() { return "5432"; }  // only a part of the socket's name
  std::string socket() const { return root_ + "/.s.PGSQL." + port(); }

  // Where the newest programs are.
  static std::string programs() {
    unsigned long newest = 0;
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator("/usr/lib/postgresql", none)) {
      newest =
          std::max(newest, std::strtoul(entry.path().filename().c_str(), nullptr, 10));
    }
    return "/usr/lib/postgresql/" + std::to_string(newest) + "/bin";
  }

  // The programs refuse to run as root. They must end with the tests.
  static std::vector<std::string> as_postgres(std::vector<std::string> words) {
    if (::geteuid() != 0) return words;
    std::vector<std::string> all{"setpriv",     "--reuid",  "postgres",
                                 "--regid",     "postgres", "--clear-groups",
                                 "--pdeathsig", "KILL",     "--"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  static std::string word(const std::string& text) { return "'" + text + "'"; }

  // Runs a command in the server's directory.
  void run(const std::string& command) const {
    std::string line = "cd " + word(root_) + " &&";
    for (const auto& part : as_postgres({})) line += " " + part;
    if (std::system((line + " " + command).c_str()) != 0) {
      throw std::runtime_error(command + " failed");
    }
  }

  void start_pooler() {
    const auto settings = root_ + "/pgbouncer.ini";
    std::ofstream(settings)
        << "[databases]\napp = host=" << root_ << " port=" << port()
        << " user=app\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = "
        << pooler_port_ << "\nunix_socket_dir =\nauth_type = any\n"
        << "pool_mode = transaction\n";
    pooler_ = std::make_unique<ServerProcess>(as_postgres({"pgbouncer", settings}),
                                              root_ + "/pgbouncer.log");
    wait_for_server([this] { return listens(pooler_port_); });
  }

  // In memory if possible, and open to the user postgres.
  static std::string new_directory() {
    const std::filesystem::path memory("/dev/shm");
    const auto parent = std::filesystem::is_directory(memory) ? memory : "/tmp";
    auto pattern = (parent / "dlock-postgres-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory");
    ::chmod(pattern.c_str(), 0777);
    return pattern;
  }

  pid_t owner_ = ::getpid();
  std::string root_ = new_directory();
  std::unique_ptr<ServerProcess> process_;
  std::string pooler_port_ = free_port();
  std::unique_ptr<ServerProcess> pooler_;
};

}  // namespace dlock
