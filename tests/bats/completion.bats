#!/usr/bin/env bats
# The candidates that the shells offer after Tab on a line that begins with dlock.
#
# Each shell runs on its own terminal, and gets the lines and a Tab as a user would type
# them. It writes the resulting lines to files. bash and zsh also write the candidates; fish
# prints them without a terminal. The shells take long to start, so each is asked about all
# lines of a test at once: a test first says what is expected, and then calls `ask_shells`.
# shellcheck disable=SC2086  # words

setup_file() {
  load support
  cd "$BATS_FILE_TMPDIR" || return

  cat > on_terminal.zsh << 'END'
# on_terminal.zsh SHELL SETUP: SHELL gets each line of the standard input, a Tab and Ctrl-T. SETUP
# has to create the file `ready` in the working directory, and Ctrl-T the file `done`; it also has
# to empty the line. The files of the first line become line.0 and offers.0, and so on.
zmodload zsh/zpty zsh/zselect
zmodload -F zsh/files b:zf_mv b:zf_rm
await() {
  integer tries
  for ((tries = 0; tries < 12000; tries++)); do
    zpty -rt shell seen
    [[ ! -e $1 ]] || return 0
    zselect -t 1
  done
  print -u 2 -r -- "no file $1; the last that was seen: $seen"
  return 1
}
lines=("${(f)$(<&0)}")
zpty shell $1
zpty -w shell "source ${(q)2}"
await ready || exit
for ((number = 0; number < $#lines; number++)); do
  : > offers
  zpty -w -n shell ${lines[number + 1]}$'\t\C-t'
  await done || exit
  zf_rm done
  zf_mv offers offers.$number
  zf_mv line line.$number
done
zpty -d shell
END

  cat > setup.bash << 'END'
bind 'set enable-bracketed-paste off' 'set bell-style none'
source /usr/share/bash-completion/bash_completion
source "$DLOCK_SOURCE/completions/dlock.bash"
complete -W 'alpha beta' frob
offered() {
  _dlock "$@"
  printf '%s\n' "${COMPREPLY[@]}" > offers
}
complete -F offered dlock
finished() {
  printf '%s\n' "$READLINE_LINE" > line
  READLINE_LINE= READLINE_POINT=0
  : > done
}
bind -x '"\C-t": finished'
: > ready
END

  cat > setup.zsh << 'END'
fpath=("$DLOCK_SOURCE/completions" $fpath)
autoload -U compinit
compinit -u -d "$BATS_FILE_TMPDIR/zcompdump"
compdef '_arguments "1:word:(alpha beta)"' frob
zstyle ':completion:*' insert-tab false
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    local -a fit
    builtin compadd -O fit "$@"
    ((!$#fit)) || print -rl -- $fit >> offers
  fi
  builtin compadd "$@"
}
finished() {
  print -r -- $BUFFER > line
  BUFFER=
  : > done
}
zle -N finished
bindkey '^I' complete-word
bindkey '^T' finished
: > ready
END

  cat > setup.fish << 'END'
source $DLOCK_SOURCE/completions/dlock.fish
function finished
    commandline > line
    commandline -r ''
    true > done
end
bind \ct finished
true > ready
END

  cat > offers.fish << 'END'
source $DLOCK_SOURCE/completions/dlock.fish
complete -c frob -f -a "alpha beta"
set number 0
while read line
    complete -C $line > offers.$number
    set number (math $number + 1)
end
END
}

setup() {
  load support
  use_private_store
  unset BASH_ENV ENV ZDOTDIR
  # Some lock names are not ASCII.
  export LC_ALL=C.UTF-8
  printf '#!/bin/sh\n' > "$BATS_TEST_TMPDIR/bin/frob"
  chmod +x "$BATS_TEST_TMPDIR/bin/frob"
  cd "$BATS_TEST_TMPDIR" || return
  declare -gA lines_of=() # by shell; `fish_line` is fish on a terminal
  wanted=()
}

# --- What is expected ---

want() {  # <kind> <shell> <line> <candidate or new line>...
  local IFS=$'\n'
  lines_of[$2]+=$3$'\n'
  wanted+=("$1$IFS$2$IFS${*:3}")
}

# The shells have to offer exactly these candidates, in any order; at least these; or not this one.
# All three shells, or those in $in.
offer() { local shell; for shell in ${in:-bash zsh fish}; do want exactly "$shell" "$@"; done; }         # <line> [<candidate>...]
offer_also() { local shell; for shell in ${in:-bash zsh fish}; do want also "$shell" "$@"; done; }       # <line> <candidate>...
offer_never() { local shell; for shell in ${in:-bash zsh fish}; do want never "$shell" "$@"; done; }     # <line> <candidate>
# Tab has to complete a line to this new line.
complete_to() { local shell; for shell in ${in:-bash zsh fish_line}; do want line "${shell/%fish/fish_line}" "$@"; done; }  # <line> <new line>

# --- What the shells do ---

start_shell() {  # <shell>
  local run=(zsh -f "$BATS_FILE_TMPDIR/on_terminal.zsh")
  case $1 in
    bash) "${run[@]}" 'env HISTFILE= TERM=dumb bash --norc --noprofile -i' "$BATS_FILE_TMPDIR/setup.bash" ;;
    zsh) "${run[@]}" 'env TERM=dumb zsh -f -i' "$BATS_FILE_TMPDIR/setup.zsh" ;;
    fish_line) "${run[@]}" 'env TERM=dumb fish -i' "$BATS_FILE_TMPDIR/setup.fish" ;;
    fish) timeout 60 fish "$BATS_FILE_TMPDIR/offers.fish" ;;
  esac
}

