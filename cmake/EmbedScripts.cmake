# Makes scripts.cpp from the Lua scripts of the Redis store: cmake -DFROM=… -DTO=… -P …
file(READ ${FROM}/common.lua common)
set(source "// Made from ${FROM}/*.lua by cmake/EmbedScripts.cmake.\n#include \"store/redis/scripts.hpp\"\n\nnamespace dlock::redis {\n")
foreach(name ask renew reclaim release break inspect history tidy put_piece put_value set_lease
             admit_fence limit withdraw)
  file(READ ${FROM}/${name}.lua own)
  if(name MATCHES "^(limit|withdraw)$")
    set(text "${own}") # limits know nothing of locks
  else()
    set(text "${common}\n${own}")
  endif()
  string(SHA1 sha "${text}")
  string(APPEND source "\nconst Script ${name}_script{R\"lua(${text})lua\",\n                           \"${sha}\"};\n")
endforeach()
string(APPEND source "\n}  // namespace dlock::redis\n")
file(WRITE ${TO} "${source}")
