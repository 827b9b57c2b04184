#!/usr/bin/env bats
# Releases as packaging/release makes them: twice from the same commit, for both architectures where
# the distribution has packages for both, and the program for arm64 in an emulator.
#
# The emulator (qemu-user) passes system calls on to this machine's kernel, but not all of them: there is no
# PR_SET_CHILD_SUBREAPER, which `run` needs on a server and with --timeout, and vfork is a fork, so that
# no process hears of a command that cannot be started. Its programs cannot tell what /proc says of other emulated
# programs (the name of a program, its stack), cannot be traced, take twenty times as long, and look to the
# kernel like the emulator. These files therefore do not run in it: what uses a server, measures times, costs or the
# death of processes, what uses strace, and what looks a command up in /proc.

in_emulator=(arguments list fence status run limit nesting)
# Single tests of these files that fail in it, for the same reasons.
fails_in_emulator=(
  'the second of two -- before the command is the command'
  'a command line that is too long for the command exits with 126, and frees the lock'
  'a command runs only if it is admitted, and its end, or that it cannot be run, decides the exit code'
)

setup_file() {
  load ../bats/support
  export one=$BATS_FILE_TMPDIR/one two="$BATS_FILE_TMPDIR/another place/two"
  export out_one=$BATS_FILE_TMPDIR/dist-one out_two=$BATS_FILE_TMPDIR/dist-two
  version=$(sed -n 's/^project(dlock VERSION \([0-9.]*\) .*/\1/p' "$DLOCK_SOURCE/CMakeLists.txt")
  export version CCACHE_DISABLE=1 HOME=$BATS_FILE_TMPDIR
  minisign -G -W -p "$HOME/release.pub" -s "$HOME/release.key" > /dev/null
  mkdir "${two%/*}"
  # A checkout for GitHub's runner makes of the tag one without a message.
  copy_source "$one" -a -m release
  copy_source "$two"
  release_from "$one" "$out_one"
  (umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 CMAKE_BUILD_PARALLEL_LEVEL=1 release_from "$two" "$out_two")
}

setup() {
  load ../bats/support
  load ../bats/hardened
}

# Clones the last commit, and tags it as a release.
copy_source() {  # <directory> [<option of git tag>...]
  git clone -q "$DLOCK_SOURCE" "$1"
  git -C "$1" -c user.name=tester -c user.email=tester@example.org tag -f "${@:2}" "v$version" \
    > /dev/null
}

release_from() {  # <tree> <directory>
  "$1/packaging/release" --key "$HOME/release.key" --out "$2" > "$2.log" 2>&1 || { cat "$2.log" >&2; return 1; }
}

@test "two releases of a commit have the same bytes, whatever the folder, the time, the umask and the jobs" {
  (($(find "$out_one" -type f | wc -l) >= 12))

  diff -r "$out_one" "$out_two"
  (cd "$out_one" && sha256sum --check --quiet SHA256SUMS)
}

