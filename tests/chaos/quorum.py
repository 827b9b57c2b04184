"""The store on independent servers, a majority of which has to grant a lock."""

from __future__ import annotations

import re
from pathlib import Path

from contenders import SEATS, Seat
from history import History
from leases import MajorityLedger
from links import Links
from servers import Clock, Server, await_until, clock_library
from stores import Store


class Quorum(Store):
    """Servers that store nothing on disk. Each contender has its own network to each of them."""

    ttl = 5.0
    timeout = 1.0
    links: Links
    # A quorum does not support slots, so the lock with slots becomes an ordinary one.
    seats = tuple(Seat(seat.lock, "mixed") if seat.kind == "pool" else seat for seat in SEATS)

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root)
        self.kind = f"quorum{number}"
        self.options = [f"--store-timeout={self.timeout:g}s", f"--max-ttl={self.ttl:g}s"]
        sockets = [str(root / f"socket{i}") for i in range(number)]
        self.servers = [Server(root / f"server{i}", socket, ['save ""']) for i, socket in enumerate(sockets)]
        self.most = number // 2 + 1
        self.links = Links(len(self.seats), [*sockets])

    @property
    def strength(self) -> int:
        """How many of the servers may forget a lock that all of them granted."""
        return self.most - 1

    def urls(self) -> list[str]:
        return [f"redis+quorum://{','.join(self.links.addresses(i))}" for i in range(len(self.seats))]

    def start(self, history: History) -> None:
        library = clock_library(self.root)
        for server in self.servers:
            server.clock = Clock(server.directory / "clock", library)
            server.start()
        self.observe(self.servers, history, MajorityLedger(len(self.servers)))
        self.await_votes()

    def await_votes(self) -> None:
        """Waits until all servers are up for long enough to vote, so that all leases are on all of them."""
        await_until(lambda: all(self._uptime(server) > self.ttl for server in self.servers), 30, "votes")

    def _uptime(self, server: Server) -> int:
        """Returns whole seconds; the last one may just have begun."""
        found = re.search(r"uptime_in_seconds:(\d+)", str(server.ask("INFO", "server")))
        return int(found[1]) if found else 0

    def close(self) -> None:
        self.links.close()
        super().close()
