"""The jars of Kafka, Spark's Kafka connector and Delta Lake: downloaded once from Maven's repositories, and cached.

The cache holds ``kafka/<version>/*.jar``, ``kafka-streams/<version>/*.jar``, ``spark-connector/<version>/*.jar`` and
``delta/<version>/*.jar``. A folder with such a name is complete: it is filled under another name and renamed at the
end, so that neither a crash nor a second process leaves a part.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from filelock import FileLock, Timeout

from featuregate.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from featuregate.testing.local_kafka.releases import Recipe

FETCH_TIMEOUT = 900.0
"""Seconds to wait for another process that downloads."""

DOWNLOADS = 4
"""The number of simultaneous downloads."""

CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""Prefixes of the artifacts of Spark's Kafka connector that Spark itself does not contain."""

DELTA = ("delta-spark", "delta-storage")
"""Prefixes of the artifacts of Delta Lake that Spark itself does not contain."""

STREAMS = "kafka-streams"
"""Prefix of the artifacts of Kafka Streams that a broker does not contain."""

RELOCATED = {"slf4j-log4j12": "slf4j-reload4j"}
"""Artifacts that were relocated with slf4j 1.7.34. There is no jar with the old name, and jgo does not follow."""

TOOLS = {"kafka-tools", "kafka-tools-api"}
"""Artifacts that a broker can run without, left out if those of the release are not available."""

BINDINGS = {"log4j-slf4j-impl", "slf4j-log4j12", "slf4j-reload4j"}
"""Bindings of slf4j to a logger. Kafka 4 depends on none of them, and would log nothing."""


def cache_folder() -> Path:
    """Return the folder of the cache: ``FEATUREGATE_CACHE``, or ``featuregate`` in the user's cache folder."""
    if chosen := os.environ.get("FEATUREGATE_CACHE"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "featuregate"
    return Path.home() / ".cache" / "featuregate"


def jars_of(recipe: Recipe) -> Path:
    """Return the folder with all jars of a release. Download them if they are not in the cache.

    Shows its progress on stderr. Raises `LocalKafkaError` if the download fails, and ImportError if the extra
    ``testing`` is not installed.
    """
    tools = TOOLS if recipe.tools_of else set()
    wanted = _Download(f"Kafka {recipe.version}", recipe.coordinates, lambda name: name not in tools, recipe.patches)
    return _fetched(wanted, cache_folder() / "kafka" / recipe.version)


def spark_connector(version: str) -> Path:
    """Return the folder with the jars of Spark's Kafka connector that Spark itself does not contain.

    In local mode, pass it to ``spark.driver.extraClassPath`` as ``<folder>/*``. Raises as :func:`jars_of`.
    """
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    wanted = _Download(f"Spark's Kafka connector {version}", (connector,), lambda name: name.startswith(CONNECTOR))
    return _fetched(wanted, cache_folder() / "spark-connector" / version)


def delta_lake(version: str) -> Path:
    """Return the folder with the jars of Delta Lake for Spark 4.0. Pass it as :func:`spark_connector`; raises alike."""
    coordinates = (f"io.delta:delta-spark_2.13:{version}",)
    wanted = _Download(f"Delta Lake {version}", coordinates, lambda name: name.startswith(DELTA))
    return _fetched(wanted, cache_folder() / "delta" / version)


def kafka_streams(version: str) -> Path:
    """Return the folder with Kafka Streams and its example apps, for a class path beside `jars_of`; raises alike.

    RocksDB is left out, which has 73 MB: the apps have to keep their state in memory.
    """
    coordinates = (f"org.apache.kafka:kafka-streams-examples:{version}",)
    wanted = _Download(f"Kafka Streams {version}", coordinates, lambda name: name.startswith(STREAMS))
    return _fetched(wanted, cache_folder() / "kafka-streams" / version)


class _Download(NamedTuple):
    """What to download."""

    what: str
    coordinates: tuple[str, ...]
    keep: Callable[[str], bool]
    """Whether to keep an artifact, by name."""
    patches: tuple[str, ...] = ()
    """Artifacts that replace or complete those of the coordinates."""


def _fetched(wanted: _Download, folder: Path) -> Path:
    if folder.is_dir():
        return folder
    cache = cache_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "kafka.lock", timeout=FETCH_TIMEOUT):
            if not folder.is_dir():
                _fetch(wanted, folder, cache / "maven")
    except Timeout:
        raise LocalKafkaError(f"another process has been downloading jars for {FETCH_TIMEOUT:.0f} s: {cache}") from None
    except OSError as error:
        problem = f"jars cannot be kept in {cache}: {error.strerror}"
        raise LocalKafkaError(f"{problem}; FEATUREGATE_CACHE names another folder") from error
    return folder


