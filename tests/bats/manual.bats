#!/usr/bin/env bats
# The program, its manual and its completions agree.
#
# Everything is compared with the tables in src/: the names of options, their letters and
# values, the statuses. The tables are read as text. If their format changes, the first test
# fails.
# shellcheck disable=SC2086  # words

# What the tests read again and again is read from the tables once.
setup_file() {
  load support
  local verb
  mkdir "$BATS_FILE_TMPDIR/statuses"
  manual=$DLOCK_SOURCE/man
  verbs_in_source > "$BATS_FILE_TMPDIR/verbs"
  common_options > "$BATS_FILE_TMPDIR/common"
  for verb in $(verbs); do
    options_in_source_of "$verb" > "$BATS_FILE_TMPDIR/options-of-$verb"
    sort "$BATS_FILE_TMPDIR/common" "$BATS_FILE_TMPDIR/options-of-$verb" \
      > "$BATS_FILE_TMPDIR/all-options-of-$verb"
    all_options_of "$verb" | spellings > "$BATS_FILE_TMPDIR/spellings-of-$verb"
    find_page_of "$verb" > "$BATS_FILE_TMPDIR/page-of-$verb"
    "$DLOCK_BIN" "$verb" --help | sed '1,/^Exit codes/d' |
      sed -nE 's/^  ([0-9]+) +[^ ].*/\1/p' > "$BATS_FILE_TMPDIR/statuses/$verb"
  done
}

setup() {
  load support
  use_private_store
  manual=$DLOCK_SOURCE/man
}

# Prints the initializer of a constant array, on one line.
table() {  # <file> <name>
  sed -n "/constexpr .* $2\[\] = {/,/^};/p" "$DLOCK_SOURCE/$1" | tr -s '\n ' ' '
}

# Prints the options in rows of src/cli/args/option_table.cpp: name, letter or -, value or -.
options_in() {  # <table> [<verb as in the source>]
  table src/cli/args/option_table.cpp "$1" |
    grep -oE '\{"[a-z-]+", ?(0|'\''.'\''), ?"[^"]*", ?"[^"]*", ?(every_verb|of\([a-z_, ]+\)),' |
    grep -E "every_verb|[( ]${2:-}[,)]" |
    sed -E -e 's/^\{"([a-z-]+)", ?0, ?/\1 - /' \
      -e 's/^\{"([a-z-]+)", ?'\''(.)'\'', ?/\1 \2 /' \
      -e 's/"([^"]*)", ?"[^"]*", ?[eo].*$/\1/' -e 's/ $/ -/' | sort
}

# Prints the common options, including the two that the parser adds itself.
common_options() {
  {
    options_in common_rows
    echo 'help h -'
    echo 'version - -'
  } | sort
}

verbs_in_source() {
  table src/cli/verbs/verbs.cpp verbs | grep -oE '\.usage = "[a-z]+' | sed 's/.*"//' | sort
}

options_in_source_of() {  # <verb>
  case $1 in
    break) options_in own_rows break_lock ;;
    *) options_in own_rows "$1" ;;
  esac
}

# Prints a file that setup_file wrote, without a process.
written() {  # <name>
  local text
  IFS= read -r -d '' text < "$BATS_FILE_TMPDIR/$1" || [[ -e $BATS_FILE_TMPDIR/$1 ]] || return
  printf %s "$text"
}

verbs() { written verbs; }

# Prints the options that only this verb has.
options_of() { written "options-of-$1"; }  # <verb>

# Prints all options that this verb accepts.
all_options_of() { written "all-options-of-$1"; }  # <verb>
spellings_of() { written "spellings-of-$1"; }      # <verb>

statuses() {
  sed -n '/^enum class ExitStatus/,/^};/s/^ *[a-z_]* = \([0-9]*\),.*/\1/p' \
    "$DLOCK_SOURCE/src/cli/args/verb_table.hpp" | sort -n
}

