# Makes scripts.cpp from the Lua scripts of the Redis store: cmake -DFROM=… -DTO=… -P …
#
# A script names in a line "-- uses: NAME…" the files of shared/ that it needs, and these
# those that they need; all of them are put in front of it, each once.
cmake_minimum_required(VERSION 3.21)
file(GLOB shared_files ${FROM}/shared/*.lua)

# Appends what `file` uses, as far as it is not there yet, and then itself.
function(append_file file)
  file(READ ${file} lua)
  if(lua MATCHES "\n-- uses: ([a-z_ ]+)\n")
    string(REPLACE " " ";" names "${CMAKE_MATCH_1}")
    foreach(name ${names})
      if(NOT name IN_LIST used)
        append_file(${FROM}/shared/${name}.lua)
      endif()
    endforeach()
  endif()
  get_filename_component(name ${file} NAME_WE)
  list(APPEND used ${name})
  string(APPEND text "${lua}\n")
  set(used "${used}" PARENT_SCOPE)
  set(text "${text}" PARENT_SCOPE)
endfunction()

# A function that is called and not there would be noticed only once it is called.
function(check_calls name)
  foreach(file ${shared_files})
    file(READ ${file} shared)
    string(REGEX MATCHALL "\nlocal function [a-z_]+" definitions "${shared}")
    foreach(definition ${definitions})
      string(REPLACE "\nlocal function " "" called "${definition}")
      if(text MATCHES "[^a-z_]${called}\\(" AND
         NOT text MATCHES "local function ${called}\\(")
        message(FATAL_ERROR "${name}.lua calls ${called}(), and does not use ${file}")
      endif()
    endforeach()
  endforeach()
endfunction()

set(source "// Made from ${FROM}/*.lua by cmake/EmbedScripts.cmake.\n#include \"store/redis/scripts.hpp\"\n\nnamespace dlock::redis {\n")
foreach(name ask renew reclaim release break inspect history remove_expired put_piece put_value set_lease
             admit_fence limit look_at_limit withdraw)
  set(text "")
  set(used "")
  append_file(${FROM}/${name}.lua)
  check_calls(${name})
  string(SHA1 sha "${text}")
  string(APPEND source "\nconst Script ${name}_script{R\"lua(${text})lua\",\n                           \"${sha}\"};\n")
endforeach()
string(APPEND source "\n}  // namespace dlock::redis\n")
file(WRITE ${TO} "${source}")
