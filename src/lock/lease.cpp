#include "lock/lease.hpp"

#include <unistd.h>

#include "util/process.hpp"
#include "util/text.hpp"
#include "util/users.hpp"

namespace dlock {

bool is_valid(const LockName& name) {
  constexpr std::size_t longest = 255;
  const auto is_part = [](const std::string& text) {
    return !text.empty() && text.size() <= longest && is_printable_utf8(text);
  };
  return is_part(name.name_space) && is_part(name.name);
}

std::string text_of(const Token& token) {
  return hex(token.bytes.data(), token.bytes.size());
}

std::optional<Token> token_from(std::string_view text) {
  Token token;
  if (!from_hex(text, token.bytes.data(), token.bytes.size())) return std::nullopt;
  return token;
}

Fence greatest_plausible_fence(WallTime now, Fence most_report) {
  constexpr std::chrono::hours farthest_ahead{32 * 24};
  const auto clock = static_cast<std::uint64_t>(std::max<std::int64_t>(now.count(), 0));
  const auto base =
      std::min(std::max(Fence{clock}, most_report), greatest_believed_fence);
  return std::min(Fence{base.number + std::uint64_t{WallTime(farthest_ahead).count()}},
                  greatest_believed_fence);
}

bool is_held_by(const LockInfo& lock, Fence fence, milliseconds at_least) {
  return std::ranges::any_of(lock.holders, [&](const HolderInfo& holder) {
    return !holder.foreign && !holder.run_ended && holder.fence == fence &&
           holder.expires_in.value_or(milliseconds::max()) >= at_least;
  });
}

std::vector<std::string> shortened_command(const std::vector<std::string>& command) {
  constexpr std::size_t most = 4096;
  std::vector<std::string> kept;
  std::size_t size = 0;
  for (const auto& word : command) {
    size += word.size() + 1;
    if (size > most) {
      kept.emplace_back("...");
      break;
    }
    kept.push_back(word);
  }
  return kept;
}

CommandInfo own_party(const Claim& claim) {
  CommandInfo party;
  party.Owner::operator=({host_name(), own_user()});
  party.Description::operator=(claim);
  party.pid = claim.on_behalf_of != 0 ? claim.on_behalf_of : ::getpid();
  party.period = claim.period;
  party.command = shortened_command(claim.command);
  return party;
}

Taker own_taker(bool replaces) { return {own_user(), host_name(), replaces}; }

Verdict verdict_on(std::optional<int> exit_code) {
  if (!exit_code) return Verdict::failed;
  // No resources, not executable, not found: the exit codes of dlock and shells.
  if (*exit_code >= 125 && *exit_code <= 127) return Verdict::no_run;
  return *exit_code == 0 ? Verdict::succeeded : Verdict::failed;
}

bool is_recent(WallTime started, milliseconds window, WallTime now) {
  const auto age = now - started;
  return age < window && -age < window;
}

Dedupe Dedupe::as_of_now() const {
  auto now = *this;
  now.began.reset();
  if (began) now.window = std::chrono::ceil<milliseconds>(Clock::now() - *began);
  return now;
}

void PastRuns::note(const RunInfo& run) {
  if (!run.reason.empty()) {
    // An earlier version may have recorded it as vanished.
    if (last && last->fence == run.fence) last.reset();
    return;
  }
  if (!run.ended) return;
  const auto verdict = verdict_on(run.exit_code);
  if (verdict == Verdict::no_run) return;
  // Compared by fence, because times can go back.
  const auto take_in = [&](std::optional<RunInfo>& known) {
    if (!known || known->fence <= run.fence) known = run;
  };
  take_in(last);
  if (verdict == Verdict::succeeded) take_in(last_success);
}

const RunInfo* PastRuns::counting_for(const Dedupe& dedupe, WallTime now) const {
  if (dedupe.joins) return nullptr;
  // An earlier version recorded runs without an end as well.
  const bool needs_success = dedupe.retry_failed || !last || !last->ended;
  const auto& run = needs_success ? last_success : last;
  return run && is_recent(run->started, dedupe.window, now) ? &*run : nullptr;
}

}  // namespace dlock
