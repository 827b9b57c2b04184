# Packages of the installed files, below /usr. In a build directory, run `cpack -G DEB` or
# `cpack -G RPM`.

set(CPACK_PACKAGE_NAME dlock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# The version of the last build, which need not be a release.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/version.cmake)
set(CPACK_PACKAGE_VENDOR "dlock developers")
# A placeholder: set an address if you build packages for others.
set(CPACK_PACKAGE_CONTACT "dlock developers <dlock@packages.invalid>"
    CACHE STRING "Who maintains the packages: NAME <ADDRESS>")
# Another one, as the address above.
set(CPACK_PACKAGE_HOMEPAGE_URL "https://dlock.invalid/" CACHE STRING "Where users find dlock")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "hold a named lock while a command runs")
set(CPACK_PACKAGE_DESCRIPTION
"dlock keeps shell scripts and cron jobs from running twice at a time: it
holds a named lock while a command runs. Locks need no server; those on this
machine are freed by the kernel when their holder dies. With Redis or Valkey
(one server, Sentinel, Cluster or a quorum), etcd or PostgreSQL the same
command line locks across many machines.

It waits in a fair queue, admits a number of holders or many readers, ends
commands that take too long, limits rates, and caches output.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB RPM)

# Changes files that distributions want in another form than `cmake --install` writes them.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PreparePackage.cmake)
set(CPACK_DLOCK_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_DLOCK_STATIC ${DLOCK_STATIC})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# rediss:// verifies the certificate of a server with these.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postrm)

set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_RPM_PACKAGE_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
# rpmbuild must pack the files unchanged, and with SOURCE_DATE_EPOCH must not write down when and
# where it ran. There are no debug symbols that links by build id could help to find. The only weak
# dependency that CPack has a variable for is SUGGESTS.
set(CPACK_RPM_SPEC_MORE_DEFINE
"%define __os_install_post %{nil}
%define _build_id_links none
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
Recommends: ca-certificates")
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_GROUP Applications/System)
# Directories that belong to the distribution.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
    /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/doc
    /usr/share/bash-completion /usr/share/bash-completion/completions
    /usr/share/fish /usr/share/fish/vendor_completions.d
    /usr/share/zsh /usr/share/zsh/site-functions)

# A static program has no dependencies. Those of a dynamic one are found in the built file.
if(DLOCK_STATIC)
  set(CPACK_RPM_PACKAGE_AUTOREQ OFF)
else()
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()

include(CPack)
