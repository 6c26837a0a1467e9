"""The ZooKeeper of older releases: its process, its configuration, and its four-letter commands."""

from __future__ import annotations

import re
import shutil
import socket
from typing import TYPE_CHECKING

from featuregate.testing.local_kafka.commands import Installation
from featuregate.testing.local_kafka.config import properties_text
from featuregate.testing.local_kafka.processes import HOST, ChildProcess, ProcessGroup, wait_until

if TYPE_CHECKING:
    from pathlib import Path


RELEASE = "2.8.2"
"""The release of Kafka whose jars contain the ZooKeeper that runs: 3.5, which serves clients from 3.4."""


TIMEOUT = 60.0
"""Seconds for ZooKeeper to start, and for the session of a killed broker to expire."""


class ZooKeeperProcess:
    """A standalone ZooKeeper, whose data outlives its process."""

    def __init__(self, port: int, processes: ProcessGroup) -> None:
        self.address = f"{HOST}:{port}"
        self._port = port
        self._processes = processes
        self._data = processes.folder / "zookeeper"
        self._child: ChildProcess | None = None

    def start(self) -> None:
        """Start the process, and wait until it serves."""
        folder = self._processes.folder
        self._data.mkdir(exist_ok=True)
        properties = folder / "zookeeper.properties"
        properties.write_text(properties_text(_properties(self._port, self._data)))
        command = Installation.of(RELEASE, folder).zookeeper(properties)
        self._child = self._processes.start(command, log=folder / "zookeeper.log")
        wait_until(
            lambda: _ask(self._port, b"ruok") == "imok", "ZooKeeper serves", {"ZooKeeper": self._child}, timeout=TIMEOUT
        )

    def delete(self) -> None:
        """Kill the process, and delete its data."""
        if self._child is not None:
            self._child.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    def wait_for_session_end(self, node_id: int) -> None:
        """Wait until the session of a killed broker expires. Until then it is registered, and cannot register again."""
        wait_until(
            lambda: node_id not in registered_in(_ask(self._port, b"dump")),
            f"the session of broker {node_id} has expired",
            {},
            timeout=TIMEOUT,
        )


def _properties(port: int, folder: Path) -> dict[str, str]:
    return {
        "dataDir": str(folder),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": "1000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
    }


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
