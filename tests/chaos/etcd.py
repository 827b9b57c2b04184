"""The store on members of etcd."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from etcd_watch import SPACE, Observer
from history import History
from links import Links, PeerLinks
from servers import await_until, free_ports
from stores import Store

MEMORY = Path("/dev/shm")  # in memory, because etcd syncs every change to its disk


def encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def all_below(prefix: str) -> dict[str, str]:
    return {"key": encoded(prefix), "range_end": encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


class Member:
    """One etcd. It is asked in JSON, which it accepts besides gRPC."""

    def __init__(self, number: int, ports: tuple[int, int], peers: list[str], directory: Path, log: Path) -> None:
        """`ports`: for clients and for members. `peers`: where members reach each other."""
        self.name = f"m{number}"
        self.address = ("127.0.0.1", ports[0])
        self.process: subprocess.Popen[bytes] | None = None
        self._log = log
        client, own = [f"http://127.0.0.1:{port}" for port in ports]
        self._command = [
            "etcd", "--name", self.name, "--data-dir", str(directory / self.name),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", own, "--initial-advertise-peer-urls", peers[number],
            "--initial-cluster", ",".join(f"m{i}={peer}" for i, peer in enumerate(peers)),
            "--initial-cluster-token", str(directory), "--heartbeat-interval", "100",
            "--election-timeout", "1000", "--logger", "zap", "--log-level", "error"]

    def start(self) -> None:
        """Starts it, and does not wait until it serves."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)

    def signal(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.process:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def begin_to_read(self) -> socket.socket:
        """Asks for a key, and does not wait for the reply."""
        body = json.dumps({"key": encoded(SPACE)}).encode()
        reader = socket.create_connection(self.address, timeout=2)
        reader.sendall(b"POST /v3/kv/range HTTP/1.1\r\nHost: member\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return reader

    def ask(self, path: str, **question: Any) -> dict[str, Any] | None:
        """Returns the reply, or None after an error or without a reply."""
        connection = http.client.HTTPConnection(*self.address, timeout=2)
        try:
            connection.request("POST", path, json.dumps(question))
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return answer if response.status == 200 else None

    def pairs(self) -> list[dict[str, Any]]:
        """Returns all keys of locks, with their leases."""
        answer = self.ask("/v3/kv/range", **all_below(SPACE), keys_only=True) or {}
        return [{**pair, "key": base64.b64decode(pair["key"]).decode()} for pair in answer.get("kvs", [])]

    def leads(self) -> bool:
        status = self.ask("/v3/maintenance/status")
        return status is not None and status.get("leader") == status["header"]["member_id"]

    def serves(self) -> bool:
        """True if there is a leader, and this member follows it."""
        return self.ask("/v3/kv/range", key=encoded(SPACE)) is not None


class Etcd(Store):
    """One or more members. Each contender has its own network to each of them, and so has each
    member to each other one."""

    ttl = 6.0
    timeout = 1.0
    options = ["--store-timeout=1s"]
    links: Links

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root)
        self.kind = f"etcd{number}"
        self._data = Path(tempfile.mkdtemp(prefix="chaos.", dir=MEMORY if MEMORY.is_dir() else root))
        ports = free_ports(2 * number)
        self.members: list[Member] = []
        self.peer_links = PeerLinks([("127.0.0.1", port) for port in ports[number:]], self._pids)
        peers = [f"http://{address}" for address in self.peer_links.addresses(0)]
        for i in range(number):
            self.members.append(Member(i, (ports[i], ports[number + i]), peers, self._data, root / f"etcd{i}"))
        self.links = Links(len(self.seats), [member.address for member in self.members])
        self._watch: Observer | None = None

    def _pids(self) -> list[int]:
        return [member.process.pid if member.process else -1 for member in self.members]

    def urls(self) -> list[str]:
        return [f"etcd://{','.join(self.links.addresses(i))}" for i in range(len(self.seats))]

    def start(self, history: History) -> None:
        for member in self.members:
            member.start()
        self.await_whole()
        locks = sorted({seat.lock for seat in self.seats})
        self._watch = Observer([member.address for member in self.members], locks, history)

    def await_whole(self) -> None:
        await_until(lambda: all(member.serves() for member in self.members), 60, "etcd")

    def leader(self) -> Member | None:
        return next((member for member in self.members if member.leads()), None)

    def entries(self) -> list[dict[str, Any]]:
        """Returns the keys of holders and waiters."""
        return [pair for pair in self.members[0].pairs() if not pair["key"].startswith(f"{SPACE}.")]

    def endless_keys(self) -> list[str]:
        return [pair["key"] for pair in self.members[0].pairs()
                if int(pair.get("lease", 0)) == 0 and not pair["key"].startswith(f"{SPACE}.fence/")]

    def close(self) -> None:
        self.links.close()
        self.peer_links.close()
        for member in self.members:
            member.kill()
        if self._watch:
            self._watch.close()
        shutil.rmtree(self._data, ignore_errors=True)
