#!/bin/sh
# Installs a released dlock, and removes it: `get.sh --help`. It needs a POSIX shell, tar, gzip,
# sha256sum and, for a URL, curl or wget. Everything is in functions that the last line calls, so a
# download of this script that was cut off does nothing.
set -eu

usage() {
  cat << 'END'
Usage: sh get.sh [--prefix DIR] [--key KEY] [--sha256 SUM] FROM
       sh get.sh --uninstall [--prefix DIR]

Installs the program, manual and completions of a release for this machine.

FROM is a URL or a directory with the files of a release (a dlock-*.tar.gz for
each architecture, and SHA256SUMS), or one such archive. Its sum must be right.
If minisign(1) is installed, the signature of SHA256SUMS is checked as well.

  --prefix DIR   install below DIR (default: /usr/local for root, else ~/.local)
  --key KEY      the public key of the signature: a file, or the key itself; the
                 signature is needed then (default: the file minisign.pub of FROM)
  --sha256 SUM   the sum that the archive must have; if FROM names an archive, and
                 without --key, SHA256SUMS is not read then
  --uninstall    remove what was installed below DIR, by this or by install.sh;
                 files that were changed since are kept
  --help         show this
END
}

# A login in a URL stays out of messages, which end in the logs of others.
say() { printf 'get.sh: %s\n' "$*" | sed 's|://[^ ]*@|://***@|g'; }

fail() {
  say "$@" >&2
  exit 1
}

usage_error() {
  say "$1 (see get.sh --help)" >&2
  exit 64
}

# Without sha256sum, for one, each installed file would look like one that was changed.
need() {  # <program>...
  for tool; do command -v "$tool" > /dev/null || fail "this needs $tool, which is not installed"; done
}

# Prints the reason of the last command whose messages went to this file, which is their last line.
why() {
  reason=$(grep . "$work/why" | tail -n 1)
  [ -z "$reason" ] || printf ': %s' "$reason"
}

# --- Getting the files ---

# Copies a file of the release into $work. Fails if it cannot be had.
get() {  # <name>
  case $from in
    http://* | https://*) download "$from/$1" "$work/$1" ;;
    *) if [ -f "$from/$1" ]; then cp "$from/$1" "$work/$1"; else echo 'there is no such file' >&2 && false; fi ;;
  esac 2> "$work/why"
}

# A server that sends nothing for a minute is given up. A quiet wget does not say what is wrong.
download() {  # <URL> <file>
  if $has_curl; then
    curl -fsSL --connect-timeout 30 --speed-limit 1 --speed-time 60 -o "$2" "$1"
  else
    wget -T 60 -O "$2" "$1"
  fi || { rm -f "$2"; return 1; }
}

architecture() {
  [ "$(uname -s)" = Linux ] || fail "dlock runs on Linux, not on $(uname -s)"
  case $(uname -m) in
    x86_64 | amd64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) fail "there is no release for $(uname -m), only for x86_64 and aarch64: build dlock from its source with install.sh" ;;
  esac
}

# Sets `archive` to the name of the archive for this machine, and `sum` to what its sum must be.
choose_archive() {
  arch=$(architecture)
  need tar gzip sha256sum
  case $from in
    *.tar.gz)
      archive=${from##*/}
      from=${from%/*}
      case $archive in
        dlock-*-linux-"$arch".tar.gz) ;;
        *) fail "$archive is not an archive of dlock for $arch" ;;
      esac
      ;;
    *) archive='' ;;
  esac
  [ -z "$sum" ] || [ -z "$archive" ] || [ -n "$key" ] || return 0
  get SHA256SUMS || fail "cannot get SHA256SUMS from $from$(why)"
  check_signature
  [ -n "$archive" ] || archive=$(sed -n "s/^[0-9a-f]*  \\(dlock-[^ /]*-linux-$arch\\.tar\\.gz\\)\$/\\1/p" "$work/SHA256SUMS")
  case $archive in
    '') fail "SHA256SUMS in $from names no archive for $arch" ;;
    *'
'*) fail "SHA256SUMS in $from names more than one archive for $arch: name one of them" ;;
  esac
  [ -n "$sum" ] || sum=$(awk -v name="$archive" '$2 == name && NF == 2 { print $1 }' "$work/SHA256SUMS")
  [ -n "$sum" ] || fail "SHA256SUMS in $from does not name $archive"
}

# Sets `note` to what the user must know about the signature.
check_signature() {
  if ! command -v minisign > /dev/null; then
    [ -z "$key" ] || fail 'the signature cannot be checked: minisign is not installed'
    note='the signature was not checked: minisign is not installed'
    return 0
  fi
  if ! get SHA256SUMS.minisig; then
    note="cannot get the signature from $from (SHA256SUMS.minisig)$(why)"
    [ -z "$key" ] || fail "$note"
    note="the signature was not checked: $note"
    return 0
  fi
  if [ -f "$key" ]; then
    cp "$key" "$work/key"
  elif [ -n "$key" ]; then
    printf 'untrusted comment: key\n%s\n' "$key" > "$work/key"
  elif get minisign.pub; then
    mv "$work/minisign.pub" "$work/key"
    note='the key of the signature came with the release; --key names one that you know'
  else
    note='the signature was not checked: --key names the key'
    return 0
  fi
  minisign -V -q -p "$work/key" -m "$work/SHA256SUMS" > /dev/null 2> "$work/why" ||
    fail "the signature of SHA256SUMS in $from does not fit the key$(why)"
}

# --- Unpacking ---

# An archive has a directory of the same name, and in it only files and directories that belong to
# dlock.
check_names() {
  { tar -tzf "$work/$archive" > "$work/names" && tar -tvzf "$work/$archive" > "$work/kinds"; } 2> "$work/why" ||
    fail "$archive cannot be read: $(grep -m 1 . "$work/why")"
  ! grep -qe '^[^-d]' -e ' link to ' "$work/kinds" || fail "$archive has something other than files and directories"
  while IFS= read -r name; do
    case /$name/ in
      */../* | */./*) fail "$archive has a file with a path that leads elsewhere: $name" ;;
    esac
    case $name in
      "$top"/ | "$top"/*/ | "$top"/bin/dlock | "$top"/share/doc/dlock/* | "$top"/share/man/man[157]/dlock[.-]* | \
        "$top"/share/*/dlock | "$top"/share/*/_dlock | "$top"/share/*/dlock.fish) ;;
      *) fail "$archive has a file that does not belong to dlock: $name" ;;
    esac
  done < "$work/names"
}

