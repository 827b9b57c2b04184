# Helpers for container.bats: build the image of Containerfile, and run it as an engine does. They
# need support.bash. With buildah and podman where these work, otherwise by hand.
# shellcheck disable=SC2016,SC2034,SC2154  # text for others; for and from the tests

images=(--root "$BATS_FILE_TMPDIR/images" --runroot "$BATS_FILE_TMPDIR/engine" --storage-driver vfs)
# The image as a directory, and its configuration, if it was built by hand.
image_by_hand=$BATS_FILE_TMPDIR/by-hand/image
config_by_hand=$BATS_FILE_TMPDIR/by-hand/config.json

# --- Building ---

# Makes the archive that packaging/release makes of the program under test, as far as the image
# needs it. Sets $version, $release (its directory) and $context (where the image is built).
prepare_release() {
  local name
  export version release context=$BATS_FILE_TMPDIR/context
  version=$("$DLOCK_BIN" --version | cut -d ' ' -f 2)
  name=dlock-$version-linux-$(dpkg --print-architecture)
  release=$BATS_FILE_TMPDIR/$name
  mkdir -p "$release/bin" "$release/share/doc/dlock" "$context"
  strip -o "$release/bin/dlock" "$DLOCK_BIN"
  cp "$DLOCK_SOURCE/LICENSE" "$release/share/doc/dlock"
  gzip < "$DLOCK_SOURCE/LICENSE" > "$release/share/doc/dlock/third-party.gz"
  echo '{}' > "$release/share/doc/dlock/dlock.spdx.json"
  tar -C "$BATS_FILE_TMPDIR" --owner=0 --group=0 -I 'gzip -1' -cf "$context/$name.tar.gz" "$name"
  cp /etc/ssl/certs/ca-certificates.crt "$context"
}

