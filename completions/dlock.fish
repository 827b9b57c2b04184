# Completion of dlock(1) for fish.

# Whether an option takes the next word as its value.
function __dlock_wants_value
    contains -- $argv[1] --store --namespace --config --store-timeout --color \
        --user --password-file --password-command --tls-ca --tls-cert --tls-key --tls-key-password-file --tls-name \
        --replicas --sentinel-user --sentinel-password-file --sentinel-tls \
        --min-strength --max-ttl --address-map \
        --wait --ttl --slots --priority --also --conflict-exit-code --timeout --kill-after --jitter --splay \
        --on-start --on-success --on-failure --on-busy \
        --dedupe --max-queue --min-hold --on-outage --lock-delay --stragglers --label --notify --output --keep-output --report \
        --for-pid --token --token-file --fence --min-validity --limit --stale --max-size \
        --sort --since --succeeded-within --host --owner
    # Combined letters: flags, and at the end one option with a value.
    or string match -qr '^-[^-wtnEk]*[wtnEk]$' -- $argv[1]
end

# The number of operands between the verb and its command; -1 if the verb has no command.
function __dlock_before_command
    switch $argv[1]
        case run cache
            echo 1
        case limit
            echo 2
        case '*'
            echo -1
    end
end

# Prints what is expected at the cursor: "verb", "name", "limit-name", "rate", "command", "option-or-command" or "end",
# then the verb, and for a command the number of words before it.
function __dlock_place
    set -l tokens (commandline -opc)
    set -l verb
    set -l operands 0
    set -l before -1
    set -l ended 0
    set -l i 1
    while test $i -lt (count $tokens)
        set i (math $i + 1)
        set -l token $tokens[$i]
        if test "$token" = --; and test $ended -eq 0 -o $operands -eq $before
            if test $operands -eq $before
                printf '%s\n' command $verb $i
                return
            end
            set ended 1
        else if test $ended -eq 0; and string match -q -- '-?*' $token
            if __dlock_wants_value $token
                set i (math $i + 1)
            end
        else if test -z "$verb"
            set verb $token
            set before (__dlock_before_command $verb)
        else if test $operands -eq $before
            printf '%s\n' command $verb (math $i - 1)
            return
        else
            set operands (math $operands + 1)
        end
    end
    if test -z "$verb"
        echo verb
    else if test "$verb" = limit -a $operands -lt 2
        test $operands -eq 0; and printf '%s\n' limit-name $verb; or printf '%s\n' rate $verb
    else if test "$verb" = help
        test $operands -eq 0; and printf '%s\n' verb help; or printf '%s\n' end help
    else if contains -- "$verb" watch status break; or begin; test $operands -eq 0; and not contains -- "$verb" fence cache doctor; end
        printf '%s\n' name $verb
    else if test $operands -eq $before
        set -l place command
        test $ended -eq 0; and set place option-or-command
        printf '%s\n' $place $verb (count $tokens)
    else
        printf '%s\n' end $verb
    end
end

# Whether one of these is expected at the cursor.
function __dlock_at
    contains -- (__dlock_place)[1] $argv
end

# Whether an option of this verb, or a common option if there is no verb, may stand here.
function __dlock_options
    set -l place (__dlock_place)
    test "$place[1]" != command
    and test -z "$argv[1]" -o "$argv[1]" = "$place[2]"
end

# Lists the lock names in the store that the words typed so far select, with a short time
# limit. JSON escapes quotes inside strings, so only the first key of an object matches
# the pattern, and only locks begin with a name.
function __dlock_names
    set -l tokens (commandline -opc)
    set -l program $tokens[1]
    type -q -- $program; or set program dlock
    set -l store
    set -l tells_store '^--(store|namespace|config|user|password-(file|command)|tls-(ca|cert|key|name)|sentinel-(user|password-file|tls))'
    for i in (seq 2 (count $tokens))
        if string match -qr "$tells_store=|^--tls-insecure\$" -- $tokens[$i]
            set -a store $tokens[$i]
        else if string match -qr "$tells_store\$" -- $tokens[$i]
            set -a store $tokens[$i..(math $i + 1)]
        end
    end
    command timeout 2 $program $store --store-timeout 500ms list --json 2>/dev/null </dev/null |
        LC_ALL=C command grep -aoE '\{"name":"([^"\\\\]|\\\\.)*"' |
        command head -n 2000 |
        command sed -e 's/^{"name":"//' -e 's/"$//' -e 's/\\\\\(.\)/\1/g'
