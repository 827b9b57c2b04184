# Generates scripts.cpp from the Lua scripts of the Redis store: cmake -DFROM=… -DTO=… -P …
#
# A script names the files of shared/ that it needs in a line "-- uses: NAME…", and so do
# these files. All of them are inserted before the script, each once.
cmake_minimum_required(VERSION 3.21)
file(GLOB shared_files ${FROM}/shared/*.lua)

# Appends the files that `file` uses and that are not there yet, and then `file` itself.
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

# Fails if a script calls a function of a file that it does not use: the server would notice
# only when it runs the call.
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
