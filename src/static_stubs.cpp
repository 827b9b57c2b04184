// Replaces functions that a static program must not call, and some that do useless work
// at each start. For the static build only.
//
// For the first group, glibc would load shared libraries of the same version, which may
// not exist on the machine that the program runs on. dlock does not need them: c-ares
// resolves names, ports are numbers, and OpenSSL is kept from loading modules. But
// libcrypto and libcares contain calls of these functions, so the linker would add
// glibc's code and print warnings. Its option --wrap redirects these calls to the
// functions below; CMakeLists.txt has the names. The functions from OPENSSL_cpuid_setup
// on only save time: together 39 µs, which is 2 % of `dlock run x -- true` and 5 % of
// `dlock status x` (a virtual machine with two cores), and 5 ms of what fails.

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): ld names
// them.
extern "C" {

int __wrap_getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
  return EAI_FAIL;
}

void __wrap_freeaddrinfo(addrinfo*) {}

int __wrap_getnameinfo(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t,
                       int) {
  return EAI_FAIL;
}

hostent* __wrap_gethostbyname(const char*) { return nullptr; }

servent* __wrap_getservbyname(const char*, const char*) { return nullptr; }

int __wrap_getservbyname_r(const char*, const char*, servent*, char*, std::size_t,
                           servent** found) {
  *found = nullptr;
  return ENOENT;
}

int __wrap_getservbyport_r(int, const char*, servent*, char*, std::size_t,
                           servent** found) {
  *found = nullptr;
  return ENOENT;
}

void* __wrap_dlopen(const char*, int) { return nullptr; }

// libcrypto asks for the features of the processor before anything else in the program.
// On a virtual machine the host answers each of these six requests, which takes 21 µs.
// libcrypto asks again when it is first used; then the requests are allowed.
void __real_OPENSSL_cpuid_setup();

static bool program_runs = false;
[[gnu::constructor]] static void note_that_the_program_runs() { program_runs = true; }

void __wrap_OPENSSL_cpuid_setup() {
  if (program_runs) __real_OPENSSL_cpuid_setup();
}

// glibc asks for the directory of the program, to find shared libraries there. It takes
// 18 µs, because the kernel creates what is in /proc anew for each process.
const char* __wrap__dl_get_origin() {
  // The value that glibc uses for "unknown".
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const char*>(-1);
}

// A static program registers its table of frames when it starts, and the unwinder sorts
// it at the first exception, which takes 5 ms and a hundred page faults: `dlock
// --version` and each message about a mistake would take 5.9 ms instead of 0.7. Without
// the registration, the unwinder uses the table that the linker has sorted
// (--eh-frame-hdr).
void __wrap___register_frame_info(const void*, void*) {}
void* __wrap___deregister_frame_info(const void*) { return nullptr; }

// libstdc++ sets up std::cout and its siblings, and with them 28 facets of the locale,
// because the headers of CLI11 and toml11 include <iostream>. Nothing here uses them.
void __wrap__ZNSt8ios_base4InitC1Ev(void*) {}
void __wrap__ZNSt8ios_base4InitD1Ev(void*) {}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
