#!/bin/sh
# The entrypoint of an image: of all replicas that start, one at a time migrates the database, and
# then becomes the service. DLOCK_STORE says where the lock is. --wait also waits for a database
# that does not answer yet. Whoever waits says for whom, once, in the log of its container.
#
# Nothing listens before the migration is done. A liveness probe must not begin until then: kubernetes.yaml has a
# startup probe, compose.yaml a start period, and an init container has no probes.
#
# A shell that is process 1 gets no signal that it has no trap for. Without these traps a platform
# that stops the container would kill it in the middle of the migration.
stopped='' migration='' again=yes
trap 'stopped=yes again=yes; [ -z "$migration" ] || kill -TERM "$migration" 2> /dev/null' TERM INT
dlock run --wait 5m migrate -- ./migrate &
migration=$!
[ -z "$stopped" ] || kill -TERM "$migration"

# A signal ends `wait`, but not the migration: then ask again. If that has been answered before, the
# answer is 127.
status=127
while [ -n "$again" ]; do
  again=''
  wait "$migration"
  code=$?
  [ "$code" = 127 ] || status=$code
done

# If the migration failed, the container does, and is started again.
[ "$status" = 0 ] || exit "$status"
# From here on the signals are for the service. It is process 1, and gets those that it handles.
[ -z "$stopped" ] || exit 143
exec "$@"
