"""The store on PostgreSQL: one server, or a primary with two standbys that its commits wait for.

A table beside dlock's keeps each state of a lock that was committed, with the server's clock. From
there an observer notes when leases end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from history import History
from links import Links
from servers import Clock, await_until, clock_library, free_ports
from stores import APART, Store, outlasting_clocks

MEMORY = Path("/dev/shm")
AS_POSTGRES = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"] if os.geteuid() == 0 else []

# As soon as dlock has made its table, each write of a row is copied. How far the clock is off is
# read from the file that the preloaded clock.c reads.
WATCH = """
CREATE SCHEMA chaos;
CREATE TABLE chaos.step (id bigserial PRIMARY KEY, name text, state text, clock float8);
CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  INSERT INTO chaos.step (name, state, clock) VALUES (NEW.name, NEW.state,
    trim(pg_read_file('%s' || current_setting('port')))::float8 / 1000);
  RETURN NULL; END $$;
CREATE FUNCTION chaos.begin() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
  IF to_regclass('dlock.lock') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'chaos') THEN
    CREATE TRIGGER chaos AFTER INSERT OR UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION chaos.note();
  END IF; END $$;
CREATE EVENT TRIGGER chaos ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION chaos.begin();
"""


class SqlError(Exception):
    """The server does not let us in, closes the connection, or refuses a statement."""


class Session:
    """A session of the role postgres on a unix socket, where it needs no password."""

    def __init__(self, path: str, database: str = "app", timeout: float = 2.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(path)
            names = b"user\0postgres\0database\0" + database.encode() + b"\0\0"
            self._socket.sendall(struct.pack("!II", 8 + len(names), 3 << 16) + names)
            self._answer()
        except (OSError, SqlError) as error:
            self._socket.close()
            raise SqlError(str(error)) from error

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def query(self, sql: str) -> list[list[str | None]]:
        body = sql.encode() + b"\0"
        try:
            self._socket.sendall(b"Q" + struct.pack("!I", 4 + len(body)) + body)
            return self._answer()
        except OSError as error:
            raise SqlError(str(error)) from error

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise SqlError("the server closed the connection")
            data += more
        return data

    def _answer(self) -> list[list[str | None]]:
        rows: list[list[str | None]] = []
        error = None
        while True:
            kind, size = struct.unpack("!cI", self._read(5))
            body = self._read(size - 4)
            if kind == b"E":
                error = " ".join(part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part[:1] in (b"C", b"M"))
                if "FATAL" in str(body) or "PANIC" in str(body):
                    raise SqlError(error)
            elif kind == b"D":
                rows.append(_columns(body))
            elif kind == b"Z":
                if error:
                    raise SqlError(error)
                return rows


def _columns(body: bytes) -> list[str | None]:
    row: list[str | None] = []
    at = 2
    while at < len(body):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        row.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return row


def programs() -> Path:
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


class Postgres:
    """One server. It logs in everyone on its unix socket."""

    def __init__(self, number: int, root: Path, log: Path) -> None:
        self.name = f"s{number}"
        self.root = root
        self.port = 5432 + number  # only a part of the socket's name
        self.path = str(root / f".s.PGSQL.{self.port}")
        self.data = root / self.name
        self.clock: Clock | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._log = log

    def run(self, program: str, *words: str) -> None:
        with self._log.open("ab") as log:
            subprocess.run([*AS_POSTGRES, str(programs() / program), *words], check=True, cwd="/",
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def make(self) -> None:
        self.run("initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C",
                 "--wal-segsize=1", "--pgdata", str(self.data))

    def copy(self, primary: Postgres) -> None:
        """Makes it a standby of another one, whatever it was before."""
        self.remove()
        self.run("pg_basebackup", "--no-sync", "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf",
                 "--pgdata", str(self.data), "--dbname", self.way_to(primary))

    def remove(self) -> None:
        """Removes its files, and the shared memory of a killed one."""
        lines = (self.data / "postmaster.pid").read_text().split("\n") if (self.data / "postmaster.pid").exists() else []
        if len(lines) > 6 and lines[6].split():
            subprocess.run(["ipcrm", "-m", lines[6].split()[1]], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.data, ignore_errors=True)

    def way_to(self, primary: Postgres) -> str:
        return f"host={primary.root} port={primary.port} user=postgres application_name={self.name}"

    def follow(self, primary: Postgres | None) -> None:
        """Makes a running standby follow another server, or none."""
        with Session(self.path) as session:
            session.query(f"ALTER SYSTEM SET primary_conninfo = '{self.way_to(primary) if primary else ''}'")
            session.query("SELECT pg_reload_conf()")
        if primary is None:
            await_until(lambda: self.ask("SELECT count(*) FROM pg_stat_wal_receiver") == [["0"]], 20, f"{self.name} to be alone")

    def start(self) -> None:
        environment = dict(os.environ)
        if self.clock:
            environment |= {"LD_PRELOAD": str(self.clock.library), "CHAOS_CLOCK": str(self.clock.file)}
        command = [*AS_POSTGRES, str(programs() / "postgres"), "-D", str(self.data), "-k", str(self.root), "-p", str(self.port),
                   "-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c", "max_wal_size=32MB", "-c", "wal_keep_size=64MB",
                   "-c", "dynamic_shared_memory_type=mmap", "-c", "wal_retrieve_retry_interval=200ms"]

        def serves() -> bool:
            # While processes of the killed one still run, it refuses to start.
            if self.process is None or self.process.poll() is not None:
                with self._log.open("ab") as log:
                    self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                                    env=environment, start_new_session=True)
            return self.ask("SELECT 1", "postgres") == [["1"]]

        await_until(serves, 60, f"server {self.name}")

    def ask(self, sql: str, database: str = "app") -> list[list[str | None]] | None:
        """Returns the rows, or None after an error or without a reply."""
        try:
            with Session(self.path, database) as session:
                return session.query(sql)
        except SqlError:
            return None

    def pids(self) -> list[int]:
        if not self.process or self.process.poll() is not None:
            return []
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def signal(self, number: int) -> None:
        """Signals all its processes. The first one, once stopped, starts no others."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def end(self) -> None:
        """Unlike kill(), frees its shared memory."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.signal(signal.SIGCONT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


class Observer:
    """Notes in the history each lease that is granted or renewed, from what a server has committed."""

    def __init__(self, servers: list[Postgres], history: History) -> None:
        self._servers = servers
        self._history = history
        self._last = 0
        self._told: dict[tuple[str, int], float] = {}
        self._stops = False
        self._thread = threading.Thread(target=self._observe, name="observer")
        self._thread.start()

    def close(self) -> None:
        self._stops = True
        self._thread.join()

    def _observe(self) -> None:
        while not self._stops:
            for server in self._servers:
                try:
                    self._listen(server)
                except SqlError:
                    pass
            time.sleep(0.05)

    def _listen(self, server: Postgres) -> None:
        """Reads from a primary until it is one no longer."""
        with Session(server.path) as session:
            while not self._stops:
                rows = session.query("SELECT NULL, pg_is_in_recovery()::text, NULL, NULL UNION ALL (SELECT id::text, name, state, "
                                     f"clock::text FROM chaos.step WHERE id > {self._last} ORDER BY id)")
                if rows[0][1] == "true":
                    return
                for number, name, state, ahead in rows[1:]:
                    self._last = int(number or 0)
                    self._read(str(name), json.loads(state or "{}"), float(ahead or 0))
                time.sleep(0.05)

    def _read(self, lock: str, state: dict, ahead: float) -> None:  # type: ignore[type-arg]
        for holder in state.get("holders", []):
            end = holder.get("ends_at", holder.get("lives_until"))
            fence = int(holder["fence"])
            if end is not None and self._told.get((lock, fence)) != end:
                self._told[lock, fence] = end
                self._history.note("lease", lock=lock, fence=fence, end=round(end / 1e6 - ahead - self._history.began, 6))


class OnPostgres(Store):
    """One server, or with standbys three, of which the first is the primary. Each contender has
    its own network to each of them."""

    ttl = 6.0
    timeout = 1.0
    links: Links

    def __init__(self, root: Path, standbys: int = 0) -> None:
        super().__init__(root)
        self.kind = "postgres_sync" if standbys else "postgres"
        self.options = ["--store-timeout=1s", *(["--replicas=1", outlasting_clocks(root)] if standbys else [])]
        self._data = Path(tempfile.mkdtemp(prefix="chaos.", dir=MEMORY if MEMORY.is_dir() else "/tmp"))
        self._data.chmod(0o777)
        self.members = [Postgres(i, self._data, root / f"postgres{i}") for i in range(1 + standbys)]
        self.links = Links(len(self.seats), [member.path for member in self.members])
        self._watch: Observer | None = None

    def urls(self) -> list[str]:
        return [f"postgres://app@{','.join(self.links.addresses(i))}/app" for i in range(len(self.seats))]

    def start(self, history: History) -> None:
        first = self.members[0]
        library = clock_library(self._data)
        for member, ahead in zip(self.members, APART):
            member.clock = Clock(self._data / f"clock{member.port}", library)
            member.clock.step(ahead)
        (self._data / "clock.so").chmod(0o755)
        first.make()
        first.start()
        for statement in ("CREATE ROLE app LOGIN", "CREATE DATABASE app OWNER app"):
            first.ask(statement, "postgres")
        with Session(first.path) as session:
            session.query(WATCH % (self._data / "clock"))
            if len(self.members) > 1:
                names = ", ".join(member.name for member in self.members)
                session.query(f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({names})'")
        for standby in self.members[1:]:
            standby.copy(first)
            standby.start()
        first.ask("SELECT pg_reload_conf()")
        self.await_whole()
        self._watch = Observer(self.members, history)

    def primary(self) -> Postgres | None:
        return next((one for one in self.members if one.ask("SELECT pg_is_in_recovery()") == [["f"]]), None)

    def await_whole(self) -> None:
        def is_whole() -> bool:
            primary = self.primary()
            streaming = primary.ask("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") if primary else None
            return streaming == [[str(len(self.members) - 1)]]

        await_until(is_whole, 60, "the servers")

    def endless_keys(self) -> list[str]:
        """Returns the transactions that no client ends."""
        primary = self.primary()
        rows = primary.ask("SELECT application_name FROM pg_stat_activity WHERE usename = 'app' AND "
                           "state LIKE 'idle in transaction%' AND state_change < now() - interval '5 s'") if primary else None
        return [str(row[0]) for row in rows or []]

    def close(self) -> None:
        if self._watch:
            self._watch.close()
        self.links.close()
        for member in self.members:
            member.end()
            member.remove()
        shutil.rmtree(self._data, ignore_errors=True)