# Prints the words that an option accepts, in their order.
words_of() {  # <table of src/cli/args/option_table.cpp>
  sed -n "/constexpr .* $1\[\] = {/,/};/p" "$DLOCK_SOURCE"/src/cli/args/option_table.cpp |
    grep -oE '\{"[a-z]+"' | tr -d '{"' | paste -sd ' '
}

# Prints the statuses that --help of these verbs explains, each on its own line.
statuses_in_help() {  # <verb>...
  local verb
  for verb; do written "statuses/$verb" || return; done
}

# Prints the source of a section of the manual, or of a subsection: of one page, or of all.
section() {  # <title> [<page>]
  awk -v title="$1" '
    FNR == 1 || /^\.S[hs] / { inside = (substr($0, 5) == title); next }
    inside' "$manual"/${2:-dlock*}
}

# Prints the source of a section with its subsections.
whole_section() {  # <title> <page>
  awk -v title="$1" '
    /^\.Sh / { inside = (substr($0, 5) == title); next }
    inside' "$manual/$2"
}

# Prints the name of the page about a verb.
page_of() { written "page-of-$1"; }  # <verb>
find_page_of() {  # <verb>
  if [[ $1 == help ]]; then echo dlock.1; else (cd "$manual" && grep -lxE "\.Nm dlock-$1( ,)?" -- *); fi
}

# Prints the source of what the manual says about the options of a verb.
options_of_page() {  # <verb>
  local page
  page=$(page_of "$1") || return
  if [[ $page == "dlock-$1.1" && $(grep -cE '^\.Nm dlock-[a-z]+( ,)?$' "$manual/$page") == 1 ]]; then
    whole_section OPTIONS "$page"
  else
    section "Options of $1" "$page"
  fi
}

# Prints the options in the source of a list, as options_in does.
options_listed() {
  sed -nE \
    -e 's/^\.It Fl (.) , Fl -([a-z-]+)( Ar (.*))?$/\2 \1 \4/p' \
    -e 's/^\.It Fl -([a-z-]+)( Ar (.*))?$/\1 - \3/p' | sed 's/ $/ -/' | sort
}

# Prints the names of the options in the source of a list, without those for which it refers to another list.
options_described() {
  awk '
    /^\.It / { sub(/ Ar .*/, ""); sub(/.* -/, ""); names = names " " $0; next }
    names != "" { if (!/^(\.No )?As (in|of)( |$)/) print names; names = "" }' | tr -s ' ' '\n'
}

# Prints the options that a help lists, as options_in does.
options_in_help() {
  sed -nE \
    -e 's/^  -(.),--([a-z-]+)( ([A-Z=]+))?  .*/\2 \1 \4/p' \
    -e 's/^  --([a-z-]+)( ([A-Z=]+))?  .*/\1 - \3/p' | sed 's/ $/ -/' | sort
}

# Prints the spellings of options, as shells complete them: long ones and letters.
spellings() {
  awk '{ print "--" $1; if ($2 != "-") print "-" $2 }' | sort
}

# Prints the keys of an object in JSON or in the manual.
keys() { grep -oE '"[a-z_]+" ?:' | tr -d '": ' | sort -u; }

@test "the tables of options, verbs and statuses can be read" {
  assert_equal "$(options_in common_rows | grep -c .)" \
    "$(table src/cli/args/option_table.cpp common_rows | grep -o '{"' | grep -c .)"
  assert_equal "$(options_in own_rows '.*' | grep -c .)" \
    "$(table src/cli/args/option_table.cpp own_rows | grep -o '{"' | grep -c .)"
  assert_equal "$(options_of run | grep -E '^(wait|shared|label) ')" 'label - TEXT
shared s -
wait w D'
  assert_equal "$(verbs | grep -c .)" "$(table src/cli/verbs/verbs.cpp verbs | grep -o '{\.verb' | grep -c .)"
  [[ $(verbs) == *run* ]]
  [[ $(statuses) == *75* ]]
}