@test "the packages of a release are at most 10% larger than docs/performance.md says" {
  local ending size file
  for ending in deb rpm; do
    size=$(sed -nE "s/^\\| the \`\\.$ending\` \\| ([0-9.]+) MB \\|\$/\\1/p" "$DLOCK_SOURCE/docs/performance.md")
    for file in "$out_one"/*"$ending"; do
      awk -v is="$(stat -c %s "$file")" -v says="$size" 'BEGIN { exit !(says > 0 && is <= says * 1.1e6) }' ||
        { echo "$file: $(stat -c %s "$file") bytes, not $size MB" >&2; return 1; }
    done
  done
}

@test "a release from the source archive has the same files" {
  mkdir "$BATS_TEST_TMPDIR/unpacked"
  tar -C "$BATS_TEST_TMPDIR/unpacked" -xzf "$(find "$out_one" -name '*.tar.gz' ! -name '*-linux-*')"
  release_from "$BATS_TEST_TMPDIR"/unpacked/dlock-* "$BATS_TEST_TMPDIR/dist"

  diff -r "$out_one" "$BATS_TEST_TMPDIR/dist"
}

@test "a release can be installed with its signature, and runs" {
  run sh "$out_one/get.sh" --prefix "$BATS_TEST_TMPDIR/prefix" --key "$HOME/release.pub" "$out_one"
  assert_status 0

  run "$BATS_TEST_TMPDIR/prefix/bin/dlock" --store "local:$BATS_TEST_TMPDIR/store" run hello -- echo hello
  assert_equal "$status $output" '0 hello'
}

@test "each list of what is linked in is valid SPDX, and the archive has the licence of each entry" {
  local list archive package
  for list in "$out_one"/*.spdx.json; do
    archive=${list%.spdx.json}.tar.gz
    output=$(< "$list")
    assert_equal "$(json '[.spdxVersion, .dataLicense, .SPDXID] | join(" ")')" 'SPDX-2.3 CC0-1.0 SPDXRef-DOCUMENT'
    assert_equal "$(json '[.name, .documentNamespace, .creationInfo.created, .creationInfo.creators[0]] | map(length > 0) | all')" true
    assert_equal "$(json '[.packages[] | .name and .downloadLocation and .versionInfo and .licenseDeclared != "NOASSERTION"
      and (.SPDXID | test("^SPDXRef-[A-Za-z0-9.-]+$")) and .filesAnalyzed == false] | all')" true
    assert_equal "$(json '(.packages | map(.SPDXID) | unique | length) == (.packages | length)')" true
    assert_equal "$(json '(.packages | map(.SPDXID)) as $known | [.relationships[].relatedSpdxElement | IN($known[])] | all')" true
    assert_equal "$(json '.packages[0].checksums[0].checksumValue')" "$(sha256sum < "$archive" | cut -d ' ' -f 1)"
    tar -xzOf "$archive" --wildcards '*/third-party.gz' | zcat > "$BATS_TEST_TMPDIR/licences"
    for package in $(json '.packages[1:][].name'); do
      case $package in
        linux-libc-dev* | libgcc-*) continue ;; # its headers have no code; that of libstdc++
        # Headers of the cross compiler, of which nothing is linked in.
        *-arm64-cross) package=${package%-arm64-cross} ;;
      esac
      grep -qx "==== $package" "$BATS_TEST_TMPDIR/licences" || { echo "lacks $package" >&2; return 1; }
    done
  done
}

@test "both architectures have the same versions linked in, which the program, the archive and the packages name" {
  local list output archive packages=()
  # Without the headers of the cross compiler and of the kernel.
  for list in "$out_one"/*.spdx.json; do
    output=$(< "$list")
    packages+=("$(json '.packages[1:][] | "\(.name) \(.versionInfo)"' | grep -v -e -cross -e '^linux-libc-dev' | sort)")
    archive=${list%.spdx.json}.tar.gz
    tar -xzOf "$archive" --wildcards '*/doc/dlock/dlock.spdx.json' | jq -S .packages[1:] > "$BATS_TEST_TMPDIR/in-archive"
    jq -S .packages[1:] "$list" | cmp - "$BATS_TEST_TMPDIR/in-archive"
  done
  assert_equal "${packages[0]}" "${packages[1]}"
  mkdir "$BATS_TEST_TMPDIR/amd64"
  tar -C "$BATS_TEST_TMPDIR/amd64" --strip-components 1 -xzf "$out_one"/dlock-*-linux-amd64.tar.gz
  output=$("$BATS_TEST_TMPDIR/amd64/bin/dlock" --version -v)
  assert_output_contains "$(grep '^libssl-dev ' <<< "${packages[0]}")"
  assert_output_contains "$(grep '^libc6-dev ' <<< "${packages[0]}")"
}

@test "the program for arm64 is hardened like that for x86-64" {
  mkdir "$BATS_TEST_TMPDIR/arm64"
  tar -C "$BATS_TEST_TMPDIR/arm64" --strip-components 1 -xzf "$out_one"/dlock-*-linux-arm64.tar.gz
  assert_hardened "$BATS_TEST_TMPDIR/arm64/bin/dlock" "$one/build/release-arm64/libdlock_core.a"
}

