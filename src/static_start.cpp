// Starts a static program of glibc 2.36 on x86-64, in place of glibc's own start code. It
// is used only if dlock is configured with -DDLOCK_OWN_START=ON and cmake/OwnStart.cmake
// finds that it works.
//
// glibc's start code asks the processor for its features and the sizes of its caches, to
// choose among variants of functions for strings and memory: 43 times on one machine, 68
// times on another. Each of these requests (cpuid) makes a virtual machine exit to its
// host, which takes 4 µs on the first machine and 9 µs on the second: an eighth and a
// quarter of the time of `dlock run x -- /bin/true`. A program that copies a few
// kilobytes does not benefit. Without the requests, glibc uses variants that run on every
// processor of the architecture (SSE2).
//
// The steps, their order and their names are those of __libc_start_main in
// csu/libc-start.c of that version. Because the linker finds the function here, it leaves
// out the member of libc.a that defines it, and with it the variables below. Two more
// things are left out: the search for GLIBC_TUNABLES, which takes a twelfth of the
// instructions of a run, and the support for a main thread that ends before other
// threads, because there are none.

#include <elf.h>

#include <cstdint>
#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): glibc and ld
// name them.
extern "C" {

// The cache sizes that glibc's memory functions assume, in bytes, and the sizes from
// which on they bypass the caches or use `rep movsb`. These are the values for an unknown
// processor.
long __x86_data_cache_size_half = 16 * 1024;
long __x86_data_cache_size = 32 * 1024;
long __x86_shared_cache_size_half = 512 * 1024;
long __x86_shared_cache_size = 1024 * 1024;
long __x86_shared_non_temporal_threshold = 768 * 1024;
long __x86_rep_movsb_threshold = 2048;
long __x86_rep_stosb_threshold = 2048;
long __x86_rep_movsb_stop_threshold = 768 * 1024;
int __x86_string_control = 0;

// Internals of glibc.
extern char** __environ;
extern void* __libc_stack_end;
extern int __libc_enable_secure;
extern void* _dl_random;  // 16 bytes from the kernel
void _dl_aux_init(Elf64_auxv_t* values);
void _dl_relocate_static_pie();
void __libc_setup_tls();
void __libc_early_init(bool is_first);
void __libc_init_first(int argc, char** argv, char** environment);
void __libc_check_standard_fds();
void* _dl_debug_initialize(Elf64_Addr base, long name_space);
int __cxa_atexit(void (*function)(void*), void* argument, void* library);

// Defined by the linker and the compiler.
extern const Elf64_Rela __rela_iplt_start[];
extern const Elf64_Rela __rela_iplt_end[];
using Constructor = void (*)(int, char**, char**);
using Destructor = void (*)();
extern const Constructor __preinit_array_start[];
extern const Constructor __preinit_array_end[];
extern const Constructor __init_array_start[];
extern const Constructor __init_array_end[];
extern const Destructor __fini_array_start[];
extern const Destructor __fini_array_end[];
void _init();
void _fini();

}  // extern "C"

namespace {

// Functions with several variants in glibc are called through a pointer. This sets each
// pointer to the variant that its resolver returns. Before that, they cannot be called.
void choose_functions() {
  for (const auto* word = __rela_iplt_start; word != __rela_iplt_end; ++word) {
    // NOLINTBEGIN(performance-no-int-to-ptr): the linker writes integers.
    auto* const choice = reinterpret_cast<Elf64_Addr (*)()>(word->r_addend);
    *reinterpret_cast<Elf64_Addr*>(word->r_offset) = choice();
    // NOLINTEND(performance-no-int-to-ptr)
  }
}

// Sets the stack guard, which functions check when they return, and the pointer guard,
// with which longjmp(3) and atexit(3) encode pointers. The ABI defines their places.
void set_guards() {
  const auto* random = static_cast<const std::uintptr_t*>(_dl_random);
  const auto guard = random[0] & ~std::uintptr_t{0xff};  // no string contains it
  asm volatile("movq %0, %%fs:0x28" : : "r"(guard));
  asm volatile("movq %0, %%fs:0x30" : : "r"(random[1]));
}

void construct(const Constructor* from, const Constructor* end, int argc, char** argv) {
  for (; from != end; ++from) (*from)(argc, argv, __environ);
}

void destruct(void*) {
  for (const auto* next = __fini_array_end; next != __fini_array_start;) (*--next)();
  _fini();
}

}  // namespace

// Called by _start. This file is compiled without stack guards: they are not set yet.
extern "C" [[noreturn]] int __libc_start_main(int (*main)(int, char**, char**), int argc,
                                              char** argv, void (*)(), void (*)(),
                                              void (*at_exit)(), void* stack_end) {
  __environ = argv + argc + 1;
  __libc_stack_end = stack_end;
  auto** end = __environ;
  while (*end != nullptr) ++end;
  _dl_aux_init(reinterpret_cast<Elf64_auxv_t*>(end + 1));
  _dl_relocate_static_pie();
  choose_functions();
  __libc_setup_tls();
  set_guards();
  if (at_exit != nullptr) {
    __cxa_atexit(reinterpret_cast<void (*)(void*)>(at_exit), nullptr, nullptr);
  }
  __libc_early_init(true);
  __libc_init_first(argc, argv, __environ);
  __cxa_atexit(destruct, nullptr, nullptr);
  if (__libc_enable_secure != 0) __libc_check_standard_fds();
  construct(__preinit_array_start, __preinit_array_end, argc, argv);
  _init();
  construct(__init_array_start, __init_array_end, argc, argv);
  _dl_debug_initialize(0, 0);
  std::exit(main(argc, argv, __environ));
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
