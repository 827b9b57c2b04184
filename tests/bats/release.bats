#!/usr/bin/env bats
# What a release is made of, and how get.sh installs and removes it. For get.sh a small release
# serves, with a script in place of the program; the last tests make real ones.
# shellcheck disable=SC2086  # words

setup_file() {
  load support
  export release=$BATS_FILE_TMPDIR/release
  mkdir "$release"
  make_archive 1.2.3
  write_sums
}

setup() {
  load support
  use_private_store
  prefix=$BATS_TEST_TMPDIR/new/prefix
  # Tests change their own copy.
  from=$BATS_TEST_TMPDIR/from
  cp -r "$release" "$from"
  arch=$(dpkg --print-architecture)
  archive=$from/dlock-1.2.3-linux-$arch.tar.gz
}

# --- A release ---

# Makes the tree of a release in $BATS_FILE_TMPDIR, and the archive of it. `$2` and further ones are
# commands that change the tree.
make_archive() {  # <version> [<command>...]
  local tree name
  name=dlock-$1-linux-$(dpkg --print-architecture)
  tree=$BATS_FILE_TMPDIR/$name
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,share/{man/man1,doc/dlock/docs,zsh/site-functions}}
  printf '#!/bin/sh\necho dlock %s\n' "$1" > "$tree/bin/dlock"
  chmod 700 "$tree/bin/dlock"
  echo manual > "$tree/share/man/man1/dlock.1.gz"
  echo page > "$tree/share/doc/dlock/docs/using.md"
  echo completion > "$tree/share/zsh/site-functions/_dlock"
  (cd "$tree" && eval "${2:-:}") || return
  tar -C "$BATS_FILE_TMPDIR" -czf "${to:-$release}/$name.tar.gz" "$name"
}

write_sums() { (cd "${to:-$release}" && sha256sum -- *.tar.gz > SHA256SUMS); }

# Changes the release of this test.
remake() {  # <command>
  to=$from make_archive 1.2.3 "$1" && to=$from write_sums
}

get() { run sh "$DLOCK_SOURCE/get.sh" --prefix "$prefix" "$@"; }

installed() { find "$prefix" ! -type d -printf '%P %m\n' | LC_ALL=C sort; }

# Asserts that get.sh failed with one line, and changed nothing.
assert_refused() {  # <text>
  assert_status 1
  assert_equal "${#lines[@]}" 1
  assert_output_contains "get.sh: "
  assert_output_contains "$1"
  assert_nothing_installed
}

assert_nothing_installed() {
  [[ ! -e $BATS_TEST_TMPDIR/new ]] || { find "$BATS_TEST_TMPDIR/new" >&2; return 1; }
  assert_equal "$(ls "$TMPDIR")" ''
}

# A private directory for temporary files, of which nothing must be left.
use_tmpdir() {
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
}

# Serves the release of this test over HTTP at $url.
serve() {
  (cd "$from" && exec /usr/bin/python3 -u -m http.server --bind 127.0.0.1 0) > "$BATS_TEST_TMPDIR/port" 2>&1 3>&- &
  eventually grep -q 'port [0-9]' "$BATS_TEST_TMPDIR/port"
  url=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$BATS_TEST_TMPDIR/port" | head -n 1)
}

# --- Installing ---

@test "get.sh installs a release from a directory, for all users whatever the umask" {
  use_tmpdir
  umask 077

  get "$from"

  assert_status 0
  assert_output_contains "installed $prefix/bin/dlock (dlock 1.2.3)"
  assert_equal "$(installed)" 'bin/dlock 755
share/dlock/installed 644
share/doc/dlock/docs/using.md 644
share/man/man1/dlock.1.gz 644
share/zsh/site-functions/_dlock 644'
  assert_equal "$(find "$prefix" -type d -printf '%m\n' | sort -u)" 755
  assert_equal "$("$prefix/bin/dlock")" 'dlock 1.2.3'
  assert_equal "$(ls "$TMPDIR")" ''
}

