// What `doctor` found: JSON for programs, a line for each check for people.
#pragma once

#include <string>

#include "lock/finding.hpp"
#include "util/json.hpp"

namespace dlock {

// "warning"
const char* name_of(Finding::Level level);

Json json_of(const Examination& examination, const std::string& store);

// What the text is for.
struct DoctorFormat {
  bool color = false;
  std::size_t columns = 0;  // of the terminal; 0 if it is none
  bool only_trouble = false;
};

// `store` is its URL. Lines are broken where the terminal ends.
std::string examination_text(const Examination& examination, const std::string& store,
                             const DoctorFormat& format);

}  // namespace dlock
