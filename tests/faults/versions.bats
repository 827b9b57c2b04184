#!/usr/bin/env bats
# A fleet is upgraded host by host: 0.2.0 and this version share their locks, on each kind of store that both
# have. tests/CMakeLists.txt runs this file on each. 0.2.0 is built once, in build/dlock-0.2.0.
# docs/compatibility.md has what 0.2.0 cannot read.
# shellcheck disable=SC2034  # what the helpers and the tests set for each other

release_0_2_0=e2262e993b11a7870f859d735e81b1c08c43f7a5

# Without sanitizers and optimisation, which takes the least time.
build_0_2_0() {
  local root=$DLOCK_SOURCE/build/dlock-0.2.0
  [[ ! -x $root/build/dlock ]] || return 0
  git -C "$DLOCK_SOURCE" cat-file -e "$release_0_2_0^{commit}" 2> /dev/null || return 0
  mkdir -p "$root/source"
  (
    exec {lock}< "$root" && flock "$lock"
    [[ ! -x $root/build/dlock ]] || exit 0
    git -C "$DLOCK_SOURCE" archive "$release_0_2_0" | tar -x -C "$root/source" &&
      cmake -G Ninja -S "$root/source" -B "$root/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
        -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 && cmake --build "$root/build" --target dlock
  ) > "$BATS_FILE_TMPDIR/log" 2>&1 3>&- || { cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
}

setup_file() {
  load ../bats/support
  build_0_2_0
}

setup() {
  load ../bats/support
  [[ -x $DLOCK_SOURCE/build/dlock-0.2.0/build/dlock ]] || skip 'the history of the repository is not here'
  use_private_store
  EVENTUALLY_MS=60000
  mkdir "$BATS_TEST_TMPDIR/old" "$BATS_TEST_TMPDIR/new"
  ln -s "$DLOCK_SOURCE/build/dlock-0.2.0/build/dlock" "$BATS_TEST_TMPDIR/old/dlock"
  ln -s "$DLOCK_BIN" "$BATS_TEST_TMPDIR/new/dlock"
  path=$PATH
}

# From now on `dlock`, also in the helpers, is this version.
use() { PATH=$BATS_TEST_TMPDIR/$1:$path; }  # <old|new>
other() { case $1 in old) echo new ;; new) echo old ;; esac; }

@test "the two programs are 0.2.0 and a later one" {
  use old
  run dlock --version
  assert_equal "$output" 'dlock 0.2.0'
  use new
  run dlock --version
  [[ $output != *' 0.2.0' ]]
}

@test "runs of both versions have one lock one at a time, with growing fences" {
  local i runs=()
  for i in {1..5}; do
    for version in old new; do
      use "$version"
      # The directory can be made by one at a time.
      dlock run --wait 60s job -- sh -c 'mkdir "$0.one" && echo "$DLOCK_FENCE" >> "$0" && rmdir "$0.one"' "$began" 3>&- &
      runs+=("$!")
    done
  done
  for i in "${runs[@]}"; do assert_exits 0 "$i"; done

  assert_equal "$(wc -l < "$began")" 10
  assert_equal "$(sort -n -u "$began")" "$(< "$began")"
}

@test "each version waits for a holder of the other, shows it, and gets its turn" {
  local version
  for version in old new; do
    use "$version"
    hold "$version" --label from=here
    use "$(other "$version")"
    run dlock run "$version" -- true
    assert_status 75
    assert_equal "$(look "$version" '.holders[0] | "\(.pid) \(.label)"')" "$holder from=here"
    queue "$version" -- touch "$began.$version"
    use "$version"
    is_queued "$version" "$waiter"
    let_go
    assert_exits 0 "$waiter"
    [[ -e $began.$version ]]
    assert_exits 0 "$holder"
  done
}

@test "each version breaks a lock of the other, whose run is lost" {
  local version
  for version in old new; do
    use "$version"
    hold "$version" --kill-after 1s
    use "$(other "$version")"
    run dlock break --yes "$version"
    assert_status 0
    assert_exits 76 "$holder"
    eventually is_free "$version"
    run dlock run --wait 60s "$version" -- true
    assert_status 0
  done
}

@test "a run of one version counts for --dedupe of the other" {
  local version
  for version in old new; do
    use "$version"
    dlock run --dedupe 1h "$version" -- true
    use "$(other "$version")"
    run dlock run --dedupe 1h "$version" -- touch "$began"
    assert_status 0
    [[ ! -e $began ]]
  done
}

# Each version holds one of two places, and no version gets another.
share() {  # <name> <option that admits both>... -- <option of the refused>...
  local name=$1 admitting=() first version
  shift
  while [[ $1 != -- ]]; do admitting+=("$1") && shift; done
  shift
  use old
  hold "$name" "${admitting[@]}"
  first=$holder
  use new
  hold "$name" "${admitting[@]}"
  for version in old new; do
    use "$version"
    run dlock run "$@" "$name" -- true
    assert_status 75
    assert_equal "$(look "$name" '.holders | length')" 2
  done
  let_go "$first"
  assert_exits 0 "$first"
  let_go
  assert_exits 0 "$holder"
  run dlock run --wait 60s "$name" -- true
  assert_status 0
}

@test "both versions share readers, and slots where the store has them" {
  share book --shared --
  [[ ${DLOCK_TEST_STORE:-} == quorum ]] || share pool --slots 2 -- --slots 2
}

@test "a lease that one version acquired is checked, renewed and released by the other" {
  local version
  for version in old new; do
    use "$version"
    eval "$(dlock acquire --export --ttl 60s "$version")"
    use "$(other "$version")"
    dlock check "$version"
    dlock renew --ttl 70s "$version"
    run dlock run "$version" -- true
    assert_status 75
    dlock release "$version"
    unset DLOCK_NAME DLOCK_TOKEN DLOCK_FENCE
    run dlock run --wait 60s "$version" -- true
    assert_status 0
  done
}

@test "limits count the admissions of both versions" {
  use old
  if [[ ${DLOCK_TEST_STORE:-} == @(etcd|quorum) ]]; then
    run dlock limit api 2/1h
    assert_status 78
    return
  fi
  dlock limit api 2/1h
  use new
  dlock limit api 2/1h
  for version in old new; do
    use "$version"
    run dlock limit api 2/1h
    assert_status 75
  done
}

@test "list and history of each version have the runs of both" {
  local version
  for version in old new; do
    use "$version"
    run dlock run "by-$version" -- sh -c 'exit 3'
    assert_status 3
  done
  for version in old new; do
    use "$version"
    run dlock list --json
    assert_equal "$(json 'map("\(.name) \(.last_run.exit_code)") | sort | join(", ")')" 'by-new 3, by-old 3'
    for name in by-old by-new; do
      run dlock history --json "$name"
      assert_equal "$(json '.[0].exit_code')" 3
    done
  done
}

@test "what 0.2.0 cannot read is a refusal that harms nothing" {
  local refused
  use new
  hold job
  dlock acquire --wait 60s --ttl 60s job > "$BATS_TEST_TMPDIR/token" 3>&- &
  refused=$!
  eventually somebody_waits job
  use old
  run dlock run job -- touch "$began"
  if [[ ${DLOCK_TEST_STORE:-local} == local ]]; then
    assert_status 78
    assert_output_contains damaged
  else
    assert_status 75
  fi
  [[ ! -e $began ]]
  use new
  let_go
  assert_exits 0 "$holder"
  assert_exits 0 "$refused"
  use old
  DLOCK_TOKEN=$(< "$BATS_TEST_TMPDIR/token") dlock release job
  run dlock run --wait 60s job -- true
  assert_status 0
}
