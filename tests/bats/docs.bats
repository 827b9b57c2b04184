#!/usr/bin/env bats
# The commands in docs/ work as they stand there, with commands of the test's own behind the
# names, and the test's own servers behind the hosts. A block that cannot run here has
# `<!-- not run: why -->` before it.
# shellcheck disable=SC2154  # from the helpers: docs, here, stubs, calls, in_place_of, least_rights

setup() {
  load support
  load etcd
  load ../faults/redis
  load ../faults/sides
  load ../faults/sentinel
  load ../faults/cluster
  load ../faults/quorum
  load pages
  prepare_pages
}

teardown() {
  stop_fleet
  stop_etcd
  kill_leftovers
}

# --- The pages ---

# Asserts that the page has all checks that doctor makes of this store.
assert_checks_are_in_operating_md() {
  local check checks
  run dlock doctor --json
  checks=$(json '.findings[].check')
  [[ -n $checks ]]
  for check in $checks; do
    grep -q "^|[^|]*\`$check\`" "$docs/operating.md" ||
      { echo "operating.md does not have the check $check" >&2; return 1; }
  done
}

@test "what using.md shows" {
  use_private_store
  start_server

  run_page using.md
}

@test "what using.md says of hooks comes true" {
  local line lines
  use_private_store
  mkdir "$here/work"
  stub "$stubs"/{mail,curl,logger} "$here/work/backup.sh"
  mapfile -t lines < <(grep -E '^dlock run --on-(failure|success|busy) ' "$docs/using.md")
  assert_equal "${#lines[@]}" 3

  for line in "${lines[@]}"; do
    [[ $line != *--on-failure* ]] || line=${line/.\/backup.sh/false}
    [[ $line != *--on-busy* ]] || line="dlock run backup -- $line"
    run_script "$line" 75
  done

  grep -qx 'mail -s backup: ran 1 root' "$calls"
  grep -qx 'curl -fsS -m 10 https://monitor.example.org/ping/backup' "$calls"
  grep -qx 'logger -t backup is still held on ' "$calls"
}

