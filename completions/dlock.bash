# Completion of dlock(1) for bash.
#
# With bash-completion, the command under the lock is completed as usual; without it,
# with names of commands and files.

_dlock_verbs=(run acquire renew release check fence break cache limit status list watch
  history doctor config help)
_dlock_common_options=(--store --namespace --config --store-timeout --user --password-file --password-command
  --replicas --sentinel-user --sentinel-password-file --sentinel-tls --min-strength --max-ttl
  --address-map --tls-ca --tls-cert --tls-key --tls-key-password-file --tls-name --tls-insecure --json -q --quiet -v --verbose --color -h --help --version)
_dlock_run_options=(-w --wait -t --ttl -n --slots -s --shared --spread --priority --also -E --conflict-exit-code
  --dedupe --retry-failed --replace --supersede --max-queue --min-hold --timeout -k --kill-after
  --jitter --splay --on-outage --reclaim --lock-delay --stragglers --label --notify --output --keep-output
  --report --on-start
  --on-success --on-failure --on-busy)
_dlock_acquire_options=(-w --wait -t --ttl -n --slots -s --shared --spread --priority --label --for-pid --export)
_dlock_renew_options=(--token --token-file -t --ttl)
_dlock_release_options=(--token --token-file)
_dlock_check_options=(--fence --min-validity)
_dlock_list_options=(--held --host --owner --mine --label --sort --live --prometheus)
_dlock_history_options=(--host --owner --mine --label --limit --failed --since --succeeded-within --nagios)
_dlock_break_options=(--fence --host --force --yes)
_dlock_cache_options=(--ttl --stale --max-size -w --wait -E --conflict-exit-code --forget --show)
_dlock_limit_options=(-w --wait --show --reset)
_dlock_doctor_options=(--schema)

# Whether the next word is the value of this option (a long one, or its letter).
_dlock_takes_value() {  # <option>
  [[ $1 == --@(store|namespace|config|store-timeout|color|user|password-file|password-command) ||
    $1 == --tls-@(ca|cert|key|key-password-file|name) || $1 == --replicas ||
    $1 == --sentinel-@(user|password-file|tls) || $1 == --@(min-strength|max-ttl|address-map) ||
    $1 == --@(wait|ttl|slots|priority|also|conflict-exit-code|timeout|kill-after|jitter|splay) ||
    $1 == --on-@(start|success|failure|busy) ||
    $1 == --@(dedupe|max-queue|min-hold|on-outage|lock-delay|stragglers|label|notify|output|keep-output|report) ||
    $1 == --@(for-pid|token|token-file|fence|min-validity|limit|stale|max-size) ||
    $1 == --@(sort|since|succeeded-within|host|owner) || $1 == -[wtnEk] ]]
}

# Whether the option selects the store or is needed to use it.
_dlock_tells_store() {  # <option>
  [[ $1 == --@(store|namespace|config|user|password-file|password-command) || $1 == --tls-@(ca|cert|key|key-password-file|name) ||
    $1 == --sentinel-@(user|password-file|tls) ]]
}

