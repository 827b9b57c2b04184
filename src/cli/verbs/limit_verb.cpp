#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>

#include "cli/args/options.hpp"
#include "cli/run/verb_store.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "lease/holding.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"
#include "store/open.hpp"
#include "supervise/supervisor.hpp"
#include "util/bits.hpp"
#include "util/json.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// As written on the command line: "5/800ms", "100/1m".
std::string text_of(const Rate& rate) {
  constexpr std::pair<const char*, std::int64_t> units[] = {
      {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
  const auto period = rate.period.count();
  const auto* unit =
      std::ranges::find_if(units, [&](const auto& u) { return period % u.second == 0; });
  return std::to_string(rate.most) + "/" + std::to_string(period / unit->second) +
         unit->first;
}

// "5/1s, 2 remaining" and one line per waiter; names the `store` if it has no such limit.
std::string limit_text(const std::string& name, const LimitInfo& limit,
                       const std::string& store) {
  if (!limit.rate)
    return printable_name(name) + ": not in use in " + printable(store) + "\n";
  auto text = printable_name(name) + ": " + text_of(*limit.rate) + ", " +
              std::to_string(limit.remaining) + " remaining";
  if (limit.next_in.count() > 0) text += ", next in " + for_people(limit.next_in);
  text += "\n";
  for (const auto& waiter : limit.waiters) {
    text += "  waiting: " +
            (waiter.host.empty()
                 ? std::string("unknown client")
                 : printable(waiter.host, 64) + ", pid " + std::to_string(waiter.pid)) +
            ", turn in " + for_people(waiter.turn_in) + "\n";
  }
  return text;
}

Json json_of(const std::string& name, const LimitInfo& limit) {
  Json waiters = Json::array();
  for (const auto& waiter : limit.waiters) {
    waiters.push_back({{"host", text_or_null(waiter.host)},
                       {"pid", waiter.pid == 0 ? Json(nullptr) : Json(waiter.pid)},
                       {"retry_in_ms", waiter.turn_in.count()}});
  }
  const auto& rate = limit.rate;
  return Json{
      {"name", name},
      {"rate", rate ? Json(text_of(*rate)) : Json(nullptr)},
      {"remaining", rate ? Json(limit.remaining) : Json(nullptr)},
      {"retry_in_ms", rate ? Json(limit.next_in.count()) : Json(nullptr)},
      {"waiters", waiters},
  };
}

// The inherited environment without secrets.
std::vector<std::string> environment_for_command() {
  std::vector<std::string> environment;
  for (auto* variable = environ; *variable != nullptr; ++variable) {
    if (!is_secret(*variable)) environment.emplace_back(*variable);
  }
  return environment;
}

// One invocation of the verb: asks for admission, then runs the command.
class Limited {
 public:
  Limited(asio::io_context& context, const CommonOptions& common,
          const LimitOptions& options, const HeldSignals& held)
      : common_(common),
        options_(options),
        speaker_(options.name, common.quiet, common.verbose),
        wakeup_(context),
        signals_(context, wakeup_, held),
        store_(open_store(common.store, store_timeout(common, {}), context)) {}

  asio::awaitable<Exit> execute() {
    std::optional<RateAnswer> admission;
    std::optional<Failure> failure;
    try {
      admission = co_await obtain();
    } catch (const Failure& error) {
      failure = error;
    }
    if (const auto signal = signals_.next_ending()) co_return Exit{0, signal};
    if (failure) throw *failure;

    if (const auto* differs = std::get_if<RateDiffers>(&*admission)) {
      co_return refused(differs->in_use);
    }
    if (const auto* not_yet = std::get_if<NotAdmitted>(&*admission)) {
      co_return refused(*not_yet);
    }
    const auto& admitted = std::get<Admitted>(*admission);
    answer(true, admitted.remaining, admitted.next_in);
    speaker_.step("admitted, " + std::to_string(admitted.remaining) + " remaining" +
                  (store_->protects() ? "" : " (none: admits everyone)"));
    if (options_.command.empty()) co_return ExitStatus::success;
    co_return co_await run_command();
  }

 private:
  asio::awaitable<RateAnswer> obtain() {
    const auto wait = signals_.interrupt_waits();
    RateClaim claim;
    claim.limit = {common_.name_space, options_.name};
    claim.token.bytes = random_bytes();
    claim.rate = options_.rate;
    claim.host = host_name();
    claim.pid = ::getpid();
    TurnPatience patience;
    if (options_.wait) patience.until = later(Clock::now(), *options_.wait);
    WaitNotice notice(speaker_, patience.until);
    // Turns are as usual as the requests that they are for: no line of a log.
    const bool is_shown = speaker_.is_verbose() || ::isatty(STDERR_FILENO) != 0;
    patience.waiting = [&](milliseconds turn_in) {
      if (!is_shown) return milliseconds::max();
      return notice.waiting(
          [&](std::size_t) { return "waiting: turn in " + for_people(turn_in); });
    };
    patience.retrying = [&](const Failure& failure) { notice.store_absent(failure); };
    speaker_.step("contacting " + printable(store_->url()));
    co_return co_await await_admission(rates_of(*store_), std::move(claim),
                                       std::move(patience), wakeup_);
  }

  // Nothing has to be released, so the command is executed directly.
  asio::awaitable<Exit> run_command() {
    store_.reset();  // otherwise the connection would stay open while the command runs
    SupervisionPlan plan;
    plan.own_group = !has_terminal();
    DirectSupervisor command(options_.command, plan, signals_, wakeup_,
                             [this](const std::string& text) { speaker_.error(text); });
    StartPlan start_plan;
    start_plan.environment = environment_for_command();
    // Nothing may start after a signal that would have ended us.
    if (const auto signal = signals_.next_ending()) co_return Exit{0, signal};
    const auto started = co_await command.start(std::move(start_plan));
    if (const auto* failure = std::get_if<SpawnFailure>(&started)) {
      speaker_.error(failure->message);
      co_return status_of(failure->kind);
    }
    speaker_.step("started process " + std::to_string(std::get<Spawned>(started).pid) +
                  ": " + printable_command(options_.command, 200));
    const auto end = co_await command.ended();
    co_return Exit{end.exit_code.value_or(0), end.signal};
  }

  void answer(bool admitted, unsigned remaining, milliseconds next_in) const {
    if (!common_.json) return;
    const Json json{{"admitted", admitted},
                    {"remaining", remaining},
                    {"retry_in_ms", next_in.count()}};
    print(to_line(json) + "\n");
  }

  Exit refused(const Rate& in_use) const {
    speaker_.error("in use with " + text_of(in_use) + ", not " + text_of(options_.rate) +
                   ": all users of a limit must set the same rate");
    return ExitStatus::misconfigured;
  }

  Exit refused(const NotAdmitted& not_yet) const {
    answer(false, not_yet.remaining, not_yet.next_in);
    speaker_.warning("rate exceeded (" + text_of(options_.rate) + "): next turn in " +
                     for_people(not_yet.next_in) +
                     (options_.wait ? ", longer than --wait" : ""));
    return ExitStatus::not_obtained;
  }

  const CommonOptions& common_;
  const LimitOptions& options_;
  Speaker speaker_;
  Wakeup wakeup_;
  SignalInbox signals_;
  std::unique_ptr<Store> store_;
};

// `dlock limit NAME --show`, which changes nothing, and `dlock limit NAME --reset`.
Exit show_limit(const CommonOptions& common, const std::string& name) {
  StoreClient client(common);
  const LockName limit{common.name_space, name};
  const auto info = client.call(
      [&](Store& store, Wakeup& wakeup) { return rates_of(store).look(limit, wakeup); });
  print(common.json ? to_line(json_of(name, info)) + "\n"
                    : limit_text(name, info, client->url()));
  return {};
}

Exit reset_limit(const CommonOptions& common, const std::string& name) {
  const LockName limit{common.name_space, name};
  StoreClient(common).call(
      [&](Store& store, Wakeup& wakeup) { return rates_of(store).reset(limit, wakeup); });
  return {};
}

}  // namespace

Exit limit_verb(const Invocation& invocation) {
  const auto options =
      limit_options(invocation.settings, invocation.operands, invocation.command);
  return about(options.name, [&] {
    if (options.show) {
      const SizeLimitIgnored ignored;
      return show_limit(invocation.common, options.name);
    }
    if (options.reset) {
      const SizeLimitIgnored ignored;
      return reset_limit(invocation.common, options.name);
    }
    const HeldSignals held;
    EventLoop context;
    Limited limited(context, invocation.common, options, held);
    return run_blocking(context, [&] { return limited.execute(); });
  });
}

}  // namespace dlock
