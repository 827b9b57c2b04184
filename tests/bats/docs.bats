#!/usr/bin/env bats
# Runs the commands in docs/, with stubs in place of the programs that they call and private
# servers in place of the hosts. A block that cannot run here has `<!-- not run: why -->`
# before it.
# shellcheck disable=SC2016  # backquotes of Markdown
# shellcheck disable=SC2154  # helpers set docs, here, stubs, calls, in_place_of, least_permissions

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

teardown() {
  stop_fleet
  stop_etcd
  stop_postgres
  kill_leftovers
}

# --- The pages ---

# Asserts that the page describes every check that doctor makes on this store.
assert_checks_are_described() {
  local check checks
  run dlock doctor --json
  checks=$(json '.findings[].check')
  [[ -n $checks ]]
  for check in $checks; do
    grep -q "^|[^|]*\`$check\`" "$docs/operating.md" ||
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
  blocks using.md sql 'Check a fence in a transaction' | cut -d ' ' -f 3- > "$here/place/settle.sql"
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

  grep -qx 'mail -s backup failed: exit 1 root' "$calls"
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
  use_private_store
  start_server

  run_page stores.md
}

@test "the commands in security.md work" {
  use_private_store

  run_page security.md
}

@test "the commands in operating.md about Redis, directories and passwords work" {
  use_private_store
  start_server

  run_page operating.md 'Check a store'
  run_page operating.md 'Redis and Valkey'
  run_page operating.md 'A directory that users share'
  run_page operating.md 'Passwords and TLS'
}

@test "doctor finds nothing wrong with a server that has the settings in operating.md" {
  use_private_store
  start_server

  run dlock doctor --store "${in_place_of[redis://db.example.org]}" --json

  assert_status 0
  assert_equal "$(json '.level')" ok
}

@test "the example of doctor shows the checks that doctor makes" {
  use_private_store
  start_server

  run dlock doctor --store "${in_place_of[redis://db.example.org]}"

  assert_equal "$(awk '$1 ~ /^(ok|info|warning)$/ { print $2 }' <<< "$output" | LC_ALL=C sort | uniq)" \
    "$(blocks operating.md console | awk '$3 ~ /^(ok|warning)$/ { print $4 }' | LC_ALL=C sort)"
}

