// Starts with src/static_start.cpp and checks everything that a start has to initialise.
// Exits with 0 if all of it is in order.
#include <features.h>

#if !defined(__x86_64__) || !defined(__linux__) || __GLIBC__ != 2 || __GLIBC_MINOR__ != 36
#error "src/static_start.cpp is not for this C library or processor"
#endif

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "static_start.cpp"

namespace {

int constructed_with = 0;
[[gnu::constructor]] void construct_early(int argc, char**, char**) {
  constructed_with = argc;
}

thread_local int initialised = 7;
thread_local int zero;

// An object with a constructor and a destructor.
const std::string text = "a text that is longer than what a string has room for itself";

bool throws_and_catches() {
  try {
    throw std::runtime_error(text);
  } catch (const std::exception& error) {
    return error.what() == text;
  }
}

bool copies(std::size_t size) {
  std::vector<unsigned char> from(size);
  for (std::size_t i = 0; i < size; ++i)
    from[i] = static_cast<unsigned char>(i * 31 + i / 256);
  std::vector<unsigned char> to(size + 1, 0xee);
  std::memcpy(to.data(), from.data(), size);
  if (to[size] != 0xee || std::memcmp(to.data(), from.data(), size) != 0) return false;
  std::memmove(to.data() + 1, to.data(), size);
  return std::equal(from.begin(), from.end(), to.begin() + 1);
}

bool runs_a_thread() {
  int seen = 0;
  std::thread([&seen] {
    zero = 5;
    errno = ERANGE;
    seen = initialised;
  }).join();
  return seen == 7 && zero == 0;
}

bool jumps() {
  std::jmp_buf place;
  if (setjmp(place) == 0) std::longjmp(place, 1);
  return true;
}

std::uintptr_t guard() {
  std::uintptr_t word = 0;
  asm("movq %%fs:0x28, %0" : "=r"(word));
  return word;
}

// The check has passed only if both are called, in this order.
bool exits = false;
void note_exit() { exits = true; }
[[gnu::destructor]] void check_exit() { ::_exit(exits ? 0 : 14); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 1 || argv[0] == nullptr || argv[1] != nullptr) ::_exit(1);
  if (constructed_with != argc) ::_exit(2);
  if (::setenv("DLOCK_CHECK", "set", 1) != 0 || std::getenv("PATH") == nullptr)
    ::_exit(3);
  if (initialised != 7 || zero != 0) ::_exit(4);
  if (guard() == 0 || (guard() & 0xff) != 0) ::_exit(5);
  if (!throws_and_catches()) ::_exit(6);
  for (std::size_t size = 1; size < (8U << 20U); size = size * 5 / 3 + 1) {
    if (!copies(size)) ::_exit(7);
  }
  if (!runs_a_thread()) ::_exit(8);
  if (!jumps()) ::_exit(9);
  if (::getauxval(AT_PAGESZ) != static_cast<unsigned long>(::sysconf(_SC_PAGESIZE)))
    ::_exit(10);
  char number[32];
  if (std::snprintf(number, sizeof number, "%.2f", std::strtod("2.25", nullptr)) != 4)
    ::_exit(11);
  if (text.find("room") == std::string::npos || std::strlen(text.c_str()) != text.size())
    ::_exit(12);
  if (std::atexit(note_exit) != 0) ::_exit(13);
  return 15;
}
