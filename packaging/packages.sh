# shellcheck shell=bash
# The packages that dlock needs, and functions that install the missing ones.
# install.sh and tests/run set `program` and source this file.

# The packages to build dlock with, except Boost (see install_build_packages). A program for another
# architecture needs those of the libraries for it. On some systems libcrypto is built with the two
# compressors, and needs them.
linked_packages=(libxxhash-dev libutf8proc-dev libhiredis-dev libssl-dev libc-ares-dev libnghttp2-dev
  zlib1g-dev libzstd-dev)
build_packages=(g++ lld cmake ninja-build "${linked_packages[@]}" libprotozero-dev libcli11-dev libtoml11-dev
  nlohmann-json3-dev)

# What the tests are compiled with: needed before the build is configured.
test_libraries=(libgtest-dev liblua5.1-0-dev)

# The packages for the tests of each change, except clang-format (see install_test_packages) and
# clang-tidy (see install_clang_tidy). No test uses the services that Debian starts for the servers.
test_packages=("${test_libraries[@]}" bats curl zsh fish systemd shellcheck mandoc jq strace procps
  util-linux attr iproute2 openssl python3 redis-server redis-tools etcd-server etcd-client postgresql pgbouncer)

# Those that only `tests/run --full` needs.
full_packages=(bash-completion spin dpkg-dev lintian rpm cpio minisign
  python3-yaml nodejs patch buildah podman runc catatonit tini dumb-init)

# The version of clang-format that the source is formatted with. Others differ
# from it in details, whatever their settings.
clang_format_version=14

# Versions of Boost, in the format of its header: dlock builds with 1.74 and later;
# Clang can parse the coroutines of 1.78 and later.
boost_needed=107400
boost_needed_by_clang=107800

program=${program:-${0##*/}}

say() { printf '%s: %s\n' "$program" "$*"; }
complain() { say "$@" >&2; }

# Runs a command and shows its output only if it fails.
quietly() {
  local log status=0
  log=$(mktemp) || return
  "$@" > "$log" 2>&1 || status=$?
  ((status == 0)) || cat "$log" >&2
  rm -f "$log"
  return "$status"
}

# Fails with a message if as_root could not become root.
needs_root() {  # <for what>
  ((EUID == 0)) || command -v sudo > /dev/null ||
    { complain "needs root to $1: run it as root, or install sudo"; return 1; }
}

# Runs a command as root. sudo asks on the terminal, so it needs no standard input.
as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# True on one of these versions of a distribution, named as in os-release(5).
# A subshell, because that file sets variables with common names such as VERSION.
system_is() (  # <ID> <VERSION_ID>...
  ID='' VERSION_ID=''
  # shellcheck source=/dev/null
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  [[ $1 == "$ID" ]] || exit 1
  for version in "${@:2}"; do [[ $version != "$VERSION_ID" ]] || exit 0; done
  exit 1
)

warn_if_system_is_unknown() {
  system_is debian 12 13 || system_is ubuntu 22.04 24.04 ||
    complain "warning: made for Debian 12 and 13 and Ubuntu 22.04 and 24.04; trying anyway"
}

package_is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null) == installed* ]]
}

# True only if all of these are installed, for every architecture: one question instead of one for
# each. It fails if dpkg does not know one of them.
packages_are_installed() {  # <package>...
  local states
  states=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2> /dev/null) && ! grep -qvx installed <<< "$states"
}