@test "the manual describes the common options, each with its letter and value, and no others" {
  assert_equal "$({ section 'Options of every verb' dlock.1; section OPTIONS dlock-stores.7; } | options_listed)" \
    "$(common_options)"
}

@test "the manual describes the options of every verb, and no others" {
  local verb
  for verb in $(verbs); do
    assert_equal "$(options_of_page "$verb" | options_listed)" "$(options_of "$verb")" ||
      { echo "of $verb" >&2; return 1; }
  done
}

@test "the manual describes each option in one place" {
  local verb name verbs_of count rows=0
  local -A described
  for verb in $(verbs); do
    described[$verb]=$'\n'$(options_of_page "$verb" | options_described)$'\n'
  done
  while read -r name verbs_of; do
    count=0
    for verb in $verbs_of; do
      [[ ${described[${verb/break_lock/break}]} != *$'\n'"$name"$'\n'* ]] || count=$((count + 1))
    done
    assert_equal "$name of $verbs_of: $count" "$name of $verbs_of: 1"
    rows=$((rows + 1))
  done < <(table src/cli/args/option_table.cpp own_rows |
    grep -oE '\{"[a-z-]+", ?(0|'\''.'\''), ?"[^"]*", ?"[^"]*", ?of\([a-z_, ]+\)' |
    sed -E 's/^\{"([a-z-]+)".*of\((.*)\)$/\1 \2/; s/,//g')
  ((rows > 60))
  assert_equal "$(cat "$manual"/dlock* | options_listed | grep -c .)" \
    "$({ common_options; for verb in $(verbs); do options_of "$verb"; done; } | grep -c .)"
}

@test "dlock(1) is short, and each verb has a synopsis on its page and a line in dlock(1)" {
  local verb
  (($(wc -w < "$manual/dlock.1") <= 2700))
  for verb in $(verbs); do
    [[ $verb == help ]] || section SYNOPSIS "$(page_of "$verb")" | grep -A 1 '^\.Nm dlock$' | grep -q "^\.Cm $verb\( \|$\)" ||
      { echo "the manual has no synopsis of $verb" >&2; return 1; }
  done
  assert_equal "$(section VERBS dlock.1 | sed -n 's/^\.It Cm //p' | tr -d , | tr -s ' ' '\n' | sort)" "$(verbs)"
}

@test "every page of the manual names the program and its version" {
  local page version
  version=$(sed -nE 's/^project\(dlock VERSION ([0-9]+\.[0-9]+).*/\1/p' "$DLOCK_SOURCE/CMakeLists.txt")
  for page in "$manual"/*; do
    grep -qx ".Os dlock $version" "$page" || { echo "${page##*/}: not .Os dlock $version" >&2; return 1; }
  done
}

@test "every reference in the manual leads to a page, a section or a document" {
  local page text name number title count=0
  for page in "$manual"/*; do
    text=$(< "$page")$'\n'
    while read -r name number; do
      [[ -e $manual/$name.$number || $name != dlock* ]] || { echo "${page##*/}: no $name($number)" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -oE '\bXr [^ ]+ [0-9]' "$page" | sed 's/^Xr //')
    while IFS= read -r title; do
      [[ $text == *$'\n.S'[hs]" $title"$'\n'* ]] || { echo "${page##*/}: no section $title" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -oE '\bSx [^.,;:)]+' "$page" | sed -E 's/^Sx //; s/ (No|and) .*//; s/ $//')
    while IFS= read -r name; do
      [[ -e $DLOCK_SOURCE/$name ]] || { echo "${page##*/}: no $name" >&2; return 1; }
      count=$((count + 1))
    done < <(grep -oE '\bPa [A-Za-z/-]+\.md' "$page" | sed 's/^Pa //')
  done
  ((count > 80))
}

@test "the manual has every exit status, and no others" {
  assert_equal "$(section 'EXIT STATUS' dlock.1 | sed -n 's/^\.It //p' | sort -n)" "$(statuses)"
}

