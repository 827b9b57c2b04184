# cpack runs this before it packs the files: it compresses the files that distributions
# compress, and adds the files that their packages need.

set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/dlock)
set(packaging ${CPACK_DLOCK_SOURCE}/packaging/debian)

# Without file name and time, so that the same content always gives the same bytes.
function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Debian's format for the text of a licence: lines are indented; an empty line is a dot.
function(write_copyright)
  file(STRINGS ${CPACK_DLOCK_SOURCE}/LICENSE lines)
  set(LICENSE_TEXT "")
  set(is_text FALSE)
  foreach(line IN LISTS lines)
    if(is_text)
      if(line STREQUAL "")
        set(line .)
      endif()
      string(APPEND LICENSE_TEXT " ${line}\n")
    elseif(line MATCHES "^Copyright")
      set(is_text TRUE)
    endif()
  endforeach()
  string(REGEX REPLACE "^( \\.\n)+" "" LICENSE_TEXT "${LICENSE_TEXT}")
  string(STRIP "${LICENSE_TEXT}" LICENSE_TEXT)
  set(LICENSE_TEXT " ${LICENSE_TEXT}")
  configure_file(${packaging}/copyright.in ${doc}/copyright @ONLY)
endfunction()

function(write_changelog)
  # A release sets SOURCE_DATE_EPOCH to its own date.
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${doc}/changelog.Debian
"dlock (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: what is new is in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
endfunction()

# Libraries linked into a static program have their own licences, which must be shipped
# with it. These are the copyright files of the distribution that it is built on, under the
# names of its packages, of which several versions may be installed.
function(write_licences)
  set(text "")
  foreach(package libxxhash-dev libutf8proc-dev libhiredis-dev libc-ares-dev libnghttp2-dev
          libprotozero-dev libssl-dev zlib1g-dev libzstd-dev libcli11-dev libtoml11-dev
          nlohmann-json3-dev libboost[0-9].*[0-9]-dev libc6-dev libstdc++-[0-9]*-dev)
    file(GLOB found /usr/share/doc/${package}/copyright)
    if(NOT found)
      message(WARNING "the package lacks the licence of ${package}: no copyright file")
      continue()
    endif()
    foreach(file IN LISTS found)
      file(READ ${file} licence)
      get_filename_component(directory ${file} DIRECTORY)
      get_filename_component(name ${directory} NAME)
      string(APPEND text "==== ${name}\n\n${licence}\n")
    endforeach()
  endforeach()
  if(EXISTS /usr/share/common-licenses/Apache-2.0)
    file(READ /usr/share/common-licenses/Apache-2.0 licence)
    string(APPEND text "==== Apache-2.0\n\n${licence}\n")
  endif()
  file(WRITE ${doc}/third-party "${text}")
  compress(${doc}/third-party)
endfunction()

file(GLOB manuals ${share}/man/man*/*.[1-9])
compress(${manuals})
if(CPACK_DLOCK_STATIC)
  write_licences()
endif()

if(CPACK_GENERATOR STREQUAL "DEB")
  file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
  file(GLOB_RECURSE pages ${doc}/*.md)
  foreach(page ${pages})
    file(READ ${page} text)
    string(REPLACE "CHANGELOG.md)" "changelog.gz)" text "${text}")
    file(WRITE ${page} "${text}")
  endforeach()
  file(REMOVE ${doc}/LICENSE)
  write_copyright()
  write_changelog()
  compress(${doc}/changelog ${doc}/changelog.Debian)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  configure_file(${packaging}/lintian-overrides ${share}/lintian/overrides/dlock COPYONLY)
endif()

# File modes must not depend on the umask of the build.
set(for_all OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr
     FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
     DIRECTORY_PERMISSIONS ${for_all})
file(CHMOD ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin/dlock PERMISSIONS ${for_all})
