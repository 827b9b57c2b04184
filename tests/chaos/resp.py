"""The part of the Redis protocol that is needed to send commands to servers."""

from __future__ import annotations

import socket
from typing import Any

Reply = Any  # str, int, None or a list of these


class ServerError(Exception):
    """A server replied with an error."""


class Client:
    """A connection on which each call waits for its reply, at most `timeout` seconds."""

    def __init__(self, address: str | tuple[str, int], timeout: float = 2.0) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self._in = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._in.close()
        self.socket.close()

    def call(self, *words: object) -> Reply:
        parts = [str(word).encode() for word in words]
        text = b"*%d\r\n" % len(parts)
        for part in parts:
            text += b"$%d\r\n%s\r\n" % (len(part), part)
        self.socket.sendall(text)
        return self._reply()

    def line(self) -> str:
        """Returns the next line, for MONITOR. Raises OSError if there is none in time."""
        text = self._in.readline()
        if not text.endswith(b"\n"):
            raise ConnectionError("closed")
        return text.decode("utf-8", "replace").rstrip("\r\n")

    def _reply(self) -> Reply:
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == "+":
            return rest
        if kind == "-":
            raise ServerError(rest)
        if kind == ":":
            return int(rest)
        size = int(rest)
        if size < 0:
            return None
        if kind == "$":
            return self._in.read(size + 2)[:-2].decode("utf-8", "replace")
        return [self._reply() for _ in range(size)]


def ask(address: str | tuple[str, int], *words: object, timeout: float = 2.0) -> Reply:
    """Sends one command on a new connection. Returns None if the server is unavailable."""
    try:
        with Client(address, timeout) as client:
            return client.call(*words)
    except (OSError, ValueError):
        return None
