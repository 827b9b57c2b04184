#include "net/password_command.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "util/fd.hpp"
#include "util/open_null.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock::net {
namespace {

// Far more than any password or token.
constexpr std::size_t longest_output = 64u << 10;

// How often to look whether it has ended, where the kernel does not tell.
constexpr milliseconds look_again{20};

Failure fault(Failure::Kind kind, const std::vector<std::string>& words,
              const std::string& why) {
  return Failure(kind,
                 "--password-command '" + printable(words.front(), 100) + "' " + why);
}

// What the process is started with: all signals as usual, a separate group, and no
// input.
class HelperStart {
 public:
  explicit HelperStart(int output) {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP |
                                                 POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawn_file_actions_init(&files_);
    ::posix_spawn_file_actions_adddup2(&files_, null_.get(), 0);
    ::posix_spawn_file_actions_adddup2(&files_, output, 1);
    ::posix_spawn_file_actions_adddup2(&files_, null_.get(), 2);
  }
  ~HelperStart() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  HelperStart(const HelperStart&) = delete;
  HelperStart& operator=(const HelperStart&) = delete;

  // Returns an errno; 0: it runs.
  int operator()(const std::vector<std::string>& words, pid_t& pid) const {
    std::vector<char*> argv;
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    return ::posix_spawnp(&pid, argv[0], &files_, &attributes_, argv.data(), environ);
  }

 private:
  const Fd null_{open_null()};
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t files_{};
};

// A running command. It is killed and reaped when this object goes, if it has not ended.
class Helper {
 public:
  Helper(asio::io_context& context, const std::vector<std::string>& words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
      throw failure_of_call(errno, "cannot run the password command", "pipe2");
    }
    output_ = Fd(ends[0]);
    const Fd written(ends[1]);
    // The other end blocks, as programs expect.
    ::fcntl(written.get(), F_SETFL, 0);
    const auto error = HelperStart(written.get())(words, pid_);
    if (error != 0) {
      pid_ = 0;
      throw fault(error == EAGAIN || error == ENOMEM ? Failure::Kind::exhausted
                                                     : Failure::Kind::misconfigured,
                  words, "cannot be started: " + reason_of(error));
    }
    end_ = Fd(open_pidfd(pid_));
    output_ready_.emplace(context, output_.get());
    if (end_) end_ready_.emplace(context, end_.get());
  }
  ~Helper() {
    output_ready_.reset();
    end_ready_.reset();
    if (pid_ == 0) return;
    ::kill(-pid_, SIGKILL);
    reap(pid_);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  // Reads what has come, and looks whether it has ended. True if so.
  bool has_ended() {
    drain();
    if (pid_ == 0) return true;
    siginfo_t info{};
    const int looked =
        ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (looked == 0 && info.si_pid == 0) return false;
    // What it has left behind; before it is reaped, so that no other group has its
    // number.
    if (looked == 0) ::kill(-pid_, SIGKILL);
    status_ = reap(pid_);
    pid_ = 0;
    drain();
    return true;
  }

  // Whether has_ended() may tell something new since ask().
  bool has_news() const {
    using For = Readiness::For;
    return (!is_read_ && output_ready_->came(For::reading)) ||
           (end_ready_ && end_ready_->came(For::reading));
  }

  void ask(Wakeup& wakeup) {
    if (!is_read_) output_ready_->ask(Readiness::For::reading, wakeup);
    if (end_ready_) end_ready_->ask(Readiness::For::reading, wakeup);
  }

  Clock::time_point next_look() const {
    return end_ready_ ? Clock::time_point::max() : Clock::now() + look_again;
  }

  bool prints_too_much() const { return text_.size() > longest_output; }
  int status() const { return status_; }
  const std::string& text() const { return text_; }

 private:
  void drain() {
    char block[4096];
    while (!is_read_ && !prints_too_much()) {
      const auto got = ::read(output_.get(), block, sizeof block);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      is_read_ = got == 0;
      text_.append(block, static_cast<std::size_t>(got));
    }
  }

  Fd output_;
  Fd end_;
  pid_t pid_ = 0;
  std::optional<Readiness> output_ready_;
  std::optional<Readiness> end_ready_;
  std::string text_;
  bool is_read_ = false;
  int status_ = 0;
};

// The first line, without its end.
std::string first_line(const std::string& text) {
  auto line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return "was killed by signal " + std::to_string(WTERMSIG(status));
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::vector<std::string> words_of_command(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && is_blank) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    if (escapes && (quote == 0 || line[i + 1] == '"' || line[i + 1] == '\\')) {
      words.back() += line[++i];
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  const auto bad = [](const char* why) { return Failure::misconfigured(why); };
  if (quote != 0) throw bad("a quote is not closed");
  if (words.empty() || words.front().empty()) throw bad("missing command");
  return words;
}

asio::awaitable<std::string> password_printed_by(asio::io_context& context,
                                                 const std::vector<std::string>& words,
                                                 Budget& budget) {
  using Kind = Failure::Kind;
  Helper helper(context, words);
  for (;;) {
    if (helper.has_ended()) break;
    if (helper.prints_too_much()) {
      throw fault(Kind::misconfigured, words, "prints more than any password has");
    }
    if (budget.is_over()) {
      throw fault(Kind::unreachable, words,
                  "has printed no password in time: raise --store-timeout");
    }
    helper.ask(budget.wakeup());
    co_await budget.wait([&] { return helper.has_news(); }, helper.next_look());
  }
  if (helper.status() != 0) {
    throw fault(Kind::unreachable, words,
                how_it_ended(helper.status()) + " (run it by hand to see why)");
  }
  auto password = first_line(helper.text());
  if (password.empty() || password.find('\0') != std::string::npos) {
    throw fault(Kind::misconfigured, words, "prints no password in its first line");
  }
  co_return password;
}

}  // namespace dlock::net
