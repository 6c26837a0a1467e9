"""The ZooKeeper of older releases: its configuration, and its four-letter commands."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.processes import HOST

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RELEASE", "is_ready", "registered_brokers", "registered_in", "zookeeper_properties"]

RELEASE = "2.8.2"
"""The release of Kafka whose jars contain the ZooKeeper that runs: 3.5, which serves clients from 3.4."""


def zookeeper_properties(port: int, folder: Path) -> dict[str, str]:
    """Return the configuration of a standalone ZooKeeper with its data in ``folder``."""
    return {
        "dataDir": str(folder),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": "1000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
    }


def is_ready(port: int) -> bool:
    """Return whether ZooKeeper serves at this port."""
    return _ask(port, b"ruok") == "imok"


def registered_brokers(port: int) -> frozenset[int]:
    """Return the brokers with a session. The session of a killed broker lasts until it expires."""
    return registered_in(_ask(port, b"dump"))


def registered_in(dump: str) -> frozenset[int]:
    """Parse the ids of brokers from the answer to ``dump``: each session with its ephemeral nodes."""
    return frozenset(int(node_id) for node_id in re.findall(r"^\s*/brokers/ids/(\d+)\s*$", dump, re.MULTILINE))


def _ask(port: int, word: bytes) -> str:
    """Send a four-letter command. The answer is empty if there is none."""
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(word)
            while piece := connection.recv(65536):
                answer += piece
    except OSError:
        return ""
    return answer.decode(errors="replace")
