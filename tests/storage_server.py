"""A server with the API of a storage, which `make proof` installs, and how Spark is told of it."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
import requests

from featuregate.jars.maven import Download, cache_folder, fetched, install
from featuregate.jars.spark import FOLDER, delta_lake
from featuregate.testing.local_kafka.processes import HOST, ProcessGroup, ReservedPorts, wait_until


@contextmanager
def storage_server(
    name: str, needs: str, command: Callable[[str, int], list[str]], answers: Callable[[int], bool], within: float
) -> Iterator[tuple[Path, int]]:
    """Start a server; yield a folder of its own, and its port, once it answers there."""
    program = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if program is None:
        pytest.skip(f"needs {name}, which make proof installs where there is {needs}")
    processes, ports = ProcessGroup(name), ReservedPorts([0])
    (port,) = ports.numbers

    def has_started() -> bool:
        try:
            return answers(port)
        except requests.ConnectionError:
            return False

    try:
        child = processes.start(command(program, port), log=processes.folder / "log")
        wait_until(has_started, "the server has started", {name: child}, timeout=within)
        yield processes.folder, port
    finally:
        ports.close()
        processes.close()


def url_of(port: int) -> str:
    return f"http://{HOST}:{port}"


def told_to_spark(
    folder: Path, connector: str, release: str, of_hadoop: Mapping[str, str], more: str = ""
) -> dict[str, str]:
    """Put jars and settings of a storage where users of Spark put theirs; return the environment that says so."""
    name = connector.split(":")[1]
    found = fetched(Download(f"{name} for tests", (connector,), None), cache_folder() / name / release)
    install([*found.glob("*.jar"), *delta_lake(pyspark.__version__).glob("*.jar")], folder / "jars")
    settings = "".join(f"spark.hadoop.{key} {text}\n" for key, text in of_hadoop.items())
    (folder / "spark-defaults.conf").write_text(more + settings)
    return {"SPARK_CONF_DIR": str(folder), FOLDER: str(folder / "jars")}
