#include "cli/history.hpp"

#include <algorithm>

#include "cli/about.hpp"
#include "cli/completed.hpp"
#include "cli/history_view.hpp"
#include "cli/lock_view.hpp"
#include "cli/speaker.hpp"

namespace dlock {

ExitStatus history_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  const auto options = history_options(invocation.settings, invocation.operands.at(0));
  const LockName lock{common.name_space, options.name};
  return about(options.name, [&] {
    asio::io_context context(1);
    Wakeup wakeup(context);
    const auto store = open_store(common.store, store_timeout(common, {}), context);
    auto runs =
        completed(context, [&] { return store->inspector().history(lock, wakeup); });
    runs.resize(std::min<std::size_t>(runs.size(), options.limit));

    if (common.json) {
      Json all = Json::array();
      for (const auto& run : runs) all.push_back(json_of(run));
      print(to_line(all) + "\n");
    } else if (runs.empty()) {
      Speaker(options.name, common.quiet, common.verbose).warning("no run is known");
    } else {
      print(history_text(runs, wall_now(), paper_of_output(use_color(common.color))));
    }
    return ExitStatus::success;
  });
}

}  // namespace dlock
