#!/usr/bin/env bats
# tests/run, which everyone waits for, and sometimes no longer; and tests/lint, which has to
# find what no compiler does.

setup() { load support && use_private_store; }

# Replaces what tests/run builds and tests with: a ctest that starts processes which leave its
# group and session, ignore SIGTERM, or run in the background.
use_fake_ctest() {
  local name
  for name in cmake apt-get sudo; do
    printf '#!/bin/sh\nexit 0\n' > "$BATS_TEST_TMPDIR/bin/$name"
  done
  printf '#!/bin/sh\necho installed\n' > "$BATS_TEST_TMPDIR/bin/dpkg-query"
  cat > "$BATS_TEST_TMPDIR/bin/ctest" << 'END'
#!/bin/bash
sleep "100.$$" &
setsid sleep "101.$$" &
(trap '' TERM HUP INT QUIT; exec sleep "102.$$") &
echo $$ > "$CTEST_PID"
exec setsid --wait bash -c 'trap "" TERM HUP INT QUIT; sleep "103.$0" & sleep "104.$0"' $$
END
  export CTEST_PID=$BATS_TEST_TMPDIR/ctest.pid
  chmod +x "$BATS_TEST_TMPDIR"/bin/*
}

sleepers() { pgrep -f "^sleep 10[0-4][.]$(< "$CTEST_PID")\$" | wc -l; }
have_started() { (($(sleepers) == 5)); }
none_sleeps() { (($(sleepers) == 0)); }

@test "tests/run that a signal ends stops everything below it" {
  local signal
  use_fake_ctest
  # One trap is for all signals, but bash treats SIGQUIT differently.
  for signal in INT QUIT; do
    rm -f "$CTEST_PID"
    env --default-signal "$DLOCK_SOURCE/tests/run" -R nothing > "$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    runner=$!
    eventually have_started

    kill -s "$signal" "$runner"

    eventually has_ended "$runner"
    assert_exits $((128 + $(kill -l "$signal"))) "$runner"
    eventually none_sleeps # a process takes a moment to die
    grep -q "stopped by SIG$signal" "$BATS_TEST_TMPDIR/log"
  done
}

# Prints the options with which a script configures what users install.
options_in() { sed -n 's/.*quietly cmake \(--preset release[^&;]*\).*/\1/p' "$DLOCK_SOURCE/$1"; }

@test "tests/run compiles nothing again that install.sh has built" {
  local script tree=$BATS_TEST_TMPDIR/tree
  cd "$DLOCK_SOURCE"
  for script in install.sh tests/run; do
    # shellcheck disable=SC2046  # several options
    cmake $(options_in "$script") -B "$tree" > /dev/null
    ninja -C "$tree" -t commands dlock > "$BATS_TEST_TMPDIR/${script##*/}"
  done

  [[ -s $BATS_TEST_TMPDIR/run ]]
  diff "$BATS_TEST_TMPDIR/install.sh" "$BATS_TEST_TMPDIR/run"
}

# Makes a project whose tests/run builds and tests with programs that only say what they are asked.
use_project_of_parts() {
  local name
  project=$BATS_TEST_TMPDIR/parts
  mkdir -p "$project"/{build,packaging,tests/{bench,long}}
  cp "$DLOCK_SOURCE"/tests/{run,skips.bash} "$project/tests/"
  cp "$DLOCK_SOURCE/packaging/packages.sh" "$project/packaging/"
  touch "$project/tests/long/first.bats" "$project/tests/long/second.bats"
  for name in "$BATS_TEST_TMPDIR"/bin/{cmake,ctest,apt-get,sudo,bats} \
    "$project"/tests/{lint,bench/run,bench/latest_death,bench/failovers,settings,distributions}; do
    printf '#!/bin/sh\necho "$(basename "$0") $*" >> "%s"\necho 1\n[ ! "$1" -ef "%s" ]\n' \
      "$BATS_TEST_TMPDIR/called" "$BATS_TEST_TMPDIR/fails" > "$name"
    chmod +x "$name"
  done
  printf '#!/bin/sh\necho installed\n' > "$BATS_TEST_TMPDIR/bin/dpkg-query"
  chmod +x "$BATS_TEST_TMPDIR/bin/dpkg-query"
}

@test "tests/distributions gets packages from where the machine does, and names what it could not try" {
  ((EUID == 0)) || skip 'only root can make systems'
  use_project_of_parts
  cp "$DLOCK_SOURCE/tests/distributions" "$project/tests/"
  printf '#!/bin/sh\nprintf "Debian Debian-Security http://%%s/security/\\nDebian Debian http://%%s/debian/\\n" mirror mirror\n' \
    > "$BATS_TEST_TMPDIR/bin/apt-get"
  printf '#!/bin/sh\necho "$*" >> "%s"\necho unreachable\nexit 1\n' "$BATS_TEST_TMPDIR/asked" \
    > "$BATS_TEST_TMPDIR/bin/debootstrap"
  chmod +x "$BATS_TEST_TMPDIR/bin/debootstrap"

  run "$project/tests/distributions" debian-13 ubuntu-24.04

  assert_status 1
  assert_output_contains 'not tried: debian-13, whose packages could not be reached or checked: unreachable'
  assert_output_contains 'not tried: ubuntu-24.04'
  grep -q ' trixie .*/root http://mirror/debian/ ' "$BATS_TEST_TMPDIR/asked"
  grep -q ' noble .*/root  /' "$BATS_TEST_TMPDIR/asked"
}

# Prints the parts in the table, each with its result.
parts_run() { awk -F ' [|] ' 'NR > 2 { print substr($1, 3) ": " substr($5, 1, 6) }' "$project/build/parts.md"; }

@test "tests/run --all goes on with the part at which it was stopped, and records what it ran" {
  use_project_of_parts
  ln "$project/tests/long/second.bats" "$BATS_TEST_TMPDIR/fails"

  run "$project/tests/run" --all
  assert_status 1
  assert_output_contains 'FAILED after '
  assert_equal "$(parts_run | grep long)" 'tests/long/first.bats: passed
tests/long/second.bats: FAILED'
  assert_equal "$(parts_run | sed -n '1p;$p')" 'release: tests: passed
distributions: passed'

  rm "$BATS_TEST_TMPDIR/fails" "$BATS_TEST_TMPDIR/called" "$project/build/parts.md"
  run "$project/tests/run" --all --from tests/long/second.bats
  assert_status 0
  assert_equal "$(parts_run | head -n 2)" 'tests/long/second.bats: passed
flight, many times: passed'
  assert_equal "$(grep -e first.bats -e lint -e 'preset dev' "$BATS_TEST_TMPDIR/called")" ''

  run "$project/tests/run" --all --from lint/long
  assert_status 64
  assert_output_contains "no such part: lint/long; there are: 'release: tests' 'dev: tests' 'lint'"
  run "$project/tests/run" --from lint
  assert_status 64
  run "$project/tests/run" --stress nothing.bats 2
  assert_status 64
}

# Makes a ctest for use_project_of_parts in which the test `bats.one` fails so many times.
use_ctest_that_fails() {  # <times>
  echo "$1" > "$BATS_TEST_TMPDIR/fails"
  mkdir -p "$project/docs"
  printf '%s\n' '## P1. One' '' '- tests/bats/one.bats' '- tests/bats/two.bats' '## P2. Two' '- tests/bats/sole.bats' \
    > "$project/docs/promises.md"
  cat > "$BATS_TEST_TMPDIR/bin/ctest" << 'END'
#!/bin/bash
log=build/$2/Testing/Temporary
mkdir -p "$log"
: > "$log/LastTest.log"
[[ $* != *'--label-regex clock'* ]] || exit 0
left=$(< "$BATS_TEST_TMPDIR/fails")
printf '1/1 Test: %s\nnot ok 1 it is late\nok 2 it needs more # skip %s\nTest time\n' "$NAME" "$REASON" > "$log/LastTest.log"
((left > 0)) || exit 0
echo $((left - 1)) > "$BATS_TEST_TMPDIR/fails"
echo "1:$NAME" > "$log/LastTestsFailed.log"
exit 8
END
  export BATS_TEST_TMPDIR NAME=bats.one REASON='it has it'
}

@test "a file that passes only when it runs again is green and recorded, unless it is the only guard of a promise" {
  use_project_of_parts
  use_ctest_that_fails 1
  run "$project/tests/run" -R one
  assert_status 0
  assert_output_contains 'passed only when they ran again (see build/flaky.md): release: bats.one'
  assert_output_contains 'of 2 tests of the program, 1 were skipped'
  grep -q 'not ok 1 it is late' "$project/build/flaky.md"
  grep -q '^load ' "$project/build/flaky.md"

  use_ctest_that_fails 2
  run "$project/tests/run" -R one
  assert_status 1

  use_ctest_that_fails 1
  NAME=bats.sole.redis run "$project/tests/run" -R sole
  assert_status 1
  assert_output_contains 'the only guard of P2'

  use_ctest_that_fails 0
  REASON='because I like to' run "$project/tests/run" -R one
  assert_status 1
  assert_output_contains 'skipped without need'
}

# Makes a project of three parts that keeps to its table, with tests/lint, in $project.
use_small_project() {
  export GIT_CEILING_DIRECTORIES=$BATS_TEST_TMPDIR # even if that is in a checkout
  project=$BATS_TEST_TMPDIR/project
  mkdir -p "$project"/{tests,packaging,src/{top,middle,bottom}}
  cp "$DLOCK_SOURCE/tests/lint" "$project/tests/"
  cp "$DLOCK_SOURCE/packaging/packages.sh" "$project/packaging/"
  cat > "$project/ARCHITECTURE.md" << 'END'
| folder | purpose | builds on |
| --- | --- | --- |
| `src/top` | waits | `middle` |
| `src/middle` | decides | `bottom`, without Asio |
| `src/bottom` | text | |

| `src/elsewhere` | not of this table | |
END
  printf '#include "middle/rule.hpp"\n#include "bottom/text.hpp"\n' > "$project/src/top/loop.cpp"
  printf '#include <boost/asio/post.hpp>\n' > "$project/src/top/wait.hpp"
  printf '#include <string>\n#include "bottom/text.hpp"\n' > "$project/src/middle/rule.hpp"
  printf '#include "bottom/clock.hpp"\n' > "$project/src/bottom/text.hpp"
  printf '#include <ctime>\n' > "$project/src/bottom/clock.hpp"
}

# Appends a line to a file of the project.
append() { printf '%s\n' "$2" >> "$project/$1"; }  # <file> <line>

# Asserts that tests/lint complains of exactly this about the project, in any order.
assert_lint_finds() {  # <check> < messages
  local wanted
  mapfile -t wanted
  run "$project/tests/lint" "$1"
  assert_status $((${#wanted[@]} > 0))
  ((${#wanted[@]} == 0)) || wanted=("${wanted[@]/#/tests/lint: }" "tests/lint: $1 failed")
  assert_equal "$(printf '%s\n' "$output" | LC_ALL=C sort)" "$(printf '%s\n' "${wanted[@]}" | LC_ALL=C sort)"
}

@test "tests/lint finds includes that the table of parts does not allow, and those that reach Asio" {
  use_small_project
  assert_lint_finds layers < /dev/null

  append src/bottom/text.hpp '#  include "middle/rule.hpp"'
  append src/bottom/text.hpp '#include <top/loop.cpp>'
  append src/top/loop.cpp '#include "../bottom/text.hpp"'
  append src/bottom/text.hpp '#include "bottom/../top/wait.hpp"'
  append src/middle/alone.hpp '#include <boost/asio/post.hpp>'
  append src/bottom/clock.hpp '#include <boost/asio/post.hpp>'
  assert_lint_finds layers << 'END'
src/bottom/text.hpp:2: bottom must not include middle (middle/rule.hpp), says ARCHITECTURE.md
src/bottom/text.hpp:3: bottom must not include top (top/loop.cpp), says ARCHITECTURE.md
src/bottom/text.hpp:4: src has no file bottom/../top/wait.hpp
src/top/loop.cpp:3: src has no file ../bottom/text.hpp
src/middle/alone.hpp: middle is without Asio, but reads <boost/asio/post.hpp>
src/middle/rule.hpp: middle is without Asio, but reads <boost/asio/post.hpp>, by bottom/clock.hpp, by bottom/text.hpp
END
}

@test "tests/lint finds that the table of parts and the folders of src differ" {
  use_small_project
  mkdir "$project/src/elsewhere"
  append src/elsewhere/other.hpp ''
  append src/main.cpp ''
  rm "$project/src/top/"*
  sed -i "s/| text | |/| text | \`middle\` |/" "$project/ARCHITECTURE.md"
  assert_lint_finds layers << 'END'
src/elsewhere/other.hpp: ARCHITECTURE.md has no row for src/elsewhere
src/main.cpp: ARCHITECTURE.md has no row for src
ARCHITECTURE.md: src/top has no files
ARCHITECTURE.md: bottom builds on middle, which is not below it in the table
END

  sed -i 's/builds on/knows/' "$project/ARCHITECTURE.md"
  assert_lint_finds layers <<< 'ARCHITECTURE.md has no table of parts'
}

@test "tests/lint finds files and types of one name, functions that are too long, and halves of a Call" {
  local i
  use_small_project
  append src/top/loop.cpp 'struct Loop {'
  append src/middle/rule.hpp 'class Rule final : public Base {'
  append src/middle/rule.hpp 'class Loop;'
  append src/middle/rule.hpp '[[noreturn]] void is_short() {'
  append src/middle/rule.hpp '}'
  append src/bottom/halves.hpp 'void wait(Call call); int at(Clock::time_point now); void wake(Wakeup& who);'
  assert_lint_finds names < /dev/null

  append src/bottom/loop.hpp ''
  append src/top/loop.cpp 'struct Rule {'
  append src/top/loop.cpp 'enum class Kind { one };'
  append src/bottom/text.hpp 'enum class Kind {'
  append src/middle/rule.hpp 'void is_long() {'
  for ((i = 0; i < 59; ++i)); do append src/middle/rule.hpp '  step();'; done
  append src/middle/rule.hpp '}'
  append src/bottom/halves.hpp 'void wait(int count, Clock::time_point until,'
  append src/bottom/halves.hpp '          const Clock::time_point* other, Wakeup& wakeup);'
  append src/bottom/halves.hpp 'void wait(Wakeup&, Clock::time_point = {}) {'
  assert_lint_finds names << 'END'
several files of src are called: loop
several types of src are called: Kind Rule
functions of more than 60 lines: src/middle/rule.hpp:7
an end and a Wakeup as two parameters, not as one Call: src/bottom/halves.hpp:2 src/bottom/halves.hpp:4
END
}

@test "tests/lint finds bounds below a minute without a reason, but not in files that judge time" {
  use_small_project
  mkdir "$project"/tests/{bats,faults}
  printf '  "slow   full  night  early"\n  "tight  full  night  clock"\n' > "$project/tests/CMakeLists.txt"
  {
    append tests/bats/tight.bats '  EVENTUALLY_MS=900 eventually true'
    append tests/faults/slow.bats '  run timeout -s KILL 60 dlock run job -- true'
    append tests/faults/slow.bats '  dlock run --timeout 5 --store-timeout 2s job -- true'
    append tests/faults/slow.bats '  # in time: two of them are four seconds'
    append tests/faults/slow.bats '  assert_between $(($(now_ms) - begin)) 2000 3900'
    assert_lint_finds times < /dev/null
    append tests/faults/slow.bats '  EVENTUALLY_MS=59999 eventually true'
    append tests/faults/slow.bats '  timeout 20 dlock list'
    append tests/faults/slow.bats '  assert_between $(($(now_ms) - begin)) 0 9000'
    append tests/faults/slow.bats '  (($(now_ms) - begin < 800))'
    assert_lint_finds times <<< 'bounds below a minute: tests/faults/slow.bats:5 tests/faults/slow.bats:6 tests/faults/slow.bats:7 tests/faults/slow.bats:8'
  }
}

@test "tests/lint finds words and phrases that are not used any more" {
  local row found advice line
  use_small_project
  append ARCHITECTURE.md 'A Soviet tool for its own directory, too old, is also within reach; the run has ended.'
  append src/middle/rule.hpp '// setpriv --reuid nobody'
  mkdir "$project/tests/fuzz" "$project/tests/fuzz/corpus"
  append tests/fuzz/corpus/text 'some''body'
  append CHANGELOG.md '## [0.1.0]'
  append CHANGELOG.md 'No''body noticed.'
  assert_lint_finds words < /dev/null

  line=$(wc -l < "$project/ARCHITECTURE.md")
  while IFS='|' read -r row found advice; do
    append ARCHITECTURE.md "$row"
    echo "ARCHITECTURE.md:$((++line)): not '$found', but: $advice" >> "$BATS_TEST_TMPDIR/wanted"
  done << END
the lock of some${z-}body|some${z-}body|another run, no one, anyone, or the actor
this one, to${z-}o.|, to${z-}o|also, before the verb
it waits. S${z-}o nothing is lost|S${z-}o|the conclusion in the same sentence, or therefore
a directory of it${z-}s own|of it${z-}s own|its own X, or a separate X
it waits, als${z-}o without a reason|als${z-}o without|even
the command is not gon${z-}e|is not gon${z-}e|has exited, or no longer exists
the command was ende${z-}d|was ende${z-}d|stopped, or killed
dlock end${z-}s the command|end${z-}s the command|stop, or kill
the lock is hande${z-}d over|hande${z-}d over|hand off
a failover b${z-}y hand|failover b${z-}y hand|manual, or a lease of acquire
held by a foreig${z-}n holder|foreig${z-}n holder|another program
the enclosin${z-}g run|enclosin${z-}g run|outer
the lock was not obtaine${z-}d|not obtaine${z-}d|not acquired
the server say${z-}s so|say${z-}s so|what it says, or the exit code
the men${z-}d of a fault|men${z-}d|fix
END
  assert_lint_finds words < "$BATS_TEST_TMPDIR/wanted"
}

@test "the files and tests that are said to run in the emulator exist" {
  local name in_emulator fails_in_emulator
  eval "$(sed -n '/^in_emulator=(/p; /^fails_in_emulator=(/,/^)/p' "$DLOCK_SOURCE/tests/long/release.bats")"
  ((${#in_emulator[@]} > 5))
  for name in "${in_emulator[@]}"; do
    [[ -e $DLOCK_SOURCE/tests/bats/$name.bats ]] || { echo "no $name.bats" >&2; return 1; }
  done
  for name in "${fails_in_emulator[@]}"; do
    grep -qF "@test \"$name\"" "$DLOCK_SOURCE"/tests/bats/*.bats || { echo "no test: $name" >&2; return 1; }
  done
}

@test "each promise names a C++ test and a Bats file that run for each change" {
  run env -C "$DLOCK_SOURCE" perl -Mstrict -e '
    sub text { local (@ARGV, $/) = @_; <> }
    my $lists = text("tests/CMakeLists.txt");
    my ($quick) = $lists =~ /set\(quick_sources\)(.*?)add_executable\(dlock_quick_tests/s;
    my %is_quick;
    while ($quick =~ /foreach\(name\s+(.*?)\)\s+list\(APPEND quick_sources (\w+)/gs) {
      $is_quick{"tests/$2/$_.cpp"} = 1 for split " ", $1;
    }
    my ($table) = $lists =~ /set\(bats_table(.*?)\)\n/s;
    my %when = $table =~ /"([\w.]+) +(\w+)/g;
    my ($stores) = $lists =~ /set\(other_stores "(.*?)"/;
    # A file without a row is as the first row; one that never runs by itself runs on each store.
    sub runs_always {
      my ($name) = $_[0] =~ m{(\w+)\.bats$};
      my @rows = ($when{$name} // $when{default}) ne "never" ? ($name) : map { "$name.$_" } split /\|/, $stores;
      !grep { ($when{$_} // $when{default}) ne "always" } @rows;
    }
    for my $promise (split /^(?=## )/m, text("docs/promises.md")) {
      my ($name) = $promise =~ /^## (P\d+)\./ or next;
      my ($guards) = $promise =~ /^- each change: (.*?)\n(?=- |\n)/ms or print "$name: no guard\n";
      my @cpp = $guards =~ /`(\S+\.cpp)`/g;
      my @bats = $guards =~ /`(\S+\.bats)`/g;
      print "$name: guards are a C++ test and a Bats file, not: $guards\n" if !@cpp || !@bats && $name ne "P10";
      print map { "$name: not for each change: $_\n" } grep { !$is_quick{$_} } @cpp;
      print map { "$name: not for each change: $_\n" } grep { !-e || !runs_always($_) } @bats;
      print map { "$name: not in $_\n" } grep { m{/promises\.} && text($_) !~ /^\@test "[P0-9, ]*\b$name\b/m } @bats;
      print "$name\n";
    }'
  assert_equal "$status $output" "0 $(printf 'P%s\n' {1..12})"
}
