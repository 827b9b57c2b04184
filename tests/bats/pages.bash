# Helpers for the tests of the pages in docs/: they extract the blocks of code from a page and
# run them. They need support.bash and redis.bash.
# shellcheck disable=SC2016,SC2034,SC2154  # text for others; server_pid is for kill_leftovers

# For `setup`.
prepare_pages() {
  docs=$DLOCK_SOURCE/docs
  here=$BATS_TEST_TMPDIR
  stubs=$here/stubs
  calls=$here/calls
  mkdir "$stubs"
  export CALLS=$calls
  # Names in a page, and what the test puts in their place.
  declare -gA in_place_of=(
    [/usr/local/bin]=$stubs
    [/srv/locks]=$here/shared
    ['-g deploy']="-g $(id -g)"
    ['--jitter 30s']='--jitter 30ms'
    ['--jitter 10s']='--jitter 10ms'
    ['--splay 30s']='--splay 30ms'
  )
}

# --- Reading a page ---

# Prints the runnable blocks of a page in one of these languages, each line after the number
# of its block and the language. With a section, only those below that heading.
blocks() {  # <page> <languages, as a regular expression> [<section>]
  awk -v languages="^($2)\$" -v section="${3:-}" '
    /^```$/ { inside = 0 }
    inside { print number, language, $0 }
    !inside && /^## / { heading = substr($0, 4) }
    /^```[a-z]/ {
      language = substr($0, 4)
      ++number
      inside = language ~ languages && before !~ /^<!-- not run: / && (section == "" || section == heading)
    }
    { before = $0 }' "$docs/$1"
}

# Prints the commands in the second column of the tables of a page.
commands_of_tables() {  # <page> <section>
  awk -v section="$2" '/^## / { heading = substr($0, 4) } heading == section && /^\|/' "$docs/$1" |
    awk -F ' [|] ' '{ print $2 }' | grep -o '`dlock [^`]*`' | tr -d '`'
}

# --- Stubs and servers ---

# Creates commands that record their names and arguments.
stub() {  # <path>...
  local path
  for path; do
    printf '#!/bin/sh\necho "${0##*/} $*" >> "$CALLS"\n' > "$path"
    chmod +x "$path"
  done
}

# Starts a server with the settings that operating.md gives, in the place of db.example.org.
start_server() {
  local socket=$here/server.socket
  blocks operating.md conf | cut -d ' ' -f 3- > "$here/server.conf"
  "$redis_program" "$here/server.conf" --port 0 --unixsocket "$socket" \
    --dir "$here" --save '' > "$here/server.log" 2>&1 3>&- &
  server_pid=$!
  answers() { [[ $(redis-cli -s "$socket" PING) == PONG ]]; }
  eventually answers || return
  in_place_of[redis://db.example.org]=redis+unix:$socket
  printf '#!/bin/sh\nexec %s -s %s "$@"\n' "$(command -v redis-cli)" "$socket" > "$stubs/redis-cli"
  chmod +x "$stubs/redis-cli"
}

# Prints a text with its names replaced, and creates stubs for the scripts that it calls.
made_runnable() {  # <text>
  local text=$1 name
  for name in "${!in_place_of[@]}"; do text=${text//"$name"/"${in_place_of[$name]}"}; done
  mkdir -p "$here/place"
  while read -r name; do
    [[ -e $here/place/$name ]] || stub "$here/place/$name"
  done < <(grep -o '\./[a-z-]*\(\.sh\)\?' <<< "$text" || true)
  while read -r name; do
    [[ -e $name ]] || stub "$name"
  done < <(grep -o "$stubs/[a-z-]*\.sh" <<< "$text" || true)
  printf '%s\n' "$text"
}

# --- Running a page ---

# Runs a script, for at most 20 s. It has to exit with 0, or with a status up to the one given.
run_script() {  # <text> [<greatest status>]
  local script=$here/script status=0
  made_runnable "$1" > "$script"
  [[ $1 == '#!'* ]] || sed -i '1i #!/bin/bash\nset -eo pipefail' "$script"
  chmod +x "$script"
  (cd "$here/place" && PATH=$stubs:$PATH timeout 20 "$script" > "$here/said" 2>&1 3>&-) || status=$?
  ((status <= ${2:-0})) && return
  printf 'ended with %s:\n%s\nand said:\n%s\n' "$status" "$(< "$script")" "$(< "$here/said")" >&2
  return 1
}

# Runs one block by its language.
run_block() {  # <language> <text>
  local command
  case $1 in
    sh) run_script "$2" ;;
    console) # 1 is an answer: no, or warnings
      while IFS= read -r command; do run_script "$command" 1 || return; done < <(sed -n 's/^\$ //p' <<< "$2") ;;
    crontab)
      while read -r _ _ _ _ _ command; do run_script "$command" || return; done <<< "$2" ;;
    toml)
      mkdir -p "$here/etc"
      (umask 077 && echo secret > "$here/etc/password" && touch "$here/etc/ca.pem")
      printf '%s\n' "$2" > "$here/etc/config.toml"
      run_script "dlock config --config $here/etc/config.toml nightly-job" ;;
  esac
}

# Runs all runnable blocks of a page, in order. There has to be at least one.
run_page() {  # <page> [<section>]
  local block text language count=0
  stub "$stubs"/{make,curl,mail,logger,upload}
  while read -r block language; do
    text=$(blocks "$1" "$language" "${2:-}" | sed -n "s/^$block $language \{0,1\}//p")
    run_block "$language" "$text" || return
    count=$((count + 1))
  done < <(blocks "$1" 'sh|console|crontab|toml' "${2:-}" | cut -d ' ' -f 1,2 | uniq)
  ((count > 0)) || { echo "nothing to run in $1 ${2:-}" >&2; return 1; }
}

# Runs the commands in the tables below a heading. Their number has to be the given one.
run_tables() {  # <page> <section> <number of commands>
  local command count=0
  while IFS= read -r command; do
    command=${command//COMMAND/true}
    command=${command//LINE/true}
    run_script "${command//NAME/job$count}" || return
    count=$((count + 1))
  done < <(commands_of_tables "$1" "$2")
  assert_equal "$count" "$3"
}
