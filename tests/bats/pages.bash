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
# of its block and the language. With a section, only those below that heading. With `sections`,
# prints only the headings above such blocks.
blocks() {  # <page> <languages, as a regular expression> [<section> [sections]]
  awk -v languages="^($2)\$" -v section="${3:-}" -v what="${4:-}" '
    /^```$/ { inside = 0 }
    inside && what == "" { print number, language, $0 }
    !inside && /^## / { heading = substr($0, 4) }
    /^```[a-z]/ {
      language = substr($0, 4)
      ++number
      inside = language ~ languages && before !~ /^<!-- not run: / && (section == "" || section == heading)
      if (inside && what != "" && !(heading in told)) { told[heading]; print heading }
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

# Sets $runnable to a text with its names replaced, and creates stubs for the scripts that it calls.
make_runnable() {  # <text>
  local name rest
  runnable=$1
  for name in "${!in_place_of[@]}"; do runnable=${runnable//"$name"/"${in_place_of[$name]}"}; done
  [[ -d $here/place ]] || mkdir "$here/place"
  rest=$runnable
  while [[ $rest =~ (\./[a-z-]*(\.sh)?)(.*) ]]; do
    name=$here/place/${BASH_REMATCH[1]} rest=${BASH_REMATCH[3]}
    [[ -e $name ]] || stub "$name"
  done
  rest=$runnable
  while [[ $rest =~ ("$stubs"/[a-z-]*\.sh)(.*) ]]; do
    name=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]}
    [[ -e $name ]] || stub "$name"
  done
}

# --- Running a page ---

# Runs a script, for at most two minutes. It has to exit with 0, or with a status up to the one given.
run_script() {  # <text> [<greatest status>]
  local script=$here/script status=0 runnable head=$'#!/bin/bash\nset -eo pipefail\n'
  make_runnable "$1"
  [[ $1 != '#!'* ]] || head=
  printf '%s\n' "$head$runnable" > "$script"
  [[ -x $script ]] || chmod +x "$script"
  (cd "$here/place" && PATH=$stubs:$PATH exec timeout 120 "$script" > "$here/said" 2>&1 3>&-) || status=$?
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
      while IFS= read -r command; do
        [[ $command != '$ '* ]] || run_script "${command#'$ '}" 1 || return
      done <<< "$2" ;;
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
  local number language line last=0
  local -A text=() language_of=()
  stub "$stubs"/{make,curl,mail,logger,upload}
  while IFS=' ' read -r number language line; do
    text[$number]+=${text[$number]:+$'\n'}$line
    language_of[$number]=$language
    last=$number
  done < <(blocks "$1" 'sh|console|crontab|toml' "${2:-}")
  ((last > 0)) || { echo "nothing to run in $1 ${2:-}" >&2; return 1; }
  for ((number = 1; number <= last; ++number)); do
    [[ -z ${text[$number]:-} ]] || run_block "${language_of[$number]}" "${text[$number]}" || return
  done
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
