#include "cli/run/verb_store.hpp"
#include "cli/show/lock_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

Claim claim_of(const CommonOptions& common, const LeaseOptions& options) {
  Claim claim;
  claim.lock = {common.name_space, options.name};
  claim.token = options.token;
  claim.ttl = options.ttl.value_or(claim.ttl);
  claim.keeps_ttl = !options.ttl;
  claim.attached = false;
  return claim;
}

// Says why a token was refused. Asks the store once more, which may fail.
ExitStatus not_ours(const CommonOptions& common, const LockName& lock,
                    StoreClient& client) {
  bool is_known = true;
  try {
    const auto info = client.call([&](Store& store, Wakeup& wakeup) {
      return store.inspector().inspect(lock, wakeup);
    });
    is_known = info.known;
  } catch (const Failure&) {
    // The refusal itself is certain.
  }
  Speaker(lock.name, common.quiet, common.verbose)
      .warning(is_known ? "not held by this token (no longer, or never)"
                        : "was never held by this token, as far as " +
                              printable(client->url()) + " knows");
  return ExitStatus::lost;
}

// Whole tenths of a second.
using Tenths = std::chrono::duration<std::int64_t, std::deci>;

}  // namespace

Exit renew_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = lease_options(invocation.settings, invocation.operands.at(0));
  const auto claim = claim_of(common, options);
  return about(options.name, [&] {
    StoreClient client(common, options.name);
    const auto claimant = client->claimant(claim);
    const auto sent_at = Clock::now();
    const auto renewal =
        client.call([&](Store&, Wakeup& wakeup) { return claimant->renew(wakeup); });
    const auto left = left_of(claimant->claim().ttl, sent_at);
    // A lease that has expired by now was renewed too late.
    const bool is_over = renewal != Renewal::confirmed || left.count() == 0;
    if (is_over) return not_ours(common, claim.lock, client);
    // Rounded for people: the exact digits would only show how long the request took.
    print(common.json ? to_line(Json{{"expires_in_ms", left.count()}}) + "\n"
                      : for_people(std::chrono::round<Tenths>(left)) + "\n");
    return ExitStatus::success;
  });
}

Exit release_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = lease_options(invocation.settings, invocation.operands.at(0));
  const auto claim = claim_of(common, options);
  return about(options.name, [&] {
    StoreClient client(common, options.name);
    const auto claimant = client->claimant(claim);
    // Has to outlive the call, which only creates the coroutine.
    const std::optional<RunEnd> no_run;
    const auto released = client.call(
        [&](Store&, Wakeup& wakeup) { return claimant->release(no_run, wakeup); });
    if (released != Release::released) return not_ours(common, claim.lock, client);
    if (common.json) {
      const auto free = client.call([&](Store& store, Wakeup& wakeup) {
        return free_of(store, claim.lock, wakeup);
      });
      print(to_line(Json{{"free", free}}) + "\n");
    }
    return ExitStatus::success;
  });
}

Exit check_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto& operands = invocation.operands;
  const auto options =
      check_options(invocation.settings,
                    operands.empty() ? std::nullopt : std::optional(operands.front()),
                    {environment("DLOCK_NAME"), environment("DLOCK_HELD")});
  const LockName lock{common.name_space, options.name};
  return about(options.name, [&] {
    StoreClient client(common, options.name);
    // A lock that excludes no other run cannot be lost.
    if (!client->protects()) return ExitStatus::success;
    const auto sent_at = Clock::now();
    const auto info = client.call([&](Store& store, Wakeup& wakeup) {
      return store.inspector().inspect_for_sure(lock, wakeup);
    });
    const auto passed = std::chrono::ceil<milliseconds>(Clock::now() - sent_at);
    const Speaker speaker(options.name, common.quiet, common.verbose);
    if (is_held_by(info, options.fence, options.min_validity + passed)) {
      speaker.step("still held by this grant");
      return ExitStatus::success;
    }
    speaker.warning(info.known ? not_held_text(info, options.fence, options.min_validity)
                               : "was never held by this grant, as far as " +
                                     printable(client->url()) + " knows");
    return ExitStatus::lost;
  });
}

Exit fence_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const LockName resource{common.name_space, parsed_name(invocation.operands.at(0))};
  const auto fence = parsed_fence(invocation.operands.at(1));
  return about(resource.name, [&] {
    StoreClient client(common, resource.name);
    const auto admission = client.call([&](Store& store, Wakeup& wakeup) {
      return store.admit_fence(resource, fence, wakeup);
    });
    const Speaker speaker(resource.name, common.quiet, common.verbose);
    if (admission == Admission::admitted) {
      speaker.step("admitted");
      return ExitStatus::success;
    }
    speaker.warning("fence " + std::to_string(fence.number) +
                    " is stale: a newer one was used before");
    return ExitStatus::lost;
  });
}

}  // namespace dlock
