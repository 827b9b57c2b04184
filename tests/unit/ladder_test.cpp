// When the processes of the command are sent SIGTERM, and when SIGKILL.

#include "supervise/ladder.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/scene.hpp"

namespace dlock {
namespace {

using scene::Facts;
using scene::Term;

const scene::Options<SupervisionPlan> options_of_plans{
    {"timeout", [](SupervisionPlan& p, scene::Text v) { p.timeout = scene::time_in(v); }},
    {"kill_after",
     [](SupervisionPlan& p, scene::Text v) { p.kill_after = scene::time_in(v); }},
    {"forwarded", [](SupervisionPlan& p, scene::Text) { p.kill_after_forwarded = true; }},
    {"leave", [](SupervisionPlan& p, scene::Text) { p.stragglers = Stragglers::leave; }},
    {"wait", [](SupervisionPlan& p, scene::Text) { p.stragglers = Stragglers::wait; }},
    {"kill", [](SupervisionPlan& p, scene::Text) { p.stragglers = Stragglers::kill; }},
    {"lease",
     [](SupervisionPlan& p, scene::Text) {
       using std::chrono::seconds;
       p.lease.emplace(seconds(30), seconds(5), seconds(2));
     }},
};

// A scene (tests/contract/scenes.hpp) has a plan and then moments, since the start of the
// run, at which something happens: the command `ended`, its tree is `empty` or `full`,
// SIGTERM is `forwarded(TERM)`, the lease is `lost(gone)` or `renewed(40s)` to that
// moment, and `orphaned`: dlock was killed. At others, dlock `does` what has to come of
// it: wait, term, kill or done; or `checks` when it has to look next.
class LadderScene final : public scene::Play {
 public:
  explicit LadderScene(std::string steps) : Play(std::move(steps)) {}

 private:
  static constexpr Clock::time_point start{std::chrono::hours(1)};

  static Clock::time_point moment_in(const std::string& text) {
    if (text == "never") return Clock::time_point::max();
    const bool just_before = text.ends_with("-1ns");
    const auto time = text.substr(0, text.size() - (just_before ? 4 : 0));
    return start + scene::time_in(time) - nanoseconds(just_before ? 1 : 0);
  }

  Fence fence_of(const std::string& /*whom*/) const override { return {}; }

  Facts facts_of(const Term& who, scene::Words& expected) override {
    if (who.name == "plan") {
      SupervisionPlan plan;
      scene::set(plan, options_of_plans, who);
      ladder_.emplace(plan, start);
      // As if just granted.
      if (plan.lease) ladder_->lease_holds_until(moment_in("30s"));
      return {};
    }
    if (!ladder_) ladder_.emplace(SupervisionPlan{}, start);
    const auto now = moment_in(who.name);
    const Term action(expected.at(0));
    expected.erase(expected.begin());
    Facts facts;
    const auto& verb = action.name;
    const auto option = action.options.empty() ? "" : action.options[0].first;
    if (verb == "does") {
      static const std::map<Ladder::Action, std::string> names{
          {Ladder::Action::wait, "wait"},
          {Ladder::Action::send_term, "term"},
          {Ladder::Action::send_kill, "kill"},
          {Ladder::Action::done, "done"}};
      facts["is"] = names.at(ladder_->next(now));
    } else if (verb == "checks") {
      const auto next = ladder_->next_check(now);
      const auto after = std::chrono::duration_cast<milliseconds>(next - start).count();
      facts["next"] = next == moment_in("never") ? "never" : std::to_string(after);
    } else if (verb == "forwarded") {
      ladder_->forwarded(option == "TERM" ? SIGTERM : SIGINT, now);
    } else if (verb == "lost") {
      ladder_->lease_lost(option == "gone" ? Loss::gone : Loss::taken_over, now);
    } else if (verb == "renewed") {
      ladder_->lease_holds_until(moment_in(option));
    } else if (verb == "ended") {
      ladder_->command_ended();
    } else if (verb == "orphaned") {
      ladder_->owner_gone(now);
    } else if (verb == "empty" || verb == "full") {
      ladder_->tree_is_empty(verb == "empty");
    } else {
      throw std::logic_error("nothing " + verb);
    }
    facts["timed_out"] = scene::yes_or_no(ladder_->timed_out());
    facts["needs_tree"] = scene::yes_or_no(ladder_->needs_tree());
    const auto loss = ladder_->lost();
    facts["loss"] = loss ? loss_name(*loss) : "none";
    return facts;
  }