@test "the program for arm64 passes the tests that an emulator can carry" {
  local archive=("$out_one"/dlock-*-linux-arm64.tar.gz) name failed=''
  mkdir "$BATS_TEST_TMPDIR/arm64"
  tar -C "$BATS_TEST_TMPDIR/arm64" --strip-components 1 -xzf "${archive[0]}"
  printf '#!/bin/sh\nexec qemu-aarch64-static -0 "$0" "%s" "$@"\n' "$BATS_TEST_TMPDIR/arm64/bin/dlock" > "$BATS_TEST_TMPDIR/dlock"
  chmod +x "$BATS_TEST_TMPDIR/dlock"
  for name in "${in_emulator[@]}"; do
    DLOCK_BIN=$BATS_TEST_TMPDIR/dlock bats "$DLOCK_SOURCE/tests/bats/$name.bats" > "$BATS_TEST_TMPDIR/log" 2>&1 ||
      grep -q '^not ok' "$BATS_TEST_TMPDIR/log" || { cat "$BATS_TEST_TMPDIR/log" >&2; return 1; }
    failed+=$(sed -n 's/^not ok [0-9]* //p' "$BATS_TEST_TMPDIR/log")$'\n'
  done
  assert_equal "$(grep . <<< "$failed" | sort)" "$(printf '%s\n' "${fails_in_emulator[@]}" | sort)"
}

# makepkg looks for pacman, which is only on Arch, and does not run as root.
@test "makepkg accepts the recipe for Arch, and unpacks the source of the release" {
  local directory
  directory=$(mktemp -d /tmp/dlock-makepkg.XXXXXX)
  mkdir "$directory/bin"
  printf '#!/bin/sh\n' > "$directory/bin/pacman"
  chmod 755 "$directory/bin/pacman"
  cp "$out_one/PKGBUILD" "$(find "$out_one" -name '*.tar.gz' ! -name '*-linux-*')" "$directory"
  chown -R nobody "$directory"

  run env -C "$directory" HOME="$directory" PATH="$directory/bin:$PATH" setpriv --reuid nobody --clear-groups \
    sh -c 'makepkg --printsrcinfo && makepkg --nodeps --nobuild && ls src'

  rm -r "$directory"
  assert_status 0
  assert_output_contains "pkgver = $version"
  assert_output_contains 'dlock-'"$version"'.tar.gz ... Passed'
  [[ $'\n'$output$'\n' == *$'\n'"dlock-$version"$'\n'* ]]
}

@test "the formula for Homebrew, evaluated with a stand-in for it, names the archives and their sums" {
  run ruby -e 'class Formula
    class << self
      def version(set = nil) = @version = set || @version
      def url(url) = print(url, " ")
      def sha256(sum) = puts(sum)
      def on_intel = yield
      def on_arm = yield
      def test = nil
      def method_missing(*) = nil
    end
  end
  load ARGV[0]' "$out_one/dlock.rb"

  assert_equal "$status $output" "0 $(cd "$out_one" && for arch in amd64 arm64; do
    echo "file:///srv/dlock/dlock-$version-linux-$arch.tar.gz $(sha256sum < "dlock-$version-linux-$arch.tar.gz" | cut -d ' ' -f 1)"
  done)"
}

@test "Nix parses the flake, and evaluates it with stand-ins for its packages" {
  run bash -c 'nix-instantiate --eval --strict --json -E "$1" 2> /dev/null' - '
    let
      pkgs = { stdenv.mkDerivation = package: package; lib = { licenses.mit = "MIT"; platforms.linux = [ ]; }; } //
        builtins.listToAttrs (map (name: { inherit name; value = name; }) [ "boost" "c-ares" "cli11" "cmake" "hiredis"
          "nghttp2" "ninja" "nlohmann_json" "openssl" "protozero" "toml11" "utf8proc" "xxHash" "zlib" "zstd" ]);
      nixpkgs.lib.genAttrs = systems: function:
        builtins.listToAttrs (map (name: { inherit name; value = function name; }) systems);
      nixpkgs.legacyPackages = { x86_64-linux = pkgs; aarch64-linux = pkgs; };
      dlock = ((import '"$DLOCK_SOURCE"'/packaging/flake.nix).outputs { self = { }; inherit nixpkgs; }).packages.aarch64-linux.default;
    in { inherit (dlock) pname version buildInputs nativeBuildInputs; }'

  assert_status 0
  assert_equal "$(json '"\(.pname) \(.version) \(.buildInputs | length)"')" "dlock $version 13"
}
