// How the words of a command line are divided into options, operands and command.

#include <algorithm>

#include "cli/args/app.hpp"
#include "fuzz.hpp"

using namespace dlock;
using fuzz::require;

namespace {

std::optional<bool> takes_value(std::string_view option) {
  if (option == "wait" || option == "w" || option == "label") return true;
  if (option == "quiet" || option == "q") return false;
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto args = fuzz::parts_of(fuzz::text_of(data, size));
  for (const std::size_t most : {0u, 1u, 2u}) {
    const auto words = sorted_words(args, most, takes_value);
    require(words.operands.size() <= most, "no more operands than there may be");
    require(words.command.size() <= args.size() &&
                std::equal(words.command.rbegin(), words.command.rend(), args.rbegin()),
            "the command is the end of the line, untouched");
    for (const auto& operand : words.operands) {
      require(std::find(args.begin(), args.end(), operand) != args.end(),
              "an operand is a word of the line");
    }
  }
  return 0;
}
