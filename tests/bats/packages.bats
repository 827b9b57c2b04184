#!/usr/bin/env bats
# The .deb and .rpm packages: what they contain, and that they can be installed, used and
# removed. Only for the static release build, which users install.

setup_file() {
  load support
  local build packages=$BATS_FILE_TMPDIR/packages kind
  # rpm creates a database in HOME if there is none.
  export HOME=$BATS_FILE_TMPDIR SOURCE_DATE_EPOCH=1700000000
  # The build tree of the program under test.
  build=$(dirname "$(realpath "$DLOCK_BIN")")
  # xz, which the packages of a release are compressed with, would take 12 s longer.
  for kind in DEB RPM; do
    (umask 077 && cpack --config "$build/CPackConfig.cmake" -G "$kind" -B "$packages" \
      -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip -D CPACK_RPM_COMPRESSION_TYPE=gzip) \
      > "$BATS_FILE_TMPDIR/log" 2>&1 || { cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
  done
  rm -rf "$packages/_CPack_Packages"
  version=$("$DLOCK_BIN" --version | cut -d ' ' -f 2)
  version=${version/-dev/~dev} # which sorts before the release
  deb=$packages/dlock_$version-1_$(dpkg --print-architecture).deb
  rpm=$packages/dlock-$version-1.$(rpm --eval '%{_arch}').rpm
  export version deb rpm
  [[ -s $deb && -s $rpm ]] || { ls -l "$packages" >&2; return 1; }
}

setup() {
  load support
  ((EUID == 0)) || needs_user_namespace
  load hardened
  use_private_store
  root=$BATS_TEST_TMPDIR/root
}

# Runs a command as root, in a user namespace if necessary: packaged files belong to root.
as_root() {
  if ((EUID == 0)); then "$@"; else unshare -r "$@"; fi
}

# Unpacks a package into $root without installing it.
unpack() {
  mkdir "$root"
  case $1 in
    *.deb) dpkg-deb -x "$1" "$root" ;;
    *.rpm) (cd "$root" && rpm2cpio "$1" | cpio -id --quiet) ;;
  esac
}

field() { dpkg-deb -f "$deb" "$1"; }
tag() { rpm -qp --qf "%{$1}" "$rpm"; }

# Prints the files that both packages have. The directory for zsh differs.
files_of_package() {  # <where zsh looks>
  printf '%s\n' /usr/bin/dlock /usr/share/bash-completion/completions/dlock \
    /usr/share/doc/dlock/ARCHITECTURE.md /usr/share/doc/dlock/CONTRIBUTING.md \
    /usr/share/doc/dlock/README.md /usr/share/doc/dlock/RELEASING.md /usr/share/doc/dlock/SECURITY.md \
    /usr/share/doc/dlock/tests/chaos/README.md \
    /usr/share/doc/dlock/tests/model/README.md \
    /usr/share/doc/dlock/tests/simulation/README.md \
    /usr/share/doc/dlock/third-party.gz \
    /usr/share/fish/vendor_completions.d/dlock.fish "/usr/share/zsh/$1/_dlock"
  (cd "$DLOCK_SOURCE" && find docs examples -type f \( -path 'examples/*' -o -name '*.md' -o -name '*.svg' \) \
    -printf '/usr/share/doc/dlock/%p\n')
  local manual
  for manual in "$DLOCK_SOURCE"/man/*.[157]; do
    echo "/usr/share/man/man${manual##*.}/${manual##*/}.gz"
    # Each verb of a page about several has a page that leads there.
    sed -nE "s|^\.Nm (dlock-[a-z]+)( ,)?\$|/usr/share/man/man${manual##*.}/\1.${manual##*.}.gz|p" "$manual"
  done | sort -u
}

# Asserts that a program needs only a kernel.
assert_static() {  # <program>
  run readelf -lW "$1"
  assert_status 0
  refute_output_contains INTERP
  run readelf -dW "$1"
  refute_output_contains NEEDED
  run ldd "$1"
  assert_output_contains 'not a dynamic executable'
}

# Asserts that a lock can be taken with the program that was installed in $root.
assert_locks() {
  run env -i "DLOCK_STORE=$DLOCK_STORE" "DLOCK_TEST_ID=$DLOCK_TEST_ID" \
    "$root/usr/bin/dlock" run hello -- true
  assert_equal "$status $output" '0 '

  run dlock list --json
  assert_equal "$(json '.[0] | "\(.name) \(.last_run.exit_code)"')" 'hello 0'
}

# --- Both packages ---

