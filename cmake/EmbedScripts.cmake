# Generates scripts.cpp from the Lua scripts of the Redis store: cmake -DFROM=… -DTO=… -P …
#
# A line "-- uses: NAME…" names files of shared/ that are needed from there on. They are inserted at
# that line, each once; if it is indented, for that block only. A server runs the whole text for each
# request, and thereby makes all functions anew: that takes a good part of the time. A script
# therefore names files where it is known that they are needed.
cmake_minimum_required(VERSION 3.21)
file(GLOB shared_files ${FROM}/shared/*.lua)
foreach(file ${shared_files})
  file(READ ${file} lua)
  string(REGEX MATCHALL "\nlocal function [a-z_]+" definitions "${lua}")
  string(REPLACE "\nlocal function " "" definitions "${definitions}")
  list(APPEND shared_functions ${definitions})
endforeach()

# Appends a part of a file. Fails if it calls a shared function that is not defined by then: the
# server would notice only when it runs the call.
function(append_part part)
  string(APPEND text "${part}\n")
  foreach(called ${shared_functions})
    if(part MATCHES "[^a-z_]${called}\\(" AND NOT text MATCHES "local function ${called}\\(")
      message(FATAL_ERROR "${script}.lua needs the file that defines ${called}()")
    endif()
  endforeach()
  set(text "${text}" PARENT_SCOPE)
endfunction()

# Appends `file`, and where it says so the files that it uses and that are not there yet.
function(append_file file)
  get_filename_component(name ${file} NAME_WE)
  list(APPEND used ${name})
  file(READ ${file} rest)
  while(rest MATCHES "\n( *)-- uses: ([a-z_ ]+)\n")
    set(line "${CMAKE_MATCH_0}")
    set(indentation "${CMAKE_MATCH_1}")
    string(REPLACE " " ";" names "${CMAKE_MATCH_2}")
    string(FIND "${rest}" "${line}" at)
    string(SUBSTRING "${rest}" 0 ${at} part)
    string(LENGTH "${part}${line}" at)
    string(SUBSTRING "${rest}" ${at} -1 rest)
    append_part("${part}\n")
    set(used_outside ${used})
    foreach(name ${names})
      if(NOT name IN_LIST used)
        append_file(${FROM}/shared/${name}.lua)
      endif()
    endforeach()
    if(indentation)
      set(used ${used_outside})
    endif()
  endwhile()
  append_part("${rest}")
  set(used "${used}" PARENT_SCOPE)
  set(text "${text}" PARENT_SCOPE)
endfunction()

set(source "// Made from ${FROM}/*.lua by cmake/EmbedScripts.cmake.\n#include \"store/redis/node.hpp\"\n\nnamespace dlock::redis {\n")
foreach(script ask renew reclaim release break inspect history remove_expired put_piece put_value
               set_lease admit_fence limit look_at_limit withdraw)
  set(text "")
  set(used "")
  append_file(${FROM}/${script}.lua)
  string(SHA1 sha "${text}")
  string(APPEND source "\nconst Script ${script}_script{R\"lua(${text})lua\",\n                           \"${sha}\"};\n")
endforeach()
string(APPEND source "\n}  // namespace dlock::redis\n")
file(WRITE ${TO} "${source}")
