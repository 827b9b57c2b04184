// Measures text on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlock {

// The number of columns of a line of printable UTF-8: two for wide characters, none for
// combining characters and for sequences that set a color.
std::size_t columns_of(std::string_view line);

// `line` if it fits in `columns`; else as much of it as fits before "...", or without
// "..." if there is hardly any room. A color ends with the line.
std::string cut_to(std::string_view line, std::size_t columns);

}  // namespace dlock