# True if apt could install this package. A name that other packages only provide
# or mention has no candidate.
package_can_be_installed() {
  [[ $(LC_ALL=C apt-cache policy "$1" 2> /dev/null) == *'Candidate: '[!\(]* ]]
}

# Prints the first of these packages that apt could install. If there is none,
# prints the first one, for the error message.
first_installable() {  # <package>...
  local package
  for package; do
    if package_can_be_installed "$package"; then
      echo "$package"
      return
    fi
  done
  echo "$1"
}

apt_get() {
  # The first upgrade of a new machine may hold the lock for some time.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"
}

lists_are_fresh=false

# Updates the package lists, once. A failure is only a warning: the source that
# failed may not be one that is needed.
refresh_package_lists() {  # <what is to be installed>
  ! $lists_are_fresh || return 0
  if ! command -v apt-get > /dev/null; then
    complain 'this needs apt-get (Debian, Ubuntu); elsewhere install a C++20 compiler, CMake, Ninja,' \
      'xxHash, utf8proc, hiredis, OpenSSL, zlib, zstd, c-ares, nghttp2, protozero, CLI11, toml11, nlohmann-json and Boost, then: cmake --preset release &&' \
      'cmake --build --preset release --target dlock && cmake --install build/release'
    return 1
  fi
  needs_root "install $1" || return
  quietly apt_get update || complain 'warning: apt-get update failed; trying with the lists that are there'
  lists_are_fresh=true
}

install_missing() {  # <package>...
  local package missing=() unknown=()
  ! packages_are_installed "$@" || return 0
  for package; do package_is_installed "$package" || missing+=("$package"); done
  ((${#missing[@]})) || return 0

  refresh_package_lists "${missing[*]}" || return
  for package in "${missing[@]}"; do
    package_can_be_installed "$package" || unknown+=("$package")
  done
  if ((${#unknown[@]})); then
    complain "apt-get knows no package ${unknown[*]}: is the distribution's" \
      "$(grep -qsx 'ID=ubuntu' /etc/os-release && echo universe || echo main) component among its sources?"
    return 1
  fi

  say "installing with apt-get: ${missing[*]}"
  quietly apt_get install -y --no-install-recommends "${missing[@]}" ||
    { complain 'apt-get could not install them'; return 1; }
}

# Prints the version of the installed Boost headers, 107400 for 1.74, or 0.
boost_version() {
  local version=''
  [[ ! -r /usr/include/boost/version.hpp ]] ||
    version=$(awk '$1 == "#define" && $2 == "BOOST_VERSION" { print $3 }' /usr/include/boost/version.hpp)
  echo "${version:-0}"
}

# Keeps an installed Boost that is recent enough, whichever package it came from: the Boost packages
# of Debian 12 conflict with one another.
install_build_packages() {
  local boost=()
  if (($(boost_version) < boost_needed)); then
    refresh_package_lists Boost || return
    # Debian 12 has 1.81 besides its default, 1.74, which Clang cannot parse.
    boost=("$(first_installable libboost1.81-dev libboost-dev)")
  fi
  install_missing "${build_packages[@]}" "${boost[@]}"
}

# Prints the command to use: that of the project's version, if it is installed.
installed_clang_format() {
  command -v "clang-format-$clang_format_version" || command -v clang-format
}

# Prints the names of clang-tidy to look for, the best one first. Packages and
# commands have the same names.
clang_tidy_names() {
  # Debian 12 also has 19, but 16 fits the age of its libraries.
  if system_is debian 12; then
    printf 'clang-tidy-%s\n' 16 19 18 17 15
  else
    printf 'clang-tidy-%s\n' 19 18 17 16 15
  fi
}

# Prints the command of the best clang-tidy that is installed.
installed_clang_tidy() {
  local name
  for name in $(clang_tidy_names); do
    if command -v "$name"; then return; fi
  done
  return 1
}

clang_can_parse_boost() { (($(boost_version) >= boost_needed_by_clang)); }

install_test_packages() {
  local chosen=()
  if ! installed_clang_format > /dev/null; then
    refresh_package_lists clang-format || return
    chosen+=("$(first_installable "clang-format-$clang_format_version" clang-format)")
  fi
  install_missing "${test_packages[@]}" "${chosen[@]}" || return
  # Tests use these if they are there, because they take less time: gojq for this version of jq, and
  # tcc for gcc.
  [[ $(jq --version) != jq-1.6* ]] || install_missing gojq tcc || true
}

install_full_packages() { install_missing "${full_packages[@]}"; }

# Those that the examples and the recipes of other distributions are for.
install_night_packages() { install_missing ansible-core prometheus makepkg libarchive-tools fakeroot nix-bin ruby; }

# To be called after install_build_packages: the choice depends on the installed Boost.
install_clang_tidy() {
  local names
  clang_can_parse_boost || return 0
  installed_clang_tidy > /dev/null && return
  refresh_package_lists clang-tidy || return
  mapfile -t names < <(clang_tidy_names)
  install_missing "$(first_installable "${names[@]}")"
}
