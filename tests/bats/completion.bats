#!/usr/bin/env bats
# The candidates that the shells offer after Tab on a line that begins with dlock.
#
# Each shell runs on its own terminal, and gets the line and a Tab as a user would type
# them. It writes the resulting line to a file. bash and zsh also write the candidates; fish
# prints them without a terminal.

setup_file() {
  load support
  cd "$BATS_FILE_TMPDIR" || return

  cat > on_terminal.zsh << 'END'
# on_terminal.zsh SHELL SETUP LINE: SHELL gets the line, a Tab and Ctrl-T. SETUP has to create
# the file `ready` in the working directory, and Ctrl-T the file `done`.
zmodload zsh/zpty zsh/zselect
await() {
  integer tries
  for ((tries = 0; tries < 1000; tries++)); do
    zpty -rt shell seen
    [[ ! -e $1 ]] || return 0
    zselect -t 1
  done
  print -u 2 -r -- "no file $1; the last that was seen: $seen"
  return 1
}
zpty shell $1
zpty -w shell "source ${(q)2}"
await ready || exit
zpty -w -n shell $3$'\t\C-t'
await done
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
    true > done
end
bind \ct finished
true > ready
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
}

teardown() { kill_leftovers; }

on_terminal() {  # <shell> <setup> <line>
  rm -f ready 'done' offers line
  : > offers
  zsh -f "$BATS_FILE_TMPDIR/on_terminal.zsh" "$1" "$BATS_FILE_TMPDIR/$2" "$3" < /dev/null
}

# Each prints the candidates at the end of the line, sorted, one per line. bash and zsh also
# write the completed line to the file `line`.
bash_offers() {  # <line>
  on_terminal 'env HISTFILE= TERM=dumb bash --norc --noprofile -i' setup.bash "$1" &&
    grep . offers | sort -u
}
zsh_offers() {
  on_terminal 'env TERM=dumb zsh -f -i' setup.zsh "$1" && grep . offers | sort -u
}
fish_offers() {
  # shellcheck disable=SC2016
  fish -c 'source $DLOCK_SOURCE/completions/dlock.fish
    complete -c frob -f -a "alpha beta"
    complete -C $argv[1]' -- "$1" < /dev/null | cut -f 1 | sort -u
}

