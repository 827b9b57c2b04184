#include "cli/run/verb_store.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "cli/args/calendar.hpp"
#include "cli/show/lock_view.hpp"
#include "util/bits.hpp"
#include "util/failure.hpp"
#include "util/process.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// From TERM to KILL, the default of --kill-after.
constexpr milliseconds kill_after{5000};

// How long a run may have no visible processes: it may just be ending.
constexpr milliseconds found_within{1000};

}  // namespace

std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context, const std::string& name) {
  auto store = open_store(common.store, timeout, context);
  const Speaker speaker(name, common.quiet, common.verbose);
  store->report_complaints(
      [speaker](const std::string& message) { speaker.warning("warning: " + message); });
  return store;
}

ExitStatus report_left_out(const std::vector<Failure>& left_out) {
  auto status = ExitStatus::success;
  for (const auto& failure : left_out) {
    Speaker("", false, false).urgent_warning(std::string("warning: ") + failure.what());
    status = status_of(failure.kind());
  }
  return status;
}

SeenLocks look_at_each(const CommonOptions& common, Store& store,
                       const std::vector<std::string>& names, asio::io_context& context) {
  constexpr int most_timeouts = 5;
  const auto until = later(Clock::now(), store_timeout(common, {}) * most_timeouts);
  Wakeup wakeup(context);
  SeenLocks seen;
  std::vector<std::pair<std::string, Failure>> failures;
  for (const auto& name : names) {
    const bool is_absent =
        !failures.empty() && failures.back().second.kind() == Failure::Kind::unreachable;
    if (is_absent && Clock::now() >= until) {
      failures.emplace_back(name, failures.back().second);
      continue;
    }
    const LockName lock{common.name_space, name};
    try {
      seen.locks.push_back(
          run_blocking(context, [&] { return store.inspector().inspect(lock, wakeup); }));
    } catch (const Failure& failure) {
      failures.emplace_back(name, failure);
    }
  }
  if (failures.empty()) return seen;
  const auto& [first, failure] = failures.front();
  if (names.size() == 1) throw Failure(failure);
  if (seen.locks.empty()) {
    throw Failure(failure.kind(), printable_name(first) + ": " + failure.what());
  }
  seen.status = status_of(failure.kind());
  for (const auto& [name, why] : failures) Speaker(name, false, false).error(why.what());
  return seen;
}

bool is_in_unprotected_run(const std::string& name, const std::string& store) {
  const auto is_set_to = [](const char* variable, const std::string& value) {
    const char* found = std::getenv(variable);
    return found != nullptr && found == value;
  };
  return is_set_to("DLOCK_NAME", name) && is_set_to("DLOCK_STORE", store) &&
         std::getenv("DLOCK_FENCE") == nullptr;
}

Claim new_claim(const CommonOptions& common, const ClaimOptions& options) {
  Claim claim;
  claim.lock = {common.name_space, options.name};
  claim.token.bytes = random_bytes();
  claim.mode = options.shared ? Mode::shared : Mode::exclusive;
  claim.slots = options.slots;
  claim.ttl = options.ttl;
  claim.priority = options.priority;
  claim.spreads = options.spread && options.slots > 1;
  claim.Description::operator=(options.description);
  claim.outer_fences = outer_fences_of(environment("DLOCK_HELD"), options.name);
  return claim;
}

Claim new_claim(const CommonOptions& common, const RunOptions& options) {
  const ClaimOptions& of_claim = options;
  auto claim = new_claim(common, of_claim);
  claim.lock_delay = options.lock_delay;
  claim.reclaim = options.reclaim;
  claim.command = options.command;
  claim.dedupe = options.dedupe;
  if (claim.dedupe) claim.period = recorded_period(options.dedupe_window);
  claim.min_hold = options.min_hold;
  claim.max_queue = options.max_queue;
  claim.supersedes = options.supersede;
  claim.replaces = options.replace;
  return claim;
}

std::optional<Clock::time_point> end_of_wait(const ClaimOptions& options) {
  if (!options.wait) return std::nullopt;
  return later(Clock::now(), *options.wait);
}

asio::awaitable<Answer> obtain(Holding& holding, Patience patience, Speaker& speaker,
                               WaitListener listener) {
  WaitNotice notice(speaker, patience.until.value_or(Clock::now()), std::move(listener));
  patience.waiting = [&](const Busy& busy) {
    return notice.waiting(
        [&](std::size_t columns) { return waiting_text(busy, columns); });
  };
  patience.retrying = [&](const Failure& failure) { notice.store_absent(failure); };
  speaker.step("contacting " + printable(holding.store().url()));
  co_return co_await holding.obtain(patience);
}

