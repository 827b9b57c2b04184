#!/bin/sh
# The entrypoint of an image: of all replicas that start, one at a time migrates the database, and
# then becomes the service. DLOCK_STORE says where the lock is. --wait also waits for a database
# that does not answer yet.
dlock run --wait 5m migrate -- ./migrate &
migration=$!

# A shell that is process 1 gets no signal that it has no trap for. Without these lines a platform
# that stops the container would kill it in the middle of the migration.
trap 'stopped=yes; kill -TERM "$migration"' TERM INT
wait "$migration"
status=$?
if [ -n "${stopped:-}" ]; then
  wait "$migration"
  exit
fi
trap - TERM INT

# If the migration failed, the container does, and is started again.
[ "$status" = 0 ] || exit "$status"
exec "$@"