def _fetch(wanted: _Download, folder: Path, repository: Path) -> None:
    """Resolve and install.

    The Maven repository is separate, for two reasons. jgo writes to it in place, so that it is deleted after an
    interrupted run. And poms in ``~/.m2`` without their jars break Ivy.
    """
    unfinished = repository.with_name("maven.unfinished")
    if unfinished.exists():
        shutil.rmtree(repository, ignore_errors=True)
    unfinished.touch()
    with _Progress(f"downloading {wanted.what}") as progress:
        install(_resolve(wanted, repository, progress), folder)
    unfinished.unlink()


def install(jars: Iterable[Path], folder: Path) -> None:
    """Put jars into a folder, which exists only once all of them are in it."""
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for jar in jars:
            _link(jar, partial / jar.name)
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _resolve(wanted: _Download, repository: Path, progress: _Progress) -> Iterator[Path]:
    """Resolve the dependencies and yield their jars as they arrive."""
    try:
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - an extra, needed only to download
    except ImportError as error:
        raise ImportError("jgo downloads Kafka's jars: pip install '.[testing]' in a checkout") from error
    context = MavenContext(resolver=PythonResolver(), repo_cache=repository, remote_repos=_remotes(), timeout=60)
    try:
        closure = _closure(context, wanted.coordinates)
        for patch in wanted.patches:
            group, name, _ = patch.split(":")
            more = _closure(context, [patch])
            closure = {**more, **closure, (group, name): more[group, name]}
        if extra := _logger_binding(closure):
            # Resolved separately: jgo would apply its dependency management to all artifacts.
            closure = {**_closure(context, [extra]), **closure}
        gone = RELOCATED if extra else {}
        artifacts = [artifact for (_, name), artifact in closure.items() if wanted.keep(name) and name not in gone]
        with ThreadPoolExecutor(DOWNLOADS, "jars") as pool:
            for count, jar in enumerate(pool.map(lambda artifact: artifact.resolve(), artifacts), 1):
                progress.state = f"{count} of {len(artifacts)} jars"
                yield Path(jar)
    except (RuntimeError, ValueError, OSError) as error:  # what jgo raises; errors of requests are OSErrors
        raise LocalKafkaError(f"could not download {wanted.what} from Maven: {error}") from error


def _remotes() -> dict[str, str] | None:
    """Return the mirrors of the user's jgo configuration; None for the default, Maven Central."""
    from jgo.config import GlobalSettings  # noqa: PLC0415 - see _resolve

    mirrors: dict[str, str] = GlobalSettings.load().repositories
    return mirrors or None


def _closure(context: Any, coordinates: Iterable[str]) -> dict[tuple[str, str], Any]:
    """Return the runtime dependencies of these coordinates, by group and name."""
    from jgo.maven import Dependency  # noqa: PLC0415 - see _resolve

    wanted = []
    for coordinate in coordinates:
        group, name, version = coordinate.split(":")
        wanted.append(Dependency(context.project(group, name).at_version(version).artifact()))
    inputs, transitive = context.resolver.resolve(wanted)
    needed = [*inputs, *(dependency for dependency in transitive if dependency.scope in ("compile", "runtime"))]
    return {(dependency.groupId, dependency.artifactId): dependency.artifact for dependency in needed}


def _logger_binding(closure: Mapping[tuple[str, str], Any]) -> str | None:
    """Return the artifact that Kafka needs for logging; None if the dependencies contain one."""
    versions = {name: str(artifact.version) for (_, name), artifact in closure.items()}
    for old, new in RELOCATED.items():
        if old in versions and _numbers(versions[old]) >= (1, 7, 34):
            return f"org.slf4j:{new}:{versions[old]}"
    if not BINDINGS & versions.keys() and "log4j-core" in versions:
        return f"org.apache.logging.log4j:log4j-slf4j-impl:{versions['log4j-core']}"
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".") if number.isdigit())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


class _Progress:
    """A line on stderr during a ``with`` block: updated in a terminal, repeated now and then in a log file."""

    def __init__(self, what: str) -> None:
        self.state = "resolving"
        self._what = what
        self._began = time.monotonic()
        self._in_terminal = sys.stderr.isatty()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._ticker.join()
        self.state = "failed" if kind else "done"
        self._write("\n")

    def _tick(self) -> None:
        self._write("" if self._in_terminal else "\n")
        while not self._stop.wait(1 if self._in_terminal else 15):
            self._write("" if self._in_terminal else "\n")

    def _write(self, end: str) -> None:
        start = "\r\x1b[K" if self._in_terminal else ""
        sys.stderr.write(f"{start}{self._what} ... {time.monotonic() - self._began:.0f} s ({self.state}){end}")
        sys.stderr.flush()
