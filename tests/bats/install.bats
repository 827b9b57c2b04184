#!/usr/bin/env bats
# Where an installation puts its files, and that shells find them.

setup_file() {
  load support
  # The build tree of the program under test.
  local build
  build=$(dirname "$(realpath "$DLOCK_BIN")")
  export prefix=$BATS_FILE_TMPDIR/prefix
  cmake --install "$build" --prefix "$prefix" > "$BATS_FILE_TMPDIR/log" 2>&1 ||
    { cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
}

setup() {
  load support
  use_private_store
  unset BASH_ENV ENV ZDOTDIR
}

@test "an installation contains the program, its manual, completions and documents, and nothing else" {
  run bash -c 'cd "$prefix" && find . ! -type d -printf "%P %m\n" | LC_ALL=C sort'

  assert_equal "$output" "bin/dlock 755
share/bash-completion/completions/dlock 644
share/doc/dlock/ARCHITECTURE.md 644
share/doc/dlock/CHANGELOG.md 644
share/doc/dlock/CONTRIBUTING.md 644
share/doc/dlock/LICENSE 644
share/doc/dlock/README.md 644
share/doc/dlock/RELEASING.md 644
share/doc/dlock/SECURITY.md 644
$(cd "$DLOCK_SOURCE" && find docs -name '*.md' -printf 'share/doc/dlock/%p 644\n' -o \
    -name '*.svg' -printf 'share/doc/dlock/%p 644\n' | LC_ALL=C sort)
$(cd "$DLOCK_SOURCE" && find examples -type f -printf 'share/doc/dlock/%p 644\n' | LC_ALL=C sort)
share/doc/dlock/tests/chaos/README.md 644
share/doc/dlock/tests/model/README.md 644
share/doc/dlock/tests/simulation/README.md 644
share/fish/vendor_completions.d/dlock.fish 644
$(for page in acquire break cache check config doctor fence history limit list release renew run status watch; do
  echo "share/man/man1/dlock-$page.1 644"
done)
share/man/man1/dlock.1 644
share/man/man5/dlock-json.5 644
share/man/man5/dlock.toml.5 644
share/man/man7/dlock-stores.7 644
share/zsh/site-functions/_dlock 644"
}

@test "every manual page that an installed file names is installed, and every page that the manual names" {
  local name page count=0
  while IFS= read -r name; do
    [[ -e $prefix/share/man/man${name##* }/${name% *}.${name##* } ]] || { echo "no page $name" >&2; return 1; }
    count=$((count + 1))
  done < <({
    grep -rhoE '\bXr dlock[a-z.-]* [0-9]' "$prefix/share/man" | sed 's/^Xr //'
    grep -rhoE 'man:dlock[a-z.-]*\([0-9]\)' "$prefix/share" | sed -E 's/^man:(.*)\((.)\)/\1 \2/'
    # man dlock run, man dlock.toml, man dlock-stores
    { grep -rhoE '`man dlock[a-z. -]*`' "$prefix/share/doc"; for name in run renew config; do "$prefix/bin/dlock" help $name; done |
      grep -oE '\(man dlock[a-z. -]*\)'; } | tr -d '`()' | sed -E 's/^man //; s/ /-/; s/toml$/toml 5/; s/(json)$/\1 5/; s/(stores)$/\1 7/; s/[a-z]$/& 1/'
  } | sort -u)
  ((count > 10))
  while IFS= read -r page; do
    [[ -e $prefix/share/doc/dlock/$page ]] || { echo "no document $page" >&2; return 1; }
  done < <(grep -rhoE '\bPa [A-Za-z/-]+\.md' "$prefix/share/man" | sed 's/^Pa //' | sort -u)
}

# Runs install.sh without building anything: it installs the build under test, or another
# program in its place.
install_sh() {  # [<program>]
  local cmake
  cmake=$(command -v cmake)
  cat > "$BATS_TEST_TMPDIR/bin/cmake" << END
#!/bin/sh
[ "\$1" = --install ] || exit 0
shift 2
"$cmake" --install "$(dirname "$(realpath "$DLOCK_BIN")")" "\$@" &&
  { [ -z "${1:-}" ] || cp "${1:-}" "$BATS_TEST_TMPDIR/new/bin/dlock"; }
END
  chmod +x "$BATS_TEST_TMPDIR/bin/cmake"
  run "$DLOCK_SOURCE/install.sh" --prefix "$BATS_TEST_TMPDIR/new"
}

@test "everyone can enter the directories that install.sh creates, whatever the umask" {
  umask 077

  install_sh

  assert_status 0
  assert_output_contains "installed $BATS_TEST_TMPDIR/new/bin/dlock (dlock "
  assert_equal "$(find "$BATS_TEST_TMPDIR/new" -type d -printf '%m\n' | sort -u)" 755
}

@test "fish finds the completion that install.sh puts below /usr/local if XDG_DATA_DIRS is not set" {
  [[ -d /etc/fish ]] || skip 'fish is not installed'
  needs_user_namespace
  install_sh
  mkdir "$BATS_TEST_TMPDIR/fish"

  run unshare -rm bash -c '
    mount --bind "$1/fish" /etc/fish && mount --bind "$1/new" /usr/local &&
      DLOCK_SOURCE=$2 && cmake=$(type -P cmake) && sed -i "s:$1/new:/usr/local:" "$cmake" &&
      "$DLOCK_SOURCE/install.sh" &&
      env -u XDG_DATA_DIRS fish -c "complete -C \"dlock statu\""' - "$BATS_TEST_TMPDIR" "$DLOCK_SOURCE"

  assert_status 0
  assert_equal "${lines[-1]%%$'\t'*}" status
}

@test "install.sh --uninstall removes what install.sh installed, wherever it has been moved" {
  install_sh
  assert_status 0
  echo mine > "$BATS_TEST_TMPDIR/new/share/man/man1/mine.1"
  echo mine > "$BATS_TEST_TMPDIR/new/share/doc/dlock/README.md"
  mv "$BATS_TEST_TMPDIR/new" "$BATS_TEST_TMPDIR/moved"
  rm "$BATS_TEST_TMPDIR/bin/cmake"

  run "$DLOCK_SOURCE/install.sh" --uninstall --prefix "$BATS_TEST_TMPDIR/moved"

  assert_status 0
  assert_output_contains "kept $BATS_TEST_TMPDIR/moved/share/doc/dlock/README.md"
  assert_equal "$(find "$BATS_TEST_TMPDIR/moved" ! -type d -printf '%P\n' | LC_ALL=C sort)" 'share/doc/dlock/README.md
share/man/man1/mine.1'
  run "$DLOCK_SOURCE/install.sh" --uninstall --prefix "$BATS_TEST_TMPDIR/moved"
  assert_status 1
  assert_output_contains 'nothing to remove'
}

@test "install.sh fails if the installed program does not run" {
  install_sh /bin/false

  assert_status 1
  assert_output_contains 'bin/dlock does not run here'
}

@test "install.sh refuses DESTDIR" {
  export DESTDIR=$BATS_TEST_TMPDIR/stage

  install_sh

  assert_status 64
  assert_output_contains DESTDIR
  [[ ! -e $BATS_TEST_TMPDIR/stage && ! -e $BATS_TEST_TMPDIR/new ]]
}

@test "the installed program has no library search path" {
  run readelf -d "$prefix/bin/dlock"

  assert_status 0
  refute_output_contains RPATH
  refute_output_contains RUNPATH
}

@test "man dlock VERB finds a page about every verb" {
  local verb
  cd "$prefix/share/man" || return
  for verb in $("$prefix/bin/dlock" --help | sed '/^Examples:/,$d' | sed -nE 's/^  ([a-z]+)  +.*/\1/p' | grep -vx help); do
    run bash -c 'set -o pipefail; mandoc -T utf8 "man1/dlock-$1.1" | sed "s/.\x08//g"' - "$verb"
    assert_status 0
    assert_output_contains "dlock $verb"
  done
}

@test "bash-completion, fish and zsh load the installed completion" {
  run bash --norc -c 'source /usr/share/bash-completion/bash_completion
    XDG_DATA_DIRS=$prefix/share:/usr/share
    _completion_loader dlock
    complete -p dlock'
  assert_output_contains '-F _dlock dlock'

  XDG_DATA_DIRS=$prefix/share:/usr/share run fish -c 'complete -C "dlock sta"'
  assert_output_contains 'status'

  run zsh -f -c 'fpath=($prefix/share/zsh/site-functions $fpath)
    autoload -U compinit && compinit -u -D && print -r -- $_comps[dlock]'
  assert_equal "$status $output" '0 _dlock'
}

# --- The version ---

# Prints the version of the program that would be built from a source tree, and writes that of
# the packages to `package`.
version_of() {  # <source tree> [<its Version.cmake>]
  cmake -DVERSION=1.2.3 "-DSOURCE=$1" "-DTO=$BATS_TEST_TMPDIR" -P "${2:-$DLOCK_SOURCE/cmake/Version.cmake}" || return
  sed -n 's/set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$BATS_TEST_TMPDIR/version.cmake" > "$BATS_TEST_TMPDIR/package"
  sed -n 's/.*program_version = "\(.*\)";/\1/p' "$BATS_TEST_TMPDIR/version.cpp"
}

commit_something() {  # <directory>
  date +%N >> "$1/file"
  git -C "$1" add file
  git -C "$1" -c user.name=test -c user.email=test@example.org commit -qm change
}

@test "a program from a checkout has the version of its commit, and only a tag makes it a release" {
  tree=$BATS_TEST_TMPDIR/tree
  git init -q "$tree"
  commit_something "$tree"
  commit=$(git -C "$tree" rev-parse HEAD)

  assert_equal "$(version_of "$tree")" "1.2.3-dev+g${commit:0:10}"
  assert_equal "$(< "$BATS_TEST_TMPDIR/package")" "1.2.3~dev+g${commit:0:10}"

  git -C "$tree" tag v1.2.2
  git -C "$tree" tag v1.2.3-rc1
  assert_equal "$(version_of "$tree")" "1.2.3-dev+g${commit:0:10}"
  git -C "$tree" tag v1.2.3
  assert_equal "$(version_of "$tree")" 1.2.3
  assert_equal "$(< "$BATS_TEST_TMPDIR/package")" 1.2.3

  touch "$tree/untracked"
  assert_equal "$(version_of "$tree")" 1.2.3
  echo change >> "$tree/file"
  assert_equal "$(version_of "$tree")" "1.2.3-dev+g${commit:0:10}.dirty"
  git -C "$tree" checkout -q file
  commit_something "$tree"
  commit=$(git -C "$tree" rev-parse HEAD)
  assert_equal "$(version_of "$tree")" "1.2.3-dev+g${commit:0:10}"
}

@test "a program from a source archive, or built without git, has the plain version" {
  outer=$BATS_TEST_TMPDIR/outer
  mkdir -p "$outer/dlock-1.2.3"
  assert_equal "$(version_of "$outer/dlock-1.2.3")" 1.2.3

  # Unpacked inside the checkout of something else.
  git init -q "$outer"
  commit_something "$outer"
  assert_equal "$(version_of "$outer/dlock-1.2.3")" 1.2.3

  git init -q "$outer/dlock-1.2.3"
  assert_equal "$(version_of "$outer/dlock-1.2.3")" 1.2.3
  commit_something "$outer/dlock-1.2.3"
  printf '#!/bin/sh\nexit 127\n' > "$BATS_TEST_TMPDIR/bin/git"
  chmod +x "$BATS_TEST_TMPDIR/bin/git"
  assert_equal "$(version_of "$outer/dlock-1.2.3")" 1.2.3
}

# Prints the version of a program that is built from an archive of the newest commit.
version_of_archive() {  # <checkout>
  rm -rf "$BATS_TEST_TMPDIR/archive"
  mkdir "$BATS_TEST_TMPDIR/archive"
  git -C "$1" archive HEAD | tar -C "$BATS_TEST_TMPDIR/archive" -xf -
  version_of "$BATS_TEST_TMPDIR/archive" "$BATS_TEST_TMPDIR/archive/cmake/Version.cmake"
}

@test "a program from an archive between releases has the version of its commit" {
  tree=$BATS_TEST_TMPDIR/tree
  git init -q "$tree"
  git -C "$tree" config user.name test
  git -C "$tree" config user.email test@example.org
  mkdir "$tree/cmake"
  cp "$DLOCK_SOURCE/.gitattributes" "$tree"
  cp "$DLOCK_SOURCE/cmake/Version.cmake" "$tree/cmake"
  # That of an archive has been filled in.
  sed -i 's/^set(archived ".*/set(archived "$Format:%H %ct %(describe:match=v*,exclude=*-*)$")/' "$tree/cmake/Version.cmake"
  git -C "$tree" add .
  commit_something "$tree"
  commit=$(git -C "$tree" rev-parse HEAD)

  assert_equal "$(version_of_archive "$tree")" "1.2.3-dev+g${commit:0:10}"
  git -C "$tree" tag -m before v1.2.2
  git -C "$tree" tag -m candidate v1.2.3-rc1
  assert_equal "$(version_of_archive "$tree")" "1.2.3-dev+g${commit:0:10}"
  git -C "$tree" tag -d v1.2.2
  git -C "$tree" tag -m release v1.2.3
  assert_equal "$(version_of_archive "$tree")" 1.2.3
}

@test "a build whose version is the same compiles nothing anew" {
  tree=$BATS_TEST_TMPDIR/tree
  git init -q "$tree"
  commit_something "$tree"
  version_of "$tree"
  touch -d '1 hour ago' "$BATS_TEST_TMPDIR/version.cpp"
  before=$(stat -c %Y "$BATS_TEST_TMPDIR/version.cpp")

  version_of "$tree"
  assert_equal "$(stat -c %Y "$BATS_TEST_TMPDIR/version.cpp")" "$before"
  commit_something "$tree"
  version_of "$tree"
  (($(stat -c %Y "$BATS_TEST_TMPDIR/version.cpp") > before))
}