@test "get.sh installs one archive, by the sum beside it or by one that is given" {
  get "$archive"
  assert_status 0

  sum=$(sha256sum < "$archive")
  rm "$from/SHA256SUMS"
  get --sha256 "${sum%% *}" "$archive"
  assert_status 0

  get --sha256 "$(printf '0%.0s' {1..64})" "$archive"
  assert_status 1
  assert_output_contains 'the sum of dlock-1.2.3'
}

@test "get.sh installs from a file: URL and over HTTP, with curl and with wget, even if piped to sh" {
  serve

  get "file://$from"
  assert_status 0
  get "$url/"
  assert_status 0
  run sh -s -- --prefix "$prefix" "$url/${archive##*/}" < "$DLOCK_SOURCE/get.sh"
  assert_status 0

  sed 's/command -v curl/command -v no-such-curl/' "$DLOCK_SOURCE/get.sh" > "$BATS_TEST_TMPDIR/with-wget"
  run sh "$BATS_TEST_TMPDIR/with-wget" --prefix "$prefix" "$url"
  assert_status 0

  rm -r "${prefix%/*}"
  use_tmpdir
  rm "$from/SHA256SUMS"
  get "$url"
  assert_refused "cannot get SHA256SUMS from $url: "
}

@test "a copy of get.sh that was cut off anywhere installs nothing" {
  use_tmpdir
  size=$(stat -c %s "$DLOCK_SOURCE/get.sh")
  for part in 200 2000 $((size / 2)) $((size - 600)) $((size - 11)) $((size - 6)) $((size - 2)); do
    head -c "$part" "$DLOCK_SOURCE/get.sh" > "$BATS_TEST_TMPDIR/part"

    run sh "$BATS_TEST_TMPDIR/part" --prefix "$prefix" "$from"

    assert_nothing_installed
  done
}

@test "a newer release replaces an older one, and what it no longer has is removed" {
  get "$from"
  echo changed > "$prefix/share/doc/dlock/docs/using.md"
  to=$BATS_TEST_TMPDIR/newer
  mkdir "$to"
  make_archive 1.2.4 'mv share/zsh/site-functions/_dlock share/man/man1/dlock.other; rm -r share/doc share/zsh'
  write_sums

  get "$to"

  assert_status 0
  assert_output_contains 'kept'
  assert_equal "$("$prefix/bin/dlock")" 'dlock 1.2.4'
  assert_equal "$(installed | cut -d ' ' -f 1)" 'bin/dlock
share/dlock/installed
share/doc/dlock/docs/using.md
share/man/man1/dlock.1.gz
share/man/man1/dlock.other'
}

@test "root installs in /usr/local by default, others in ~/.local" {
  export HOME=$BATS_TEST_TMPDIR/home
  mkdir -p "$HOME"
  printf '#!/bin/sh\necho 1000\n' > "$BATS_TEST_TMPDIR/bin/id"
  chmod +x "$BATS_TEST_TMPDIR/bin/id"

  run sh "$DLOCK_SOURCE/get.sh" "$from"
  assert_status 0
  assert_output_contains "installed $HOME/.local/bin/dlock"

  printf '#!/bin/sh\necho 0\n' > "$BATS_TEST_TMPDIR/bin/id"
  run sh "$DLOCK_SOURCE/get.sh" --uninstall
  [[ $output == *' /usr/local'* ]]
}

@test "get.sh needs no HOME with --prefix or for root, and says what to write without one" {
  printf '#!/bin/sh\necho 1000\n' > "$BATS_TEST_TMPDIR/bin/id"
  chmod +x "$BATS_TEST_TMPDIR/bin/id"
  run env -u HOME sh "$DLOCK_SOURCE/get.sh" --prefix "$prefix" "$from"
  assert_status 0

  local home
  for home in '-u HOME' HOME= HOME=relative; do
    run env $home sh "$DLOCK_SOURCE/get.sh" "$from"
    assert_equal "$status $output" '64 get.sh: HOME names no directory: --prefix says where to install (see get.sh --help)'
    run env $home sh "$DLOCK_SOURCE/get.sh" --uninstall
    assert_equal "$status $output" '64 get.sh: HOME names no directory: --prefix says where to install (see get.sh --help)'
  done

  run env -i /bin/sh "$DLOCK_SOURCE/get.sh" --prefix "$prefix" "$from"
  assert_equal "$status ${lines[0]}" "0 get.sh: installed $prefix/bin/dlock (dlock 1.2.3)"
}

