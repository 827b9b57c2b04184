"""Networks between contenders and servers, and between servers. Each of them can break
independently."""

from __future__ import annotations

import glob
import math
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

DRIP = 0.03  # seconds from one byte to the next


@dataclass(frozen=True)
class Weather:
    """What happens to bytes on a link. Delays are in seconds.

    A partition keeps bytes and ends of connections, as the kernel of the sender would. They are
    delivered when it is over, even if the sender has died by then.
    """

    requests_late: float = 0.0
    replies_late: float = 0.0
    partition: bool = False
    holds_back: bool = False  # what a partition has kept is still not delivered; new connections work
    loses_replies: bool = False  # when this is over, their connections are closed
    refuses: bool = False  # closes all connections, also new ones
    drips: bool = False


CALM = Weather()


@dataclass(eq=False)
class Way:
    """One direction of a connection, with the bytes on their way."""

    to: socket.socket
    other: socket.socket
    is_reply: bool
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)  # b"": the end
    lost_some: bool = False


Address = str | tuple[str, int]  # the path of a unix socket, or host and port


class Link:
    """The network of one contender to one server."""

    def __init__(self, target: Address) -> None:
        self.target = target
        self.weather = CALM
        self.ways: list[Way] = []


class Door:
    """Listens on `port` of 127.0.0.1 for connections, and knows which link each of them takes."""

    def __init__(self, link_of: Callable[[int], Link | None]) -> None:
        """`link_of` gets the port that a connection comes from, and returns None to refuse it."""
        self.link_of = link_of
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port: int = self.listener.getsockname()[1]


class Links:
    """The links of all contenders to all servers. One thread carries the bytes."""

    def __init__(self, contenders: int, servers: list[Address]) -> None:
        self._selector = selectors.DefaultSelector()
        self._changes: deque[tuple[Link, Weather]] = deque()
        self._ways: dict[socket.socket, tuple[Link, Way]] = {}  # by the socket that the bytes come from
        self._links = [[Link(server) for server in servers] for _ in range(contenders)]
        self._doors = self._make_doors()
        for row in self._doors:
            for door in row:
                self._selector.register(door.listener, selectors.EVENT_READ, door)
        self._stops = False
        self._thread = threading.Thread(target=self._carry, name="links")
        self._thread.start()

    def _make_doors(self) -> list[list[Door]]:
        """Returns a row of doors for each contender. Each link has its own door."""
        def always(link: Link) -> Callable[[int], Link]:
            return lambda _: link

        return [[Door(always(link)) for link in links] for links in self._links]

    def addresses(self, contender: int) -> list[str]:
        """Returns the addresses of the servers for a contender."""
        return [f"127.0.0.1:{door.port}" for door in self._doors[contender]]

    def turn(self, weather: Weather, contender: int | None = None, server: int | None = None) -> None:
        """Changes the weather for one contender or all, to one server or all."""
        for links in self._links if contender is None else [self._links[contender]]:
            for link in links if server is None else [links[server]]:
                self._changes.append((link, weather))

    def close(self) -> None:
        self._stops = True
        self._thread.join()
        for end in list(self._ways):
            end.close()
        for row in self._doors:
            for door in row:
                door.listener.close()

    def _carry(self) -> None:
        while not self._stops:
            while self._changes:
                self._change(*self._changes.popleft())
            for key, _ in self._selector.select(self._until_next()):
                if isinstance(key.data, Door):
                    self._welcome(key.data)
                elif key.fileobj in self._ways:
                    self._read(*self._ways[key.fileobj])
            self._deliver()

    def _until_next(self) -> float:
        dues = [way.queue[0][0] for _, way in self._ways.values() if way.queue]
        return min(0.01, max(0.0, min(dues, default=math.inf) - time.monotonic()))

    def _change(self, link: Link, weather: Weather) -> None:
        kept_some = link.weather.partition or link.weather.holds_back
        link.weather = weather
        for way in list(link.ways):
            if weather.refuses or (way.lost_some and not weather.loses_replies):
                self._part(link, way)
            elif kept_some and not (weather.partition or weather.holds_back):
                way.queue = deque((0.0, data) for _, data in way.queue)

    def _welcome(self, door: Door) -> None:
        client, (_, port) = door.listener.accept()
        link = door.link_of(port)
        if link is None or link.weather.refuses:
            client.close()
            return
        server = socket.socket(socket.AF_UNIX if isinstance(link.target, str) else socket.AF_INET)
        server.settimeout(1)
        try:
            server.connect(link.target)
        except OSError:
            server.close()
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(link.target, tuple):
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(1)
        for source, to in ((client, server), (server, client)):
            way = Way(to, source, is_reply=to is client)
            link.ways.append(way)
            self._ways[source] = (link, way)
            self._selector.register(source, selectors.EVENT_READ)

    def _read(self, link: Link, way: Way) -> None:
        try:
            data = way.other.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(way.other)
        weather = link.weather
        now = time.monotonic()
        if data and weather.loses_replies and way.is_reply:
            way.lost_some = True
        elif weather.partition:
            way.queue.append((math.inf, data))
        elif weather.drips and data and way.is_reply:
            for i in range(len(data)):
                way.queue.append((now + i * DRIP, data[i : i + 1]))
        else:
            late = weather.replies_late if way.is_reply else weather.requests_late
            # Bytes do not overtake earlier ones.
            last = way.queue[-1][0] if way.queue else 0.0
            way.queue.append((max(now + late, last), data))

    def _deliver(self) -> None:
        for link, way in list(self._ways.values()):
            while way.queue and way.queue[0][0] <= time.monotonic():
                data = way.queue.popleft()[1]
                try:
                    if data:
                        way.to.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    self._part(link, way)
                    break

    def _part(self, link: Link, way: Way) -> None:
        """Closes both directions of a connection, and drops the bytes on their way."""
        for end in (way.to, way.other):
            if end not in self._ways:
                continue
            _, gone = self._ways.pop(end)
            link.ways.remove(gone)
            gone.queue.clear()
            try:
                self._selector.unregister(end)
            except KeyError:
                pass  # it had ended already
            end.close()