# Prints the names of locks with this prefix, at most 500, one per line, with a short time
# limit. JSON escapes quotes inside strings, so only the first key of an object matches
# the pattern, and only locks begin with a name.
_dlock_names() {  # <beginning> <dlock> [<option>...]
  local beginning=$1
  shift
  beginning=${beginning//\\/\\\\}
  beginning=${beginning//\*/\\*}
  beginning=${beginning//\?/\\?}
  beginning=${beginning//\[/\\[}
  timeout 2 "$@" --store-timeout 500ms list --json -- "$beginning*" 2> /dev/null < /dev/null |
    LC_ALL=C grep -aoE '\{"name":"([^"\\]|\\.)*"' |
    head -n 500 | sed -e 's/^{"name":"//' -e 's/"$//' -e 's/\\\(.\)/\1/g'
}

# Sets `words` to the words of the line up to the cursor as dlock would get them, still
# quoted; bash also splits them at = and :. `first` has the index in COMP_WORDS where each
# begins, and `fixed` the part of the last word that bash does not replace.
_dlock_split() {
  local i part left=${COMP_LINE:0:COMP_POINT} rest
  words=()
  first=()
  fixed=''
  for ((i = 0; i <= COMP_CWORD; i++)); do
    rest=${left#"${left%%[![:space:]]*}"}
    part=${COMP_WORDS[i]}
    if ((i == COMP_CWORD)); then part=$rest; fi
    if ((i > 0)) && [[ $rest == "$left" && -n $left ]]; then
      fixed=${words[-1]}
      words[-1]+=$part
    else
      fixed=''
      words+=("$part")
      first+=("$i")
    fi
    left=${rest#"$part"}
  done
  # A cut is behind these characters, not before them.
  [[ $part != +([=:]) ]] || fixed=${words[-1]}
}

# Adds the words that begin with `value` to COMPREPLY.
_dlock_offer() {  # <word>...
  local word
  for word; do
    [[ $word != "$value"* ]] || COMPREPLY+=("$before$word")
  done
}

_dlock_offer_value_of() {  # <option>
  case $1 in
    --store)
      if [[ $value == local:/* ]]; then
        compopt -o nospace -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -d -P "${before}local:" -- "${value#local:}")
      elif [[ $value == redis+unix:/* ]]; then
        compopt -o nospace -o filenames 2> /dev/null
        mapfile -t COMPREPLY < <(compgen -f -P "${before}redis+unix:" -- "${value#redis+unix:}")
      else
        [[ $value != [elnprv]* ]] || compopt -o nospace 2> /dev/null
        _dlock_offer local: local:/ none: redis:// rediss:// redis+unix:/ redis+sentinel:// \
          rediss+sentinel:// redis+cluster:// rediss+cluster:// redis+quorum:// rediss+quorum:// \
            etcd:// etcds:// postgres:// postgresql:// valkey:// valkeys://
      fi
      ;;
    --config | --report | --password-file | --sentinel-password-file | --token-file | --tls-ca | \
      --tls-cert | --tls-key | --tls-key-password-file)
      compopt -o filenames 2> /dev/null
      mapfile -t COMPREPLY < <(compgen -f -P "$before" -- "$value")
      ;;
    --color) _dlock_offer auto always never ;;
    --replicas) _dlock_offer 0 1 2 all ;;
    --sentinel-tls) _dlock_offer true false ;;
    --min-strength) _dlock_offer 0 1 2 ;;
    --max-ttl) _dlock_offer 30s 1m 10m ;;
    --on-outage) _dlock_offer stop run ;;
    --output) _dlock_offer pass on-failure ;;
    --stragglers) _dlock_offer leave wait kill ;;
    --notify) _dlock_offer dlock command off ;;
    --sort) _dlock_offer name age ;;
    --since | --succeeded-within) _dlock_offer 10m 1h 1d ;;
    --wait | -w) _dlock_offer forever 10s 1m 10m 1h ;;
    --timeout | --jitter | --splay | --lock-delay | --ttl | -t) _dlock_offer 10s 30s 1m 10m 1h ;;
    --max-size | --keep-output) _dlock_offer 64KiB 1MiB 16MiB 256MiB ;;
    --dedupe) _dlock_offer 1m 10m 1h 12h hour day week month ;;
    --min-hold | --stale) _dlock_offer 1m 10m 1h 12h ;;
    --kill-after | -k | --store-timeout | --min-validity) _dlock_offer 1s 5s 10s 30s ;;
  esac
}

_dlock_offer_names() {  # <dlock> [<option>...]
  local name begun=$value
  if [[ $begun == [\"\']* ]]; then
    begun=${begun:1}
  else
    begun=${begun//\\/}
  fi
  while IFS= read -r name; do
    # Within quotes bash quotes by itself.
    if [[ $value == [\"\']* ]]; then
      COMPREPLY+=("$name")
    else
      printf -v name %q "$name"
      COMPREPLY+=("$name")
    fi
  done < <(_dlock_names "$begun" "$@")
}

_dlock_offer_command() {  # <place of its first word in COMP_WORDS>
  if declare -F _command_offset > /dev/null; then
    _command_offset "$1"
  elif (($1 == COMP_CWORD)); then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -A command -- "$value")
  else
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$value")
  fi
}

_dlock() {
  local words first fixed i word verb='' operands=0 ended=false pending='' value before=''
  local program store=() before_command=-1  # operands that it follows
  COMPREPLY=()
  _dlock_split

  # A dlock is asked for names by this very path, with the options that say where.
  program=$(type -P -- "${words[0]/#\~\//$HOME/}") || program=dlock
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    if [[ -n $pending ]]; then
      ! _dlock_tells_store "$pending" || store+=("$pending" "${word/#\~\//$HOME/}")
      pending=''
    elif [[ $word == -- ]] && { ! $ended || ((operands == before_command)); }; then
      if ((operands == before_command)); then
        _dlock_offer_command "${first[i + 1]}"
        return
      fi
      ended=true
    elif ! $ended && [[ $word == --*=* ]]; then
      ! _dlock_tells_store "${word%%=*}" || store+=("${word%%=*}" "${word#*=}")
    elif ! $ended && [[ $word == --tls-insecure ]]; then
      store+=("$word")
    elif ! $ended && [[ $word == --* ]]; then
      if _dlock_takes_value "$word"; then pending=$word; fi
    elif ! $ended && [[ $word == -?* ]]; then
      # Letters in one word; the first that takes a value has the rest of it.
      while word=${word:1} && [[ -n $word ]]; do
        _dlock_takes_value "-${word::1}" || continue
        if ((${#word} == 1)); then pending=-$word; fi
        break
      done
    elif [[ -z $verb ]]; then
      verb=$word
      case $verb in
        run | cache) before_command=1 ;;
        limit) before_command=2 ;;
      esac
    elif ((operands == before_command)); then
      _dlock_offer_command "${first[i]}"
      return
    else
      operands=$((operands + 1))
    fi
  done

  value=${words[-1]}
  if [[ -n $pending ]]; then
    _dlock_offer_value_of "$pending"
  elif ! $ended && [[ $value == --*=* ]]; then
    before=${value%%=*}=
    value=${value#*=}
    _dlock_offer_value_of "${before%=}"
  elif ! $ended && [[ $value == -* ]]; then
    _dlock_offer "${_dlock_common_options[@]}"
    case $verb in
      run) _dlock_offer "${_dlock_run_options[@]}" ;;
      acquire) _dlock_offer "${_dlock_acquire_options[@]}" ;;
      renew) _dlock_offer "${_dlock_renew_options[@]}" ;;
      release) _dlock_offer "${_dlock_release_options[@]}" ;;
      check) _dlock_offer "${_dlock_check_options[@]}" ;;
      list) _dlock_offer "${_dlock_list_options[@]}" ;;
      history) _dlock_offer "${_dlock_history_options[@]}" ;;
      break) _dlock_offer "${_dlock_break_options[@]}" ;;
      cache) _dlock_offer "${_dlock_cache_options[@]}" ;;
      limit) _dlock_offer "${_dlock_limit_options[@]}" ;;
      doctor) _dlock_offer "${_dlock_doctor_options[@]}" ;;
    esac
  elif [[ -z $verb ]]; then
    _dlock_offer "${_dlock_verbs[@]}"
  elif ((operands == before_command)); then
    _dlock_offer_command "${first[-1]}"
    return
  elif [[ $verb == limit ]] && ((operands == 1)); then
    _dlock_offer 1/1s 5/1s 10/1m 100/1h
  elif [[ $verb == help ]]; then
    ((operands > 0)) || _dlock_offer "${_dlock_verbs[@]}" options
  elif [[ $verb != @(fence|limit|cache|doctor) ]] && { ((operands == 0)) || [[ $verb == @(watch|status|break) ]]; } &&
    [[ ${store[*]} != *[\`\$\"\'\\~]* ]]; then
    # What would have to be expanded first is not: nothing runs because of a Tab.
    _dlock_offer_names "$program" "${store[@]}"
  fi
  [[ -z $fixed ]] || COMPREPLY=("${COMPREPLY[@]#"$fixed"}")
}

complete -F _dlock dlock