@test "the manual has every variable that sets an option or that the source reads" {
  local variable described
  described=$(section ENVIRONMENT dlock.1 | grep '^\.It Ev ')
  for variable in $({
    grep -oE '"DLOCK_[A-Z_]+"' "$DLOCK_SOURCE"/src/cli/args/option_table.cpp "$DLOCK_SOURCE"/src/cli/args/settings.cpp
    grep -roE '(getenv|value|environment)\("[A-Z_]+"\)' "$DLOCK_SOURCE/src"
  } | grep -oE '"[A-Z_]+"' | tr -d '"' | sort -u); do
    [[ $described =~ [^A-Z_]"$variable"([^A-Z_]|$) ]] ||
      { echo "not in the manual: $variable" >&2; return 1; }
  done
}

@test "the manual has every variable that the source names, and no others" {
  assert_equal "$(for page in dlock.1 dlock-run.1; do whole_section ENVIRONMENT "$page"; done |
    grep -oE 'DLOCK_[A-Z_]+' | sort -u)" \
    "$(grep -rhoE '"DLOCK_[A-Z_]+[="]' "$DLOCK_SOURCE/src" | grep -oE 'DLOCK_[A-Z_]+' | sort -u)"
}

@test "the manual has every variable that the command gets, and no others" {
  touch "$BATS_TEST_TMPDIR/config.toml"

  # As options, these are refused on a store that has no use for them.
  export DLOCK_REPLICAS=1 DLOCK_MIN_STRENGTH=1 DLOCK_MAX_TTL=1m
  DLOCK_PASSWORD=secret run dlock run --config "$BATS_TEST_TMPDIR/config.toml" --user me \
    --password-file p --tls-ca a --tls-cert c --tls-key k --tls-key-password-file p --tls-name n --tls-insecure \
    --sentinel-user me --sentinel-password-file p --sentinel-tls true --address-map a=b lock -- env

  assert_equal "$(section 'Set for the command' | sed -n 's/^\.It Ev //p' | tr -s ' ,' '\n' | sort)" \
    "$(grep -oE '^DLOCK_[A-Z_]+' <<< "$output" | grep -v '^DLOCK_\(BIN\|SOURCE\|TEST_[A-Z]*\)$' | sort)"
}

# Asserts that the example in a section of the manual has the keys of a file, and no others.
assert_documents_keys() {  # <section> <file>
  assert_equal "$1: $(section "$1" | sed -n '/^\.Bd/,/^\.Ed/p' | keys | tr '\n' ' ')" "$1: $(keys < "$2" | tr '\n' ' ')"
}

@test "the manual has the keys of status, acquire, watch, a report and runs.jsonl, and no others" {
  cd "$BATS_TEST_TMPDIR"
  mkfifo wait
  dlock watch -v --json > seen 2> said 3>&- &
  eventually grep -q watching said
  dlock run --report report lock true
  eventually grep -q released seen
  tail -n 1 seen > last_event
  dlock run lock -- cat wait 3>&- &
  eventually dlock status lock
  dlock run -w forever lock true 3>&- &
  is_awaited() { [[ $(dlock status --json lock | jq '.waiters | length') == 1 ]]; }
  eventually is_awaited
  dlock status --json lock > state
  dlock acquire --json other > lease

  assert_documents_keys 'Of status, list and break' state
  assert_documents_keys 'Of acquire, renew and release' lease
  assert_documents_keys 'Of watch' last_event
  assert_documents_keys REPORTS report
  assert_documents_keys RUNS.JSONL store/runs.jsonl
}

