// The command of the user that prints a password (--password-command).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "net/budget.hpp"

namespace dlock::net {

// The words of a command line, split at blanks. Quotes and backslashes keep blanks
// together as in a shell; nothing else has a meaning. Throws Failure (misconfigured) if
// there is none, or a quote is not closed.
std::vector<std::string> words_of_command(std::string_view line);

// Runs it without a shell, and returns the first line that it prints. Its standard input
// and error are /dev/null. It is killed with its process group when the budget ends, the
// caller gives up, or it prints too much. Throws Failure, which never repeats what it has
// printed: misconfigured if it cannot be started, or prints no password; unreachable if
// it fails or takes too long, which may be temporary; interrupted.
asio::awaitable<std::string> password_printed_by(asio::io_context& context,
                                                 const std::vector<std::string>& words,
                                                 Budget& budget);

}  // namespace dlock::net
