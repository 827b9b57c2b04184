#!/usr/bin/env bats
# A server that is far away: whose replies take as long as from another continent.

load postgres
tests_share_postgres

# Forwards a free port, which it prints, and delays what goes either way by half the round trip.
far_away='
import asyncio, sys
target, delay = int(sys.argv[1]), float(sys.argv[2]) / 2
async def forward(reader, writer):
    loop, queue = asyncio.get_running_loop(), asyncio.Queue()
    async def deliver():
        while True:
            at, data = await queue.get()
            await asyncio.sleep(max(0, at - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
    delivery = asyncio.create_task(deliver())
    try:
        while data := await reader.read(65536):
            queue.put_nowait((loop.time() + delay, data))
    except OSError:
        pass
    queue.put_nowait((loop.time() + delay, b""))
    await delivery
async def serve(reader, writer):
    there, back = await asyncio.open_connection("127.0.0.1", target)
    await asyncio.gather(forward(reader, back), forward(there, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
'

# Makes the server the store, as it is seen from far away.
move_away() {  # <round trip in seconds>
  python3 -c "$far_away" "${postgres_port[1]}" "$1" > "$BATS_TEST_TMPDIR/port" 2> /dev/null 3>&- &
  far=$!
  EVENTUALLY_MS=60000 eventually test -s "$BATS_TEST_TMPDIR/port"
  DLOCK_STORE=postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")/app
  export PGPASSWORD=$postgres_password
}

@test "a server that is too far away for the limit: how far it came, the option, and the value that doctor names" {
  dlock run --store-timeout 30s --ttl 5m job -- true
  move_away 0.4
  run dlock run --store-timeout 1s job -- echo started
  assert_message 69 ' after ' 'give it more time with --store-timeout'

  run dlock doctor
  assert_output_contains 'use a nearer server, or --store-timeout '

  run dlock run --store-timeout 30s --ttl 5m job -- echo started
  assert_equal "$status $output" '0 started'
  DLOCK_STORE+='?connect_timeout=30' run dlock run --ttl 5m job -- echo started
  assert_equal "$status $output" '0 started'
  kill "$far"
}
