# Whether a static program can start by src/static_start.cpp: DLOCK_STARTS_ITSELF. It takes
# over from inside of glibc, so it is for the version it was written for only, and only if a
# program that starts by it finds all in order (own_start_check.cpp). Elsewhere glibc's own
# start is as good, but slower.
option(DLOCK_OWN_START "Let a static dlock start without asking the processor what it can" ON)

set(DLOCK_STARTS_ITSELF OFF)
if(DLOCK_STATIC AND DLOCK_OWN_START AND NOT CMAKE_CROSSCOMPILING)
  if(NOT DEFINED DLOCK_OWN_START_RUN)
    try_run(DLOCK_OWN_START_RUN DLOCK_OWN_START_COMPILES
      ${PROJECT_BINARY_DIR}/own_start ${PROJECT_SOURCE_DIR}/cmake/own_start_check.cpp
      CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src
      COMPILE_DEFINITIONS -fno-stack-protector
      LINK_OPTIONS -static)
  endif()
  if(DLOCK_OWN_START_COMPILES AND DLOCK_OWN_START_RUN EQUAL 0)
    set(DLOCK_STARTS_ITSELF ON)
  endif()
  message(STATUS "Start without questions to the processor: ${DLOCK_STARTS_ITSELF}")
endif()