void say_granted(const Holding& holding, const Speaker& speaker) {
  const auto& grant = *holding.grant();
  speaker.step("granted, fence " + std::to_string(grant.fence.number) + ", slot " +
               std::to_string(grant.slot) +
               (holding.store().protects() ? "" : " (none: does not exclude others)"));
}

milliseconds left_of(milliseconds span, Clock::time_point start) {
  const auto passed = std::chrono::ceil<milliseconds>(Clock::now() - start);
  return std::max(span - passed, milliseconds(0));
}

asio::awaitable<Json> free_of(Store& store, const LockName& lock, Wakeup& wakeup) {
  try {
    const auto info = co_await store.inspector().inspect(lock, wakeup);
    co_return Json(info.free);
  } catch (const Failure&) {
    co_return Json(nullptr);
  }
}

std::string with_grant(const std::string& held, const std::string& name, Fence fence) {
  return held + (held.empty() ? "" : " ") + percent_encoded(name) + "=" +
         std::to_string(fence.number);
}

bool is_secret(std::string_view entry) {
  // A command that prints a password is as good as the password.
  return entry.starts_with("DLOCK_PASSWORD=") || entry.starts_with("DLOCK_TOKEN=") ||
         entry.starts_with("DLOCK_PASSWORD_COMMAND=") ||
         entry.starts_with("DLOCK_SENTINEL_PASSWORD=");
}

std::vector<std::string> command_environment(const char* const* inherited,
                                             const CommandSettings& settings) {
  std::vector<std::string> own{
      "DLOCK_NAME=" + settings.name,
      "DLOCK_STORE=" + settings.store,
      "DLOCK_NAMESPACE=" + settings.name_space,
  };
  bool has_lock = false;  // the one that the run is named after
  std::string fences;
  std::string slots;
  auto held = settings.held;
  for (const auto& [name, grant, has_slots] : settings.locks) {
    fences = with_grant(fences, name, grant.fence);
    held = with_grant(held, name, grant.fence);
    if (has_slots) {
      slots += (slots.empty() ? "" : " ") + percent_encoded(name) + "=" +
               std::to_string(grant.slot);
    }
    if (name != settings.name) continue;
    has_lock = true;
    own.push_back("DLOCK_FENCE=" + std::to_string(grant.fence.number));
    own.push_back("DLOCK_SLOT=" + std::to_string(grant.slot));
  }
  if (!fences.empty()) {
    own.push_back("DLOCK_FENCES=" + fences);
    own.push_back("DLOCK_SLOTS=" + slots);
    own.push_back("DLOCK_HELD=" + held);
  }
  if (!settings.run_id.empty()) own.push_back("DLOCK_RUN_ID=" + settings.run_id);
  if (!settings.config.empty()) own.push_back("DLOCK_CONFIG=" + settings.config);
  own.insert(own.end(), settings.passed_on.begin(), settings.passed_on.end());

  std::vector<std::string> environment;
  for (; *inherited != nullptr; ++inherited) {
    const std::string_view entry(*inherited);
    if (!entry.starts_with("DLOCK_")) {  // as most are
      environment.emplace_back(entry);
      continue;
    }
    const auto name = entry.substr(0, entry.find('=') + 1);
    const bool replaced = std::ranges::any_of(
        own, [&](const std::string& set) { return set.starts_with(name); });
    // A run without a lock must not look like the holder of an outer one.
    const bool outer = name == "DLOCK_FENCES=" || name == "DLOCK_SLOTS=" ||
                       (!has_lock && (name == "DLOCK_FENCE=" || name == "DLOCK_SLOT="));
    if (is_secret(entry) || outer || (replaced && !name.empty())) continue;
    environment.emplace_back(entry);
  }
  std::move(own.begin(), own.end(), std::back_inserter(environment));
  return environment;
}

void OrphanedRuns::end(const Broken& broken) {
  const auto now = Clock::now();
  auto& run = runs_.try_emplace(broken.holder.fence, Known{now, Clock::time_point::max()})
                  .first->second;
  if (!broken.processes.empty()) run.found_at = now;
  if (now - run.found_at >= found_within) {
    throw Failure(
        Failure::Kind::rejected,
        "the dlock process of its holder has exited, and the rest of its command "
        "is out of reach: " +
            described(broken.holder));
  }
  const bool termed = run.termed_at != Clock::time_point::max();
  const bool kills = termed && now - run.termed_at >= kill_after;
  for (const auto& process : broken.processes) {
    if (termed && !kills) break;
    const bool sent = send_signal(process.get(), kills ? SIGKILL : SIGTERM);
    if (!sent && errno == EPERM) {
      throw Failure::rejected(
          "the dlock process of its holder has exited, and this user has no "
          "permission to stop its command: " +
          described(broken.holder));
    }
    send_signal(process.get(), SIGCONT);  // a stopped process would not notice
  }
  if (!termed && !broken.processes.empty()) run.termed_at = now;
}

}  // namespace dlock
