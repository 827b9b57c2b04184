#include "supervise/process_title.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace dlock {
namespace {

char* arguments = nullptr;
std::size_t arguments_size = 0;

}  // namespace

// The kernel puts them one after the other.
void note_arguments(int argc, char** argv) {
  if (argc == 0) return;
  auto* end = argv[0];
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  arguments = argv[0];
  arguments_size = static_cast<std::size_t>(end - argv[0]);
}

void rename_process(const char* name) {
  ::prctl(PR_SET_NAME, name, 0, 0, 0);
  if (arguments_size == 0) return;
  std::fill(arguments, arguments + arguments_size, '\0');
  std::copy_n(name, std::min(std::strlen(name), arguments_size - 1), arguments);
}

}  // namespace dlock
