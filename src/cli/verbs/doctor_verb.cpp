#include <algorithm>

#include "cli/show/doctor_view.hpp"
#include "cli/show/screen.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/event_loop.hpp"
#include "loop/wakeup.hpp"

namespace dlock {
namespace {

using Level = Finding::Level;

// The store's URL; a local store without a home directory has none.
std::string url_of(const StoreUrl& url, milliseconds timeout, asio::io_context& context) {
  try {
    return open_store(url, timeout, context)->url();
  } catch (const Failure&) {
    return "local:";
  }
}

ExitStatus status_of(Level level) {
  if (level == Level::error) return ExitStatus::errors_found;
  return level == Level::warning ? ExitStatus::warnings_found : ExitStatus::success;
}

}  // namespace

Exit doctor_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  // A file may set the option for several stores, of which some have none.
  const auto schema = common.store.kind->schema;
  if (doctor_options(invocation.settings).schema && schema != nullptr) {
    print(schema(common.store));
    return ExitStatus::success;
  }
  // Longer than a run waits, to see how far away a server is that is too slow for one.
  // Some stores have to be asked twice: who the primary is, and then the primary.
  constexpr milliseconds patience{5'000};
  const bool waits = !common.store_timeout && common.store.leases_expire();
  const auto of_runs = store_timeout(common, {});
  const auto timeout = waits ? std::max(of_runs, patience) : of_runs;
  EventLoop context;
  Wakeup wakeup(context);
  const ExaminationOrder order{common.store, common.name_space, timeout,
                               of_runs,      context,           wakeup};
  const auto examination = run_blocking(context, [&] { return examine_store(order); });
  const auto store = url_of(common.store, timeout, context);
  if (common.json) {
    print(to_line(json_of(examination, store)) + "\n");
  } else {
    const DoctorFormat format{use_color(common.color), columns_of_output(), common.quiet};
    print(examination_text(examination, store, format));
  }
  return status_of(worst_of(examination.findings));
}

}  // namespace dlock