@test "the script of using.md holds the lock by hand" {
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

@test "what stores.md shows" {
  use_private_store
  start_server

  run_page stores.md
}

@test "what security.md shows" {
  use_private_store

  run_page security.md
}

@test "what operating.md shows of Redis, directories and passwords" {
  use_private_store
  start_server

  run_section operating.md 'Check a store'
  run_section operating.md 'Redis and Valkey'
  run_section operating.md 'A directory that users share'
  run_section operating.md 'Passwords and TLS'
}

@test "a server with the settings of operating.md is one that doctor has nothing against" {
  use_private_store
  start_server

  run dlock doctor --store "${in_place_of[redis://db.example.org]}" --json

  assert_status 0
  assert_equal "$(json '.level')" ok
}

@test "the example of doctor has the checks that it makes" {
  use_private_store
  start_server

  run dlock doctor --store "${in_place_of[redis://db.example.org]}"

  assert_equal "$(awk '$1 ~ /^(ok|info|warning)$/ { print $2 }' <<< "$output" | LC_ALL=C sort | uniq)" \
    "$(blocks operating.md console | awk '$3 ~ /^(ok|warning)$/ { print $4 }' | LC_ALL=C sort)"
}

@test "operating.md has the checks of one server and of a directory" {
  use_private_store
  start_server
  dlock run job -- true

  assert_checks_are_in_operating_md
  DLOCK_STORE=${in_place_of[redis://db.example.org]} assert_checks_are_in_operating_md
}

@test "the permissions in operating.md are the least ones" {
  assert_equal "$(blocks operating.md sh 'Redis and Valkey' | grep -A 6 'SETUSER jobs on' | cut -d ' ' -f 3- |
    sed '1s/.*PASSWORD.//' | grep -o "[-+~&][a-z@|:*-]*\|reset[a-z]*" | LC_ALL=C sort)" \
    "$(tr -s ' ' '\n' <<< "$least_rights" | LC_ALL=C sort)"
}

@test "what operating.md shows of Sentinel, and its checks" {
  use_sentinel_store
  in_place_of[redis+sentinel://s1.example.org,s2.example.org,s3.example.org/main]=$DLOCK_STORE

  run_section operating.md Sentinel
  assert_checks_are_in_operating_md
}

@test "what operating.md shows of a cluster, and its checks" {
  use_cluster_store
  in_place_of[redis+cluster://c1.example.org,c2.example.org,c3.example.org]=$DLOCK_STORE

  run_section operating.md Cluster
  assert_checks_are_in_operating_md
}

@test "what operating.md shows of a quorum, and its checks" {
  use_quorum_store 3
  in_place_of[redis+quorum://q1.example.org,q2.example.org,q3.example.org]=$DLOCK_STORE

  run_section operating.md 'A quorum'
  assert_checks_are_in_operating_md
}

@test "what operating.md shows of etcd, and its checks" {
  use_etcd_store
  in_place_of[etcd://e1.example.org,e2.example.org,e3.example.org]=$DLOCK_STORE

  run_section operating.md etcd
  assert_checks_are_in_operating_md
}

@test "what migrating.md shows" {
  use_etcd_store
  in_place_of[etcd://e1.example.org]=$DLOCK_STORE
  DLOCK_STORE=local:$here/store
  start_server

  run_page migrating.md
}

@test "the commands that migrating.md has in the place of others" {
  use_etcd_store
  in_place_of[etcd://e1.example.org]=$DLOCK_STORE
  DLOCK_STORE=local:$here/store
  start_server

  run_tables migrating.md 'From flock(1)' 7
  run_tables migrating.md 'From cronlock' 6
  run_tables migrating.md 'From consul lock' 6
  run_tables migrating.md 'From etcdctl lock' 3
  run_tables migrating.md 'From a lock decorator' 3
}

# --- All of them ---

@test "each block that can run is run by one of these tests" {
  local page section
  for page in "$docs"/*.md; do
    page=${page##*/}
    ! grep -q "^  run_page $page\$" "$BATS_TEST_FILENAME" || continue
    while IFS= read -r section; do
      [[ -z $(blocks "$page" 'sh|console|crontab|toml' "$section") ]] ||
        grep -Eq "^  run_section $page '?$section'?\$" "$BATS_TEST_FILENAME" ||
        { echo "nothing runs what $page has below \"$section\"" >&2; return 1; }
    done < <(sed -n 's/^## //p' "$docs/$page")
  done
}

# Prints the anchors of a page, as the hosts of repositories make them of headings.
anchors() {  # <file>
  sed -nE 's/^#+ //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

@test "the links of all pages lead somewhere" {
  local page link file anchor count=0
  for page in "$DLOCK_SOURCE"/*.md "$docs"/*.md; do
    while IFS= read -r link; do
      file=${link%%#*} anchor=
      [[ $link != *'#'* ]] || anchor=${link#*#}
      file=${file:+${page%/*}/$file}
      [[ -e ${file:-$page} ]] || { echo "$page: $link is not there" >&2; return 1; }
      [[ -z $anchor ]] || anchors "${file:-$page}" | grep -qxF -- "$anchor" ||
        { echo "$page: $link has no such heading" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:\|pictures/')
  done
  ((count > 20))
}

@test "the programs that the pages name are in the tree" {
  local name count=0
  while IFS= read -r name; do
    [[ -e $DLOCK_SOURCE/$name ]] || { echo "$name is not there" >&2; return 1; }
    count=$((count + 1))
  done < <(grep -hoE '\b(tests|src|examples|completions|packaging)/[a-z_/-]+(\.[a-z]+)?' \
    "$DLOCK_SOURCE"/{README,RELEASING,SECURITY}.md "$docs"/[!i]*.md | sort -u)
  ((count > 5))
}

@test "the newest release in the changelog is the version of the program" {
  use_private_store

  run dlock --version

  assert_equal "$output" \
    "dlock $(sed -nE 's/^## \[([0-9.]+)\] - [0-9-]{10}$/\1/p' "$DLOCK_SOURCE/CHANGELOG.md" | head -n 1)"
}

@test "the README is short" {
  (($(wc -l < "$DLOCK_SOURCE/README.md") <= 250))
}