  std::optional<Ladder> ladder_;
};

constexpr const char* ladder_scenes = R"(
# A normal run.
a running command is left alone:
  0s does wait; 1000h does wait
without a deadline no timer is needed:
  0s checks next=never
a run is over when its command has ended:
  0s ended; 0s does done
a run that ended normally neither timed out nor lost its lock:
  plan(timeout=10s); 0s ended; 1s does !timed_out loss=none

# Timeout.
a command is left alone before its timeout:
  plan(timeout=10s); 10s-1ns does wait
the next check is at the timeout:
  plan(timeout=10s); 0s checks next=10000
a command is sent sigterm at its timeout:
  plan(timeout=10s); 10s does term timed_out
a command is sent sigterm only once:
  plan(timeout=10s); 10s does term; 11s does wait
a command has 5 seconds to exit:
  plan(timeout=10s); 10s does term; 10s checks next=15000; 15s-1ns does wait; 15s does kill
kill_after sets how long a command has to exit:
  plan(timeout=10s, kill_after=700ms); 10s does term; 10699ms does wait; 10700ms does kill
a kill_after of 0 still sends sigterm first:
  plan(timeout=10s, kill_after=0s); 10s does term; 10s does kill
a late check gives a command its whole time to exit:
  plan(timeout=10s); 100s does term; 100s checks next=105000
a timeout beyond the range of the clock never comes:
  plan(timeout=9223372036854775807ms); 1000000h does wait
a timed out tree is killed repeatedly until it is empty:
  plan(timeout=10s); 10s does term; 15s does kill; 16s does kill
a tree that is being killed is checked again soon:
  plan(timeout=10s); 10s does term; 15s does kill; 15s checks next>15000; 15s checks next<=15100
a timed out run is not over before its tree is empty:
  plan(timeout=10s); 10s does term; 10s ended; 11s does wait; 15s does kill
a timed out run is over when its tree is empty:
  plan(timeout=10s); 10s does term; 10s ended; 10s empty; 11s does done timed_out
an empty tree does not end a run whose command still runs:
  plan(timeout=10s); 0s empty; 10s does term; 11s does wait

# A forwarded SIGTERM.
a forwarded sigterm is not followed by sigkill by default:
  0s forwarded(TERM); 1h does wait
with an explicit kill_after sigkill follows a forwarded sigterm:
  plan(kill_after=2s, forwarded); 1s forwarded(TERM); 1s checks next=3000; 3s-1ns does wait; 3s does kill
a second forwarded sigterm does not delay sigkill:
  plan(kill_after=2s, forwarded); 0s forwarded(TERM); 1s forwarded(TERM); 2s does kill
another forwarded signal is not followed by sigkill:
  plan(kill_after=2s, forwarded); 0s forwarded(INT); 1h does wait
a command that exits after a forwarded sigterm has not timed out:
  plan(kill_after=2s, forwarded); 0s forwarded(TERM); 0s ended; 1s does done !timed_out
once sigkill follows a forwarded sigterm the whole tree is killed:
  plan(kill_after=2s, forwarded); 0s forwarded(TERM); 2s does kill; 2s ended; 2s full; 3s does kill
a timeout after a forwarded sigterm does not delay sigkill:
  plan(kill_after=4s, forwarded, timeout=10s); 8s forwarded(TERM); 10s does term; 12s does kill

# A lost lease.
a command that lost its lock is sent sigterm at once:
  1s lost(gone); 1s does term
a command that lost its lock has one second to exit:
  0s lost(gone); 0s does term; 0s checks next=1000; 1s does kill
a command that lost its lock has at most kill_after to exit:
  plan(kill_after=200ms, forwarded); 0s lost(gone); 0s does term; 200ms does kill
the first loss counts:
  0s lost(gone); 1s lost(taken_over) loss=gone
a second loss does not delay sigkill:
  0s lost(gone); 0s does term; 900ms lost(gone); 1s does kill
a loss after the timeout brings sigkill forward:
  plan(timeout=10s); 10s does term; 11s lost(gone); 11s checks next=12000; 12s does kill
a loss is not a timeout:
  plan(timeout=10s); 9s lost(gone); 9s does term; 10s does !timed_out
a run that lost its lock is over only when its tree is empty:
  0s lost(gone); 0s does term; 0s ended; 0s does wait; 0s empty; 0s does done

# Stragglers.
stragglers are left alone:
  plan(leave); 0s ended !needs_tree; 0s does done
the tree is not needed while the command runs:
  plan(wait); 0s checks !needs_tree; plan(kill); 0s checks !needs_tree
stragglers can be waited for:
  plan(wait); 0s ended needs_tree; 1h does wait
a run that waits for stragglers is over when they have ended:
  plan(wait); 0s ended; 0s empty; 0s does done
stragglers that are waited for can time out:
  plan(wait, timeout=10s); 0s ended; 0s checks next=10000; 10s does term timed_out
stragglers can be stopped:
  plan(kill); 0s ended needs_tree; 0s does term
stragglers have as long to exit as a command:
  plan(kill); 0s ended; 0s does term; 5s-1ns does wait; 5s does kill
a run without stragglers is over at once:
  plan(kill); 0s ended; 0s empty; 0s does done
a run whose stragglers are being stopped no longer times out:
  plan(kill, timeout=10s); 0s ended; 9s does term; 10s does !timed_out
stragglers of a command that ended in time do not time out:
  plan(kill, timeout=10s); 0s ended; 10s does term !timed_out
stragglers that are waited for are stopped if the lock is lost:
  plan(wait); 0s ended; 1s lost(gone); 1s does term; 2s does kill
stragglers that are waited for are killed after a forwarded sigterm:
  plan(wait, kill_after=2s, forwarded); 0s forwarded(TERM); 0s ended; 2s does kill

# A lease of 30 s that can expire, so 5 s of grace and 1.5 s of margin.
a command is left alone while it can be stopped before the deadline:
  plan(lease); 23499ms does wait; 0s checks next=23500
a command whose lease is not renewed is stopped in time:
  plan(lease); 23500ms does term loss=unconfirmed; 23500ms checks next=28500; 28500ms does kill
a renewal moves the deadline:
  plan(lease); 0s renewed(40s); 30s does wait loss=none
a late renewal does not save a run that is being stopped:
  plan(lease); 23500ms does term; 24s renewed(40s) loss=unconfirmed; 28499ms does wait; 28500ms does kill
after a suspend beyond the lease sigkill is sent at once:
  plan(lease); 0s does wait; 8h does kill loss=unconfirmed
with only the margin left sigkill is sent at once:
  plan(lease); 28500ms does kill
a suspend changes nothing if the lease never expires:
  plan(lease); 0s renewed(never); 8h does wait; 0s checks next=never
a command whose lease is certainly lost is stopped sooner:
  plan(lease); 0s lost(taken_over); 0s does term; 999ms does wait; 1s does kill
sigkill after a timeout comes before the deadline:
  plan(lease, timeout=20s, kill_after=1h); 20s does term; 28500ms does kill
an exit that is noticed after the deadline counts as a loss:
  plan(lease); 0s ended; 31s does done loss=unconfirmed

# dlock was killed, so the lease is not renewed.
a run is stopped within a second after dlock was killed:
  plan(lease); 0s orphaned; 0s does term; 0s checks next=700; 700ms does kill
a run is stopped before the deadline after dlock was killed:
  plan(lease); 28400ms orphaned; 28400ms does term; 28500ms does kill
a shorter kill_after applies after dlock was killed:
  plan(kill_after=100ms, forwarded); 0s orphaned; 0s does term; 100ms does kill
stragglers are left alone after dlock was killed:
  plan(lease); 0s ended; 0s orphaned; 0s does done
)";

[[maybe_unused]] const bool are_added = [] {
  for (const auto& [name, steps] : scene::scenes_in(ladder_scenes)) {
    ::testing::RegisterTest(
        "scenes/Ladder", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [steps = steps]() -> ::testing::Test* { return new LadderScene(steps); });
  }
  return true;
}();

}  // namespace
}  // namespace dlock