end

# The completions of the command under the lock, as if it were the whole line.
function __dlock_command
    set -l place (__dlock_place)
    set -l words (commandline -opc)
    set -e words[1..$place[3]]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

function __dlock_stores
    set -l typed (commandline -ct | string replace -r '^--store=' '')
    if string match -q 'local:/*' -- $typed
        set -l directory (string replace 'local:' '' -- $typed)
        printf 'local:%s\n' (__fish_complete_directories $directory '')
    else if string match -q 'redis+unix:/*' -- $typed
        set -l path (string replace 'redis+unix:' '' -- $typed)
        printf 'redis+unix:%s\n' (__fish_complete_path $path '')
    else
        printf '%s\t%s\n' local: 'this machine, your own directory' \
            local:/ 'this machine, a directory' \
            redis:// 'a Redis or Valkey server' \
            rediss:// 'a Redis or Valkey server, over TLS' \
            valkey:// 'a Valkey server' valkeys:// 'a Valkey server, over TLS' \
            redis+unix:/ 'a Redis or Valkey server, by its socket' \
            redis+sentinel:// 'servers that fail over, found by sentinels' \
            rediss+sentinel:// 'servers that fail over, found by sentinels, over TLS' \
            redis+cluster:// 'a cluster of Redis or Valkey servers' \
            rediss+cluster:// 'a cluster of Redis or Valkey servers, over TLS' \
            redis+quorum:// 'several independent Redis or Valkey servers' \
            rediss+quorum:// 'several independent Redis or Valkey servers, over TLS' \
            etcd:// 'a cluster of etcd' \
            etcds:// 'a cluster of etcd, over TLS' \
            postgres:// 'a PostgreSQL database' postgresql:// 'a PostgreSQL database' \
            none: 'no lock at all'
    end
end

complete -c dlock -f

set -l verb -n '__dlock_at verb'
complete -c dlock $verb -a run -d 'hold a lock while a command runs'
complete -c dlock $verb -a acquire -d 'take a lock and print its token'
complete -c dlock $verb -a renew -d 'extend the lease of an acquired lock'
complete -c dlock $verb -a release -d 'release an acquired lock'
complete -c dlock $verb -a check -d 'check whether a lock is still held'
complete -c dlock $verb -a fence -d 'refuse a fencing token that is older than the newest'
complete -c dlock $verb -a status -d 'show the holders, waiters and last run of a lock'
complete -c dlock $verb -a list -d 'list the locks in use, and those used before'
complete -c dlock $verb -a watch -d 'print lock events as they happen'
complete -c dlock $verb -a history -d 'show the last runs of a lock, or of all locks'
complete -c dlock $verb -a doctor -d 'check the store and recommend fixes'
complete -c dlock $verb -a config -d 'show every setting and where it comes from'
complete -c dlock $verb -a help -d 'show the help of a verb, or the options of every verb'
complete -c dlock -n 'test (__dlock_place | string join -- /) = verb/help' -a options -d 'the options of every verb'
complete -c dlock $verb -a break -d 'take locks from their holders and stop their commands'
complete -c dlock $verb -a cache -d 'print a command\'s output, running it only if needed'
complete -c dlock $verb -a limit -d 'let at most N through in any PERIOD'
complete -c dlock -n '__dlock_at name' -a '(__dlock_names)' -d lock
complete -c dlock -n '__dlock_at rate' -a '1/1s 5/1s 10/1m 100/1h' -d 'at most this many in any such period'
complete -c dlock -n '__dlock_at command option-or-command' -a '(__dlock_command)'