class PeerLinks(Links):
    """The links of servers to each other. All of them reach a server at the same address, so
    the process that a connection comes from decides which link it takes."""

    def __init__(self, servers: list[Address], pids: Callable[[], list[int]]) -> None:
        """`pids`: the process of each server at that moment."""
        self._pids = pids
        super().__init__(len(servers), servers)

    def _make_doors(self) -> list[list[Door]]:
        def to(server: int) -> Callable[[int], Link | None]:
            return lambda port: self._link_from(port, server)

        doors = [Door(to(server)) for server in range(len(self._links))]
        return [doors]  # the same for all

    def _link_from(self, port: int, server: int) -> Link | None:
        pids = self._pids()
        owner = owner_of(port, pids)
        return None if owner is None else self._links[pids.index(owner)][server]

    def turn_around(self, server: int, weather: Weather) -> None:
        """Changes the weather between this server and all others, in both directions."""
        for other in range(len(self._links)):
            if other != server:
                self.turn(weather, server, other)
                self.turn(weather, other, server)


def owner_of(port: int, pids: list[int]) -> int | None:
    """Returns which of these processes has the socket that is bound to a port of 127.0.0.1."""
    local = f"0100007F:{port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    wanted = {f"socket:[{fields[9]}]" for fields in lines if fields[1] == local}
    return next((pid for pid in pids if wanted & _descriptors(pid)), None)


def _descriptors(pid: int) -> set[str]:
    """Returns what the descriptors of a process refer to."""
    found = set()
    for entry in glob.iglob(f"/proc/{pid}/fd/*"):
        try:
            found.add(os.readlink(entry))
        except OSError:
            pass  # closed in between
    return found
