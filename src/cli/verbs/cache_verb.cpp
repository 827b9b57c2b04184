#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <optional>
#include <utility>

#include "cli/args/options.hpp"
#include "cli/run/execute_run.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/terminal/slow_output.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "util/bits.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

void warn_of_damage(const Speaker& speaker, const std::string& damage) {
  if (!damage.empty()) speaker.warning("the cached value is unusable: " + damage);
}

// Writes all of `bytes` to standard output, even if it is non-blocking. Returns false if
// that is not possible.
bool print_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto size = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size < 0 && errno == EAGAIN) {
      pollfd room{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (size < 0 && errno != EINTR) {
      return false;
    } else if (size > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }
  return true;
}

// Buffers the command's output up to a limit, so that it can be cached. Past the limit
// the output will not be cached, so everything is forwarded to dlock's own standard
// output; then the command is read only as fast as standard output accepts the data.
class CommandOutput final : public OutputCapture {
 public:
  explicit CommandOutput(std::size_t most)
      : most_(most), epoll_(new_epoll("cannot watch a pipe")), pipe_(epoll_.get()) {
    // Fails for a file, which never blocks.
    epoll_event nothing_yet{EPOLLONESHOT, {}};
    blocks_ = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, writer_.fd(), &nothing_yet) == 0;
  }

  CommandStreams streams() const override {
    return {pipe_.writing_end(), -1, {pipe_.reading_end(), -1}};
  }

  void command_starts(asio::io_context& context) override {
    poll_.emplace(context, std::move(epoll_), [this] { look(); });
  }

  void command_runs() override {
    pipe_.close_writing_end();
    watch();
  }

  void command_ended() override {
    pipe_.read_rest([this](auto bytes) { add(bytes); });
    poll_.reset();
  }

  // The complete output, or null if it exceeded the limit.
  const std::string* whole() const { return passes_on_ ? nullptr : &bytes_; }

  // Writes the output that was not forwarded yet, and waits for a slow reader. Returns
  // whether all of the output was written; if not, error() is the errno.
  bool print_rest() {
    if (failed_) return false;
    failed_ = !print_bytes(std::string_view(bytes_).substr(passed_));
    if (failed_) error_ = errno;
    passed_ = bytes_.size();
    return !failed_;
  }
  int error() const { return error_; }

 private:
  // How much is read ahead of the reader of standard output.
  static constexpr std::size_t most_ahead = CommandPipe::block;

  // How many blocks are handled before other events get their turn.
  static constexpr int rounds = 16;

  void look() {
    std::array<epoll_event, 2> events{};
    ::epoll_wait(poll_->fd(), events.data(), static_cast<int>(events.size()), 0);
    pipe_.read(
        passes_on_ ? most_ahead - std::min(left(), most_ahead) : rounds * most_ahead,
        [this](auto bytes) { add(bytes); });
    pass_on();
    watch();
  }

  void add(std::string_view bytes) {
    if (failed_) return;
    bytes_.append(bytes);
    if (bytes_.size() > most_) passes_on_ = true;
  }

  void pass_on() {
    if (!passes_on_ || failed_) return;
    for (int round = 0; left() > 0 && (round < rounds || !blocks_); ++round) {
      const auto size = writer_.write_some(std::string_view(bytes_).substr(passed_),
                                           blocks_ ? milliseconds(0) : unwatched_wait);
      if (size == 0 && blocks_) break;
      if (size < 0) return give_up();
      passed_ += static_cast<std::size_t>(size);
    }
    if (passed_ < most_ahead && left() > 0) return;
    bytes_.erase(0, passed_);
    passed_ = 0;
  }

  // As without dlock: the command's next write fails because there is no reader.
  void give_up() {
    error_ = errno;
    failed_ = passes_on_ = true;
    pipe_.close();
    bytes_.clear();
    passed_ = 0;
  }

  void watch() {
    if (!passes_on_ || left() < most_ahead) pipe_.wait_for_bytes();
    if (!blocks_ || !passes_on_ || left() == 0) return;
    epoll_event room{EPOLLONESHOT | EPOLLOUT, {}};
    ::epoll_ctl(poll_->fd(), EPOLL_CTL_MOD, writer_.fd(), &room);
  }

  std::size_t left() const { return bytes_.size() - passed_; }

  std::size_t most_;
  Fd epoll_;  // our own instance, which Asio watches while the command runs
  CommandPipe pipe_;
  std::optional<Readable> poll_;
  SlowWriter writer_{STDOUT_FILENO};
  bool blocks_ = true;  // whether standard output can block; a file cannot
  std::string bytes_;
  std::size_t passed_ = 0;  // bytes of these
  bool passes_on_ = false;
  bool failed_ = false;  // standard output cannot be written any more
  int error_ = 0;        // why
};