# Asserts that a shell offers exactly these candidates, in any order.
assert_offers() {  # <shell> <line> <candidate>...
  local shell=$1 line=$2
  shift 2
  local expected=''
  (($# == 0)) || expected=$(printf '%s\n' "$@" | sort -u)
  assert_equal "$("${shell}_offers" "$line")" "$expected" ||
    { echo "where $shell sees: $line" >&2; return 1; }
}

# Asserts that a shell offers at least these candidates.
assert_offers_also() {  # <shell> <line> <candidate>...
  local shell=$1 line=$2 offers candidate
  shift 2
  offers=$("${shell}_offers" "$line")
  for candidate; do
    grep -qxF -e "$candidate" <<< "$offers" ||
      { printf '%s does not offer %s for: %s\n%s\n' "$shell" "$candidate" "$line" "$offers" >&2; return 1; }
  done
}

refute_offers() {  # <shell> <line> <candidate>
  local offers
  offers=$("${1}_offers" "$2")
  ! grep -qxF -e "$3" <<< "$offers" ||
    { printf '%s offers %s for: %s\n' "$1" "$3" "$2" >&2; return 1; }
}

# Asserts that Tab completes a line to this new line.
assert_becomes() {  # <shell> <line> <new line>
  if [[ $1 == fish ]]; then
    on_terminal 'env TERM=dumb fish -i' setup.fish "$2"
  else
    "${1}_offers" "$2" > /dev/null
  fi
  assert_equal "$(cat line)" "$3"
}

make_locks() {  # <name>...
  local name
  for name; do dlock run "$name" true; done
}

@test "bash, zsh and fish offer the verbs first" {
  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock ' acquire break cache check config doctor fence help history limit list release renew run status \
      watch
    assert_offers "$shell" 'dlock -q --color never s' status
  done
}

@test "bash, zsh and fish offer verbs after help, and locks after config" {
  make_locks deploy

  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock help st' status
    assert_offers "$shell" 'dlock help op' options
    assert_offers "$shell" 'dlock help run s'
    assert_offers "$shell" 'dlock config d' deploy
  done
}

@test "bash, zsh and fish offer common options before the verb, and all options after it" {
  for shell in bash zsh fish; do
    assert_offers_also "$shell" 'dlock run --' --wait --stragglers --store --help
    assert_offers "$shell" 'dlock run --st' --store --store-timeout --stragglers
    assert_offers "$shell" 'dlock list --st' --store --store-timeout
    assert_offers "$shell" 'dlock --st' --store --store-timeout
    assert_offers "$shell" 'dlock renew --to' --token --token-file
    assert_offers "$shell" 'dlock acquire --st' --store --store-timeout
    assert_offers_also "$shell" 'dlock acquire --' --wait --for-pid --label
    assert_offers_also "$shell" 'dlock check --' --fence --min-validity
    assert_offers "$shell" 'dlock history --l' --label --limit
    assert_offers "$shell" 'dlock list --pr' --prometheus
    assert_offers "$shell" 'dlock list --li' --live
    assert_offers "$shell" 'dlock list --sort ' name age
    assert_offers_also "$shell" 'dlock history --' --failed --since --succeeded-within
  done
}

@test "an unambiguous option is completed even where a free word may be" {
  for shell in bash zsh fish; do
    assert_becomes "$shell" 'dlock cache --forg' 'dlock cache --forget '
    assert_becomes "$shell" 'dlock fence --js' 'dlock fence --json '
    assert_becomes "$shell" 'dlock limit --js' 'dlock limit --json '
  done
  assert_becomes zsh 'dlock cache --stal' 'dlock cache --stale='
  assert_becomes zsh 'dlock cache --max-s' 'dlock cache --max-size='
  assert_becomes zsh 'dlock limit --wa' 'dlock limit --wait='
}

@test "bash, zsh and fish offer options after the lock name until --" {
  for shell in bash zsh fish; do
    assert_offers_also "$shell" 'dlock run lock --ji' --jitter
    refute_offers "$shell" 'dlock run lock -- --ji' --jitter
  done
}

@test "bash, zsh and fish offer the values of options" {
  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock run --stragglers ' leave wait kill
    assert_offers "$shell" 'dlock run --on-outage ' stop run
    assert_offers "$shell" 'dlock run --color ' auto always never
    assert_offers "$shell" 'dlock run -w f' forever
    assert_offers "$shell" 'dlock run -qw f' forever
    assert_offers "$shell" 'dlock list --store n' none:
    assert_offers "$shell" 'dlock list --store r' redis:// rediss:// redis+unix:/ \
      redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// \
      redis+quorum:// rediss+quorum://
    assert_offers "$shell" 'dlock list --store redis' redis:// rediss:// redis+unix:/ \
      redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// \
      redis+quorum:// rediss+quorum://
    assert_offers "$shell" 'dlock list --store e' etcd:// etcds://
    assert_offers "$shell" 'dlock list --store v' valkey:// valkeys://
    assert_offers_also "$shell" 'dlock run --timeout ' 10s 1h
  done
}

@test "bash, zsh and fish complete a value after =" {
  assert_becomes bash 'dlock run --stragglers=k' 'dlock run --stragglers=kill '
  assert_becomes zsh 'dlock run --stragglers=k' 'dlock run --stragglers=kill '
  assert_offers fish 'dlock run --stragglers=k' --stragglers=kill
}

@test "bash, zsh and fish complete the directory of a store" {
  mkdir -p deep/directory

  assert_becomes bash "dlock list --store local:$PWD/de" "dlock list --store local:$PWD/deep/"
  assert_becomes bash "dlock list --store=local:$PWD/de" "dlock list --store=local:$PWD/deep/"
  assert_becomes zsh "dlock list --store local:$PWD/de" "dlock list --store local:$PWD/deep/"
  assert_offers fish "dlock list --store local:$PWD/de" "local:$PWD/deep/"
}

@test "bash, zsh and fish complete the beginning of a URL up to the host" {
  assert_becomes bash 'dlock list --store rediss:' 'dlock list --store rediss://'
  assert_becomes bash 'dlock list --store=rediss+s' 'dlock list --store=rediss+sentinel://'
  assert_becomes bash 'dlock list --store redis+c' 'dlock list --store redis+cluster://'
  assert_becomes zsh 'dlock list --store redis+s' 'dlock list --store redis+sentinel://'
  assert_offers fish 'dlock list --store rediss:' rediss://
}

@test "bash, zsh and fish complete the socket of a store" {
  touch some.sock

  assert_becomes bash "dlock list --store redis+unix:$PWD/so" \
    "dlock list --store redis+unix:$PWD/some.sock"
  assert_becomes zsh "dlock list --store redis+unix:$PWD/so" \
    "dlock list --store redis+unix:$PWD/some.sock "
  assert_offers fish "dlock list --store redis+unix:$PWD/so" "redis+unix:$PWD/some.sock"
}

@test "bash, zsh and fish offer files for all options that take a file" {
  touch some.toml

  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock list --config so' some.toml
    assert_offers "$shell" 'dlock run --report so' some.toml
    assert_offers "$shell" 'dlock release --token-file so' some.toml
    for option in password-file sentinel-password-file tls-ca tls-cert tls-key tls-key-password-file; do
      assert_offers "$shell" "dlock list --$option so" some.toml
    done
  done
}

@test "bash, zsh and fish offer the lock names in the store" {
  make_locks backup/db backup/files deploy

  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock run ' backup/db backup/files deploy
    assert_offers "$shell" 'dlock status b' backup/db backup/files
    assert_offers "$shell" 'dlock list d' deploy
    assert_offers "$shell" 'dlock watch deploy b' backup/db backup/files
    assert_offers "$shell" 'dlock run -n 2 --label x d' deploy
    assert_offers "$shell" 'dlock run -- d' deploy
    assert_offers "$shell" 'dlock acquire -w 5m d' deploy
    assert_offers "$shell" 'dlock release --token x d' deploy
    assert_offers "$shell" 'dlock fence d'
  done
}

@test "bash, zsh and fish offer no lock names after doctor" {
  make_locks deploy

  for shell in bash zsh fish; do refute_offers "$shell" 'dlock doctor ' deploy; done
}

@test "bash, zsh and fish offer the names in the store and namespace that the line selects" {
  make_locks here
  DLOCK_STORE=local:$PWD/other make_locks there
  DLOCK_NAMESPACE=else make_locks elsewhere

  for shell in bash zsh fish; do
    assert_offers "$shell" "dlock status --store local:$PWD/other " there
    assert_offers "$shell" "dlock --store=local:$PWD/other status " there
    assert_offers "$shell" 'dlock run --namespace else ' elsewhere
  done
}

@test "bash, zsh and fish list names with the login and TLS options of the line" {
  rm bin/dlock
  # This dlock lists one lock, whose name contains the options that dlock got.
  cat > bin/dlock << 'END'
#!/bin/sh
printf '[{"name":"%s"}]' "$(printf '%s/' "$@" | sed -e 's/=/\//g' -e 's/\/--store-timeout.*//')"
END
  chmod +x bin/dlock

  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock --password-file p status --user me --tls-ca=a --tls-insecure -q ' \
      --password-file/p/--user/me/--tls-ca/a/--tls-insecure
    assert_offers "$shell" 'dlock --sentinel-user me --replicas all --sentinel-tls=false status --tls-name x -q ' \
      --sentinel-user/me/--sentinel-tls/false/--tls-name/x
  done
}

@test "lock names with special characters are completed with the right quoting" {
  make_locks 'two words' "it's" 'say "hi"' 'db:main' 'on host:1' 'a=b' 'gr\ün*'

  assert_becomes bash 'dlock status tw' 'dlock status two\ words '
  assert_becomes bash 'dlock status two\ w' 'dlock status two\ words '
  assert_becomes bash 'dlock status "two w' 'dlock status "two words" '
  assert_becomes bash 'dlock status it' "dlock status it\\'s "
  assert_becomes bash 'dlock status say' 'dlock status say\ \"hi\" '
  assert_becomes bash 'dlock status db:' 'dlock status db:main '
  assert_becomes bash 'dlock status on\ ho' 'dlock status on\ host:1 '
  assert_becomes bash 'dlock status "on host:' 'dlock status "on host:1" '
  assert_becomes bash 'dlock status db:ma' 'dlock status db:main '
  assert_becomes bash 'dlock status a=' 'dlock status a=b '
  assert_becomes bash 'dlock status gr' 'dlock status gr\\ün\* '
  assert_becomes zsh 'dlock status tw' 'dlock status two\ words '
  assert_becomes zsh 'dlock status it' "dlock status it\\'s "
  assert_becomes zsh 'dlock status say' 'dlock status say\ \"hi\" '
  assert_becomes zsh 'dlock status on\ ho' 'dlock status on\ host:1 '
  assert_becomes zsh 'dlock status "on host:' 'dlock status "on host:1" '
  assert_becomes zsh 'dlock status db:ma' 'dlock status db:main '
  assert_becomes zsh 'dlock status "two w' 'dlock status "two words" '
  assert_becomes zsh 'dlock status a=' 'dlock status a=b '
  assert_becomes zsh 'dlock status gr' 'dlock status gr\\ün\* '
  assert_becomes fish 'dlock status tw' 'dlock status two\ words '
  assert_becomes fish 'dlock status "two w' 'dlock status "two words" '
  assert_becomes fish 'dlock status it' "dlock status it\\'s "
  assert_becomes fish 'dlock status say' 'dlock status say\ \"hi\" '
  assert_becomes fish 'dlock status on\ ho' 'dlock status on\ host:1 '
  assert_becomes fish 'dlock status "on host:' 'dlock status "on host:1" '
  assert_becomes fish 'dlock status db:ma' 'dlock status db:main '
  assert_becomes fish 'dlock status a=' 'dlock status a=b '
  assert_becomes fish 'dlock status gr' 'dlock status gr\\ün\* '
}

@test "bash, zsh and fish complete the name of the command of a run" {
  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock run lock fro' frob
    assert_offers "$shell" 'dlock run -w 5m lock -- fro' frob
  done
}

@test "bash, zsh and fish offer files for the arguments of a command" {
  touch some.conf

  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock run lock -- cat so' some.conf
    assert_offers "$shell" 'dlock run lock -w 5m cat -n so' some.conf
  done
}

@test "bash, zsh and fish complete the command of a cache, and offer no locks for its key" {
  make_locks lock
  for shell in bash zsh fish; do
    refute_offers "$shell" 'dlock cache ' lock
    assert_offers "$shell" 'dlock cache report fro' frob
    assert_offers "$shell" 'dlock cache --ttl 10m report -- frob al' alpha
    assert_offers "$shell" 'dlock cache --max-size 16' 16MiB
  done
}

@test "bash, zsh and fish complete the arguments of a command by its own completion" {
  for shell in bash zsh fish; do
    assert_offers "$shell" 'dlock run lock frob ' alpha beta
    assert_offers "$shell" 'dlock run lock -w 5m -- frob al' alpha
    assert_offers "$shell" 'dlock run outer dlock run -w 1 inner frob al' alpha
  done
}

@test "bash, zsh and fish complete the rate and the command of a limit" {
  make_locks lock
  for shell in bash zsh fish; do
    assert_offers_also "$shell" 'dlock limit api ' 5/1s 100/1h
    refute_offers "$shell" 'dlock limit ' lock
    assert_offers "$shell" 'dlock limit api 5/1s fro' frob
    assert_offers "$shell" 'dlock limit -w 5m api 5/1s -- frob al' alpha
  done
}

@test "Tab runs no command substitutions on the line" {
  # shellcheck disable=SC2016
  for shell in bash zsh fish; do
    "${shell}_offers" 'dlock status --store $(touch ran) ' || true
    "${shell}_offers" 'dlock status --store `touch ran` ' || true
  done

  [[ ! -e ran ]]
}

@test "Tab prints no errors of a store that cannot be used" {
  mkdir -m 777 open
  chmod 777 open

  for shell in bash zsh fish; do
    assert_offers "$shell" "dlock status --store local:$PWD/open "
    assert_offers "$shell" 'dlock status --store redis://nowhere '
  done
  assert_becomes bash "dlock status --store local:$PWD/open " "dlock status --store local:$PWD/open "
}

@test "a dlock that hangs delays Tab for less than eight seconds" {
  rm bin/dlock
  printf '#!/bin/sh\nexec sleep 600\n' > bin/dlock
  chmod +x bin/dlock

  for shell in bash zsh fish; do
    local started
    started=$(now_ms)
    assert_offers "$shell" 'dlock status '
    (($(now_ms) - started < 8000))
  done
}
