#include "cli/run/verb_store.hpp"

#include "cli/terminal/speaker.hpp"
#include "store/open.hpp"

namespace dlock {

std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context, const std::string& name) {
  auto store = open_store(common.store, timeout, context);
  const Speaker speaker(name, common.quiet, common.verbose);
  store->report_complaints([speaker](const std::string& message) {
    speaker.warning("warning: not counted: " + message);
  });
  return store;
}

ExitStatus report_left_out(const LockInspector& inspector) {
  auto status = ExitStatus::success;
  for (const auto& failure : inspector.left_out()) {
    Speaker("", false, false).urgent_warning(std::string("warning: ") + failure.what());
    status = status_of(failure.kind());
  }
  return status;
}

}  // namespace dlock
