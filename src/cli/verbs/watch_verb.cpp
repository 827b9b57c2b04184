#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "cli/show/lock_view.hpp"
#include "cli/terminal/slow_output.hpp"
#include "cli/terminal/speaker.hpp"
#include "cli/verbs/verbs.hpp"
#include "loop/event_loop.hpp"
#include "store/open.hpp"

namespace dlock {
namespace {

// Prints each event as a line.
class Printer final : public EventSink {
 public:
  Printer(asio::io_context& context, const CommonOptions& common, Wakeup& wakeup)
      : common_(common),
        speaker_("", common.quiet, common.verbose),
        color_(use_color(common.color)),
        output_(context, STDOUT_FILENO, [this, &wakeup](int error) {
          output_error_ = error;
          wakeup.give_up(true);
        }) {}

  void began() override {
    speaker_.step(std::exchange(was_interrupted_, false) ? "watching again" : "watching");
  }

  void happened(const Event& event) override {
    if (dropped_ > 0 && output_.has_room()) {
      speaker_.warning(std::to_string(dropped_) +
                       " events were dropped: standard output is too slow");
      dropped_ = 0;
    }
    const auto line =
        common_.json ? to_line(json_of(event)) + "\n" : event_text(event, color_);
    if (!output_.push(line)) ++dropped_;
  }

  void interrupted(const std::string& why) override {
    was_interrupted_ = true;
    speaker_.warning("events are missed from now on: " + why);
  }

  void left_out(const std::string& why) override {
    speaker_.urgent_warning("warning: " + why);
  }

  // The errno if nothing can be printed any more; 0: the reader has closed the pipe.
  int output_error() const { return output_error_; }

 private:
  const CommonOptions& common_;
  Speaker speaker_;
  bool color_;
  OutputQueue output_;
  bool was_interrupted_ = false;
  int output_error_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace

Exit watch_verb(const Invocation& invocation) {
  const auto& common = invocation.common;
  Watched watched{common.name_space, {}};
  for (const auto& name : invocation.operands) watched.names.insert(parsed_name(name));
  EventLoop context;
  Wakeup wakeup(context);
  const auto store = open_store(common.store, store_timeout(common, {}), context);
  Printer printer(context, common, wakeup);
  run_blocking(context,
               [&] { return store->inspector().watch(watched, printer, wakeup); });
  if (printer.output_error() != 0) {
    throw Failure::unreachable(output_failure(printer.output_error()));
  }
  // Like any program that writes to a closed pipe.
  return {0, SIGPIPE};
}

}  // namespace dlock
