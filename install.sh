#!/usr/bin/env bash
# Builds dlock from this source tree and installs it, and removes it: `./install.sh --help`.
set -euo pipefail

program=install.sh
caller_directory=$PWD
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")"
# shellcheck source=packaging/packages.sh
. packaging/packages.sh
# No program here may wait for input, or consume the input of a calling script.
exec < /dev/null

usage() {
  cat << 'END'
Usage: ./install.sh [--uninstall] [--prefix DIR]

Installs the packages that the build needs (with apt-get, only what is missing),
builds dlock, and installs it with its manual and completions.

  --prefix DIR   install below DIR (default: /usr/local)
  --uninstall    remove what was installed below DIR, by this or by get.sh; files
                 that were changed since are kept
  --help         show this
END
}

usage_error() {
  complain "$1 (see ./install.sh --help)"
  exit 64
}

fail() {
  complain "$1"
  exit 1
}

# True if the directory, or the nearest one above it that exists, can be written to.
is_writable() {
  local directory=$1
  until [[ -e $directory ]]; do directory=$(dirname "$directory"); done
  [[ -w $directory ]]
}

# Builds only the program: the tree may also be configured with the tests.
build() {
  quietly cmake --preset release && quietly cmake --build --preset release --target dlock
}

# Runs a command that writes below the prefix, as root if only root can.
in_prefix() {
  if is_writable "$prefix/bin" && is_writable "$prefix/share"; then
    "$@"
  else
    needs_root "write in $prefix" && as_root "$@"
  fi
}

install_files() {
  local log before
  # A manifest that an earlier installation wrote as root could not be overwritten.
  rm -f build/release/install_manifest.txt
  umask 022 # all users must be able to read the directories that cmake creates
  before=$(cd "$prefix" 2> /dev/null && { echo . && find bin share -maxdepth 3 -type d; } 2> /dev/null) || true
  log=$(in_prefix cmake --install build/release --prefix "$prefix" --strip 2>&1) || { echo "$log" >&2; return 1; }
  list_installed "$before" <<< "$log" > build/installed || return
  in_prefix install -D -m 644 build/installed "$prefix/share/dlock/installed"
}

# Prints what get.sh needs to remove dlock again: see `manifest` there. Reads what cmake says.
list_installed() {  # <directories that there were before>
  local file directory sum before=$'\n'$1$'\n'
  local files=()
  local -A created=() listed=()
  while read -r file; do
    file=${file#"$prefix"/}
    [[ -f $prefix/$file ]] || continue
    files+=("$file")
    listed[$file]=1
    directory=$file
    while [[ $directory != . ]]; do
      [[ $directory == */* ]] && directory=${directory%/*} || directory=.
      [[ $before == *$'\n'"$directory"$'\n'* ]] || created[$directory]=1
    done
  done < <(sed -n 's/^-- \(Installing\|Up-to-date\): //p'; echo)
  ((${#files[@]} == 0)) || (cd "$prefix" && sha256sum "${files[@]}") || return
  [[ $before == *$'\n'share/dlock$'\n'* ]] || created[share/dlock]=1
  ((${#created[@]} == 0)) || printf 'made  %s\n' "${!created[@]}" | LC_ALL=C sort -r
  # What an earlier installation created or this one no longer has.
  [[ ! -r $prefix/share/dlock/installed ]] || while read -r sum file; do
    [[ -n ${listed[$file]:-} ]] || echo "$sum  $file"
  done < "$prefix/share/dlock/installed"
}

# fish always looks in its directory in /etc, but below /usr/local only if XDG_DATA_DIRS
# names it, and many login sessions do not set that variable.
link_for_fish() {
  local made=$prefix/share/fish/vendor_completions.d/dlock.fish
  local link=/etc/fish/completions/dlock.fish
  [[ $prefix == /usr/local && -d /etc/fish ]] || return 0
  [[ ! -e $link && ! -L $link ]] || return 0
  if is_writable "${link%/*}"; then
    mkdir -p "${link%/*}" && ln -s "$made" "$link"
  else
    as_root mkdir -p "${link%/*}" && as_root ln -s "$made" "$link"
  fi
}

prefix=/usr/local
uninstalls=false
while (($#)); do
  case $1 in
    --prefix)
      (($# >= 2)) || usage_error '--prefix needs a directory'
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#*=} ;;
    --uninstall) uninstalls=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) usage_error "unknown argument: $1" ;;
  esac
  shift
done
[[ -z ${DESTDIR:-} ]] || usage_error 'DESTDIR is not for this script: cmake --install takes it'
[[ -n $prefix ]] || usage_error '--prefix needs a directory'
[[ $prefix == /* ]] || prefix=$caller_directory/$prefix
prefix=$(realpath -ms "$prefix")
if $uninstalls; then
  in_prefix sh ./get.sh --uninstall --prefix "$prefix" || exit 1
  exit 0
fi

warn_if_system_is_unknown
install_build_packages

say 'building dlock'
build || fail 'dlock could not be built'
install_files || fail "dlock could not be installed in $prefix"
(umask 022 && link_for_fish) || say 'note: fish was not told where the completion is'
version=$("$prefix/bin/dlock" --version) || fail "$prefix/bin/dlock does not run here"
say "installed $prefix/bin/dlock ($version)"
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) say "note: $prefix/bin is not in PATH" ;;
esac