@test "the manual has the kinds of failures with their exit codes, and no others" {
  local code kind
  assert_equal "$(section 'Of a failure' | grep '^\.Li' | grep -oE '[a-z]+ \([0-9]+\)' |
    tr -d '()' | while read -r kind code; do echo "$code $kind"; done)" \
    "$(table src/main.cpp failure_kinds | grep -oE '::[a-z_]+, ?"[a-z]+"' |
      tr -d ':,"' | while read -r status kind; do
        echo "$(sed -nE "s/^ *$status = ([0-9]+),.*/\1/p" "$DLOCK_SOURCE/src/cli/args/verb_table.hpp") $kind"
      done)"
}

@test "doctor requires the permissions that operating.md lists" {
  permissions() { grep -o '+[a-z|]*' | sort; }

  assert_equal "$(table src/store/redis/permissions.hpp needed_permissions |
    grep -oE '\{"[A-Z|]+' | tr -d '{"' | tr '[:upper:]' '[:lower:]' | sed 's/^/+/' | sort)" \
    "$(sed -n '/ACL SETUSER jobs on/,/^```/p' "$DLOCK_SOURCE/docs/operating.md" | permissions)"
}

# Makes an executable script of the manual's line for scripts, followed by these lines.
make_script() {  # <path> <line>...
  {
    echo '#!/bin/sh'
    grep '^dlock check .* || exec dlock run ' "$manual/dlock-run.1"
    printf '%s\n' "${@:2}"
  } > "$1"
  chmod +x "$1"
}

@test "docs/using.md and the manual have the same line for a script" {
  make_script "$BATS_TEST_TMPDIR/script"

  grep -qxF "$(sed 1d "$BATS_TEST_TMPDIR/script")" "$DLOCK_SOURCE/docs/using.md"
}

# Prints the type that a key has in dlock.toml(5), by the placeholder of its option.
type_of() {  # <name> <placeholder>
  case $1:$2 in
    sentinel-tls:* | *:-) echo boolean ;;
    *:D) echo duration ;;
    *:WINDOW) echo 'duration or word' ;;
    *:N | *:PID) echo number ;;
    *:FILE) echo path ;;
    *:SIZE) echo size ;;
    *:WHAT | *:WHO | *:WHEN | *:ORDER) echo word ;;
    *:WHERE) echo 'word or path' ;;
    *:LOCK) echo 'string or list' ;;
    *:FROM=TO) echo table ;;
    *) echo string ;;
  esac
}

# Prints the rows of a table of options: name, table of the file, type, default.
keys_in() {  # <table>
  table src/cli/args/option_table.cpp "$1" |
    grep -oE '\{"[a-z-]+", ?(0|'\''.'\''), ?"[^"]*", ?"[^"]*", ?(every_verb|of\([a-z_, ]+\)), ?"[^"]*"' |
    sed -E 's/^\{"([^"]*)", ?[^,]*, ?"([^"]*)", ?"[^"]*", ?(.*), ?"([^"]*)"$/\1|\3|\2|\4/
      s/every_verb/-/; s/of\((.*)\)/\1/; s/break_lock/break/; s/\|\|/|-|/; s/\|$/|-/' |
    grep -v '^config|' | while IFS='|' read -r name verbs_of value usual; do
      echo ".It $name Ta $verbs_of Ta $(type_of "$name" "$value") Ta $usual"
    done
}

keys_in_toml_manual() { section KEYS dlock.toml.5 | grep '^\.It [^E]'; }

@test "dlock.toml(5) has the keys that the program accepts, with their types and defaults, and no others" {
  assert_equal "$(keys_in_toml_manual)" "$({ keys_in common_rows; keys_in own_rows; })"
}

