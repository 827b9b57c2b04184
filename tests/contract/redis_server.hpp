// A Redis server for tests. DLOCK_TEST_SERVER can name another program, such as Valkey's.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.hpp"
#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

// A program that runs as long as this object exists.
class ServerProcess {
 public:
  // Its output goes to the file `log`.
  ServerProcess(std::vector<std::string> words, const std::string& log) {
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ~ServerProcess() {
    // A forked child of the test has a copy of this object, but must not stop the
    // process.
    if (::getpid() != owner_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // After SIGSTOP, returns when the process has stopped.
  void send(int signal) const {
    ::kill(pid_, signal);
    if (signal == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);
  }

  // Returns when the program has exited, or after 5 s.
  void end(int signal) const {
    ::kill(pid_, signal);
    for (int i = 0; i < 1000; ++i) {
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      if (info.si_pid == pid_) return;
      ::usleep(5000);
    }
  }

 private:
  pid_t owner_ = ::getpid();
  pid_t pid_ = 0;
};

inline std::string server_program() {
  const char* program = std::getenv("DLOCK_TEST_SERVER");
  return program != nullptr ? program : "redis-server";
}

template <typename Condition>
void wait_for_server(Condition is_there) {
  const auto give_up_at = Clock::now() + std::chrono::seconds(20);
  while (!is_there()) {
    if (Clock::now() > give_up_at) throw std::runtime_error("no server started");
    ::usleep(5000);
  }
}

// Listens on a unix socket in its own directory. The destructor kills it.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {})
      : process_(words(std::move(options)), root_.file("log")) {
    wait_for_server([this] { return answers(); });
  }

  std::string socket() const { return root_.file("redis.sock"); }
  void send(int signal) const { process_.send(signal); }

  // Sends one line as a command and returns the first bytes of the reply.
  std::string command(const std::string& line) const {
    const Fd connection = connected();
    const auto text = line + "\r\n";
    char answer[4096];
    if (!connection || ::write(connection.get(), text.data(), text.size()) < 0) return "";
    const auto size = ::read(connection.get(), answer, sizeof answer);
    return size > 0 ? std::string(answer, static_cast<std::size_t>(size)) : "";
  }

 private:
  std::vector<std::string> words(std::vector<std::string> options) const {
    std::vector<std::string> all{
        server_program(), "--port", "0",     "--unixsocket", socket(), "--save", "",
        "--appendonly",   "no",     "--dir", root_.path()};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  bool answers() const { return command("PING") == "+PONG\r\n"; }

  Fd connected() const {
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto path = socket();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const auto* generic =
        static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (::connect(fd.get(), generic, sizeof address) != 0) return Fd();
    return fd;
  }

  TemporaryDirectory root_;
  ServerProcess process_;
};

}  // namespace dlock