set -l common -n __dlock_options
complete -c dlock $common -l store -x -a '(__dlock_stores)' -d 'where locks live'
complete -c dlock $common -l namespace -x -d 'prefix of every name'
complete -c dlock $common -l config -r -F -d 'TOML configuration file'
complete -c dlock $common -l store-timeout -x -a '1s 5s 10s 30s' -d 'time limit of a store operation'
complete -c dlock $common -l user -x -d 'log in to the store as this user'
complete -c dlock $common -l password-file -r -F -d 'read the password from this file'
complete -c dlock $common -l password-command -x -d 'run CMD for the password at each login'
complete -c dlock $common -l replicas -x -a '0 1 2 all' -d 'replicas that must confirm a lease'
complete -c dlock $common -l sentinel-user -x -d 'log in to sentinels as this user'
complete -c dlock $common -l sentinel-password-file -r -F -d 'read the sentinel password from this file'
complete -c dlock $common -l sentinel-tls -x -a 'true false' -d 'use TLS for sentinels'
complete -c dlock $common -l min-strength -x -a '0 1 2' -d 'minimum strength of a lease to start'
complete -c dlock $common -l max-ttl -x -a '30s 1m 10m' -d 'servers up for less do not vote'
complete -c dlock $common -l address-map -x -d 'address to use for an announced one'
complete -c dlock $common -l tls-ca -r -F -d 'CA certificates to trust'
complete -c dlock $common -l tls-cert -r -F -d 'client certificate'
complete -c dlock $common -l tls-key -r -F -d 'key of the client certificate'
complete -c dlock $common -l tls-key-password-file -r -F -d 'read the pass phrase of the key from FILE'
complete -c dlock $common -l tls-name -x -d 'name that the certificate must have'
complete -c dlock $common -l tls-insecure -d 'accept any certificate'
complete -c dlock $common -l json -d 'print one JSON document'
complete -c dlock $common -s q -l quiet -d 'print errors only'
complete -c dlock $common -s v -l verbose -d 'print each step'
complete -c dlock $common -l color -x -a 'auto always never' -d 'when to use colors'
complete -c dlock $common -s h -l help -d 'show the help'
complete -c dlock $common -l version -d 'show the version'

set -l run -n '__dlock_options run'
complete -c dlock $run -s w -l wait -x -a 'forever 10s 1m 10m 1h' -d 'queue for up to this long'
complete -c dlock $run -s t -l ttl -x -a '10s 30s 1m 10m' -d 'lease length'
complete -c dlock $run -s n -l slots -x -d 'holders allowed at a time'
complete -c dlock $run -l spread -d 'with --slots: at most one slot a host'
complete -c dlock $run -l priority -x -d 'place in the queue: -20 first, 19 last'
complete -c dlock $run -s s -l shared -d 'share the lock with other shared holders'
complete -c dlock $run -l also -x -d 'hold this lock as well'
complete -c dlock $run -s E -l conflict-exit-code -x -d 'exit code if not acquired'
complete -c dlock $run -l dedupe -x -a '1m 10m 1h 12h hour day week month' -d 'skip if running, or started within this time'
complete -c dlock $run -l retry-failed -d 'failed runs do not count'
complete -c dlock $run -l replace -d 'take the lock from its holder'
complete -c dlock $run -l supersede -d 'give way to a newer run with --supersede'
complete -c dlock $run -l max-queue -x -d 'do not wait if this many are already waiting'
complete -c dlock $run -l min-hold -x -a '1m 10m 1h' -d 'hold the lock for at least this long'
complete -c dlock $run -l timeout -x -a '10s 1m 10m 1h' -d 'stop the command after this long'
complete -c dlock $run -s k -l kill-after -x -a '1s 5s 10s 30s' -d 'time from SIGTERM to SIGKILL'
complete -c dlock $run -l jitter -x -a '10s 1m 10m' -d 'first sleep for a random time of up to this long'
complete -c dlock $run -l splay -x -a '10s 1m 10m' -d 'first sleep for a fixed part of this'
complete -c dlock $run -l on-outage -x -a 'stop run' -d 'if the store is down'
complete -c dlock $run -l reclaim -d 'restore a lease that the store has forgotten'
complete -c dlock $run -l lock-delay -x -a '10s 30s 1m 10m' -d 'the store keeps the lease this much longer'
complete -c dlock $run -l stragglers -x -a 'leave wait kill' -d 'what to do about leftover processes'
complete -c dlock $run -l label -x -d 'text shown by status'
complete -c dlock $run -l notify -x -a 'dlock command off' -d 'who tells systemd about the start'
complete -c dlock $run -l output -r -F -a 'pass on-failure' -d 'where the output goes'
complete -c dlock $run -l keep-output -x -a '64KiB 1MiB 16MiB' -d 'how much of it to keep'
complete -c dlock $run -l report -r -F -d 'write the outcome to this file as JSON'
complete -c dlock $run -l on-start -x -d 'shell command to run beside the command'
complete -c dlock $run -l on-success -x -d 'shell command to run after success'
complete -c dlock $run -l on-failure -x -d 'shell command to run after failure'
complete -c dlock $run -l on-busy -x -d 'shell command to run if not acquired'