# Prints a value of a type, in TOML.
example_of() {  # <key> <type>
  case $1:$2 in
    store:*) echo '"none:"' ;;
    color:*) echo '"never"' ;;
    on-outage:*) echo '"run"' ;;
    stragglers:*) echo '"kill"' ;;
    notify:*) echo '"off"' ;;
    sort:*) echo '"age"' ;;
    for-pid:*) echo $$ ;;
    token:*) echo '"9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1"' ;;
    retry-failed:* | tls-insecure:* | live:* | json:* | quiet:* | verbose:*) echo false ;;
    *:duration*) echo '"5ms"' ;;
    *:boolean) echo true ;;
    *:number) echo 1 ;;
    *:size) echo '"1MiB"' ;;
    *:*path) echo "\"$BATS_TEST_TMPDIR/file\"" ;;
    *:*list) echo '["one", "two:slots=2"]' ;;
    *:table) echo '{ "10.0.0.5:6379" = "db.example.org:7001" }' ;;
    *) echo '"true"' ;;
  esac
}

@test "the program accepts a value of its type for every key in dlock.toml(5), in each of its tables" {
  local key tables type table value count=0
  while IFS='|' read -r key tables type _; do
    for table in ${tables//,/}; do
      [[ $key == ttl ]] && value='"1s"' || value=$(example_of "$key" "$type")
      {
        case $key in
          tls-cert | tls-key-password-file) echo 'tls-key = "key"' ;;&
          tls-key | tls-key-password-file) echo 'tls-cert = "certificate"' ;;
        esac
        [[ $table == - ]] || echo "[$table]"
        echo "$key = $value"
      } > "$BATS_TEST_TMPDIR/config.toml"
      run dlock --config "$BATS_TEST_TMPDIR/config.toml" list
      assert_equal "$table.$key = $value: $status" "$table.$key = $value: 0" || { echo "$output" >&2; return 1; }
      count=$((count + 1))
    done
  done < <(keys_in_toml_manual | sed 's/^\.It //; s/ Ta /|/g')
  ((count > 90))
}

@test "the configuration in dlock.toml(5) is valid, and its message about a mistyped key is the actual one" {
  local config=$BATS_TEST_TMPDIR/config.toml
  section EXAMPLES dlock.toml.5 | sed '1,/^\.Bd/d; /^\.Ed/,$d' > "$config"
  grep -q '^\[cache\]' "$config"
  run dlock --config "$config" run lock true
  assert_status 0
  run dlock --config "$config" cache key true
  assert_status 0

  printf '[run]\nwiat = 5\n' > "$config"
  run dlock --config "$config" list
  assert_status 78
  assert_equal "${output/$BATS_TEST_TMPDIR//etc/dlock}" "$(sed -n 's/^dlock: /&/p' "$manual/dlock.toml.5")"
}

@test "--help of every verb shows its own options, and help options the others, each with its letter and value" {
  local verb
  for verb in $(verbs); do
    assert_equal "$(dlock "$verb" --help | options_in_help)" "$(options_of "$verb")" ||
      { echo "in dlock $verb --help" >&2; return 1; }
  done
  assert_equal "$(dlock help options | options_in_help)" "$(common_options)"
}