@test "operating.md describes the checks of one server and of a directory" {
  use_private_store
  start_server
  dlock run job -- true

  assert_checks_are_described
  DLOCK_STORE=${in_place_of[redis://db.example.org]} assert_checks_are_described
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

@test "the commands in operating.md about PostgreSQL work, and its checks are described" {
  start_postgres_of_pages

  run_page operating.md PostgreSQL
  assert_checks_are_described
}

@test "the rights in operating.md are those that doctor --schema grants" {
  start_postgres_of_pages
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

@test "the commands in containers.md work" {
  use_private_store
  start_server
  stub_engines
  mkdir "$here/volume"
  in_place_of[local:/locks]=local:$here/volume
  in_place_of[/dlock/usr/bin/dlock]=dlock

  run_page containers.md
  run_script "$(blocks containers.md ini | sed -n 's/.* ini command = //p')"

  assert_equal "$(grep -c '^report.sh' "$calls")" 2
}

@test "containers.md names every example for containers" {
  local name
  for name in Containerfile entrypoint.sh compose.yaml kubernetes.yaml; do
    grep -qF "(../examples/$name)" "$docs/containers.md" || { echo "does not name $name" >&2; return 1; }
  done
}

@test "the commands in migrating.md work" {
  use_etcd_store
  in_place_of[etcd://e1.example.org]=$DLOCK_STORE
  DLOCK_STORE=local:$here/store
  start_server

  run_page migrating.md
}

@test "the replacements in the tables of migrating.md work" {
  use_etcd_store
  in_place_of[etcd://e1.example.org]=$DLOCK_STORE
  DLOCK_STORE=local:$here/store
  start_server

  run_tables migrating.md 'From flock(1)' 8
  run_tables migrating.md 'From cronlock' 6
  run_tables migrating.md 'From consul lock' 6
  run_tables migrating.md 'From etcdctl lock' 3
  run_tables migrating.md 'From a lock decorator' 3
}

# --- All pages ---

@test "every runnable block is run by one of these tests" {
  local page section
  for page in "$docs"/*.md; do
    page=${page##*/}
    ! grep -q "^  run_page $page\$" "$BATS_TEST_FILENAME" || continue
    while IFS= read -r section; do
      [[ -z $(blocks "$page" 'sh|console|crontab|toml' "$section") ]] ||
        grep -Eq "^  run_page $page '?$section'?\$" "$BATS_TEST_FILENAME" ||
        { echo "no test runs the blocks of $page below \"$section\"" >&2; return 1; }
    done < <(sed -n 's/^## //p' "$docs/$page")
  done
}

# Prints the anchors of a page, as repository hosts derive them from headings.
anchors() {  # <file>
  sed -nE 's/^#+ //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

@test "every link in a page leads to a file or a heading" {
  local page link file anchor count=0
  for page in "$DLOCK_SOURCE"/*.md "$docs"/*.md; do
    while IFS= read -r link; do
      file=${link%%#*} anchor=
      [[ $link != *'#'* ]] || anchor=${link#*#}
      file=${file:+${page%/*}/$file}
      [[ -e ${file:-$page} ]] || { echo "$page: $link does not exist" >&2; return 1; }
      [[ -z $anchor ]] || anchors "${file:-$page}" | grep -qxF -- "$anchor" ||
        { echo "$page: $link names a heading that does not exist" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:')
  done
  ((count > 20))
}

@test "every file that a page names exists" {
  local name count=0
  while IFS= read -r name; do
    compgen -G "$DLOCK_SOURCE/$name*" > /dev/null || { echo "$name does not exist" >&2; return 1; }
    count=$((count + 1))
  done < <(grep -hoP '(?<![\w/])(tests|src|examples|completions|packaging)/[a-z_/-]+(\.[a-z]+)?' \
    "$DLOCK_SOURCE"/*.md "$docs"/*.md | sort -u)
  ((count > 5))
}

@test "the source contains the code that the pages for contributors name" {
  local page name last count=0 source=$BATS_TEST_TMPDIR/source
  # The paths of all files and their lines.
  (cd "$DLOCK_SOURCE" && grep -rI '' src tests cmake CMakePresets.json) > "$source"
  for page in ARCHITECTURE.md CONTRIBUTING.md docs/internals.md docs/glossary.md; do
    while IFS= read -r name; do
      last=${name##*[/:]} last=${last%"()"}
      grep -qF -- "$last" "$source" || { echo "$page: $name is not in the source" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -oE '`[A-Za-z_:/.]+(\(\))?`' "$DLOCK_SOURCE/$page" | tr -d '`' | grep -v VERB | sort -u)
  done
  ((count > 150))
}

# Prints each name that promises.md gives as a guard, after the number of the promise: the title of
# a test in quotation marks; a file, a promise of a model, a model, or a check of chaos without.
guards_of_promises() {
  local line promise
  while IFS= read -r line; do
    case $line in
      '## P'*) promise=${line#'## '} promise=${promise%%.*} ;;
      '- '*) grep -oE '"[^"]+"|`[^`]+`' <<< "$line" | tr -d '`' | sed "s/^/$promise /" ;;
    esac
  done < "$docs/promises.md"
}

exists_as_guard() {  # <name>
  local source=$DLOCK_SOURCE
  case $1 in
    '"'*) grep -qF "@test $1 {" "$source"/tests/{bats,faults}/*.bats ;;
    tests/*) [[ -e $source/$1 ]] ;;
    P*) grep -qF "must($1," "$source"/tests/model/*.pml ;;
    *) [[ -e $source/tests/model/$1.pml ]] || grep -q "^def $1(story" "$source"/tests/chaos/*.py ;;
  esac
}

@test "what promises.md says that guards each promise exists" {
  local promise name count=0
  while read -r promise name; do
    exists_as_guard "$name" || { echo "$promise: there is no $name" >&2; return 1; }
    count=$((count + 1))
  done < <(guards_of_promises)
  ((count > 50))
  assert_equal "$(guards_of_promises | cut -d ' ' -f 1 | uniq | tr '\n' ' ')" "$(printf 'P%s ' {1..12})"
}

@test "each fault in track-record.md names tests that exist" {
  local name count=0
  while IFS= read -r name; do
    case $name in
      '"'*) exists_as_guard "$name" ;;
      *.*) grep -rqF " ${name#*.})" "$DLOCK_SOURCE"/tests/{unit,contract} ;;
      *) grep -q "$name" "$DLOCK_SOURCE"/tests/model/*.pml ;;
    esac || { echo "there is no $name" >&2; return 1; }
    count=$((count + 1))
  done < <(awk -F ' [|] ' '/^[|]/ { print $NF }' "$docs/track-record.md" |
    grep -oE '"[^"]+"|[A-Z][A-Za-z]+\.[a-z_]+|[A-Z]+(_[A-Z]+)+')
  ((count > 25))
}

@test "each check of chaos and each promise of a model or of the simulation has its number in promises.md" {
  local known promise name
  known=$(guards_of_promises)
  while read -r promise name; do
    grep -qxF "$promise $name" <<< "$known" || { echo "promises.md lacks $promise $name" >&2; return 1; }
  done < <(
    grep -ohP 'must\(\KP[0-9]+_\w+' "$DLOCK_SOURCE"/tests/model/*.pml | sed 's/^\([^_]*\)/\1 \1/'
    grep -ohP 'broken\("\KP[0-9]+' "$DLOCK_SOURCE"/tests/simulation/*.cpp | sort -u | sed 's:$: tests/simulation:'
    sed -n '/^CHECKS/,/^}/s/^ *"\(P[0-9]*\)": (\(.*\)),$/\1 \2/p' "$DLOCK_SOURCE/tests/chaos/verdict.py" | tr -d , |
      awk '{ for (i = 2; i <= NF; ++i) print $1, $i }')
}

@test "the newest release in the changelog is the version of a released program, and older than that of another" {
  local newest version
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

@test "the README is short" {
  (($(wc -l < "$DLOCK_SOURCE/README.md") <= 250))
}