# Sets $built_by and $run_by to what builds and runs the image here.
build_image() {
  export built_by=hand run_by=hand engine_options=''
  if buildah "${images[@]}" from --name trial scratch > /dev/null 2>&1; then
    built_by=buildah
    build_with_buildah > "$BATS_FILE_TMPDIR/log" 2>&1 || { cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
    # The runtime that podman prefers may not know the cgroups of this machine.
    for engine_options in '' '--cgroup-manager cgroupfs' "--runtime $(type -P runc) --cgroup-manager cgroupfs"; do
      ! run_with_podman --rm dlock --version > /dev/null 2>&1 || { run_by=podman && break; }
    done
  fi
  [[ $run_by == podman ]] || build_by_hand
  echo "# the image was built by $built_by, and its containers are run by $run_by" >&3
}

# As the head of the file says, for this version.
build_with_buildah() {
  local words
  read -ra words < <(sed -n 's/^#   buildah bud //p' "$DLOCK_SOURCE/Containerfile")
  words=("${words[@]/#VERSION=*/VERSION=$version}")
  words[-1]=$context
  (cd "$DLOCK_SOURCE" && buildah "${images[@]}" bud --isolation chroot "${words[@]}")
}

# Does what the instructions of Containerfile say.
build_by_hand() {
  local instruction rest words sources stage from labels=() user entrypoint
  while read -r instruction rest; do
    rest=${rest//'${VERSION}'/$version} rest=${rest//'${TARGETARCH}'/$(dpkg --print-architecture)}
    read -ra words <<< "$rest"
    case $instruction in
      FROM) stage=${image_by_hand%/*}/${words[2]:-image} && mkdir -p "$stage" ;;
      ADD) tar -C "$stage${words[1]}" --no-same-owner -xzf "$context/${words[0]}" ;;
      COPY)
        from=$context/
        [[ ${words[0]} != --from=* ]] || { from=${image_by_hand%/*}/${words[0]#*=} && words=("${words[@]:1}"); }
        mkdir -p "$stage${words[-1]}"
        sources=("${words[@]:0:${#words[@]}-1}")
        cp "${sources[@]/#/$from}" "$stage${words[-1]}" ;;
      LABEL) eval "labels=($rest)" ;;
      USER) user=$rest ;;
      ENTRYPOINT) entrypoint=$rest ;;
      ARG | '#'* | '') ;;
      *) echo "Containerfile: $instruction is not known here" >&2 && return 1 ;;
    esac
  done < <(sed -e ':more' -e '/\\$/N; s/\\\n */ /; t more' "$DLOCK_SOURCE/Containerfile")
  jq -n --arg user "$user" --argjson entrypoint "$entrypoint" '{User: $user, Entrypoint: $entrypoint,
    Labels: [$ARGS.positional[] | capture("(?<key>[^=]*)=(?<value>.*)")] | from_entries}' \
    --args "${labels[@]}" > "$config_by_hand"
  mkdir "$image_by_hand"/{locks,proc}
}

remove_image() {
  [[ ${built_by:-} != buildah ]] || buildah "${images[@]}" rm --all > /dev/null
}

# --- Looking ---

root_of_image() {
  if [[ $built_by == hand ]]; then
    echo "$image_by_hand"
  else
    buildah "${images[@]}" mount "$(buildah "${images[@]}" from --pull-never dlock)"
  fi
}

files_of_image() { find "$(root_of_image)" ! -type d -printf '%P\n' | LC_ALL=C sort; }

config_of_image() {
  if [[ $built_by == hand ]]; then
    cat "$config_by_hand"
  else
    buildah "${images[@]}" inspect --type image dlock | jq .OCIv1.config
  fi
}

# --- Running ---

# Its limits are those that any user may set, its root directory is read-only, and it has no /tmp.
run_with_podman() {  # <option or argument>...
  # shellcheck disable=SC2086  # options
  podman "${images[@]}" $engine_options run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network none \
    --read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges \
    --env DLOCK_TEST_ID="${DLOCK_TEST_ID:-}" "$@" 3>&-
}

run_by_hand() {  # <argument>...
  unshare --mount --propagation private --pid --fork --kill-child --ipc --uts --net sh -c '
    mount --bind "$1" "$1" && cd "$1" && mount --bind "$2" locks && mount -t proc proc proc &&
      mount -o remount,bind,ro "$1" && user=$3 && shift 3 && exec chroot --userspec="$user" --groups= . "$@"' - \
    "$image_by_hand" "$volume" "$(jq -r .User "$config_by_hand")" \
    "$(jq -r '.Entrypoint[0]' "$config_by_hand")" "$@"
}

# Runs a container of the image with $volume at /locks. (`run_by` decides.)
run_image() {  # <argument>...
  if [[ $run_by == podman ]]; then run_with_podman --rm -v "$volume:/locks" dlock "$@"; else run_by_hand "$@"; fi
}

# The same in the background.
start_image() {  # <argument>...
  if [[ $run_by == podman ]]; then
    runs_in_background=1
    run_with_podman -d --name started -v "$volume:/locks" dlock "$@" > /dev/null
  else
    run_by_hand "$@" 3>&- &
    outside=$!
  fi
}

# As `docker stop`: TERM for process 1, and KILL if it still runs after that time.
stop_image() {  # <seconds>
  if [[ $run_by == podman ]]; then
    podman "${images[@]}" stop --time "$1" started > /dev/null
  else
    stop_first "$(first_of "$outside")" "$1"000
  fi
}

# Prints the pid of process 1 of a container that was started in the background: the child of unshare.
first_of() { pgrep -P "$(pgrep -P "$1")"; }  # <pid of the background job>

# Sends process 1 of a container TERM, and KILL if it still runs after that time.
stop_first() {  # <pid> <milliseconds>
  kill -TERM "$1"
  EVENTUALLY_MS=$2 eventually has_ended "$1" 2> /dev/null || kill -KILL "$1"
}

remove_containers() {
  [[ -z ${runs_in_background:-} ]] || podman "${images[@]}" rm --all --force > /dev/null 2>&1 || true
}
