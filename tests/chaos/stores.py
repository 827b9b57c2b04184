"""The stores that contenders use: a directory, a server, servers with sentinels, a cluster.
quorum.py and etcd.py have the others."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from contenders import DUEL, SEATS
from history import History
from leases import Ledger, MajorityLedger
from links import Links
from servers import Clock, Observer, Server, await_until, clock_library, free_ports


APART = (0, 700, -700)  # how far the clocks of servers that fail over are off, in milliseconds


def outlasting_clocks(root: Path) -> str:
    """Returns the option for leases that hold by each of these clocks (docs/stores.md)."""
    (root / "dlock.toml").write_text('[run]\nlock-delay = "2s"\n')
    return f"--config={root}/dlock.toml"


class Store:
    """The base of all stores: the URLs and options for contenders, the TTL, and the time-out of
    one operation."""

    kind = "local"
    ttl = 3.0
    timeout = 2.0  # of an operation, in seconds
    options: list[str] = []
    seats = SEATS
    links: Links | None = None  # the networks of contenders, if each has its own

    def __init__(self, root: Path) -> None:
        self.root = root
        self.servers: list[Server] = []
        self.observer: Observer | None = None

    def urls(self) -> list[str]:
        return [f"local:{self.root}/store"]

    def start(self, history: History) -> None:
        """Raises CannotStart."""

    def close(self) -> None:
        if self.observer:
            self.observer.close()
        for server in self.servers:
            server.kill()

    def observe(self, servers: list[Server], history: History,
                ledger: Ledger | MajorityLedger | None = None) -> None:
        locks = sorted({seat.lock for seat in self.seats})
        self.observer = Observer(servers, locks, ledger or Ledger(), history)

    def endless_keys(self) -> list[str]:
        """Returns the keys that never expire, except fences, which may not expire."""
        found = []
        for server in self.servers:
            keys = server.ask("KEYS", "dlock:*") if not server.is_sentinel and server.answers() else None
            found += [key for key in keys or [] if not key.endswith(":f") and server.ask("PTTL", key) == -1]
        return found


class OneServer(Store):
    """A server that loses no data when it is killed. Each contender has its own network to it."""

    kind = "redis"
    seats = (*SEATS, *DUEL)
    timeout = 0.5
    options = ["--store-timeout=500ms"]
    links: Links

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        socket = str(root / "socket")
        self.server = Server(root / "server", socket,
                             ['save ""', "appendonly yes", "appendfsync always"])
        self.servers = [self.server]
        self.links = Links(len(self.seats), [socket])

    def urls(self) -> list[str]:
        return [f"redis://{self.links.addresses(i)[0]}" for i in range(len(self.seats))]

    def start(self, history: History) -> None:
        self.server.clock = Clock(self.root / "clock", clock_library(self.root))
        self.server.start()
        self.observe(self.servers, history)

    def close(self) -> None:
        self.links.close()
        super().close()


class Fleet(Store):
    """Servers that fail over. Leases are long enough to outlast a failover."""

    ttl = 6.0
    timeout = 1.0

    def __init__(self, root: Path, replicas: str) -> None:
        super().__init__(root)
        self.options = ["--store-timeout=1s", f"--replicas={replicas}", outlasting_clocks(root)]
        self.forgets = replicas != "all"  # loses leases in a failover
        self.members: list[Server] = []

    def start_members(self) -> None:
        library = clock_library(self.root)
        for server, ahead in zip(self.members, APART * 2):
            server.clock = Clock(server.directory / "clock", library)
            server.clock.step(ahead)
            server.start()

    def role(self, server: Server) -> str:
        reply: Any = server.ask("ROLE")
        return str(reply[0]) if isinstance(reply, list) and reply else ""

    def is_whole(self) -> bool:
        """Whether all members are up and agree."""
        raise NotImplementedError

    def replicas_online(self, server: Server) -> int:
        return str(server.ask("INFO", "replication")).count("state=online")


class Sentinels(Fleet):
    """A primary, two replicas, and three sentinels that detect a failure after a second."""

    kind = "sentinel"

    def __init__(self, root: Path, replicas: str) -> None:
        super().__init__(root, replicas)
        ports = free_ports(6)
        for i, port in enumerate(ports[:3]):
            settings = ['save ""', "repl-diskless-sync yes", "repl-diskless-sync-delay 0"]
            if i > 0:
                settings.append(f"replicaof 127.0.0.1 {ports[0]}")
            self.members.append(Server(root / f"server{i}", ("127.0.0.1", port), settings))
        watching = [f"sentinel monitor main 127.0.0.1 {ports[0]} 2",
                    "sentinel down-after-milliseconds main 1000",
                    "sentinel failover-timeout main 4000", "sentinel parallel-syncs main 2"]
        self.sentinels = [Server(root / f"sentinel{i}", ("127.0.0.1", port), watching, is_sentinel=True)
                          for i, port in enumerate(ports[3:])]
        self.servers = self.members + self.sentinels

    def urls(self) -> list[str]:
        hosts = ",".join(f"127.0.0.1:{one.address[1]}" for one in self.sentinels)
        return [f"redis+sentinel://{hosts}/main"]

    def start(self, history: History) -> None:
        self.start_members()
        await_until(lambda: self.replicas_online(self.members[0]) == 2, 15, "replicas")
        for server in self.sentinels:
            server.start()
        await_until(self.is_whole, 30, "sentinels")
        self.observe(self.members, history)

    def named_by(self, sentinel: Server) -> Server | None:
        reply: Any = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        ports = {str(one.address[1]): one for one in self.members}
        return ports.get(reply[1]) if isinstance(reply, list) else None

    def primary(self) -> Server | None:
        """Returns the server that most sentinels name, if it is a primary."""
        named = [self.named_by(one) for one in self.sentinels]
        for server in self.members:
            if named.count(server) >= 2 and self.role(server) == "master":
                return server
        return None

    def is_whole(self) -> bool:
        primary = self.primary()
        if not primary or self.replicas_online(primary) != 2:
            return False
        for one in self.sentinels:
            reply: Any = one.ask("SENTINEL", "MASTER", "main")
            if not isinstance(reply, list) or self.named_by(one) is not primary:
                return False
            known = dict(zip(reply[::2], reply[1::2]))
            if (known["num-slaves"], known["num-other-sentinels"], known["flags"]) != ("2", "2", "master"):
                return False
        return True


class Cluster(Fleet):
    """Three primaries with a replica each. A member that is unavailable for a second is failed over."""

    kind = "cluster"

    def __init__(self, root: Path, replicas: str) -> None:
        super().__init__(root, replicas)
        ports = free_ports(6, also_at=10000)
        for i, port in enumerate(ports):
            self.members.append(Server(root / f"member{i}", ("127.0.0.1", port), [
                'save ""', "cluster-enabled yes", "cluster-node-timeout 1000",
                "cluster-replica-validity-factor 0", "repl-diskless-sync-delay 0"]))
        self.servers = self.members

    def urls(self) -> list[str]:
        hosts = ",".join(f"127.0.0.1:{one.address[1]}" for one in self.members[:3])
        return [f"redis+cluster://{hosts}"]

    def start(self, history: History) -> None:
        self.start_members()
        hosts = [f"127.0.0.1:{one.address[1]}" for one in self.members]
        with (self.root / "created").open("w") as out:
            subprocess.run(["redis-cli", "--cluster-yes", "--cluster", "create", *hosts,
                            "--cluster-replicas", "1"], check=True, stdout=out, timeout=60)
        await_until(self.is_whole, 30, "cluster")
        self.observe(self.members, history)

    def is_whole(self) -> bool:
        return all(self._is_settled(server) for server in self.members)

    def _is_settled(self, server: Server) -> bool:
        if "cluster_state:ok" not in str(server.ask("CLUSTER", "INFO")):
            return False
        if str(server.ask("CLUSTER", "NODES")).count("slave") != 3:
            return False
        return self.role(server) == "master" or "master_link_status:up" in str(server.ask("INFO", "replication"))

    def slot_of(self, lock: str) -> int:
        for server in self.members:
            slot = server.ask("CLUSTER", "KEYSLOT", f"dlock:{{{lock}}}")
            if isinstance(slot, int):
                return slot
        raise OSError("no member of the cluster answers")

    def owner_of(self, lock: str) -> Server | None:
        """Returns the member that claims the slot of a lock as a primary."""
        slot = self.slot_of(lock)
        for server in self.members:
            for line in str(server.ask("CLUSTER", "NODES")).splitlines():
                fields = line.split()
                if "myself,master" in line and any(_covers(part, slot) for part in fields[8:]):
                    return server
        return None

    def other_primary(self, than: Server) -> Server | None:
        for server in self.members:
            if server is not than and self.role(server) == "master":
                return server
        return None


def _covers(part: str, slot: int) -> bool:
    if part.startswith("["):
        return False
    first, _, last = part.partition("-")
    return int(first) <= slot <= int(last or first)
