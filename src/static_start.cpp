// How a static program of glibc 2.36 starts on x86-64, in the place of glibc's own: only
// for who configures with -DDLOCK_OWN_START=ON, where cmake/OwnStart.cmake finds that it
// works.
//
// glibc's start asks the processor what it can and how large its caches are, to choose
// among its functions for strings and memory: 43 times on one machine, 68 times on
// another. Each of these questions (cpuid) leaves a virtual machine, and its host
// answers, in 4 µs on the one and 9 on the other: an eighth and a quarter of `dlock run x
// -- /bin/true`. A program that copies a few kilobytes has nothing of the answers.
// Unasked, glibc takes what each processor of the architecture has (SSE2).
//
// The steps, their order and the names are those of __libc_start_main in that version's
// csu/libc-start.c; the linker takes it from here and so leaves the member of libc.a out
// that has it, with the variables that are below. Left out besides: GLIBC_TUNABLES, which
// takes the twelfth part of a run's instructions to look for, and what lets the main
// thread end before others, of which there are none.

#include <elf.h>

#include <cstdint>
#include <cstdlib>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): glibc and ld
// name them.
extern "C" {

// What glibc's functions for memory take for the sizes of caches, in bytes, and from
// where on they copy past them or by `rep movsb`: what they are where nobody knows
// better.
long __x86_data_cache_size_half = 16 * 1024;
long __x86_data_cache_size = 32 * 1024;
long __x86_shared_cache_size_half = 512 * 1024;
long __x86_shared_cache_size = 1024 * 1024;
long __x86_shared_non_temporal_threshold = 768 * 1024;
long __x86_rep_movsb_threshold = 2048;
long __x86_rep_stosb_threshold = 2048;
long __x86_rep_movsb_stop_threshold = 768 * 1024;
int __x86_string_control = 0;

// glibc's, and not for others.
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

// The linker's, and the compiler's.
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

// Functions of which glibc has several are called through a word, which says which one.
// Each is asked for by calling the function that chooses; before that none can be called.
void choose_functions() {
  for (const auto* word = __rela_iplt_start; word != __rela_iplt_end; ++word) {
    // NOLINTBEGIN(performance-no-int-to-ptr): that is what the linker writes down.
    auto* const choice = reinterpret_cast<Elf64_Addr (*)()>(word->r_addend);
    *reinterpret_cast<Elf64_Addr*>(word->r_offset) = choice();
    // NOLINTEND(performance-no-int-to-ptr)
  }
}

// What a function finds below its frame when it returns, and what pointers of longjmp(3)
// and atexit(3) are mixed with, at their places of the ABI.
void set_guards() {
  const auto* random = static_cast<const std::uintptr_t*>(_dl_random);
  const auto guard = random[0] & ~std::uintptr_t{0xff};  // so that no string ends in it
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

// What _start calls. This file is compiled without guards of its own: there are none yet.
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
