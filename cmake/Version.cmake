# Writes the version of the program and of its packages into the build directory. Each build
# runs this, so that a new commit shows without configuring anew; a file whose text would be the
# same stays untouched, and nothing is compiled then:
#   cmake -DVERSION=X.Y.Z -DLINKED=<packages> -DSOURCE=<dir> -DTO=<dir> -P Version.cmake
#
# X.Y.Z at the tag vX.Y.Z, or if nothing is known of the commit; else X.Y.Z-dev+g<commit>, with
# ".dirty" if a file differs from the commit. What is known comes from git, or in a source archive from
# the next line, in which `git archive` and packaging/release write the commit, its time and its tag
# (.gitattributes). It knows only tags with a message.
set(archived "$Format:%H %ct %(describe:match=v*,exclude=*-*)$")

# Sets `variable` to what git prints, or to nothing if it fails. A user may build what another
# user has cloned.
function(ask_git variable)
  execute_process(
    COMMAND git --no-optional-locks -c safe.directory=* -C ${SOURCE} ${ARGN}
    OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(text "")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

set(suffix "")
set(commit "")
ask_git(top rev-parse --show-toplevel)
get_filename_component(source ${SOURCE} REALPATH)
# An unpacked archive may be inside the checkout of something else.
if(top STREQUAL source)
  ask_git(commit rev-parse HEAD)
endif()
set(tags "")
set(changes "")
if(commit MATCHES "^[0-9a-f]+$")
  ask_git(tags tag --points-at HEAD --list v${VERSION})
  ask_git(changes status --porcelain --untracked-files=no)
elseif(archived MATCHES "^([0-9a-f]+) [0-9]+ ([^ ]*)( dirty)?$")
  set(commit ${CMAKE_MATCH_1})
  set(tags "${CMAKE_MATCH_2}")
  set(changes "${CMAKE_MATCH_3}")
endif()
if(commit)
  string(SUBSTRING ${commit} 0 10 short)
  if(changes)
    set(suffix "dev+g${short}.dirty")
  elseif(NOT tags STREQUAL "v${VERSION}")
    set(suffix "dev+g${short}")
  endif()
endif()

set(program_version ${VERSION})
# "~" sorts before the release, for dpkg and rpm.
set(package_version ${VERSION})
if(suffix)
  set(program_version ${VERSION}-${suffix})
  set(package_version ${VERSION}~${suffix})
endif()

function(write name text)
  set(written "")
  if(EXISTS ${TO}/${name})
    file(READ ${TO}/${name} written)
  endif()
  if(NOT text STREQUAL written)
    file(WRITE ${TO}/${name} "${text}")
  endif()
endfunction()

# Declared in src/cli/args/app.hpp and linked_in.cpp.
write(version.cpp "namespace dlock {
extern const char* const program_version;
const char* const program_version = \"${program_version}\";
extern const char* const linked_packages;
const char* const linked_packages = \"${LINKED}\";
}  // namespace dlock\n")
# cpack includes this.
write(version.cmake "set(CPACK_PACKAGE_VERSION \"${package_version}\")\n")
