#include "cli/verbs/doctor.hpp"

#include "cli/show/doctor_view.hpp"
#include "cli/terminal/speaker.hpp"
#include "loop/run_blocking.hpp"

namespace dlock {
namespace {

// The store's URL; a local store without a home directory has none.
std::string name_of(const StoreUrl& url, milliseconds timeout,
                    asio::io_context& context) {
  try {
    return open_store(url, timeout, context)->url();
  } catch (const Failure&) {
    return "local:";
  }
}

ExitStatus status_of(Finding::Level level) {
  switch (level) {
    case Finding::Level::warning: return ExitStatus::warnings_found;
    case Finding::Level::error: return ExitStatus::errors_found;
    case Finding::Level::ok:
    case Finding::Level::info: break;
  }
  return ExitStatus::success;
}

}  // namespace

ExitStatus doctor_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto timeout = store_timeout(common, {});
  asio::io_context context(1);
  Wakeup wakeup(context);
  const auto examination = run_blocking(context, [&] {
    return examine_store(common.store, common.name_space, timeout, context, wakeup);
  });
  const auto store = name_of(common.store, timeout, context);
  if (common.json) {
    print(to_line(json_of(examination, store)) + "\n");
  } else {
    const DoctorFormat format{use_color(common.color), columns_of_output(), common.quiet};
    print(examination_text(examination, store, format));
  }
  return status_of(worst_of(examination.findings));
}

}  // namespace dlock
