#!/usr/bin/env bats
# Error messages: what failed, why, and what to do if that is not obvious. bad_input.bats
# tests more of what is refused; this file tests the words.
# shellcheck disable=SC2034  # the tables use the variables

setup() {
  load support
  load ../faults/redis
  if [[ $BATS_TEST_DESCRIPTION == servers* ]]; then use_redis_store; else use_private_store; fi
  cd "$BATS_TEST_TMPDIR" || return
}

# Runs each row of a table: "CODE | COMMAND | MESSAGE". MESSAGE is a pattern as in `case`.
# It has to match the whole output after "dlock: ". Prints each row that fails.
assert_says() {  # < table
  local code command message said status wrong=0
  while IFS='|' read -r code command message; do
    code=${code// /} command=$(trimmed "$command") message=$(trimmed "$message")
    [[ -n $code ]] || continue
    status=0
    said=$(eval "timeout 20 $command" 2>&1 < /dev/null 3>&-) || status=$?
    # shellcheck disable=SC2053
    [[ $status != "$code" || $said == *$'\n'* || $said != "dlock: "$message ]] || continue
    printf '%s\n  exits with: %s, not %s\n  says:     %s\n  expected: dlock: %s\n' \
      "$command" "$status" "$code" "$said" "$message" >&2
    wrong=1
  done
  return "$wrong"
}

trimmed() {
  local text=${1#"${1%%[! ]*}"}
  echo "${text%"${text##*[! ]}"}"
}

@test "a wrong row in a table fails the test" {
  run assert_says << 'END'
    64 | dlock frobnicate | something else
END
  [[ $status == 1 && $output == *'says:     dlock: unknown verb'* ]]
  run assert_says <<< "0 | dlock frobnicate | unknown verb 'frobnicate'; to run a command: dlock run frobnicate -- COMMAND"
  assert_status 1
  run assert_says <<< "64 | dlock frobnicate | unknown verb 'frobnicate'; to run a command: dlock run frobnicate -- COMMAND"
  assert_status 0
}

@test "a usage error names the wrong or missing word" {
  assert_says << 'END'
    64 | dlock                            | missing verb (see dlock --help)
    64 | dlock frobnicate                 | unknown verb 'frobnicate'; to run a command: dlock run frobnicate -- COMMAND
    64 | dlock rnu job -- true            | unknown verb 'rnu': did you mean 'run'?
    64 | dlock run --tll 5s job -- true   | unknown option '--tll': did you mean '--ttl'?
    64 | dlock run -z job -- true         | unknown option '-z' (see dlock run --help)
    64 | dlock list --password x          | '--password' is not an option, because other users could read it: use --password-file or DLOCK_PASSWORD
    64 | dlock list --json=yes            | '--json': the option takes no value
    64 | dlock run job --wait             | --wait needs a value
    64 | dlock run                        | missing lock name (usage: dlock run *)
    64 | dlock run job                    | missing command (usage: dlock run *)
    64 | dlock status                     | missing lock name (usage: dlock status *)
    64 | dlock renew job other            | unexpected argument 'other' (usage: dlock renew *)
    64 | dlock fence                      | missing resource name (usage: dlock fence *)
    64 | dlock fence disk                 | missing fence (usage: dlock fence *)
    64 | dlock limit                      | missing limit name (usage: dlock limit *)
    64 | dlock limit api                  | missing rate, such as 5/1s (usage: dlock limit *)
    64 | dlock cache                      | missing key (usage: dlock cache *)
    64 | dlock cache key                  | missing command (usage: dlock cache *)
    64 | dlock cache key --               | missing command (usage: dlock cache *)
    64 | dlock run job --                 | missing command (usage: dlock run *)
    64 | dlock limit api 5/1s --          | missing command (usage: dlock limit *)
    64 | dlock limit -- api 5/1s --       | missing command (usage: dlock limit *)
    64 | dlock limit api --               | missing rate, such as 5/1s (usage: dlock limit *)
    64 | dlock check                      | missing lock name, and DLOCK_NAME is not set
    64 | dlock check job                  | missing fence (use --fence or DLOCK_FENCE)
    64 | dlock renew job                  | missing token (use --token, --token-file or DLOCK_TOKEN)
END
}

@test "an error about a name states the rule that the name breaks" {
  long=$(printf 'n%.0s' {1..256})
  assert_says << 'END'
    64 | dlock status ''                          | a name cannot be empty
    64 | dlock status "$long"                     | a name can have at most 255 bytes; this one has 256
    64 | dlock status $'a\tb'                     | 'a\\tb' is not a name: U+0009 cannot be seen
    64 | dlock status $'\xff'                     | '\\xff' is not a name: byte \\xff is not UTF-8
    64 | dlock status 'job '                      | 'job\\x20' is not a name: U+0020 is a blank at the end
    64 | dlock status $'\xc2\xa0job'              | '\\xc2\\xa0job' is not a name: U+00A0 is a blank at the beginning
    64 | dlock run $'j\xe2\x80\x8bob' -- true      | 'j\\xe2\\x80\\x8bob' is not a name: U+200B cannot be seen
    64 | dlock acquire $'job\xe3\x85\xa4'         | 'job\\xe3\\x85\\xa4' is not a name: U+3164 cannot be seen
    64 | dlock cache 'key ' -- true               | 'key\\x20' is not a name: U+0020 is a blank at the end
    64 | dlock fence ' disk' 1                    | '\\x20disk' is not a name: U+0020 is a blank at the beginning
    64 | dlock --namespace 'a ' list              | --namespace: 'a\\x20' is not a name: U+0020 is a blank at the end
    64 | dlock --namespace '' list                | --namespace: a name cannot be empty
    64 | dlock run --label $'a\nb' job -- true    | --label: 'a\\nb' contains bytes that are not printable UTF-8
    64 | dlock run --label '' job -- true         | --label: a label cannot be empty
    64 | dlock acquire --label '' job             | --label: a label cannot be empty
    64 | dlock run --label "$long" job -- true    | --label: a label can have at most 255 bytes; this one has 256
    64 | dlock cache "$long" -- true              | a key can have at most 249 bytes; this one has 256
    64 | dlock --user '' list                     | --user: missing user name
    64 | dlock --user $'\xff' list                | --user: not printable UTF-8
    64 | dlock --tls-ca '' list                   | --tls-ca: missing file name
    64 | dlock run --report '' job -- true        | --report: missing file name
    64 | dlock --config '' list                   | --config: missing file name
END
}

@test "an error about a value names the option and the expected form" {
  assert_says << 'END'
    64 | dlock run -w soon job -- true            | --wait: 'soon' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
    64 | dlock run -w '5 min' job -- true         | --wait: '5 min' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
    64 | dlock run -w 40000d job -- true          | --wait: '40000d' is longer than 100 years
    64 | dlock run --ttl 100ms job -- true        | --ttl: must be at least 500ms
    64 | dlock run --timeout 0 job -- true        | --timeout: cannot be zero
    64 | dlock --store-timeout 0 list             | --store-timeout: cannot be zero
    64 | dlock run --dedupe 31d job -- true       | --dedupe: must be at most 30 days
    64 | dlock run --min-hold 31d job -- true     | --min-hold: must be at most 30 days
    64 | dlock run -n 0 job -- true               | --slots: '0' is not a whole number from 1 to 100000
    64 | dlock run -E 256 job -- true             | --conflict-exit-code: '256' is not a whole number from 0 to 255
    64 | dlock history job --succeeded-within 0s  | --succeeded-within: cannot be zero
    64 | dlock history --limit 0 job              | --limit: '0' is not a whole number from 1 to 1000000
    64 | dlock fence disk 0                       | '0' is not a fence: expected a whole number from 1 to 9223372036854775807
    64 | dlock check --fence x job                | --fence: 'x' is not a fence: expected a whole number from 1 to 9223372036854775807
    64 | dlock renew --token x job                | --token: invalid token: expected 32 hexadecimal digits
    64 | dlock acquire --for-pid 0 job            | --for-pid: '0' is not a whole number from 1 to *
    64 | dlock cache --max-size big key -- true   | --max-size: 'big' is not a size: expected bytes, such as 16MiB, 500KB or 4096
    64 | dlock cache --max-size 1GiB key -- true  | --max-size: '1GiB' is more than 512MiB
    64 | dlock cache --ttl 0 key -- true          | --ttl: cannot be zero
    64 | dlock limit api often                    | 'often' is not a rate: expected NUMBER/PERIOD, such as 5/1m or 10/800ms
    64 | dlock limit api '5/1 min'                | '1 min' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
    64 | dlock limit api 5/0s                     | the period of a rate cannot be zero
    64 | dlock --color red list                   | --color: expected auto, always or never, not 'red'
    64 | dlock run --stragglers kil job -- true   | --stragglers: expected leave, wait or kill, not 'kil': did you mean 'kill'?
    64 | dlock run --on-outage panic job -- true  | --on-outage: expected stop or run, not 'panic'
    64 | dlock run --also cache:KEY job -- true   | --also: *write 'cache:KEY:'*
    64 | dlock run --also job:shared job -- true  | --also: *'job' is the lock of this run already*
    64 | dlock --address-map a=b:70000 list       | --address-map: *
    64 | dlock --replicas=16 list                 | --replicas: *whole number from 0 to 15, or all*
    64 | dlock --tls-name a/b list                | --tls-name: *
    64 | dlock list --sort size                   | --sort: *
END
}

@test "an error about a combination names the options" {
  assert_says << 'END'
    64 | dlock run -s -n 2 job -- true            | --shared and --slots cannot be combined
    64 | dlock run --dedupe 1m -s job -- true     | --dedupe and --shared cannot be combined
    64 | dlock run --retry-failed job -- true     | --retry-failed needs --dedupe
    64 | dlock --tls-cert a list                  | --tls-cert and --tls-key must be set together
    64 | dlock renew --token 000102030405060708090a0b0c0d0e0f --token-file x job | --token and --token-file cannot be combined
    64 | dlock cache --forget key -- true         | --forget takes no command
    64 | dlock list --json --live > /dev/null     | --json and --live cannot be combined
    64 | dlock list --json --prometheus > /dev/null | --json and --prometheus cannot be combined
    64 | dlock break job                          | break asks for confirmation on a terminal; elsewhere it needs --yes
    64 | dlock limit --show api 1/s               | --show and --reset take only a name (usage: dlock limit NAME --show)
    64 | dlock limit --reset api 1/s              | --show and --reset take only a name (usage: dlock limit NAME --show)
    64 | dlock list a b                           | unexpected argument 'b' *
    64 | dlock run --also b --supersede -w 1s job -- true | --supersede and --also cannot be combined*
END
}

@test "an error about a variable names the variable" {
  assert_says << 'END'
    64 | env DLOCK_STORE_TIMEOUT=soon dlock list  | DLOCK_STORE_TIMEOUT: 'soon' is not a duration: *
    64 | env DLOCK_TLS_INSECURE=maybe dlock list  | DLOCK_TLS_INSECURE: expected true or false, not 'maybe'
    78 | env DLOCK_STORE=nowhere: dlock list      | DLOCK_STORE: store 'nowhere:': unknown kind of store (*)
    64 | env DLOCK_TOKEN=x dlock renew job        | DLOCK_TOKEN: invalid token: expected 32 hexadecimal digits
    78 | env DLOCK_CONFIG=missing dlock list      | */missing: No such file or directory
END
}

@test "an error in a configuration file names the file and the line" {
  echo 'stor = "none:"' > key
  printf '# ours\nstore = \n' > syntax
  { printf '# ours\nstore = '; printf '[%.0s' {1..20000}; } > deep
  { printf '# ours\n'; printf 'a.%.0s' {1..100000}; echo 'a = 1'; } > dotted
  { printf '# ours\n'; printf 'a.%.0s' {1..60}; printf 'a = '; printf '[%.0s' {1..60}; } > both
  printf '# ours\n[run]\nwait = soon\n' > word
  printf 'store = none:\n' > not_quoted
  printf '[run]\nwait = "1s\n' > open_string
  printf 'json = true\njson = false\n' > twice
  echo '[rnu]' > table
  echo 'store = [1]' > array
  printf '[run]\nwait = "soon"\n' > value
  echo 'password = "secret"' > password
  echo 'json = "maybe"' > flag
  echo > open
  chmod o+w open
  mkdir directory
  assert_says << 'END'
    78 | dlock --config missing list   | */missing: No such file or directory
    78 | dlock --config directory list | */directory: it is a directory, not a file
    78 | dlock --config key list       | */key:1: unknown key stor: did you mean 'store'?
    78 | dlock --config syntax list    | */syntax:2: not valid TOML: ?*
    78 | dlock --config word list      | */word:3: not valid TOML: ?*
    78 | dlock --config not_quoted list | */not_quoted:1: not valid TOML: ?*
    78 | dlock --config open_string list | */open_string:2: not valid TOML: ?*
    78 | dlock --config twice list     | */twice:2: not valid TOML: *already exists*
    78 | dlock --config deep list      | */deep:2: nested more than 100 levels deep
    78 | dlock --config dotted list    | */dotted:2: nested more than 100 levels deep
    78 | dlock --config both list      | */both:2: nested more than 100 levels deep
    78 | dlock --config table list     | */table:1: unknown table \[rnu]: did you mean 'run'?
    78 | dlock --config array list     | */array:1: *store*
    78 | dlock --config value run job -- true | */value:2: run.wait: 'soon' is not a duration: *
    78 | dlock --config password list  | */password:1: a password cannot be set here; use password-file
    78 | dlock --config flag list      | */flag:1: json: expected true or false, not 'maybe'
    77 | dlock --config open list      | */open: refusing to use a file that everyone can write (chmod o-w)
END
}

@test "an error in a store URL shows the URL without its password" {
  assert_says << 'END'
    78 | dlock --store nowhere: list               | --store: store 'nowhere:': unknown kind of store (*local:*)
    78 | dlock --store local:dir list              | --store: store 'local:dir': *absolute*
    78 | dlock --store none:/dir list              | --store: store 'none:/dir': *
    78 | dlock --store etcd://host/x list          | --store: store 'etcd://host/x': nothing may follow the servers
    78 | dlock --store redis://host:0 list         | --store: store 'redis://host...': the port must be a number from 1 to 65535
    78 | dlock --store redis://host/x list         | --store: store 'redis://host/x': *
    78 | dlock --store redis+unix:path list        | --store: store 'redis+unix:path': *absolute*
    78 | dlock --store redis://user:secret@host:x list | --store: store 'redis://...@host...': the port must be a number from 1 to 65535
END
}

@test "an unavailable store is named, with the reason" {
  assert_says << 'END'
    69 | dlock --store redis+unix:/no/such/socket list    | cannot reach /no/such/socket: no such file or directory
    69 | dlock --store redis://127.0.0.1:1 list           | cannot reach 127.0.0.1:1: connection refused
    69 | dlock --store redis://127.0.0.1:1 run job -- true | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock --store redis://127.0.0.1:1 watch          | cannot reach 127.0.0.1:1: connection refused
    69 | dlock --store redis://no-such-host.invalid list  | cannot reach no-such-host.invalid:6379: *
END
}

@test "verbs that take one name print it if the store is unavailable" {
  export DLOCK_STORE=redis://127.0.0.1:1 DLOCK_TOKEN=000102030405060708090a0b0c0d0e0f
  assert_says << 'END'
    69 | dlock acquire job           | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock renew job             | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock release job           | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock check --fence 1 job   | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock fence disk 1          | disk: cannot reach 127.0.0.1:1: connection refused
    69 | dlock status job            | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock history job           | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock break --yes job       | job: cannot reach 127.0.0.1:1: connection refused
    69 | dlock limit api 1/1s        | api: cannot reach 127.0.0.1:1: connection refused
    69 | dlock cache key -- echo hi  | cache:key: cannot reach 127.0.0.1:1: connection refused
    69 | dlock cache --forget key    | cache:key: cannot reach 127.0.0.1:1: connection refused
    69 | dlock cache -w 1s key -- true | cache:key: cannot reach 127.0.0.1:1: connection refused
END
}

@test "an unusable directory or file is named, with the reason" {
  touch file
  mkdir open
  chmod 777 open
  echo > empty
  assert_says << 'END'
    78 | dlock --store "local:$PWD/file" list       | */file is not a directory (another user's link is not followed)
    77 | dlock --store "local:$PWD/open" list       | the directory */open is not safe to use: everyone can write to it; chmod o-w */open, or name a directory in it
    78 | dlock run --report /no/such/file job -- true | job: cannot write the report to /no/such/file: No such file or directory
    78 | dlock renew --token-file missing job       | --token-file: *missing: No such file or directory
    64 | dlock renew --token-file empty job         | --token-file: *
    78 | dlock --store "local:$PWD/no/dir" run job -- true | *cannot create the directory */no/dir: No such file or directory; create */no first
    78 | dlock --store local:/proc/dlock run job -- true | *cannot create the directory /proc/dlock: No such file or directory
END
}

@test "a failed write to standard output or to a report is reported, with the reason" {
  dlock run job -- true
  assert_says << 'END'
    69 | dlock --help > /dev/full                  | cannot write to standard output: No space left on device
    69 | dlock list > /dev/full                    | cannot write to standard output: No space left on device
    69 | dlock list --live > /dev/full             | cannot write to standard output: No space left on device
    69 | dlock history job > /dev/full             | job: cannot write to standard output: No space left on device
    69 | dlock acquire other > /dev/full           | other: cannot write to standard output: No space left on device
    69 | dlock cache key -- echo x > /dev/full     | cache:key: cannot write to standard output: No space left on device
    69 | dlock acquire other >&-                   | other: nowhere to print the token: standard output is closed
     0 | dlock run --report /dev/full job -- true  | job: cannot write the report to /dev/full: No space left on device
END
}

@test "a command that cannot be started is named, with the reason" {
  touch plain
  assert_says << 'END'
    127 | dlock run job -- /no/such/command  | job: /no/such/command: command not found
    127 | dlock run job -- no-such-command   | job: no-such-command: command not found
    126 | dlock run job -- ./plain           | job: ./plain: permission denied
END
}

@test "a conflict over a lock or limit is explained" {
  hold job
  hold sem -n 2
  dlock acquire mine > /dev/null
  dlock limit api 1/1h
  some=000102030405060708090a0b0c0d0e0f
  assert_says << 'END'
    75 | dlock run job -- true               | job: held by *@* (pid *, sh -c *) for *
    75 | dlock run -w 100ms job -- true      | job: not acquired within 100ms: held by *
    78 | dlock run -n 3 sem -- true          | sem: in use with 2 slots, not 3: all users of a lock must set the same --slots
    78 | dlock run -n 2 job -- true          | job: in use with 1 slot, not 2: all users of a lock must set the same --slots
    75 | dlock limit api 1/1h                | api: rate exceeded (1/1h): next turn in *
    78 | dlock limit api 2/1h                | api: in use with 1/1h, not 2/1h: all users of a limit must set the same rate
    76 | dlock renew --token $some never     | never: was never held by this token, as far as local:*/store knows
    76 | dlock release --token $some never   | never: was never held by this token, as far as local:*/store knows
    76 | dlock check never --fence 5         | never: was never held by this grant, as far as local:*/store knows
    76 | dlock renew --token $some mine      | mine: not held by this token (no longer, or never)
    76 | dlock release --token $some mine    | mine: not held by this token (no longer, or never)
     1 | dlock break --yes free              | free: not held in local:*/store
     1 | dlock break --yes --fence 1 job     | job: not held by fence 1 in local:*/store
     0 | dlock history free                  | free: no runs are recorded in local:*/store
    75 | dlock run outer -- dlock run outer -- true | outer: held by an outer run
    124 | dlock run --timeout 100ms slow -- sleep 60 | slow: timed out: the command was stopped after *
END
}

@test "servers that refuse a login or a request are reported, with the reason" {
  redis SET 'dlock:{number}:s' 1 > /dev/null
  redis LPUSH 'dlock:{list}' 1 > /dev/null
  touch empty
  printf x > wrong
  chmod 600 empty wrong
  redis ACL SETUSER mute on '>secret' '~*' '&*' -@all > /dev/null
  assert_says << 'END'
    77 | dlock --password-file wrong list                | *: login refused: WRONGPASS *
    78 | dlock --password-file missing list              | password file */missing: No such file or directory
    78 | dlock --password-file "$PWD" list               | password file *: it is a directory, not a file
    78 | env -u DLOCK_PASSWORD_FILE dlock list           | *: no password for user 'dlock': use --password-file or DLOCK_PASSWORD
    77 | env -u DLOCK_PASSWORD_FILE DLOCK_USER=mute DLOCK_PASSWORD=secret dlock status job | *NOPERM*
    78 | dlock run list -- true                          | list: *: the lock's key does not hold a lock: *
END
}
