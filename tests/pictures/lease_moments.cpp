// Prints what happens to a run with default options whose lease is renewed once and then
// never again, because the store stops replying. Each line has a name and one or two
// moments, in milliseconds since the request for the lock was sent.
// docs/pictures/draw_lease draws them.
//
// The moments come from the functions that the program itself uses. The program renews up
// to a tenth earlier, at random; these are the latest moments.

#include <chrono>
#include <iostream>
#include <string_view>

#include "cli/args/options.hpp"
#include "lease/keeper.hpp"
#include "lock/lease.hpp"
#include "supervise/ladder.hpp"

namespace {

using namespace dlock;

constexpr Clock::time_point asked{std::chrono::hours(1)};

long long since_asked(Clock::time_point moment) {
  return std::chrono::floor<milliseconds>(moment - asked).count();
}

void print(std::string_view name, Clock::time_point moment) {
  std::cout << name << '\t' << since_asked(moment) << '\n';
}

// Prints the renewals after the one that was sent at `confirmed`. Each of them times out.
void print_attempts(const LeaseTiming& timing, Clock::time_point confirmed) {
  auto sent_at = confirmed + timing.renew_every();
  for (int failures = 1; sent_at < timing.deadline(confirmed); ++failures) {
    const auto timed_out = sent_at + timing.budget();
    std::cout << "attempt\t" << since_asked(sent_at) << '\t' << since_asked(timed_out)
              << '\n';
    sent_at = next_renewal(timing, confirmed, failures, timed_out);
  }
}

void print_ladder(const SupervisionPlan& plan, Clock::time_point deadline) {
  Ladder ladder(plan, asked);
  ladder.lease_holds_until(deadline);
  for (auto now = asked;;) {
    now = ladder.next_check(now);
    switch (ladder.next(now)) {
      case Ladder::Action::send_term: print("term", now); break;
      case Ladder::Action::send_kill: print("kill", now); return;
      case Ladder::Action::wait:
      case Ladder::Action::done: break;
    }
  }
}

}  // namespace

int main() {
  auto options = run_options({}, "job", {"true"});
  const LeaseTiming timing(options.ttl, options.supervision.kill_after,
                           store_timeout(CommonOptions{}, options.ttl));
  options.supervision.lease = timing;
  const auto confirmed = asked + timing.renew_every();
  const auto deadline = timing.deadline(confirmed);

  print("asked", asked);
  print("renewed", confirmed);
  print_attempts(timing, confirmed);
  print_ladder(options.supervision, deadline);
  print("deadline", deadline);
  // The store counts from when the request reached it: not before it was sent.
  print("expires", confirmed + timing.ttl());
}