# Asks each shell about its lines, and asserts what is expected of it since the last call.
ask_shells() {
  local shell said want
  local -A next=()
  for shell in "${!lines_of[@]}"; do
    # What the lines name is in this directory, and so are the files of the answers.
    rm -f ready 'done' line.* offers.*
    start_shell "$shell" <<< "${lines_of[$shell]%$'\n'}" || return
    for said in line.* offers.*; do [[ ! -e $said ]] || mv "$said" "$shell.$said"; done
  done
  ((${#wanted[@]} > 0)) || return
  for want in "${wanted[@]}"; do
    mapfile -t want <<< "$want"
    shell=${want[1]}
    assert_as_wanted "${want[0]}" "$shell" "${next[$shell]:=0}" "${want[@]:3}" ||
      { echo "where $shell sees: ${want[2]}" >&2; return 1; }
    next[$shell]=$((next[$shell] + 1))
  done
  lines_of=() wanted=()
}

assert_as_wanted() {  # <kind> <shell> <number of the line> <candidate or new line>...
  local candidate offers
  local -A offered=()
  if [[ $1 == line ]]; then
    assert_equal "$(< "$2.line.$3")" "$4"
    return
  fi
  mapfile -t offers < "$2.offers.$3"
  for candidate in "${offers[@]}"; do
    # fish describes the candidates.
    [[ -z $candidate ]] || offered[${candidate%%$'\t'*}]=1
  done
  for candidate in "${@:4}"; do
    if [[ $1 == never ]]; then
      [[ -z ${offered[$candidate]:-} ]] || { echo "offers $candidate" >&2; return 1; }
    else
      [[ -n ${offered[$candidate]:-} ]] || { echo "offers no $candidate, but: ${!offered[*]}" >&2; return 1; }
      unset "offered[$candidate]"
    fi
  done
  [[ $1 != exactly || ${#offered[@]} == 0 ]] || { echo "offers also: ${!offered[*]}" >&2; return 1; }
}

make_locks() {  # <name>...
  local name
  for name; do dlock run "$name" true; done
}

@test "an answer that is not as wanted fails the test" {
  printf 'status\twho has it\nlist\n' > bash.offers.0
  echo 'dlock x ' > bash.line.0
  assert_as_wanted exactly bash 0 list status
  assert_as_wanted also bash 0 list
  assert_as_wanted never bash 0 run
  assert_as_wanted line bash 0 'dlock x '

  for wrong in 'exactly bash 0 list' 'exactly bash 0 list status run' 'exactly bash 0' 'also bash 0 run' 'never bash 0 list' \
    'line bash 0 dlock'; do
    run assert_as_wanted $wrong
    assert_status 1
  done
}

@test "bash, zsh and fish offer the verbs first, verbs and options after help, and locks after config" {
  make_locks deploy

  offer 'dlock ' acquire break cache check config doctor fence help history limit list release renew run status watch
  offer 'dlock -q --color never s' status
  offer 'dlock help st' status
  offer 'dlock help op' options
  offer 'dlock help run s'
  offer 'dlock config d' deploy

  ask_shells
}

@test "bash, zsh and fish offer common options before the verb, and all options after it, until --" {
  offer_also 'dlock run --' --wait --stragglers --store --help
  offer 'dlock run --st' --store --store-timeout --stragglers
  offer 'dlock list --st' --store --store-timeout
  offer 'dlock --st' --store --store-timeout
  offer 'dlock renew --to' --token --token-file
  offer 'dlock acquire --st' --store --store-timeout
  offer_also 'dlock acquire --' --wait --for-pid --label
  offer_also 'dlock check --' --fence --min-validity
  offer 'dlock history --l' --label --limit
  offer 'dlock list --pr' --prometheus
  offer 'dlock list --li' --live
  offer 'dlock list --sort ' name age
  offer_also 'dlock history --' --failed --since --succeeded-within
  offer_also 'dlock run lock --ji' --jitter
  offer_never 'dlock run lock -- --ji' --jitter
  # Even where a free word may be.
  complete_to 'dlock cache --forg' 'dlock cache --forget '
  complete_to 'dlock fence --js' 'dlock fence --json '
  complete_to 'dlock limit --js' 'dlock limit --json '
  in=zsh complete_to 'dlock cache --stal' 'dlock cache --stale='
  in=zsh complete_to 'dlock cache --max-s' 'dlock cache --max-size='
  in=zsh complete_to 'dlock limit --wa' 'dlock limit --wait='

  ask_shells
}

@test "bash, zsh and fish offer the values of options, even after =, and files for those that take a file" {
  local redis='redis:// rediss:// redis+unix:/ redis+sentinel:// rediss+sentinel:// redis+cluster://
    rediss+cluster:// redis+quorum:// rediss+quorum://'
  touch some.toml

  offer 'dlock run --stragglers ' leave wait kill
  offer 'dlock run --on-outage ' stop run
  offer 'dlock run --color ' auto always never
  offer 'dlock run -w f' forever
  offer 'dlock run -qw f' forever
  offer 'dlock list --store n' none:
  for line in r redis; do offer "dlock list --store $line" $redis; done
  offer 'dlock list --store e' etcd:// etcds://
  offer 'dlock list --store v' valkey:// valkeys://
  offer_also 'dlock run --timeout ' 10s 1h
  for shell in bash zsh; do
    in=$shell complete_to 'dlock run --stragglers=k' 'dlock run --stragglers=kill '
  done
  in=fish offer 'dlock run --stragglers=k' --stragglers=kill
  offer 'dlock list --config so' some.toml
  offer 'dlock run --report so' some.toml
  offer 'dlock release --token-file so' some.toml
  for option in password-file sentinel-password-file tls-ca tls-cert tls-key tls-key-password-file; do
    offer "dlock list --$option so" some.toml
  done

  ask_shells
}

@test "bash, zsh and fish complete the directory, the socket and the URL of a store, up to the host" {
  mkdir -p deep/directory
  touch some.sock

  in=bash
  complete_to "dlock list --store local:$PWD/de" "dlock list --store local:$PWD/deep/"
  complete_to "dlock list --store=local:$PWD/de" "dlock list --store=local:$PWD/deep/"
  complete_to 'dlock list --store rediss:' 'dlock list --store rediss://'
  complete_to 'dlock list --store=rediss+s' 'dlock list --store=rediss+sentinel://'
  complete_to 'dlock list --store redis+c' 'dlock list --store redis+cluster://'
  complete_to "dlock list --store redis+unix:$PWD/so" "dlock list --store redis+unix:$PWD/some.sock"
  in=zsh
  complete_to "dlock list --store local:$PWD/de" "dlock list --store local:$PWD/deep/"
  complete_to 'dlock list --store redis+s' 'dlock list --store redis+sentinel://'
  complete_to "dlock list --store redis+unix:$PWD/so" "dlock list --store redis+unix:$PWD/some.sock "
  in=fish
  offer "dlock list --store local:$PWD/de" "local:$PWD/deep/"
  offer 'dlock list --store rediss:' rediss://
  offer "dlock list --store redis+unix:$PWD/so" "redis+unix:$PWD/some.sock"

  ask_shells
}

@test "bash, zsh and fish offer the lock names in the store and namespace of the line, where a lock is named" {
  make_locks backup/db backup/files deploy
  DLOCK_STORE=local:$PWD/other make_locks there
  DLOCK_NAMESPACE=else make_locks elsewhere

  offer 'dlock run ' backup/db backup/files deploy
  offer 'dlock status b' backup/db backup/files
  offer 'dlock list d' deploy
  offer 'dlock watch deploy b' backup/db backup/files
  offer 'dlock run -n 2 --label x d' deploy
  offer 'dlock run -- d' deploy
  offer 'dlock acquire -w 5m d' deploy
  offer 'dlock release --token x d' deploy
  offer 'dlock fence d'
  offer_never 'dlock doctor ' deploy
  offer_never 'dlock cache ' deploy
  offer_never 'dlock limit ' deploy
  offer "dlock status --store local:$PWD/other " there
  offer "dlock --store=local:$PWD/other status " there
  offer 'dlock run --namespace else ' elsewhere

  ask_shells
}

@test "bash, zsh and fish list names with the login and TLS options of the line" {
  # This dlock lists one lock, whose name contains the options that dlock got.
  cat > bin/dlock << 'END'
#!/bin/sh
printf '[{"name":"%s"}]' "$(printf '%s/' "$@" | sed -e 's/=/\//g' -e 's/\/--store-timeout.*//')"
END
  chmod +x bin/dlock

  offer 'dlock --password-file p status --user me --tls-ca=a --tls-insecure -q ' \
    --password-file/p/--user/me/--tls-ca/a/--tls-insecure
  offer 'dlock --sentinel-user me --replicas all --sentinel-tls=false status --tls-name x -q ' \
    --sentinel-user/me/--sentinel-tls/false/--tls-name/x

  ask_shells
}

@test "lock names with special characters are completed with the right quoting" {
  make_locks 'two words' "it's" 'say "hi"' 'db:main' 'on host:1' 'a=b' 'gr\ün*'

  complete_to 'dlock status tw' 'dlock status two\ words '
  complete_to 'dlock status "two w' 'dlock status "two words" '
  complete_to 'dlock status it' "dlock status it\\'s "
  complete_to 'dlock status say' 'dlock status say\ \"hi\" '
  complete_to 'dlock status on\ ho' 'dlock status on\ host:1 '
  complete_to 'dlock status "on host:' 'dlock status "on host:1" '
  complete_to 'dlock status db:ma' 'dlock status db:main '
  complete_to 'dlock status a=' 'dlock status a=b '
  complete_to 'dlock status gr' 'dlock status gr\\ün\* '
  in=bash complete_to 'dlock status two\ w' 'dlock status two\ words '
  in=bash complete_to 'dlock status db:' 'dlock status db:main '

  ask_shells
}

@test "bash, zsh and fish complete the name of a command, its arguments as it says, and files for them" {
  touch some.conf

  offer 'dlock run lock fro' frob
  offer 'dlock run -w 5m lock -- fro' frob
  offer 'dlock run lock -- cat so' some.conf
  offer 'dlock run lock -w 5m cat -n so' some.conf
  offer 'dlock run lock frob ' alpha beta
  offer 'dlock run lock -w 5m -- frob al' alpha
  offer 'dlock run outer dlock run -w 1 inner frob al' alpha
  offer 'dlock cache report fro' frob
  offer 'dlock cache --ttl 10m report -- frob al' alpha
  offer 'dlock cache --max-size 16' 16MiB
  offer_also 'dlock limit api ' 5/1s 100/1h
  offer 'dlock limit api 5/1s fro' frob
  offer 'dlock limit -w 5m api 5/1s -- frob al' alpha

  ask_shells
}

@test "Tab runs no command substitutions on the line, and prints no errors of a store that cannot be used" {
  mkdir -m 777 open
  chmod 777 open

  offer_never 'dlock status --store $(touch ran) ' ran
  offer_never 'dlock status --store `touch ran` ' ran
  offer "dlock status --store local:$PWD/open "
  offer 'dlock status --store redis://nowhere '
  in=bash complete_to "dlock status --store local:$PWD/open " "dlock status --store local:$PWD/open "

  ask_shells
  [[ ! -e ran ]]
}

@test "a dlock that hangs delays Tab only for seconds" {
  printf '#!/bin/sh\nexec sleep 600\n' > bin/dlock
  chmod +x bin/dlock

  offer 'dlock status '

  # Each shell is awaited for less than a minute.
  ask_shells
}
