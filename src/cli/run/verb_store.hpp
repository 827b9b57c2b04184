// The store that a verb works on.
#pragma once

#include <memory>
#include <string>

#include "cli/args/exit_status.hpp"
#include "cli/args/options.hpp"
#include "lock/inspector.hpp"
#include "lock/store.hpp"

namespace dlock {

// Warns of the locks that the last list() or histories() has left out, if any. Then the
// status is that of a failure, so that no incomplete answer is taken for a complete one.
ExitStatus report_left_out(const LockInspector& inspector);

// Opens the store of the options; contacts nothing yet. It warns of servers whose word
// does not count, in lines about the lock `name`.
std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context,
                                    const std::string& name = "");

}  // namespace dlock