// A run that computes a value, or finds that it does not have to.
class Computation final : public RunExtension {
 public:
  Computation(const CacheOptions& options, const Speaker& speaker)
      : options_(options), speaker_(speaker), output_(options.max_size) {}

  // Another caller may have stored a value between our lookup and the grant.
  asio::awaitable<bool> is_needed(Store& store, const Claim& claim,
                                  Wakeup& wakeup) override {
    auto found = co_await values_of(store).get(claim.lock, options_.max_size, wakeup);
    if (found.value && found.value->is_fresh) value_ = std::move(found.value);
    co_return !value_;
  }

  asio::awaitable<void> joined(const RunInfo& run, Store& store, const Claim& claim,
                               Wakeup& wakeup) override {
    joined_run_ = run;
    if (run.exit_code != 0) co_return;
    // The value's ttl may be over already, but this caller has waited for it.
    auto found = co_await values_of(store).get(claim.lock, options_.max_size, wakeup);
    warn_of_damage(speaker_, found.damage);
    value_ = std::move(found.value);
  }

  // A failed run also counts for the waiters. A run whose output is not available to
  // them, or that was lost, does not: the next waiter runs the command itself.
  asio::awaitable<bool> settle(const RunResult& result, Store& store, const Claim& claim,
                               Wakeup& wakeup) override {
    const bool ran = result.outcome == RunOutcome::ran;
    if (!ran && result.outcome != RunOutcome::not_started) co_return false;
    if (!ran || result.exit_code != 0) co_return true;
    if (output_.whole() == nullptr) {
      speaker_.warning("not cached: more than " + std::to_string(options_.max_size) +
                       " bytes (--max-size)");
      co_return false;
    }
    co_return co_await store_output(store, claim, wakeup);
  }

  // The value that another caller has stored in the meantime.
  const std::optional<Value>& value() const { return value_; }
  // The run that counts as this one.
  const std::optional<RunInfo>& joined_run() const { return joined_run_; }

  CommandOutput& command_output() { return output_; }

 private:
  asio::awaitable<bool> store_output(Store& store, const Claim& claim, Wakeup& wakeup) {
    std::string why;
    try {
      const auto storing = co_await values_of(store).put(claim, *output_.whole(),
                                                         options_.lifetime, wakeup);
      if (storing == Storing::stored) {
        speaker_.step(store.protects()
                          ? "stored " + std::to_string(output_.whole()->size()) + " bytes"
                          : "not stored (none: stores nothing)");
        co_return true;
      }
    } catch (const Failure& failure) {
      why = failure.what();
    }
    // Otherwise the lock is no longer ours, which its release is about to report.
    if (!why.empty()) speaker_.warning("not cached: " + why);
    co_return false;
  }

  const CacheOptions& options_;
  const Speaker& speaker_;
  CommandOutput output_;
  std::optional<Value> value_;
  std::optional<RunInfo> joined_run_;
};

// The cached value, if there is one, and the holder that is computing a new one.
struct CachedValue {
  std::optional<ValueInfo> value;
  std::optional<HolderInfo> computed_by;
};