@test "both packages have the licences of all linked libraries" {
  local package name
  for package in "$deb" "$rpm"; do
    root=$BATS_TEST_TMPDIR/root-${package##*.}
    unpack "$package"
    zcat "$root/usr/share/doc/dlock/third-party.gz" > "$BATS_TEST_TMPDIR/licences"
    for name in xxHash utf8proc hiredis c-ares nghttp2 protozero OpenSSL zlib zstd CLI11 toml11 'nlohmann' Boost \
      'GNU C Library' 'Apache License'; do
      grep -qi "$name" "$BATS_TEST_TMPDIR/licences" || { echo "lacks $name" >&2; return 1; }
    done
    # Each has the name of its package, by which the list of what is linked in has it.
    while IFS= read -r name; do
      [[ -e /usr/share/doc/$name/copyright ]] || { echo "no package: $name" >&2; return 1; }
    done < <(sed -n 's/^==== \(.*-dev\)$/\1/p' "$BATS_TEST_TMPDIR/licences")
  done
}

@test "both packages have the same program, static and stripped" {
  run assert_static "$(command -v bash)"
  assert_status 1
  unpack "$deb"
  assert_static "$root/usr/bin/dlock"
  run readelf -SW "$root/usr/bin/dlock"
  assert_output_contains .text
  refute_output_contains .symtab
  refute_output_contains .debug

  mv "$root" "$root.deb"
  unpack "$rpm"
  cmp "$root/usr/bin/dlock" "$root.deb/usr/bin/dlock"
}

@test "the packaged program is hardened, and a program that is not is found" {
  local library
  library=$(dirname "$(realpath "$DLOCK_BIN")")/libdlock_core.a
  unpack "$deb"
  assert_hardened "$root/usr/bin/dlock" "$library"

  cd "$BATS_TEST_TMPDIR"
  echo 'int main() { return 0; }' > plain.c
  gcc -static -z execstack -z norelro -o plain plain.c
  run assert_hardened plain "$library"
  assert_status 1
}

@test "the program names what is linked in, with versions" {
  unpack "$deb"
  output=$("$root/usr/bin/dlock" --version -v)
  assert_equal "$(head -n 1 <<< "$output")" "$("$DLOCK_BIN" --version)"
  for name in OpenSSL glibc c-ares nghttp2 hiredis xxHash utf8proc Boost CLI11 toml11 nlohmann-json protozero; do
    grep -Eq "^$name v?[0-9]+\.[0-9]+" <<< "$output" || { echo "lacks $name" >&2; return 1; }
  done
  assert_output_contains "libssl-dev $(dpkg-query -W -f '${Version}' "libssl-dev:$(dpkg --print-architecture)")"
}

@test "packaged manuals are compressed without a file name or time, and can be formatted" {
  local package manual found
  for package in "$deb" "$rpm"; do
    unpack "$package"
    found=0
    for manual in "$root"/usr/share/man/man*/*.gz; do
      # No flags, no time, best compression.
      assert_equal "$(head -c 9 "$manual" | od -An -tx1)" ' 1f 8b 08 00 00 00 00 00 02'
      (cd "${manual%/*/*}" && zcat "$manual" | mandoc -T utf8) | grep -q dlock
      found=$((found + 1))
    done
    ((found > 0))
    rm -r "$root"
  done
}

# tests/long/release.bats builds twice, and compares.
@test "every link in a packaged page leads to a packaged file, and no page differs otherwise from the source" {
  local package page link count=0
  for package in "$deb" "$rpm"; do
    unpack "$package"
    while IFS= read -r page; do
      while IFS= read -r link; do
        [[ -e ${page%/*}/${link%%#*} ]] || { echo "$package: $page: $link does not exist" >&2; return 1; }
        count=$((count + 1))
      done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:\|^#')
      sed 's/changelog\.gz)/CHANGELOG.md)/' "$page" | cmp - "$DLOCK_SOURCE/${page#*/doc/dlock/}"
    done < <(find "$root/usr/share/doc" -name '*.md')
    rm -rf "$root"
  done
  ((count > 100))
}

@test "neither the program nor the packages show when and where they were made" {
  unpack "$deb"
  run grep -cF "$DLOCK_SOURCE" "$root/usr/bin/dlock"
  assert_status 1
  assert_equal "$(tag BUILDHOST) $(tag BUILDTIME)" 'localhost 1700000000'
  assert_equal "$(rpm -qp --qf '[%{FILEMTIMES}\n]' "$rpm" | sort -u | tail -n 1)" 1700000000
  assert_equal "$(TZ=UTC dpkg-deb -c "$deb" | awk '{ print $4, $5 }' | sort -u)" '2023-11-14 22:13'
}

# tests/long/release.bats compares the packages.
@test "the program is at most 10% larger than docs/performance.md says" {
  local size
  size=$(sed -nE 's/^\| the program \| ([0-9.]+) MB \|$/\1/p' "$DLOCK_SOURCE/docs/performance.md")
  unpack "$deb"

  run stat -c %s "$root/usr/bin/dlock"
  awk -v is="$output" -v says="$size" 'BEGIN { exit !(says > 0 && is <= says * 1.1e6) }' ||
    { echo "$output bytes, not $size MB" >&2; return 1; }
}

# --- Debian ---

@test "the .deb has exactly these files, owned by root, writable only by root, in directories that all can enter" {
  local directories
  run bash -c 'dpkg-deb -c "$1" | awk "{ print \$1, \$2, substr(\$6, 2) }"' - "$deb"
  directories=$(grep '^d' <<< "$output" | cut -d ' ' -f 1,2 | sort -u)
  output=$(grep -v '^d' <<< "$output")

  # Whatever the umask of the build is.
  assert_equal "$directories" 'drwxr-xr-x root/root'
  assert_equal "$(cut -d ' ' -f 3 <<< "$output" | LC_ALL=C sort)" "$({
    files_of_package vendor-completions
    printf '%s\n' /usr/share/doc/dlock/changelog.gz /usr/share/doc/dlock/changelog.Debian.gz \
      /usr/share/doc/dlock/copyright /usr/share/lintian/overrides/dlock
  } | LC_ALL=C sort)"
  assert_equal "$(grep -v '^-rw-r--r-- root/root ' <<< "$output")" '-rwxr-xr-x root/root /usr/bin/dlock'
}

