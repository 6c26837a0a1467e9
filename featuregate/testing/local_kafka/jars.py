"""Kafka's jars, and those of Spark's Kafka connector: fetched once from Maven's repositories, kept for later runs.

The cache holds ``kafka/<version>/*.jar`` and ``spark-connector/<version>/*.jar``. A folder of that name is complete:
it is filled under another name and renamed at the end, so neither a crash nor a second process can leave or meet half
of one.
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

__all__ = ["cache_folder", "install", "jars_of", "spark_connector"]

FETCH_TIMEOUT = 900.0
"""Seconds to wait for another process that fetches."""

DOWNLOADS = 4
"""Jars that are fetched at the same time."""

CONNECTOR = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""How the artifacts of Spark's Kafka connector begin that are not part of Spark."""

RELOCATED = {"slf4j-log4j12": "slf4j-reload4j"}
"""Artifacts that moved, from slf4j 1.7.34 on: their old name has no jar any more, and jgo does not follow."""

TOOLS = {"kafka-tools", "kafka-tools-api"}
"""Artifacts that a broker runs without; left out where a release's own cannot be had."""

BINDINGS = {"log4j-slf4j-impl", "slf4j-log4j12", "slf4j-reload4j"}
"""What connects slf4j to a logger. Kafka 4's own closure has none, and so would log nothing."""


def cache_folder() -> Path:
    """Name the folder that jars are kept in: ``FEATUREGATE_CACHE``, or ``featuregate`` in the user's cache folder."""
    if chosen := os.environ.get("FEATUREGATE_CACHE"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "featuregate"
    return Path.home() / ".cache" / "featuregate"


def jars_of(recipe: Recipe) -> Path:
    """Give the folder with every jar that a release needs, fetching them where they are not there yet.

    Tells its progress on stderr. Raises `LocalKafkaError` where the jars cannot be had, and ImportError where the
    extra ``testing`` is not installed.
    """
    tools = TOOLS if recipe.tools_of else set()
    wanted = _Wanted(f"Kafka {recipe.version}", recipe.coordinates, lambda name: name not in tools, recipe.patches)
    return _fetched(wanted, cache_folder() / "kafka" / recipe.version)


def spark_connector(version: str) -> Path:
    """Give the folder with the jars of Spark's Kafka connector that Spark itself does not bring.

    ``spark.driver.extraClassPath`` takes it as ``<folder>/*``, where everything runs in the driver's process. Raises
    as :func:`jars_of`.
    """
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    wanted = _Wanted(f"Spark's Kafka connector {version}", (connector,), lambda name: name.startswith(CONNECTOR))
    return _fetched(wanted, cache_folder() / "spark-connector" / version)


class _Wanted(NamedTuple):
    """What is to be fetched."""

    what: str
    coordinates: tuple[str, ...]
    keep: Callable[[str], bool]
    """Which artifacts of the closure, by name."""
    patches: tuple[str, ...] = ()
    """What comes in the place of an artifact of the closure, or beside it."""


def _fetched(wanted: _Wanted, folder: Path) -> Path:
    if folder.is_dir():
        return folder
    cache = cache_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(cache / "kafka.lock", timeout=FETCH_TIMEOUT):
            if not folder.is_dir():
                _fetch(wanted, folder, cache / "maven")
    except Timeout:
        raise LocalKafkaError(f"another process has been fetching jars for {FETCH_TIMEOUT:.0f} s: {cache}") from None
    return folder


def _fetch(wanted: _Wanted, folder: Path, repository: Path) -> None:
    """Resolve and install.

    The Maven repository is our own, for two reasons. jgo writes into it in place, so what an interrupted run leaves
    there is not to be trusted: it is thrown away. And ``~/.m2`` with some poms but not their jars breaks Ivy.
    """
    unfinished = repository.with_name("maven.unfinished")
    if unfinished.exists():
        shutil.rmtree(repository, ignore_errors=True)
    unfinished.touch()
    with _Progress(f"fetching {wanted.what}") as progress:
        install(_resolve(wanted, repository, progress), folder)
    unfinished.unlink()


def install(jars: Iterable[Path], folder: Path) -> None:
    """Put jars into a folder that is not there before all of them are in it."""
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for jar in jars:
            _link(jar, partial / jar.name)
        partial.chmod(0o755)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _resolve(wanted: _Wanted, repository: Path, progress: _Progress) -> Iterator[Path]:
    """Resolve the closure and give its jars, one by one as they arrive."""
    try:
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - an extra, needed only to fetch
    except ImportError as error:
        raise ImportError("Kafka's jars are fetched with jgo: pip install 'featuregate[testing]'") from error
    context = MavenContext(resolver=PythonResolver(), repo_cache=repository, remote_repos=_remotes(), timeout=60)
    try:
        closure = _closure(context, wanted.coordinates)
        for patch in wanted.patches:
            group, name, _ = patch.split(":")
            more = _closure(context, [patch])
            closure = {**more, **closure, (group, name): more[group, name]}
        if extra := _logger_binding(closure):
            # Resolved by itself: jgo would take its dependency management for the whole closure's.
            closure = {**_closure(context, [extra]), **closure}
        gone = RELOCATED if extra else {}
        artifacts = [artifact for (_, name), artifact in closure.items() if wanted.keep(name) and name not in gone]
        with ThreadPoolExecutor(DOWNLOADS, "jars") as pool:
            for count, jar in enumerate(pool.map(lambda artifact: artifact.resolve(), artifacts), 1):
                progress.state = f"{count} of {len(artifacts)} jars"
                yield Path(jar)
    except (RuntimeError, ValueError, OSError) as error:  # what jgo raises; requests' errors are OSErrors
        raise LocalKafkaError(f"could not fetch {wanted.what} from Maven: {error}") from error


def _remotes() -> dict[str, str] | None:
    """Take the mirrors of the user's own jgo configuration; None leaves jgo its default, Maven Central."""
    from jgo.config import GlobalSettings  # noqa: PLC0415 - see _resolve

    mirrors: dict[str, str] = GlobalSettings.load().repositories
    return mirrors or None


def _closure(context: Any, coordinates: Iterable[str]) -> dict[tuple[str, str], Any]:
    """Give the artifacts that these need to run, by group and name."""
    from jgo.maven import Dependency  # noqa: PLC0415 - see _resolve

    wanted = []
    for coordinate in coordinates:
        group, name, version = coordinate.split(":")
        wanted.append(Dependency(context.project(group, name).at_version(version).artifact()))
    inputs, transitive = context.resolver.resolve(wanted)
    needed = [*inputs, *(dependency for dependency in transitive if dependency.scope in ("compile", "runtime"))]
    return {(dependency.groupId, dependency.artifactId): dependency.artifact for dependency in needed}


def _logger_binding(closure: Mapping[tuple[str, str], Any]) -> str | None:
    """Name the artifact that has to be added so that Kafka logs; None where the closure has a good one."""
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
    """One line on stderr while a ``with`` block lasts: rewritten in a terminal, repeated now and then in a log file."""

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
