"""The kinds of stores that there are, by the names that the command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from etcd import Etcd
from quorum import Quorum
from stores import Cluster, OneServer, Sentinels, Store

# Each makes one of what is in a folder, with `--replicas` for servers that fail over.
KINDS: dict[str, Callable[[Path, str], Store]] = {
    "local": lambda root, _: Store(root),
    "redis": lambda root, _: OneServer(root),
    "sentinel": Sentinels,
    "cluster": Cluster,
    "quorum3": lambda root, _: Quorum(root, 3),
    "quorum5": lambda root, _: Quorum(root, 5),
    "etcd1": lambda root, _: Etcd(root, 1),
    "etcd3": lambda root, _: Etcd(root, 3),
}
