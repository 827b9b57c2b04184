# Run by cpack on the files of a package, before it packs them: compresses what
# distributions have compressed, and adds what their packages need besides.

set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/dlock)
set(packaging ${CPACK_DLOCK_SOURCE}/packaging/debian)

# Without name and time, so that the same file is always the same bytes.
function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# As Debian wants a licence that is quoted: each line indented, a dot where it is empty.
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
  # That of a release has its date with SOURCE_DATE_EPOCH.
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${doc}/changelog.Debian
"dlock (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: what is new is in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
endfunction()

# What is linked into a static program comes under its own licences, which want to go with
# it: as the distribution has them of which it was built.
function(write_licences)
  set(text "")
  foreach(package libxxhash-dev libutf8proc-dev libhiredis-dev libc-ares-dev libnghttp2-dev
          libprotozero-dev libssl-dev zlib1g-dev libzstd-dev libcli11-dev libtoml11-dev
          nlohmann-json3-dev libboost*-dev libc6-dev libstdc++-*-dev)
    file(GLOB found /usr/share/doc/${package}/copyright)
    if(NOT found)
      message(WARNING "the package lacks the licence of ${package}: no copyright file")
      continue()
    endif()
    list(GET found 0 file)
    file(READ ${file} licence)
    string(APPEND text "==== ${package}\n\n${licence}\n")
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
  file(REMOVE ${doc}/LICENSE)
  write_copyright()
  write_changelog()
  compress(${doc}/changelog ${doc}/changelog.Debian)
  file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  configure_file(${packaging}/lintian-overrides ${share}/lintian/overrides/dlock COPYONLY)
endif()

# Whatever the umask of who builds it.
set(for_all OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr
     FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
     DIRECTORY_PERMISSIONS ${for_all})
file(CHMOD ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/bin/dlock PERMISSIONS ${for_all})