asio::awaitable<CachedValue> describe(Store& store, const LockName& lock,
                                      const Speaker& speaker, Wakeup& wakeup) {
  auto found = co_await values_of(store).describe(lock, wakeup);
  warn_of_damage(speaker, found.damage);
  CachedValue cached{found.value, std::nullopt};
  auto info = co_await store.inspector().inspect(lock, wakeup);
  if (!info.holders.empty()) cached.computed_by = std::move(info.holders.front());
  co_return cached;
}

// "5120 bytes, stored 3m12s ago, fresh for another 1m48s"; names the `store` if it has
// nothing.
std::string cached_text(const CachedValue& cached, const std::string& store) {
  std::string text = "nothing is cached in " + printable(store);
  if (const auto& value = cached.value) {
    text = std::to_string(value->size) + " bytes";
    if (value->age) text += ", stored " + for_people(*value->age) + " ago";
    text += value->fresh_for.count() > 0
                ? ", fresh for another " + for_people(value->fresh_for)
                : ", stale, served for another " + for_people(value->expires_in) +
                      " during a refresh";
  }
  text += "\n";
  if (const auto& holder = cached.computed_by) {
    text += "being computed by " + described(*holder) + "\n";
  }
  return text;
}

Json json_of(const std::string& key, const CachedValue& cached) {
  const auto& value = cached.value;
  return Json{
      {"key", key},
      {"cached", value.has_value()},
      {"size", value ? Json(value->size) : Json(nullptr)},
      {"age_ms", value ? or_null(value->age) : Json(nullptr)},
      {"fresh_for_ms", value ? Json(value->fresh_for.count()) : Json(nullptr)},
      {"expires_in_ms", value ? Json(value->expires_in.count()) : Json(nullptr)},
      {"maker", json_or_null(cached.computed_by)},
  };
}

// Prints the value's description. Exits with 0 if there is a value, 1 if not.
Exit show_value(const CommonOptions& common, const LockName& lock) {
  StoreClient client(common);
  const Speaker speaker(lock.name, common.quiet, common.verbose);
  const auto cached = client.call([&](Store& store, Wakeup& wakeup) {
    return describe(store, lock, speaker, wakeup);
  });
  const auto key = lock.name.substr(lock.name.find(':') + 1);
  print(common.json ? to_line(json_of(key, cached)) + "\n"
                    : cached_text(cached, client->url()));
  return cached.value ? ExitStatus::success : ExitStatus::not_held;
}

// One invocation of the verb.
class Cache {
 public:
  explicit Cache(const Invocation& invocation)
      : invocation_(invocation),
        common_(invocation.common),
        options_(cache_options(invocation.settings, invocation.operands.at(0),
                               invocation.command)),
        speaker_(options_.name, common_.quiet, common_.verbose) {}

  const std::string& name() const { return options_.name; }

  Exit execute() {
    std::optional<SizeLimitIgnored> ignored(std::in_place);
    if (options_.forget) return forget();
    if (options_.show) return show_value(common_, lock());
    auto found = look();
    if (found && found->is_fresh) {
      speaker_.step("cached, " + std::to_string(found->bytes.size()) + " bytes");
      return print_value(found->bytes);
    }
    held_.emplace();
    ignored.reset();  // the command inherits it
    for (;;) {
      if (const auto exit = compute(found)) return *exit;
      found.reset();  // the old value was removed before it could be read
    }
  }

 private:
  Exit forget() const {
    const auto name = lock();
    StoreClient(common_).call([&](Store& store, Wakeup& wakeup) {
      return values_of(store).forget(name, wakeup);
    });
    return {};
  }

  // Comes first, and needs nothing that only a run needs: most calls end here.
  std::optional<Value> look() const {
    StoreClient client(common_);
    const auto name = lock();
    try {
      auto found = client.call([&](Store& store, Wakeup& wakeup) {
        return values_of(store).get(name, options_.max_size, wakeup);
      });
      warn_of_damage(speaker_, found.damage);
      return std::move(found.value);
    } catch (const Failure& failure) {
      // A caller that waits for the store does so while it requests the lock.
      const bool absent = failure.kind() == Failure::Kind::unreachable;
      if (!absent || !options_.waits_for_store) throw;
      return std::nullopt;
    }
  }

