"""The kinds of stores, by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from etcd import Etcd
from postgres import OnPostgres
from quorum import Quorum
from stores import Cluster, OneServer, Sentinels, Store

# Each makes a store from its directory and, for servers that fail over, `--replicas`.
KINDS: dict[str, Callable[[Path, str], Store]] = {
    "local": lambda root, _: Store(root),
    "redis": lambda root, _: OneServer(root),
    "sentinel": Sentinels,
    "cluster": Cluster,
    "quorum3": lambda root, _: Quorum(root, 3),
    "quorum5": lambda root, _: Quorum(root, 5),
    "etcd1": lambda root, _: Etcd(root, 1),
    "etcd3": lambda root, _: Etcd(root, 3),
    "postgres": lambda root, _: OnPostgres(root),
    "postgres_sync": lambda root, _: OnPostgres(root, 2),
}
