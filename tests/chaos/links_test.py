"""Tests the links of servers to each other: python3 tests/chaos/links_test.py."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

from links import CALM, PeerLinks, Weather  # noqa: E402
from servers import await_until  # noqa: E402

# On each command it sends a byte to a port and prints the reply.
OTHER_SERVER = """
import socket, sys
for line in sys.stdin:
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", int(line)), timeout=5) as one:
            one.sendall(b"x")
            said = one.recv(1)
    except OSError:
        pass
    print(said.decode(), flush=True)
"""


def echo(listener: socket.socket) -> None:
    """Sends the first byte of each connection back, until the listener is closed."""
    while True:
        try:
            one, _ = listener.accept()
        except OSError:
            return
        with one:
            one.sendall(one.recv(1))


class PeerLinksTest(unittest.TestCase):
    """Server 0 is another process; server 1 is in this one."""

    def setUp(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=echo, args=(self.listener,), daemon=True).start()
        self.other = subprocess.Popen([sys.executable, "-c", OTHER_SERVER], text=True, bufsize=1,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        unused = ("127.0.0.1", 1)
        self.links = PeerLinks([unused, self.listener.getsockname()], lambda: [self.other.pid, os.getpid()])
        self.port = int(self.links.addresses(0)[1].rpartition(":")[2])

    def tearDown(self) -> None:
        self.links.close()
        self.other.communicate()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def other_hears(self) -> str:
        assert self.other.stdin and self.other.stdout
        self.other.stdin.write(f"{self.port}\n")
        return self.other.stdout.readline().strip()

    def this_hears(self) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as one:
            one.sendall(b"x")
            return one.recv(1).decode()

    def test_only_the_process_whose_link_breaks_is_cut_off(self) -> None:
        self.assertEqual((self.other_hears(), self.this_hears()), ("x", "x"))

        self.links.turn_around(0, Weather(refuses=True))

        await_until(lambda: self.other_hears() == "", 5, "the end of the link")
        self.assertEqual(self.this_hears(), "x")
        self.links.turn_around(0, CALM)
        await_until(lambda: self.other_hears() == "x", 5, "the link")


if __name__ == "__main__":
    unittest.main()