  // A caller with a stale value neither waits for the lock nor reports that it is busy.
  RunOptions options_of_run(bool has_stale) const {
    auto run = run_options({}, options_.name, options_.command);
    run.run_id = new_uuid();
    run.conflict_exit_code = has_stale ? 0 : options_.conflict_exit_code;
    // Only the rest of the wait if this is a repetition.
    const auto left = std::chrono::ceil<milliseconds>(until_ - Clock::now());
    if (!has_stale && left.count() > 0) run.wait = left;
    run.waits_for_store = options_.waits_for_store;
    run.dedupe = Dedupe{milliseconds(0), false, true};
    return run;
  }

  // Returns nothing if the computation has to be repeated.
  std::optional<Exit> compute(const std::optional<Value>& stale) {
    Computation computation(options_, speaker_);
    const auto run = execute_run(invocation_, options_of_run(stale.has_value()), *held_,
                                 {&computation.command_output(), &computation, nullptr});
    if (run.error) std::rethrow_exception(run.error);
    const auto& result = run.result;
    const Exit exit{result.exit_code.value_or(0), result.signal};

    if (const auto& value = computation.value()) return print_value(value->bytes);
    if (const auto& joined = computation.joined_run()) return pass_on(*joined);
    if (stale && result.outcome == RunOutcome::busy) {
      speaker_.step("another call is refreshing it: " + result.message);
      return print_value(stale->bytes);
    }
    if (result.outcome == RunOutcome::ran) {
      return print_output(computation.command_output(), exit);
    }
    return exit;
  }

  // Returns nothing for a success whose output is no longer available.
  std::optional<Exit> pass_on(const RunInfo& run) const {
    if (run.exit_code == 0) return std::nullopt;
    speaker_.error("the run that this call waited for failed: " + described(run));
    const auto signal = run.signal ? signal_named(*run.signal) : std::nullopt;
    return Exit{run.exit_code.value_or(code_of(ExitStatus::unavailable)), signal};
  }

  // Unblocks signals once there is nothing left to release. SIGPIPE and SIGXFSZ stay
  // ignored, so that a closed pipe or a file size limit is reported like a full disk.
  void let_signals_act() const {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    if (held_) ::sigprocmask(SIG_SETMASK, &held_->inherited().mask, nullptr);
  }

  Exit print_value(const std::string& bytes) const {
    let_signals_act();
    if (print_bytes(bytes)) return {};
    if (errno == EPIPE) return ended_by_reader();
    speaker_.error(output_failure(errno));
    return ExitStatus::unavailable;
  }

  // The command's failure takes precedence over an output that cannot be written.
  Exit print_output(CommandOutput& output, Exit exit) const {
    let_signals_act();
    if (output.print_rest()) return exit;
    const bool failed = exit.by_signal || exit.code != 0;
    if (output.error() == EPIPE) return failed ? exit : ended_by_reader();
    speaker_.error(output_failure(output.error()));
    return failed ? exit : Exit(ExitStatus::unavailable);
  }

  // Like any program whose reader stops early (`| head`), without a message.
  static Exit ended_by_reader() { return {0, SIGPIPE}; }

  LockName lock() const { return {common_.name_space, options_.name}; }

  const Invocation& invocation_;
  const CommonOptions& common_;
  const CacheOptions options_;
  Speaker speaker_;
  const Clock::time_point until_ = later(Clock::now(), options_.wait);
  std::optional<HeldSignals> held_;  // set before the lock is requested
};

}  // namespace

Exit cache_verb(const Invocation& invocation) {
  Cache cache(invocation);
  return about(cache.name(), [&] { return cache.execute(); });
}

}  // namespace dlock