unpack() {
  top=${archive%.tar.gz}
  check_names
  tar -C "$work" -xzf "$work/$archive" --no-same-owner 2> /dev/null || tar -C "$work" -xzf "$work/$archive" -o 2> "$work/why" ||
    fail "$archive cannot be unpacked$(why)"
  tree=$work/$top
  [ -f "$tree/bin/dlock" ] || fail "$archive has no program"
  [ -z "$(find "$tree" ! -type f ! -type d)" ] || fail "$archive has something other than files and directories"
  find "$tree" -type d -exec chmod 755 {} + && find "$tree" -type f -exec chmod 644 {} + && chmod 755 "$tree/bin/dlock"
}

# --- Installing ---

# What is installed: lines as `sha256sum` prints them, with paths below the prefix, and "made" with a
# directory that was created for it, the deepest ones first. install.sh writes it as well.
manifest=share/dlock/installed

# Nothing must change unless everything can: first each file is written beside its place, which finds
# a full disk and a directory that cannot be written, then all are renamed.
install_tree() {
  (cd "$tree" && find . -type f | sed 's|^\./||' | sort) > "$work/files"
  : > "$work/made"
  trap undo EXIT
  while IFS= read -r file; do put "$file"; done < "$work/files"
  version=$("$prefix/bin/dlock.dlock-new" --version 2> "$work/why") ||
    fail "the program of $archive does not run here$(why)"
  make_directory "$prefix/${manifest%/*}"
  mkdir -p "$tree/${manifest%/*}"
  (
    cd "$tree"
    while IFS= read -r file; do sha256sum "$file"; done < "$work/files"
    while IFS= read -r made; do
      case $made in
        "$prefix") echo 'made  .' ;;
        "$prefix"/*) echo "made  ${made#"$prefix"/}" ;;
      esac
    done < "$work/made"
    [ ! -f "$prefix/$manifest" ] || sed -n '/^made  /p' "$prefix/$manifest"
  ) > "$work/installed"
  cp "$work/installed" "$tree/$manifest"
  echo "$manifest" >> "$work/files"
  put "$manifest"
  trap '' HUP INT TERM
  [ ! -f "$prefix/$manifest" ] || cp "$prefix/$manifest" "$work/before"
  while IFS= read -r file; do mv -f "$prefix/$file.dlock-new" "$prefix/$file"; done < "$work/files"
  trap 'rm -rf "$work"' EXIT
  # What an earlier version installed and this one does not have.
  [ ! -f "$work/before" ] || remove_files "$work/before" "$work/files"
}

# Writes a file beside its place.
put() {  # <file>
  make_directory "$(dirname "$prefix/$1")"
  [ ! -d "$prefix/$1" ] || fail "cannot install in $prefix: $1 is a directory there"
  mode=644
  [ "$1" != bin/dlock ] || mode=755
  { cp "$tree/$1" "$prefix/$1.dlock-new" && chmod "$mode" "$prefix/$1.dlock-new"; } 2> "$work/why" ||
    fail "cannot install in $prefix: $1 cannot be written$(why)"
}

# Makes a directory and those above it, and notes which were missing, the deepest one first.
make_directory() {  # <directory>
  if [ -d "$1" ]; then return; fi
  make_directory "$(dirname "$1")"
  { mkdir "$1" && chmod 755 "$1"; } 2> "$work/why" || fail "cannot install in $prefix: $1 cannot be created$(why)"
  { echo "$1" && cat "$work/made"; } > "$work/made.new"
  mv "$work/made.new" "$work/made"
}

undo() {
  while IFS= read -r file; do rm -f "$prefix/$file.dlock-new"; done < "$work/files"
  while IFS= read -r made; do rmdir "$made" 2> /dev/null || :; done < "$work/made"
  rm -rf "$work"
}

# --- Removing ---

# Removes the files that a manifest names and that are still as they were installed, except those that a
# second list names.
remove_files() {  # <manifest> [<list>]
  while IFS= read -r line; do
    file=${line#*  }
    case /$file/ in
      */../* | //*) fail "$1 names a file that is not below $prefix: $file" ;;
    esac
    [ "${line%%  *}" != made ] || continue
    [ $# -lt 2 ] || ! grep -qxF "$file" "$2" || continue
    if [ ! -f "$prefix/$file" ] || [ -L "$prefix/$file" ]; then continue; fi
    if [ "$(sha256sum < "$prefix/$file")" = "${line%%  *}  -" ]; then
      rm -f "$prefix/$file" 2> "$work/why" || fail "$prefix/$file cannot be removed$(why)"
    else
      say "note: kept $prefix/$file: it has changed since it was installed"
    fi
  done < "$1"
}

uninstall() {
  need sha256sum
  [ -f "$prefix/$manifest" ] || fail "nothing to remove: there is no $prefix/$manifest (--prefix says where dlock is)"
  cp "$prefix/$manifest" "$work/installed"
  remove_files "$work/installed"
  rm -f "$prefix/$manifest" 2> "$work/why" || fail "$prefix/$manifest cannot be removed$(why)"
  sed -n 's/^made  //p' "$work/installed" | while IFS= read -r made; do
    rmdir "$prefix/${made#.}" 2> /dev/null || : # "." is the prefix itself
  done
  # install.sh made it, because fish does not look below every prefix.
  link=/etc/fish/completions/dlock.fish
  if [ -L "$link" ] && [ ! -e "$link" ]; then rm -f "$link" 2> /dev/null || :; fi
  say "removed dlock from $prefix"
}

# --- The command line ---

main() {
  export LC_ALL=C
  prefix='' from='' key='' sum='' note='' removes=false
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix | --key | --sha256)
        [ $# -ge 2 ] || usage_error "$1 needs a value"
        set_option "$1" "$2"
        shift
        ;;
      --prefix=* | --key=* | --sha256=*) set_option "${1%%=*}" "${1#*=}" ;;
      --uninstall) removes=true ;;
      --help | -h)
        usage
        return
        ;;
      -*) usage_error "unknown option: $1" ;;
      *)
        [ -z "$from" ] || usage_error "one FROM is enough: $1"
        from=$1
        ;;
    esac
    shift
  done
  if [ -z "$prefix" ]; then
    case $(id -u):${HOME:-} in
      0:*) prefix=/usr/local ;;
      *:/*) prefix=$HOME/.local ;;
      *) usage_error 'HOME names no directory: --prefix says where to install' ;;
    esac
  fi
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  prefix=${prefix%/}
  umask 022
  work=$(mktemp -d) || fail 'there is no directory for temporary files (TMPDIR)'
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  if $removes; then
    [ -z "$from" ] || usage_error "--uninstall needs no FROM: $from"
    uninstall
    return
  fi
  [ -n "$from" ] || usage_error 'from where? A URL or a directory with a release is needed'
  case $from in
    file://*) from=${from#file://} ;;
    http://* | https://*)
      has_curl=true
      command -v curl > /dev/null || has_curl=false
      $has_curl || command -v wget > /dev/null || fail "this needs curl or wget to get $from"
      ;;
    /*) ;;
    *) from=./$from ;;
  esac
  from=${from%/}
  choose_archive
  get "$archive" || fail "cannot get $archive from $from$(why)"
  [ "$(sha256sum < "$work/$archive")" = "$sum  -" ] || fail "the sum of $archive is wrong: the file is damaged, or not the released one"
  unpack
  install_tree
  say "installed $prefix/bin/dlock ($version)"
  [ -z "$note" ] || say "note: $note"
  case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) say "note: $prefix/bin is not in PATH" ;;
  esac
}

set_option() {  # <option> <value>
  [ -n "$2" ] || usage_error "$1 needs a value"
  case $1 in
    --prefix) prefix=$2 ;;
    --key) key=$2 ;;
    --sha256)
      case $2 in *[!0-9a-fA-F]*) usage_error "not a SHA-256 sum: $2" ;; esac
      [ ${#2} = 64 ] || usage_error "not a SHA-256 sum: $2"
      sum=$(printf %s "$2" | tr A-F a-f)
      ;;
  esac
}

main "$@"
