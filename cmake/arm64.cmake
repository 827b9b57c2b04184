# Builds for arm64 on another architecture, with the distribution's compiler and its packages for
# arm64 (`dpkg --add-architecture arm64`): packaging/release --arch arm64 installs them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# The cross compiler brings separate libraries, which get no security updates. What is linked in is that of
# the distribution for arm64, as on every other architecture.
execute_process(COMMAND ${CMAKE_C_COMPILER} -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-B/usr/lib/aarch64-linux-gnu -B/usr/lib/gcc/aarch64-linux-gnu/${version}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# The tools that pack would ask the system that they run on.
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
set(CPACK_RPM_PACKAGE_ARCHITECTURE aarch64)