set -l acquire -n '__dlock_options acquire'
complete -c dlock $acquire -s w -l wait -x -a 'forever 10s 1m 10m 1h' -d 'queue for up to this long'
complete -c dlock $acquire -s t -l ttl -x -a '10s 30s 1m 10m' -d 'lease length'
complete -c dlock $acquire -s n -l slots -x -d 'holders allowed at a time'
complete -c dlock $acquire -l spread -d 'with --slots: at most one slot a host'
complete -c dlock $acquire -l priority -x -d 'place in the queue: -20 first, 19 last'
complete -c dlock $acquire -s s -l shared -d 'share the lock with other shared holders'
complete -c dlock $acquire -l label -x -d 'text shown by status'
complete -c dlock $acquire -l for-pid -x -a '(__fish_complete_pids)' -d 'renew the lease while this process lives'
complete -c dlock $acquire -l export -d 'print variables for eval'

set -l renew -n '__dlock_options renew'
complete -c dlock $renew -s t -l ttl -x -a '10s 30s 1m 10m' -d 'lease length from now'
for verb in renew release
    complete -c dlock -n "__dlock_options $verb" -l token -x -d 'token that acquire printed'
    complete -c dlock -n "__dlock_options $verb" -l token-file -r -F -d 'read the token from this file'
end

set -l check -n '__dlock_options check'
complete -c dlock $check -l fence -x -d 'fencing token to check'
complete -c dlock $check -l min-validity -x -a '1s 5s 10s 30s' -d 'must stay valid for at least this long'
complete -c dlock -n '__dlock_options list' -l held -d 'only locks that are held'
for verb in list history
    complete -c dlock -n "__dlock_options $verb" -l host -x -d 'only those on this host'
    complete -c dlock -n "__dlock_options $verb" -l owner -x -a '(__fish_complete_users)' -d 'only those of this user'
    complete -c dlock -n "__dlock_options $verb" -l mine -d 'only those of this user on this host'
    complete -c dlock -n "__dlock_options $verb" -l label -x -d 'only those with a label like this'
end
complete -c dlock -n '__dlock_options list' -l sort -x -a 'name age' -d 'sort order'
complete -c dlock -n '__dlock_options list' -l live -d 'keep the list up to date until interrupted'
complete -c dlock -n '__dlock_options list' -l prometheus -d 'print metrics for Prometheus'
set -l of_history -n '__dlock_options history'
complete -c dlock $of_history -l limit -x -d 'at most this many runs'
complete -c dlock $of_history -l failed -d 'only runs that did not succeed'
complete -c dlock $of_history -l since -x -a '10m 1h 1d' -d 'only runs that started within this time'
complete -c dlock $of_history -l succeeded-within -x -a '10m 1h 1d' -d 'check for a success within this time'
complete -c dlock $of_history -l nagios -d 'answer as a monitoring plugin'
set -l break -n '__dlock_options break'
complete -c dlock $break -l fence -x -d 'only the holder with this fencing token'
complete -c dlock $break -l host -x -d 'only holders on this host, of all locks'
complete -c dlock $break -l force -d 'free the lock at once: for dead machines'
complete -c dlock $break -l yes -d 'do not ask for confirmation'

set -l cache -n '__dlock_options cache'
complete -c dlock $cache -l ttl -x -a '10s 1m 10m 1h' -d 'how long the output stays fresh'
complete -c dlock $cache -l stale -x -a '1m 10m 1h 12h' -d 'serve it this much longer while one call refreshes it'
complete -c dlock $cache -l max-size -x -a '64KiB 1MiB 16MiB 256MiB' -d 'do not store larger output'
complete -c dlock $cache -s w -l wait -x -a 'forever 10s 1m 10m 1h' -d 'wait up to this long for another call'
complete -c dlock $cache -s E -l conflict-exit-code -x -d 'exit code if that takes longer'
complete -c dlock $cache -l forget -d 'remove the stored output, run nothing'
complete -c dlock $cache -l show -d 'describe the stored output, run nothing'

set -l limit -n '__dlock_options limit'
complete -c dlock $limit -s w -l wait -x -a 'forever 10s 1m 10m 1h' -d 'wait up to this long for a turn'
complete -c dlock $limit -l show -d 'show the rate, what is left and the waiters'
complete -c dlock $limit -l reset -d 'forget the limit, so that any rate can be set'

complete -c dlock -n '__dlock_options doctor' -l schema -d 'print the SQL that makes the tables'
