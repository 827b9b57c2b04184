// How much room text takes on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlock {

// How many columns a line of printable UTF-8 takes: two for wide characters, none for
// those that go on top of others and for the sequences that set a colour.
std::size_t columns_of(std::string_view line);

// `line` if it takes no more columns than that; else as much of it as fits before "...",
// or without that where there is room for little more. A colour ends with it.
std::string cut_to(std::string_view line, std::size_t columns);

}  // namespace dlock
