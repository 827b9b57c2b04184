#!/usr/bin/env bats
# Runs the commands in docs/, with stubs in place of the programs that they call and private
# servers in place of the hosts. A block that cannot run here has `<!-- not run: why -->`
# before it.

setup() {
  load support
  load etcd
  load postgres
  load ../faults/redis
  load ../faults/partition
  load ../faults/sentinel
  load ../faults/cluster
  load ../faults/quorum
  load pages
  prepare_pages
}

# --- The pages ---

# Asserts that the page describes every check that doctor makes on this store.
assert_checks_are_described() {
  local check checks
  run dlock doctor --json
  checks=$(json '.findings[].check')
  [[ -n $checks ]]
  for check in $checks; do
    [[ $'\n'$(< "$docs/operating.md") =~ $'\n|'[^|$'\n']*\`"$check"\` ]] ||
      { echo "operating.md does not describe the check $check" >&2; return 1; }
  done
}

# A database in the place of that of db.example.org, which the role `app` owns, with a table
# for the example of a transaction.
start_postgres_of_pages() {
  use_postgres_store
  # A URL that a shell takes as it is.
  DLOCK_STORE=postgres://app@${postgres_sockets//\//%2F}:${postgres_port[1]}/app
  in_place_of[postgres://app@db.example.org/app]=$DLOCK_STORE
  in_place_of['psql -h db.example.org -U owner app']="$postgres_programs/psql -X -h $postgres_sockets -p ${postgres_port[1]} -U postgres app"
  in_place_of['psql -v']="$postgres_programs/psql -X -h $postgres_sockets -p ${postgres_port[1]} -U app app -v"
}

@test "the commands in using.md work" {
  start_postgres_of_pages
  sql 'CREATE TABLE account AS SELECT 100 AS balance, 5 AS interest; ALTER TABLE account OWNER TO app'
  mkdir -p "$here/place"
  blocks using.md sql 'Reject late writes in PostgreSQL' | cut -d ' ' -f 3- > "$here/place/settle.sql"
  DLOCK_STORE=local:$here/store
  start_server

  run_page using.md

  assert_equal "$(sql 'SELECT balance FROM account')" 105
}

@test "the hooks in using.md run" {
  local line lines
  use_private_store
  mkdir "$here/place"
  stub "$stubs"/{mail,curl,logger} "$here/place/backup.sh"
  mapfile -t lines < <(grep -E '^dlock run --on-(failure|success|busy) ' "$docs/using.md")
  assert_equal "${#lines[@]}" 3

  for line in "${lines[@]}"; do
    [[ $line != *--on-failure* ]] || line=${line/.\/backup.sh/false}
    [[ $line != *--on-busy* ]] || line="dlock run backup -- $line"
    run_script "$line" 75
  done

  grep -qx 'mail -s backup failed: ran 1 root' "$calls"
  grep -qx 'curl -fsS -m 10 https://monitor.example.org/ping/backup' "$calls"
  grep -qx 'logger -t backup is still held on ' "$calls"
}

@test "the script in using.md that holds a lock by hand works, and excludes another one" {
  local shells=() shell
  use_private_store
  stub "$stubs"/{make,upload}
  blocks using.md sh 'Hold a lock in a script' | cut -d ' ' -f 3- |
    sed -n '/^lease=/,/^upload/p' > "$here/script"

  for shell in 1 2; do
    PATH=$stubs:$PATH sh "$here/script" 3>&- &
    shells+=($!)
  done
  for shell in "${shells[@]}"; do assert_exits 0 "$shell"; done

  assert_equal "$(cat "$calls")" $'make package\nupload package\nmake package\nupload package'
  dlock status release | grep -q free
}

@test "the commands in stores.md work" {
  start_postgres_of_pages
  unset DLOCK_STORE
  start_server

  run_page stores.md
}

@test "the commands in operating.md about Redis, directories and passwords work, and its checks are described" {
  local server
  use_private_store
  start_server
  server=${in_place_of[redis://db.example.org]}

  run_page operating.md 'Check a store'
  run_page operating.md 'Redis and Valkey'
  run_page operating.md 'A directory that users share'
  run_page operating.md 'Passwords and TLS'

  dlock run job -- true
  assert_checks_are_described
  DLOCK_STORE=$server assert_checks_are_described
  # With the settings that the page gives, the server has no problem.
  assert_equal "$status $(json '.level')" '0 ok'
  run dlock doctor --store "$server"
  assert_equal "$(awk '$1 ~ /^(ok|info|warning)$/ { print $2 }' <<< "$output" | LC_ALL=C sort | uniq)" \
    "$(blocks operating.md console | awk '$3 ~ /^(ok|warning)$/ { print $4 }' | LC_ALL=C sort)"
}

@test "the permissions in operating.md are the fewest that locks need" {
  assert_equal "$(blocks operating.md sh 'Redis and Valkey' | grep -A 6 'SETUSER jobs on' | cut -d ' ' -f 3- |
    sed '1s/.*PASSWORD.//' | grep -o "[-+~&][a-z@|:*-]*\|reset[a-z]*" | LC_ALL=C sort)" \
    "$(tr -s ' ' '\n' <<< "$least_permissions" | LC_ALL=C sort)"
}

@test "the commands in operating.md about Sentinel work, and its checks are described" {
  use_sentinel_store
  in_place_of[redis+sentinel://s1.example.org,s2.example.org,s3.example.org/main]=$DLOCK_STORE
  in_place_of[redis-cli -h r1.example.org]="redis-cli -p ${ports[1]}"
  in_place_of[redis-cli -h s1.example.org -p 26379]="redis-cli -p ${ports[4]}"

  run_page operating.md Sentinel
  assert_checks_are_described
}

@test "the commands in operating.md about a cluster work, and its checks are described" {
  use_cluster_store
  in_place_of[redis+cluster://c1.example.org,c2.example.org,c3.example.org]=$DLOCK_STORE

  run_page operating.md Cluster
  assert_checks_are_described
}

@test "the commands in operating.md about a quorum work, and its checks are described" {
  use_quorum_store 3
  in_place_of[redis+quorum://q1.example.org,q2.example.org,q3.example.org]=$DLOCK_STORE

  run_page operating.md 'A quorum'
  assert_checks_are_described
}

@test "the commands in operating.md about etcd work, and its checks are described" {
  use_etcd_store
  in_place_of[etcd://e1.example.org,e2.example.org,e3.example.org]=$DLOCK_STORE

  run_page operating.md etcd
  assert_checks_are_described
}

@test "the commands in operating.md about PostgreSQL work, its checks are described, and its rights are those of doctor --schema" {
  start_postgres_of_pages

  run_page operating.md PostgreSQL
  assert_checks_are_described

  dlock run job -- true
  sql 'CREATE ROLE worker LOGIN'
  sql "$(blocks operating.md sql PostgreSQL | cut -d ' ' -f 3- | sed 's/TO app/TO worker/')"
  DLOCK_STORE=$(postgres_url 1 worker) run dlock doctor
  assert_status 0
  assert_output_contains 'user worker has all permissions that locks need'
}

# Engines that run what follows the name of the image here, without a container.
stub_engines() {
  local engine
  for engine in docker podman; do
    printf '%s\n' '#!/bin/sh' 'until [ "$1" = app ] || [ "$1" = dlock ]; do shift; done' \
      '[ "$1" = dlock ] || shift' 'exec "$@"' > "$stubs/$engine"
    chmod +x "$stubs/$engine"
  done
}

@test "the commands in containers.md work, and it names every example for containers" {
  start_postgres_of_pages
  DLOCK_STORE=local:$here/store
  start_server
  stub_engines
  mkdir "$here/volume"
  in_place_of[local:/locks]=local:$here/volume
  in_place_of[/dlock/usr/bin/dlock]=dlock

  run_page containers.md

  for name in Containerfile entrypoint.sh compose.yaml kubernetes.yaml; do
    [[ $(< "$docs/containers.md") == *"(../examples/$name)"* ]] || { echo "does not name $name" >&2; return 1; }
  done
}

@test "the commands in migrating.md and the replacements in its tables work" {
  use_etcd_store
  in_place_of[etcd://e1.example.org]=$DLOCK_STORE
  DLOCK_STORE=local:$here/store
  start_server

  run_page migrating.md
  run_tables migrating.md 'From flock(1)' 9
  run_tables migrating.md 'From cronlock' 6
  run_tables migrating.md 'From consul lock' 4
  run_tables migrating.md 'From etcdctl lock' 3
  run_tables migrating.md 'From a lock decorator' 3
}

# --- All pages ---

@test "every runnable block is run by one of these tests" {
  local page section tests
  tests=$(< "$BATS_TEST_FILENAME")
  for page in "$docs"/*.md; do
    page=${page##*/}
    [[ $tests != *$'\n'"  run_page $page"$'\n'* ]] || continue
    while IFS= read -r section; do
      [[ $tests == *$'\n'"  run_page $page "?(\')"$section"?(\')$'\n'* ]] ||
        { echo "no test runs the blocks of $page below \"$section\"" >&2; return 1; }
    done < <(blocks "$page" 'sh|console|crontab|toml' '' sections)
  done
}

# Runs a program of Perl below the source tree, which prints what is wrong. It counts in $count what it
# has looked at, of which there have to be more than the given number.
assert_finds_nothing() {  # <number> <program> [<argument>...]
  run env -C "$DLOCK_SOURCE" perl -Mstrict -e '
    our $count = 0;
    sub text { local (@ARGV, $/) = @_; my $text = ""; $text .= $_ while <>; $text }
    sub wrong { print "@_\n" }
    # Each name that promises.md gives as a guard, after the number of the promise: the title of a
    # test in quotation marks; a file, a promise of a model, a model, or a check of chaos without.
    sub guards {
      my ($promise, @guards);
      for (split /\n/, text("docs/promises.md")) {
        $promise = $1 if /^## (P[^.]*)/;
        if (/^- /) { push @guards, [$promise, $1 // $2] while /("[^"]+")|`([^`]+)`/g }
      }
      @guards;
    }
    my ($titles, $models, $chaos);
    sub exists_as_guard {
      my ($name) = @_;
      $titles //= text(glob("tests/{bats,faults}/*.bats"));
      $models //= text(glob("tests/model/*.pml"));
      $chaos //= text(glob("tests/chaos/*.py"));
      return index($titles, "\@test $name {") >= 0 if $name =~ /^"/;
      return -e $name if $name =~ m{^tests/};
      return index($models, "must($name,") >= 0 if $name =~ /^P/;
      return -e "tests/model/$name.pml" || $chaos =~ /^def \Q$name\E\(story/m;
    }
    '"$2"'
    wrong("only $count were found") if $count <= '"$1" "${@:3}"
  assert_equal "$status $output" '0 '
}

@test "every link in a page leads to a file or a heading, and every file that a page names exists" {
  assert_finds_nothing 300 '
    my %anchors;
    # As repository hosts derive them from headings.
    sub anchors {
      my ($file) = @_;
      $anchors{$file} //= { map { my $title = lc; $title =~ s/[^a-z0-9 _-]//g; $title =~ s/ /-/g; $title => 1 }
        text($file) =~ /^#+ (.*)/mg };
    }
    for my $page (glob("*.md docs/*.md")) {
      my $folder = $page =~ m{(.*/)} ? $1 : "";
      my $text = text($page);
      for my $link (grep { !/^https?:/ } $text =~ /\]\(([^)]*)\)/g) {
        my ($file, $anchor) = $link =~ /([^#]*)#?(.*)/;
        $file = $file eq "" ? $page : "$folder$file";
        wrong("$page: $link does not exist") if !-e $file;
        wrong("$page: $link names a heading that does not exist") if $anchor ne "" && -f $file && !anchors($file)->{$anchor};
        ++$count;
      }
      while ($text =~ m{(?<![\w/])((?:tests|src|examples|completions|packaging)/[a-z_/-]+(?:\.[a-z]+)?)}g) {
        my @found = glob("$1*");
        wrong("$page: $1 does not exist") if !grep { -e } @found;
        ++$count;
      }
    }'
}

@test "the source contains the code that the pages for contributors name" {
  # The paths of all files and their lines; models name code in comments.
  (cd "$DLOCK_SOURCE" && ls tests/model/*.pml && grep -rI --exclude '*.pml' '' src tests cmake CMakePresets.json) > "$BATS_TEST_TMPDIR/source"
  assert_finds_nothing 150 '
    my $source = text(shift);
    for my $page (qw(ARCHITECTURE.md CONTRIBUTING.md docs/internals.md docs/glossary.md)) {
      my %names = map { $_ => 1 } grep { !/VERB/ } text($page) =~ /`([A-Za-z_:\/.]+(?:\(\))?)`/g;
      for my $name (sort keys %names) {
        my ($last) = $name =~ /([^\/:]*?)(?:\(\))?$/;
        my $as_file = $last =~ /\.(?:cpp|hpp|lua)$/ ? "/$last:" : $last;
        wrong("$page: $name is not in the source") if index($source, $as_file) < 0;
        ++$count;
        my ($type, $member) = $name =~ /^([A-Z]\w*)::(\w+)$/ or next;
        my @files = split /\n/, qx(grep -rlE "^(class|struct) $type( |\$)" src);
        wrong("$page: $type has no $member") if !grep { text($_) =~ /\b$member\b/ } @files;
      }
    }' "$BATS_TEST_TMPDIR/source"
}

@test "what promises.md and track-record.md say that guards each promise exists" {
  assert_finds_nothing 75 '
    my %promises;
    for (guards()) {
      my ($promise, $name) = @$_;
      wrong("promises.md: $promise: there is no $name") if !exists_as_guard($name);
      ++$count;
      $promises{$promise} = 1;
    }
    for (map { "P$_" } 1 .. 12) { wrong("promises.md: $_ has no guard") if !delete $promises{$_} }
    wrong("promises.md: ", sort keys %promises) if %promises;
    my $suites = text(glob("tests/unit/* tests/contract/*"));
    # The titles of scenes have blanks.
    $suites =~ s{^([a-z][\w ,-]*):$}{" " . ($1 =~ tr/ /_/r) . ")"}gme;
    for (grep { /^\|/ } split /\n/, text("docs/track-record.md")) {
      my ($last) = / \| (?!.* \| )(.*)$/ or next;
      while ($last =~ /("[^"]+")|[A-Z][A-Za-z]+\.([a-z_0-9]+)|([A-Z]+(?:_[A-Z]+)+)/g) {
        wrong("track-record.md: there is no $&") if !(
          defined $1 ? exists_as_guard($1) : defined $2 ? index($suites, " $2)") >= 0 : index($models, $3) >= 0);
        ++$count;
      }
    }'
}

@test "each check of chaos and each promise of a model or of the simulation has its number in promises.md" {
  assert_finds_nothing 20 '
    my %known = map { ("@$_" => 1) } guards();
    my @needed = map { ["$1", $_] if /^(P\d+)/ } text(glob("tests/model/*.pml")) =~ /must\((P\d+_\w+)/g;
    push @needed, map { [$_, "tests/simulation"] } text(glob("tests/simulation/*.cpp")) =~ /broken\("(P\d+)/g;
    my ($checks) = text("tests/chaos/verdict.py") =~ /^CHECKS(.*?)^\}/ms;
    while ($checks =~ /^ *"(P\d+)": \((.*)\),$/mg) {
      my $promise = $1;
      push @needed, map { [$promise, $_] } $2 =~ /\w+/g;
    }
    for (@needed) {
      wrong("promises.md lacks @$_") if !$known{"@$_"};
      ++$count;
    }'
}

@test "the numbers that the README claims are those of measured.md, and it has every store" {
  assert_finds_nothing 8 '
    my ($readme, $measured, $figures) =
      (text("README.md"), text("docs/measured.md"), text("docs/pictures/peers.figures"));
    my ($version, $other, $minutes) = $readme =~
      /With ([\d.]+), the last hour of \[random failures\][^;]*no two commands at once; ([\w.-]+) has had (\d+) minutes of them, on PostgreSQL only/s
      or wrong("README.md: no claim about random failures");
    my %measured;
    while ($measured =~ /^\| `([a-z]+)\d*`(?: \([\d.]+\))? \| ([\w.-]+)(?: \(\w+\))? \| (\d+) min \| ([-\d]+) \| [\d,]+ \| [\d,]+ \| (.*) \|$/mg) {
      my ($store, $with, $for, $on, $complaints) = ($1, $2, $3, $4, $5);
      $measured{$store} = 1;
      ++$count;
      wrong("measured.md: $store: $complaints") if $complaints ne "none";
      wrong("$store: $for minutes of $with") if $store eq "postgres" ? $for != $minutes || $with ne $other : $for < 60 || $with ne $version;
    }
    my ($stores) = $readme =~ /^## Stores\n(.*?)^## /ms;
    while ($stores =~ /^\| `(?:redis\+)?([a-z]+):(?!.dir)/mg) {
      wrong("README.md: $1 has no row in measured.md") if $1 ne "none" && !$measured{$1};
      ++$count;
    }
    my ($run, $flock) = $figures =~ /^run\trun .bin.true; flock\t([\d.]+ ms)\t([\d.]+ ms)/m;
    wrong("measured.md: not $run and $flock") if $measured !~ /^\| a run .*\| \Q$run\E \|.*\n\| the same with flock\(1\) \| \Q$flock\E \|/m;
    my ($bytes) = $measured =~ /^\| the program for x86-64 \| ([\d,]+) bytes/m;
    $bytes =~ s/,//g;
    my $size = sprintf "%.1f", $bytes / 1e6;
    wrong("performance.md: the program has $size MB") if text("docs/performance.md") !~ /^\| the program \| \Q$size\E MB \|/m;
  '
}

@test "the README is short, and the newest release in the changelog is the version of the program, or older between releases" {
  local newest version
  (($(wc -l < "$DLOCK_SOURCE/README.md") <= 250))
  use_private_store
  newest=$(sed -nE 's/^## \[([0-9.]+)\] - [0-9-]{10}$/\1/p' "$DLOCK_SOURCE/CHANGELOG.md" | head -n 1)

  version=$(dlock --version | cut -d ' ' -f 2)

  if [[ $version == *-dev+* ]]; then
    assert_equal "$(printf '%s\n' "$newest" "${version%%-*}" | sort --version-sort --unique)" \
      "$newest"$'\n'"${version%%-*}"
    grep -qx '## \[Unreleased\]' "$DLOCK_SOURCE/CHANGELOG.md"
  else
    assert_equal "$version" "$newest"
  fi
}
