# Whether a static program starts with src/static_start.cpp. That code replaces internals of
# glibc, so it is used only with the version that it was written for, and only if a program
# that starts with it finds everything initialised (own_start_check.cpp).
option(DLOCK_OWN_START "Let a static dlock start without asking the processor what it can" OFF)

if(DLOCK_OWN_START)
  if(DLOCK_STATIC AND NOT CMAKE_CROSSCOMPILING AND NOT DEFINED DLOCK_OWN_START_RUN)
    try_run(DLOCK_OWN_START_RUN DLOCK_OWN_START_COMPILES
      ${PROJECT_BINARY_DIR}/own_start ${PROJECT_SOURCE_DIR}/cmake/own_start_check.cpp
      CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src
      COMPILE_DEFINITIONS -fno-stack-protector
      LINK_OPTIONS -static)
  endif()
  if(NOT DLOCK_OWN_START_COMPILES OR NOT DLOCK_OWN_START_RUN EQUAL 0)
    message(FATAL_ERROR "DLOCK_OWN_START is for static programs of glibc 2.36 on x86-64")
  endif()
endif()
