// What a static program must not do, and what it does for nothing at each start: for the
// static build only.
//
// glibc answers the first of these by loading shared libraries of its own version, which
// need not be on the machine that the program runs on. Nothing here needs them: names are
// resolved by c-ares, ports are numbers, and OpenSSL is kept from loading modules. But
// libcrypto and libcares contain calls, which the linker would take glibc's code in for,
// and warn of. Its option --wrap makes them calls of what is below; CMakeLists.txt has
// the names. From OPENSSL_cpuid_setup on each says what it saves.

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

// libcrypto asks the processor what it can, before anything else in the program. On a
// virtual machine each of these questions is answered by the host, which costs a
// twentieth of a whole run; it asks again when it is first used, and then it may.
void __real_OPENSSL_cpuid_setup();

static bool program_runs = false;
[[gnu::constructor]] static void note_that_the_program_runs() { program_runs = true; }

void __wrap_OPENSSL_cpuid_setup() {
  if (program_runs) __real_OPENSSL_cpuid_setup();
}

// glibc asks where the program is, to find shared libraries beside it.
const char* __wrap__dl_get_origin() {
  // Not known, in glibc's own way.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const char*>(-1);
}

// A static program hands its frames over when it starts, and they are sorted when the
// first exception is thrown, which takes 5 ms. Without that the unwinder finds the table
// that the linker has sorted (--eh-frame-hdr).
void __wrap___register_frame_info(const void*, void*) {}
void* __wrap___deregister_frame_info(const void*) { return nullptr; }

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
