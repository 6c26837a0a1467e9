"""The ZooKeeper beside brokers that still need one: how it is configured, and its four-letter words."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.processes import HOST

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["RELEASE", "is_ready", "registered_brokers", "registered_in", "zookeeper_properties"]

RELEASE = "2.8.2"
"""The release of Kafka whose closure holds the ZooKeeper that we run: 3.5, which serves clients from 3.4 on."""


def zookeeper_properties(port: int, folder: Path) -> dict[str, str]:
    """Write the configuration of a lone ZooKeeper that keeps its data in ``folder``."""
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
    """Ask whether a ZooKeeper serves there."""
    return _ask(port, b"ruok") == "imok"


def registered_brokers(port: int) -> frozenset[int]:
    """Ask which brokers have a session; that of a killed broker lasts until it expires."""
    return registered_in(_ask(port, b"dump"))


def registered_in(dump: str) -> frozenset[int]:
    """Read the brokers' ids from what ``dump`` says: each session with its ephemeral nodes."""
    return frozenset(int(node_id) for node_id in re.findall(r"^\s*/brokers/ids/(\d+)\s*$", dump, re.MULTILINE))


def _ask(port: int, word: bytes) -> str:
    """Say one four-letter word; the answer is empty where nobody gives one."""
    answer = b""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(word)
            while piece := connection.recv(65536):
                answer += piece
    except OSError:
        return ""
    return answer.decode(errors="replace")