# --- Refusing ---

@test "get.sh says in its line why a download failed, with curl and with wget, and shows no password" {
  local get=$DLOCK_SOURCE/get.sh
  serve
  url=${url#http://}
  use_tmpdir
  for _ in curl wget; do
    run sh "$get" --prefix "$prefix" http://127.0.0.1:1/release
    assert_refused 'cannot get SHA256SUMS from http://127.0.0.1:1/release: '
    [[ ${output,,} == *'refused'* || ${output,,} == *"couldn't connect"* || ${output,,} == *'failed to connect'* ]]
    run sh "$get" --prefix "$prefix" "http://me:s3cret@$url/nosuch"
    assert_refused "cannot get SHA256SUMS from http://***@$url/nosuch: "
    assert_output_contains 404
    refute_output_contains s3cret
    run sh "$get" --prefix "$prefix" https://no-such-host.invalid
    assert_refused 'from https://no-such-host.invalid: '
    assert_output_contains resolve
    mv "$archive" "$archive.away"
    run sh "$get" --prefix "$prefix" "http://$url"
    assert_refused "cannot get ${archive##*/} from http://$url: "
    assert_output_contains 404
    mv "$archive.away" "$archive"
    sed 's/command -v curl/command -v no-such-curl/' "$DLOCK_SOURCE/get.sh" > "$BATS_TEST_TMPDIR/with-wget"
    get=$BATS_TEST_TMPDIR/with-wget
  done
}

@test "get.sh says in its line why a file cannot be read, unpacked or written" {
  use_tmpdir
  rm "$from/SHA256SUMS"
  mkdir "$from/SHA256SUMS"
  get "$from"
  assert_refused "cannot get SHA256SUMS from $from: there is no such file"

  rmdir "$from/SHA256SUMS"
  head -c 300 "$release/${archive##*/}" > "$archive"
  to=$from write_sums
  get "$from"
  assert_refused 'cannot be read: gzip: stdin: unexpected end of file'

  needs_root
  cp "$release/${archive##*/}" "$archive"
  to=$from write_sums
  use_private_mounts
  inside mount -t tmpfs -o size=4k none /mnt
  run inside sh "$DLOCK_SOURCE/get.sh" --prefix /mnt/prefix "$from"
  assert_status 1
  assert_equal "${#lines[@]}" 1
  assert_output_contains 'No space left on device'
}

@test "an archive with a link, a device or a path that leads elsewhere is refused" {
  use_tmpdir
  remake 'ln -s /etc/passwd share/dlock'
  get "$from"
  assert_refused 'something other than files and directories'

  remake 'ln bin/dlock share/doc/dlock/hard'
  get "$from"
  assert_refused 'something other than files and directories'

  remake 'mkfifo share/doc/dlock/pipe'
  get "$from"
  assert_refused 'something other than files and directories'

  remake :
  for path in ../../evil /evil "dlock-1.2.3-linux-$arch/share/doc/dlock/../../../../evil"; do
    tar -C "$BATS_FILE_TMPDIR" -Pczf "$archive" --transform "s,^dlock-.*using.md,$path," "dlock-1.2.3-linux-$arch"
    to=$from write_sums
    get "$from"
    assert_refused 'has a file'
  done
}

@test "an archive with files of other programs, or without a program that runs, is refused" {
  use_tmpdir
  remake 'touch bin/sh'
  get "$from"
  assert_refused 'a file that does not belong to dlock'

  remake 'rm bin/dlock'
  get "$from"
  assert_refused 'has no program'

  remake 'echo exit 1 > bin/dlock'
  get "$from"
  assert_refused 'does not run here'

}

@test "an unknown architecture and another system are refused" {
  use_tmpdir
  printf '#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo riscv64\n' > "$BATS_TEST_TMPDIR/bin/uname"
  chmod +x "$BATS_TEST_TMPDIR/bin/uname"
  get "$from"
  assert_refused 'there is no release for riscv64'

  printf '#!/bin/sh\necho Darwin\n' > "$BATS_TEST_TMPDIR/bin/uname"
  get "$from"
  assert_refused 'dlock runs on Linux, not on Darwin'
}

@test "a machine that lacks a program of get.sh is told which, and nothing is installed or removed" {
  local tools=$BATS_TEST_TMPDIR/tools tool
  use_tmpdir
  mkdir "$tools"
  ln -s /usr/bin/* "$tools"
  for tool in tar gzip sha256sum; do
    rm "$tools/$tool"
    PATH=$tools get "$from"
    assert_refused "this needs $tool, which is not installed"
    ln -s "/usr/bin/$tool" "$tools"
  done
  rm "$tools/curl" "$tools/wget"
  PATH=$tools get https://example.org/release
  assert_refused 'this needs curl or wget'

  get "$from"
  rm "$tools/sha256sum"
  PATH=$tools get --uninstall
  assert_status 1
  assert_equal "$output" 'get.sh: this needs sha256sum, which is not installed'
  assert_equal "$("$prefix/bin/dlock")" 'dlock 1.2.3'
}

@test "an archive whose sum differs, that of another architecture, none for this one, and two of them are refused" {
  use_tmpdir
  echo >> "$archive"
  get "$from"
  assert_refused "the sum of dlock-1.2.3-linux-$arch.tar.gz is wrong"

  mv "$archive" "$from/dlock-1.2.3-linux-other.tar.gz"
  get "$from/dlock-1.2.3-linux-other.tar.gz"
  assert_refused 'is not an archive of dlock for'

  to=$from write_sums
  get "$from"
  assert_refused 'names no archive for'

  cp "$release"/*.tar.gz "$archive"
  cp "$archive" "${archive/1.2.3/1.2.4}"
  to=$from write_sums
  get "$from"
  assert_refused 'more than one archive'
}

@test "a prefix that cannot be written to is refused, and what was there stays" {
  use_tmpdir
  touch "$BATS_TEST_TMPDIR/file"
  run sh "$DLOCK_SOURCE/get.sh" --prefix "$BATS_TEST_TMPDIR/file/prefix" "$from"
  assert_refused 'cannot install in'

  # There is room for all files but the last one.
  get "$from"
  rm -r "$prefix/share/zsh"
  touch "$prefix/share/zsh"
  cp -a "$prefix" "$BATS_TEST_TMPDIR/before"
  echo old > "$prefix/bin/dlock"
  cp "$prefix/bin/dlock" "$BATS_TEST_TMPDIR/before/bin/dlock"
  get "$from"
  assert_status 1
  assert_equal "$output" "get.sh: cannot install in $prefix: $prefix/share/zsh cannot be created: mkdir: cannot create directory '$prefix/share/zsh': File exists"
  diff -r "$prefix" "$BATS_TEST_TMPDIR/before"
}

@test "wrong arguments of get.sh are usage errors" {
  for words in '' '--nonsense' '--prefix' "--sha256 123 $from" "$from $from" "--uninstall $from" '--prefix= x'; do
    run sh "$DLOCK_SOURCE/get.sh" $words
    assert_status 64
    assert_equal "${#lines[@]}" 1
  done
}

# --- The signature ---

# Signs the release of this test with its own key.
sign() {
  export HOME=$BATS_TEST_TMPDIR
  minisign -G -W -p "$BATS_TEST_TMPDIR/release.pub" -s "$BATS_TEST_TMPDIR/release.key" > /dev/null
  minisign -S -s "$BATS_TEST_TMPDIR/release.key" -m "$from/SHA256SUMS" > /dev/null
}

@test "a signature is checked with a key from a file, on the command line, or beside the archive" {
  sign
  get --key "$BATS_TEST_TMPDIR/release.pub" "$from"
  assert_status 0
  refute_output_contains signature
  get --key "$(tail -n 1 "$BATS_TEST_TMPDIR/release.pub")" "$archive"
  assert_status 0

  cp "$BATS_TEST_TMPDIR/release.pub" "$from/minisign.pub"
  get "$from"
  assert_status 0
  assert_output_contains 'the key of the signature came with the release'
}

@test "get.sh says in one line that it has not checked a signature" {
  get "$from"
  assert_status 0
  assert_equal "${lines[1]}" "get.sh: note: the signature was not checked: cannot get the signature from $from (SHA256SUMS.minisig): there is no such file"

  sign
  get "$from"
  assert_equal "${lines[1]}" 'get.sh: note: the signature was not checked: --key names the key'

  sed 's/command -v minisign/command -v no-such-minisign/' "$DLOCK_SOURCE/get.sh" > "$BATS_TEST_TMPDIR/get.sh"
  run sh "$BATS_TEST_TMPDIR/get.sh" --prefix "$prefix" "$from"
  assert_equal "${lines[1]}" 'get.sh: note: the signature was not checked: minisign is not installed'

  # What has to be true of the archive is known.
  get --sha256 "$(sha256sum < "$archive" | cut -d ' ' -f 1)" "$archive"
  assert_status 0
  refute_output_contains signature
}

@test "a signature that does not fit, and one that lacks, are refused" {
  use_tmpdir
  sign
  minisign -G -W -p "$BATS_TEST_TMPDIR/other.pub" -s "$BATS_TEST_TMPDIR/other.key" > /dev/null
  get --key "$BATS_TEST_TMPDIR/other.pub" "$from"
  assert_refused 'the signature of SHA256SUMS'

  cp "$BATS_TEST_TMPDIR/release.pub" "$from/minisign.pub"
  remake 'echo changed > share/doc/dlock/docs/using.md'
  get "$from"
  assert_refused 'the signature of SHA256SUMS'
  cp "$BATS_TEST_TMPDIR/from/SHA256SUMS.minisig" "$BATS_TEST_TMPDIR/kept"
  rm "$from/SHA256SUMS.minisig"
  echo >> "$archive"
  get "$from"
  assert_refused 'the sum of'
  cp "$BATS_TEST_TMPDIR/kept" "$from/SHA256SUMS.minisig"
  get --key "$BATS_TEST_TMPDIR/release.pub" "$archive"
  assert_refused 'the signature of SHA256SUMS'
  get --key "$BATS_TEST_TMPDIR/release.pub" --sha256 "$(sha256sum < "$archive" | cut -d ' ' -f 1)" "$archive"
  assert_refused 'the signature of SHA256SUMS'

  rm "$from/SHA256SUMS.minisig"
  get --key "$BATS_TEST_TMPDIR/release.pub" "$from"
  assert_refused 'cannot get the signature from '
}

# --- Removing ---

@test "--uninstall removes what was installed, wherever it has been moved, and nothing else" {
  get "$from"
  mkdir -p "$prefix/share/man/man5"
  echo mine > "$prefix/share/man/man5/mine.5"
  echo mine > "$prefix/share/doc/dlock/docs/using.md"
  mv "$prefix" "$prefix.moved"
  rm -r "$from"
  prefix+=.moved

  get --uninstall

  assert_status 0
  assert_output_contains "kept $prefix/share/doc/dlock/docs/using.md: it has changed"
  assert_output_contains "removed dlock from $prefix"
  assert_equal "$(find "$prefix" -mindepth 1 -printf '%P\n' | LC_ALL=C sort)" 'share
share/doc
share/doc/dlock
share/doc/dlock/docs
share/doc/dlock/docs/using.md
share/man
share/man/man5
share/man/man5/mine.5'
}

@test "--uninstall leaves no directory that it created, and keeps those that were there" {
  mkdir -p "$prefix/bin"
  get "$from"

  get --uninstall
  assert_status 0
  assert_equal "$(find "$prefix" -mindepth 1)" "$prefix/bin"

  get --uninstall
  assert_status 1
  assert_equal "${#lines[@]}" 1
  assert_output_contains 'nothing to remove'

  rm -r "$prefix"
  get "$from"
  get --uninstall
  [[ ! -e $prefix ]]
}

@test "--uninstall removes nothing outside the prefix, whatever its list says" {
  get "$from"
  echo precious > "$BATS_TEST_TMPDIR/precious"
  (cd "$prefix" && sha256sum ../../precious >> share/dlock/installed)

  get --uninstall

  assert_status 1
  assert_output_contains 'not below'
  test -e "$BATS_TEST_TMPDIR/precious"
}
