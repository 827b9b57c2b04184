// What `dlock doctor` prints.
#pragma once

#include <cstddef>
#include <string>

#include "lock/store.hpp"
#include "util/json.hpp"

namespace dlock {

Json json_of(const Examination& examination, const std::string& store);

// How the text is formatted.
struct DoctorFormat {
  bool color = false;
  std::size_t columns = 0;  // width of the terminal; 0 if the output is not a terminal
  bool only_trouble = false;
};

// `store` is the URL of the store. Lines are wrapped at `format.columns`.
std::string examination_text(const Examination& examination, const std::string& store,
                             const DoctorFormat& format);

}  // namespace dlock