@test "every help fits on a screen of 50 lines, and names the page of its verb" {
  local topic
  for topic in '' options $(verbs); do
    run dlock help $topic
    assert_status 0
    ((${#lines[@]} > 0 && $(wc -l <<< "$output") <= 50)) || { echo "dlock help $topic is too long" >&2; return 1; }
    [[ $topic == @(|options|help) ]] || assert_output_contains "(man dlock $topic)"
  done
}

@test "--help of the verbs explains every exit status and no others, each verb its own once, the smallest first" {
  local verb
  # shellcheck disable=SC2046
  assert_equal "$(statuses_in_help $(verbs) | sort -nu)" "$(statuses)"
  assert_equal "$(statuses_in_help run)" "$(statuses | grep -vxE '1|2|3')"
  for verb in $(verbs); do
    assert_equal "$verb: $(statuses_in_help "$verb")" "$verb: $(statuses_in_help "$verb" | sort -nu)"
    [[ $(statuses_in_help "$verb") == *64* ]]
  done
}

@test "--help of a verb explains success and the statuses 1 and 2 that the manual has for it" {
  assert_equal "$(statuses_in_help doctor | head -n 3 | paste -sd ' ')" '0 1 2'
  assert_equal "$(statuses_in_help status | head -n 2 | paste -sd ' ')" '0 1'
  assert_equal "$(statuses_in_help break | head -n 2 | paste -sd ' ')" '0 1'
  [[ $(statuses_in_help watch) != 0* ]]
  local verb
  local -a explained
  explained[1]=$(section 'EXIT STATUS' dlock.1 | sed -n '/^\.It 1$/,/^\.It/p')
  explained[2]=$(section 'EXIT STATUS' dlock.1 | sed -n '/^\.It 2$/,/^\.It/p')
  for verb in $(verbs); do
    [[ $verb == watch || $(statuses_in_help "$verb") == 0$'\n'* ]]
    # The help of a verb has 1 or 2 if and only if the manual explains it for that verb.
    assert_equal "$(statuses_in_help "$verb" | grep -xE '1|2')" "$(
      for status_named in 1 2; do
        [[ ! ${explained[status_named]} =~ $'\n.Cm '"$verb"( Fl -[a-z]*)?" :"($'\n'|$) ]] || echo "$status_named"
      done)"
  done
}

@test "--help goes to standard output, exits with 0, and is at most 80 columns wide" {
  local verb
  for verb in '' $(verbs); do
    run bash -c 'dlock "$@" --help 2> /dev/null' - $verb

    assert_status 0
    assert_output_contains "Usage: dlock $verb"
    assert_equal "$(grep -E '.{81}' <<< "$output")" ''
  done
}

@test "--help lists every verb once, in groups, and ends with examples" {
  run dlock --help

  assert_equal "$(sed '/^Examples:/,$d' <<< "$output" | sed -nE 's/^  ([a-z]+)  +.*/\1/p' | sort)" "$(verbs)"
  assert_equal "$(grep -E '^[A-Z][a-z, ]*:$' <<< "$output")" 'Run:
In a script, step by step:
Inspect:
Operate:
Rate limit and cache:
Examples:'
  assert_equal "$(sed -n '/^Run:/,/^$/p' <<< "$output" | grep -c .)" 2
  assert_equal "$(sed '1,/^Examples:/d' <<< "$output" | grep -v '^  dlock ')" ''
}

@test "the manual and the completions have the words that options accept, and no others" {
  local option table_name words
  for option in color:colors on-outage:outage_policies stragglers:straggler_policies; do
    table_name=${option#*:} option=${option%:*}
    words=$(words_of "$table_name")
    [[ $words == *' '* ]]

    grep -qE "^ +'--$option=\[.*\]:[a-z]+:\($words\)'\$" "$DLOCK_SOURCE/completions/_dlock"
    grep -qE "^ +--$option\) _dlock_offer $words ;;" "$DLOCK_SOURCE/completions/dlock.bash"
    grep -qE " -l $option -x -a '$words' " "$DLOCK_SOURCE/completions/dlock.fish"
    assert_equal "$(cat "$manual"/dlock*.[17] | sed -n "/^\.It Fl -$option Ar/,/^\.It/p" |
      grep -oE '\bCm [a-z]+' | sed 's/Cm //' | grep -vxE "$(verbs | grep -vx run | paste -sd '|')" | sort)" \
      "$(tr ' ' '\n' <<< "$words" | sort)"
  done
}

@test "--version prints the version in CMakeLists.txt, with and without a verb" {
  local version
  version=$(sed -nE 's/^project\(dlock VERSION ([0-9.]+).*/\1/p' "$DLOCK_SOURCE/CMakeLists.txt")
  [[ -n $version ]]

  # What follows it is a test of install.bats.
  [[ $(dlock --version) =~ ^"dlock $version"(-dev\+g[0-9a-f]{10}(\.dirty)?)?$ ]]
  assert_equal "$(dlock run --version)" "$(dlock --version)"
}

@test "bash, fish and zsh complete every verb, and no others" {
  run bash -c 'source "$DLOCK_SOURCE/completions/dlock.bash"
    COMP_LINE="dlock " COMP_POINT=6 COMP_WORDS=(dlock "") COMP_CWORD=1
    _dlock dlock "" dlock
    printf "%s\n" "${COMPREPLY[@]}" | sort'
  assert_equal "$output" "$(verbs)"

  run fish -c 'source $DLOCK_SOURCE/completions/dlock.fish; complete -C "dlock "'
  assert_equal "$(cut -f 1 <<< "$output" | sort)" "$(verbs)"

  assert_equal "$(sed -n "/local -a verbs=/,/)/s/^ *'\([a-z]*\):.*/\1/p" \
    "$DLOCK_SOURCE/completions/_dlock" | sort)" "$(verbs)"
}

@test "bash completes every option of every verb, and no others" {
  local verb
  for verb in $(verbs); do
    run bash -c 'source "$DLOCK_SOURCE/completions/dlock.bash"
      COMP_LINE="dlock $1 -" COMP_POINT=${#COMP_LINE} COMP_WORDS=(dlock "$1" -) COMP_CWORD=2
      _dlock dlock - "$1"
      printf "%s\n" "${COMPREPLY[@]}" | sort' - "$verb"
    assert_equal "$output" "$(spellings_of "$verb")" ||
      { echo "for dlock $verb" >&2; return 1; }
  done
}

@test "bash knows which options take a value" {
  run bash -c 'source "$DLOCK_SOURCE/completions/dlock.bash"
    while read -r option; do
      ! _dlock_takes_value "$option" || printf "%s\n" "$option"
    done' <<< "$(for verb in $(verbs); do all_options_of "$verb"; done | spellings | sort -u)"

  assert_equal "$output" "$(for verb in $(verbs); do all_options_of "$verb"; done |
    grep -v ' -$' | spellings | sort -u)"
}

@test "fish completes every option of every verb, with a description, and no others" {
  local verb offers=$BATS_TEST_TMPDIR/offers
  mkdir "$offers"
  # shellcheck disable=SC2046
  fish -c 'source $DLOCK_SOURCE/completions/dlock.fish
    for verb in $argv[2..-1]
      for dash in - --; complete -C "dlock $verb $dash"; end | sort -u > $argv[1]/$verb
    end' -- "$offers" $(verbs)

  for verb in $(verbs); do
    mapfile -t offered < "$offers/$verb"
    assert_equal "$(printf '%s\n' "${offered[@]%%$'\t'*}")" "$(spellings_of "$verb")"
  done
  assert_equal "$(grep -vP '\t.+' "$offers"/*)" ''
}

@test "zsh completes every option of every verb, with a description, and no others" {
  local verb offers=$BATS_TEST_TMPDIR/offers
  mkdir "$offers"
  # Writes the arguments that _arguments gets for each verb.
  # shellcheck disable=SC2046
  run zsh -f -c '
    _arguments() { shift ${@[(i):]}; print -rl -- ${(M)@:#(|\*|\(*\))-*} }
    for verb in ${@:2}; do
      words=(dlock $verb -) CURRENT=3
      source $DLOCK_SOURCE/completions/_dlock | sort -u > $1/$verb
    done' - "$offers" $(verbs)
  assert_equal "$status $output" '0 '

  for verb in $(verbs); do
    output=$(< "$offers/$verb")
    assert_equal "$(sed -E 's/^\([^)]*\)|^\*//; s/^(-[a-zA-Z]|--[a-z-]+)[+=]?\[.+\].*/\1/' <<< "$output" | sort)" \
      "$(spellings_of "$verb")"
    # An option that takes a value has it as `:what:how`.
    assert_equal "$(grep -E '\]:[^:]+:.+' <<< "$output" | sed -E 's/^\([^)]*\)|^\*//; s/[+=]?\[.*//' | sort)" \
      "$(all_options_of "$verb" | grep -v ' -$' | spellings)"
  done
}