@test "the .deb describes dlock, depends on nothing and recommends ca-certificates" {
  assert_equal "$(field Package) $(field Version)" "dlock $version-1"
  assert_equal "$(field Section) $(field Priority)" 'utils optional'
  assert_equal "$(field Description | head -n 1)" 'hold a named lock while a command runs'
  (($(field Description | wc -l) > 5))
  [[ $(field Maintainer) == *'<'*@*'>' ]]
  assert_equal "$(field Depends)$(field Pre-Depends)" ''
  assert_equal "$(field Recommends)" ca-certificates
}

@test "the .deb has the full licence and a changelog that dpkg can parse" {
  unpack "$deb"

  squeezed() { sed 's/^ \.$//' | tr -s ' \n' ' '; }
  [[ $(squeezed < "$root/usr/share/doc/dlock/copyright") == *"$(sed '1,/^Copyright/d' "$DLOCK_SOURCE/LICENSE" | squeezed)"* ]]
  zcat "$root/usr/share/doc/dlock/changelog.Debian.gz" > "$BATS_TEST_TMPDIR/changelog"
  run dpkg-parsechangelog -l "$BATS_TEST_TMPDIR/changelog" -S Version
  assert_equal "$status $output" "0 $version-1"
}

# Its warnings differ between versions, so only errors count.
@test "lintian finds no errors and no unused override in the .deb" {
  run lintian --fail-on error --display-info --tag-display-limit 0 "$deb"

  [[ $status -eq 0 && $output != *unused-override* ]] || { printf '%s\n' "$output" >&2; return 1; }
}

@test "the .deb can be installed, used and removed without leftovers" {
  mkdir -p "$root/var/lib/dpkg/"{info,updates}
  touch "$root/var/lib/dpkg/"{status,available}
  in_root=(as_root dpkg --root="$root" --log=/dev/null --force-not-root --force-script-chrootless)

  "${in_root[@]}" --install "$deb"
  run dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Abbrev}${Version}' dlock
  assert_equal "$output" "ii $version-1"
  assert_locks
  mkdir -p "$root/var/lib/dlock"

  run "${in_root[@]}" --purge dlock
  assert_status 0
  assert_output_contains 'dlock: kept /var/lib/dlock'
  assert_equal "$(find "$root" -path "$root/var" -prune -o ! -path "$root" -print)" ''
}

# --- RPM ---

@test "the .rpm has exactly these files, owned by root and writable only by root, and only its own directories" {
  run rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]' "$rpm"

  assert_equal "$(grep -v '^d' <<< "$output" | cut -d ' ' -f 3 | LC_ALL=C sort)" "$({
    files_of_package site-functions
    printf '/usr/share/doc/dlock/%s\n' CHANGELOG.md LICENSE
  } | LC_ALL=C sort)"
  assert_equal "$(grep -v '^d' <<< "$output" | grep -v '^-rw-r--r-- root/root ')" \
    '-rwxr-xr-x root/root /usr/bin/dlock'
  assert_equal "$(grep '^d' <<< "$output" | cut -d ' ' -f 1,3)" "$({
    printf 'drwxr-xr-x /usr/share/doc/%s\n' dlock dlock/{examples,tests,tests/{chaos,model,simulation}}
    cd "$DLOCK_SOURCE" && find docs -type d -printf 'drwxr-xr-x /usr/share/doc/dlock/%p\n'
  } | LC_ALL=C sort)"
}

@test "the .rpm describes dlock, requires only rpm's own features and recommends ca-certificates" {
  assert_equal "$(tag NAME) $(tag VERSION)-$(tag RELEASE)" "dlock $version-1"
  assert_equal "$(tag SUMMARY)" 'hold a named lock while a command runs'
  assert_equal "$(tag LICENSE)" MIT
  assert_equal "$(rpm -qp --requires "$rpm" | grep -v '^rpmlib(')" ''
  assert_equal "$(rpm -qp --recommends "$rpm")" ca-certificates
}

@test "the .rpm can be installed, used and removed without leftovers" {
  mkdir -p "$root/db"
  in_root=(as_root rpm --root "$root" --dbpath /db)

  "${in_root[@]}" --install "$rpm"
  assert_equal "$("${in_root[@]}" --query dlock)" "$(basename "$rpm" .rpm)"
  assert_locks

  "${in_root[@]}" --erase dlock
  assert_equal "$(find "$root" -path "$root/db" -prune -o ! -path "$root" -type f -print)" ''
  [[ ! -e $root/usr/share/doc/dlock ]]
}
