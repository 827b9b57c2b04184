#include "cli/verbs/list_live.hpp"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <csignal>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "cli/show/lock_choice.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/slow_output.hpp"
#include "cli/terminal/speaker.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "supervise/signals.hpp"
#include "util/text.hpp"
#include "util/utf8.hpp"

namespace dlock {
namespace {

// Events in quick succession lead to one query.
constexpr milliseconds soonest{100};

// Some changes cause no event: another program appears, a waiter's place lapses.
constexpr milliseconds latest{2'000};

}  // namespace

std::vector<LockInfo> aged(std::vector<LockInfo> locks, milliseconds by) {
  for (auto& lock : locks) {
    for (auto& holder : lock.holders) holder.held += by;
  }
  return locks;
}

std::string fingerprint_of(const std::vector<LockInfo>& locks) {
  std::string fingerprint;
  const auto add = [&](const std::string& text) { fingerprint += text + "\n"; };
  for (const auto& lock : locks) {
    add(lock.lock.name);
    add(std::to_string(lock.slots) + " " + std::to_string(lock.free) + " " +
        std::to_string(lock.waiters.size()) +
        (lock.mode == Mode::shared ? " shared" : ""));
    for (const auto& holder : lock.holders) {
      add(holder.foreign ? "foreign" : std::to_string(holder.fence.number));
    }
    if (!lock.last_run) continue;
    add(rfc3339(lock.last_run->started) + " " + outcome_of(*lock.last_run));
  }
  return fingerprint;
}

Clock::time_point next_look(Clock::time_point last, bool has_changed) {
  return later(last, has_changed ? soonest : latest);
}

std::string trouble_text(milliseconds age, const std::string& why) {
  return "(as of " + for_people(age) + " ago: " + why + ")";
}

namespace {

// On a terminal the durations are updated without a query.
constexpr milliseconds draw_every{1'000};

constexpr milliseconds pause_after_trouble{2'000};

bool draws_on_terminal() { return ::isatty(STDOUT_FILENO) != 0 && !is_dumb_terminal(); }

// Three coroutines: one queries the store, one waits for events, which trigger another
// query, and one draws. A slow or unavailable store thus delays neither the durations,
// nor a change of the window's size, nor a signal.
class LiveList final : public EventSink {
 public:
  // With `held` it draws on a terminal; otherwise it prints one table after another.
  LiveList(asio::io_context& context, const CommonOptions& common,
           const ListOptions& options, const HeldSignals* held)
      : context_(context),
        common_(common),
        options_(options),
        color_(use_color(common.color)),
        looking_(context),
        watching_(context),
        showing_(context),
        store_(open_store(common.store, store_timeout(common, {}), context)),
        watched_store_(open_store(common.store, store_timeout(common, {}), context)) {
    if (held != nullptr) {
      signals_.emplace(context, showing_, *held);
    } else {
      output_.emplace(context, STDOUT_FILENO, [this](int error) {
        output_error_ = error;
        showing_.notify();
      });
    }
  }

  asio::awaitable<Exit> execute() {
    start(keep_looking());
    start(keep_watching());
    while (!is_over()) {
      show();
      co_await showing_.wait_until(screen_ ? later(Clock::now(), draw_every)
                                           : Clock::time_point::max());
    }
    screen_.reset();
    looking_.give_up(true);
    watching_.give_up(true);
    while (running_ > 0) co_await showing_.wait_until(Clock::time_point::max());
    warn_of_left_out();
    if (ended_by_) co_return Exit{0, ended_by_};
    if (error_) std::rethrow_exception(error_);
    if (is_left_) co_return Exit{};
    if (output_error_.value_or(0) != 0) {
      throw Failure::unreachable(output_failure(*output_error_));
    }
    // Like any program that writes to a closed pipe.
    co_return Exit{0, SIGPIPE};
  }

  void began() override { happened({}); }
  void happened(const Event&) override {
    has_changed_ = true;
    looking_.notify();
  }
  // The store is queried periodically then.
  void interrupted(const std::string&) override {}

 private:
  void start(asio::awaitable<void> work) {
    ++running_;
    asio::co_spawn(context_, std::move(work), [this](std::exception_ptr thrown) {
      --running_;
      if (thrown && !error_) error_ = thrown;
      showing_.notify();
    });
  }

  asio::awaitable<void> keep_looking() {
    while (!looking_.gives_up()) {
      // Events during the query may or may not be part of its result.
      has_changed_ = false;
      co_await look();
      showing_.notify();
      const auto looked = Clock::now();
      while (!looking_.gives_up() && Clock::now() < next_look(looked, has_changed_)) {
        co_await looking_.wait_until(next_look(looked, has_changed_));
      }
    }
  }

  asio::awaitable<void> look() {
    const auto matches = [this](const std::string& name) {
      return matches_glob(options_.pattern, name);
    };
    try {
      auto found =
          co_await store_->inspector().list(common_.name_space, matches, looking_);
      locks_ = selected(std::move(found), options_);
      looked_at_ = Clock::now();
      trouble_.clear();
      warn_of_left_out();
    } catch (const Failure& failure) {
      if (failure.kind() == Failure::Kind::interrupted) co_return;
      if (!looked_at_) throw;
      trouble_ = failure.what();
    }
  }

  // Once for each file, and not into the drawn screen.
  void warn_of_left_out() {
    if (screen_) return;
    for (const auto& failure : store_->inspector().left_out()) {
      if (!warned_of_.insert(failure.what()).second) continue;
      Speaker("", false, false).urgent_warning(std::string("warning: ") + failure.what());
    }
  }

  // A user who may read locks but not subscribe to events sees changes later.
  asio::awaitable<void> keep_watching() {
    const Watched everything{common_.name_space, {}};
    while (!watching_.gives_up()) {
      try {
        co_await watched_store_->inspector().watch(everything, *this, watching_);
      } catch (const Failure&) {
      }
      const auto until = later(Clock::now(), pause_after_trouble);
      while (!watching_.gives_up() && Clock::now() < until) {
        co_await watching_.wait_until(until);
      }
    }
  }

  bool is_over() {
    while (const auto signal = signals_ ? signals_->next() : std::nullopt) {
      if (ends_by_default(signal->number)) ended_by_ = signal->number;
      if (screen_) screen_->forget();
    }
    is_left_ = is_left_ || (screen_ && screen_->is_left());
    return is_left_ || ended_by_ || error_ || output_error_ ||
           (screen_ && screen_->is_gone());
  }

  void show() {
    if (!looked_at_) return;
    if (!signals_) return print_what_is_new();
    if (!screen_) screen_.emplace(context_, [this] { showing_.notify(); });
    const auto window = screen_->window();
    const auto age = elapsed_since(*looked_at_);
    screen_->draw(
        lines_within(table(aged(*locks_, age), window.columns), trouble(age), window));
  }

  // For a dumb terminal or a pipe.
  void print_what_is_new() {
    const auto fingerprint = fingerprint_of(*locks_) + (trouble_.empty() ? "" : "?");
    if (fingerprint == printed_) return;
    const auto age = elapsed_since(*looked_at_);
    auto text = std::string(printed_ ? "\n" : "") + table(*locks_, columns_of_output());
    if (!trouble_.empty()) text += trouble(age) + "\n";
    // A slow reader gets the table later.
    if (output_->is_empty() && output_->push(std::move(text))) printed_ = fingerprint;
  }

  std::string table(const std::vector<LockInfo>& locks, std::size_t columns) const {
    const auto* none = options_.held ? "no locks are held\n" : "no locks\n";
    return locks.empty() ? none : list_text(locks, color_, columns);
  }

  std::string trouble(milliseconds age) const {
    return trouble_.empty() ? "" : trouble_text(age, trouble_);
  }

  asio::io_context& context_;
  const CommonOptions& common_;
  const ListOptions& options_;
  bool color_;
  Wakeup looking_;
  Wakeup watching_;
  Wakeup showing_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Store> watched_store_;  // a store handles one call at a time
  std::optional<SignalInbox> signals_;
  std::optional<Screen> screen_;
  std::optional<OutputQueue> output_;

  bool has_changed_ = false;
  std::optional<std::vector<LockInfo>> locks_;
  std::optional<Clock::time_point> looked_at_;
  std::string trouble_;  // why the last query failed; empty if it succeeded
  std::optional<std::string> printed_;
  std::set<std::string> warned_of_;

  int running_ = 0;
  bool is_left_ = false;  // the user has typed q
  std::optional<int> ended_by_;
  std::optional<int> output_error_;  // 0: the reader has closed the pipe
  std::exception_ptr error_;
};

}  // namespace

Exit list_live(const CommonOptions& common, const ListOptions& options) {
  std::optional<HeldSignals> held;
  if (draws_on_terminal()) held.emplace();
  EventLoop context;
  LiveList list(context, common, options, held ? &*held : nullptr);
  return run_blocking(context, [&] { return list.execute(); });
}

}  // namespace dlock
