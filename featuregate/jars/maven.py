"""Jars from Maven's repositories: downloaded once, checked, and cached.

A folder of the cache is complete: it is filled under another name and renamed at the end, so that neither a crash nor a
second process leaves a part.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from featuregate.errors import LocalKafkaError
from featuregate.files import local_path
from featuregate.jars.progress import ProgressLine
from featuregate.jars.spark_lines import release_numbers
from featuregate.version import how_to_install

FETCH_TIMEOUT = 900.0
"""Seconds to wait for another process that downloads."""

CACHE = "FEATUREGATE_CACHE"
"""The environment variable that names the folder of the cache."""

DOWNLOADS = 4
"""The number of simultaneous downloads."""

RELOCATED = {"slf4j-log4j12": "slf4j-reload4j"}
"""Artifacts that were relocated with slf4j 1.7.34. There is no jar with the old name, and jgo does not follow."""

BINDINGS = {"log4j-slf4j-impl", "slf4j-log4j12", "slf4j-reload4j"}
"""Bindings of slf4j to a logger. Kafka 4 depends on none of them, and would log nothing."""


def cache_folder() -> Path:
    """Return the folder of the cache: ``FEATUREGATE_CACHE``, or ``featuregate`` in the user's cache folder."""
    if (chosen := os.environ.get(CACHE, "")).strip():
        return local_path(CACHE, chosen)
    if (xdg := os.environ.get("XDG_CACHE_HOME", "")).strip():
        return Path(xdg).expanduser() / "featuregate"
    return Path.home() / ".cache" / "featuregate"


class Download(NamedTuple):
    """What to download."""

    what: str
    coordinates: tuple[str, ...]
    keep: Callable[[str], bool] | None
    """Whether to keep an artifact that the coordinates need, by name; None for the coordinates alone."""
    patches: tuple[str, ...] = ()
    """Artifacts that replace or complete those of the coordinates."""


def fetched(wanted: Download, folder: Path) -> Path:
    """Return the folder with these jars. Download them if they are not in the cache, with progress on stderr.

    Raises `LocalKafkaError`: the download fails, or a jar is not the one that its checksum describes. Raises
    `ImportError`: the extra ``testing`` or ``fleet`` is not installed.
    """
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
        raise LocalKafkaError(f"{problem}; {CACHE} names another folder") from error
    return folder


def _fetch(wanted: Download, folder: Path, repository: Path) -> None:
    """Resolve and install.

    The Maven repository is separate, for two reasons. jgo writes to it in place, so that it is deleted after an
    interrupted run. And poms in ``~/.m2`` without their jars break Ivy.
    """
    unfinished = repository.with_name("maven.unfinished")
    if unfinished.exists():
        shutil.rmtree(repository, ignore_errors=True)
    unfinished.touch()
    with ProgressLine(f"downloading {wanted.what}") as progress:
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


def _resolve(wanted: Download, repository: Path, progress: ProgressLine) -> Iterator[Path]:
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - an extra, needed only to download
    except ImportError as error:
        raise ImportError(f"jgo downloads jars: {how_to_install('testing')}") from error
    try:
        context = MavenContext(resolver=verified_resolver(), repo_cache=repository, remote_repos=_remotes(), timeout=60)
        artifacts = _artifacts(context, wanted)
        with ThreadPoolExecutor(DOWNLOADS, "jars") as pool:
            for count, jar in enumerate(pool.map(lambda artifact: artifact.resolve(), artifacts), 1):
                progress.state = f"{count} of {len(artifacts)} jars"
                yield Path(jar)
    except (RuntimeError, ValueError, OSError) as error:  # what jgo raises; errors of requests are OSErrors
        problem = f"could not download {wanted.what} from Maven: {error}"
    else:
        return
    raise LocalKafkaError(problem)  # here, because the other error has the mirror's URL, which may hold a password


def _artifacts(context: Any, wanted: Download) -> list[Any]:
    """Return the artifacts of the coordinates, with those that they need unless the coordinates are all."""
    if wanted.keep is None:
        return [_artifact(context, coordinate) for coordinate in wanted.coordinates]
    closure = _closure(context, wanted.coordinates)
    for patch in wanted.patches:
        group, name, _ = patch.split(":")
        more = _closure(context, [patch])
        closure = {**more, **closure, (group, name): more[group, name]}
    if extra := _logger_binding(closure):
        # Resolved separately: jgo would apply its dependency management to all artifacts.
        closure = {**_closure(context, [extra]), **closure}
    gone = RELOCATED if extra else {}
    return [artifact for (_, name), artifact in closure.items() if wanted.keep(name) and name not in gone]


def _remotes() -> dict[str, str] | None:
    """Return the mirrors of the user's jgo configuration; None for the default, Maven Central."""
    from jgo.config import GlobalSettings  # noqa: PLC0415 - see _resolve

    mirrors: dict[str, str] = GlobalSettings.load().repositories
    for name, url in mirrors.items():
        if not url.startswith("https://") and urlsplit(url).hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(f"the mirror {name!r} of jgo's configuration must begin with https://")
    return mirrors or None


def _closure(context: Any, coordinates: Iterable[str]) -> dict[tuple[str, str], Any]:
    """Return the runtime dependencies of these coordinates, by group and name."""
    from jgo.maven import Dependency  # noqa: PLC0415 - see _resolve

    wanted = [Dependency(_artifact(context, coordinate)) for coordinate in coordinates]
    inputs, transitive = context.resolver.resolve(wanted)
    needed = [*inputs, *(dependency for dependency in transitive if dependency.scope in ("compile", "runtime"))]
    return {(dependency.groupId, dependency.artifactId): dependency.artifact for dependency in needed}


def _artifact(context: Any, coordinate: str) -> Any:
    group, name, version, *classifier = coordinate.split(":")
    return context.project(group, name).at_version(version).artifact(*classifier)


def _logger_binding(closure: Mapping[tuple[str, str], Any]) -> str | None:
    """Return the artifact that Kafka needs for logging; None if the dependencies contain one."""
    versions = {name: str(artifact.version) for (_, name), artifact in closure.items()}
    for old, new in RELOCATED.items():
        if old in versions and release_numbers(versions[old]) >= (1, 7, 34):
            return f"org.slf4j:{new}:{versions[old]}"
    if not BINDINGS & versions.keys() and "log4j-core" in versions:
        return f"org.apache.logging.log4j:log4j-slf4j-impl:{versions['log4j-core']}"
    return None


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


_OK: Final = 200
_LONGEST_SUM: Final = 1_000
_SHA1: Final = re.compile(r"\s*([0-9A-Fa-f]{40})(?:\s|$)")
"""A file with a checksum has it alone, or the name of the file behind it."""


def known_sums() -> Mapping[str, str]:
    """Return the SHA-256 of each jar that this package names itself, by the name of the file."""
    sums: dict[str, str] = json.loads(files("featuregate.jars").joinpath("sha256.json").read_text())
    return sums


def verified_resolver() -> Any:
    """Return a resolver of jgo that raises ValueError for a file that is not what its checksum says, and deletes it.

    A jar that this package names must have the SHA-256 of its table. Every other file must have the SHA-1 that stands
    of the repository; a file without a checksum is refused. jgo itself only logs what does not fit.
    """
    from jgo.maven import PythonResolver  # noqa: PLC0415 - an extra, needed only to download

    expected = known_sums()

    class Verified(PythonResolver):
        def download(self, artifact: Any) -> Path | None:
            path: Path | None = super().download(artifact)
            if path is not None and (problem := _difference(path, expected, artifact)):
                path.unlink()
                raise ValueError(problem)
            return path

    return Verified()


def _difference(path: Path, expected: Mapping[str, str], artifact: Any) -> str | None:
    if (wanted := expected.get(path.name)) is not None:
        found = _sum_of(path, "sha256")
        problem = (
            f"{path.name} has the SHA-256 {found}, and must have {wanted}: the mirror does not serve the released file"
        )
        return None if found == wanted else problem
    stated = _stated_sum(artifact)
    if stated is None:
        return f"the repository has no checksum of {path.name}, and an unchecked file is not used"
    found = _sum_of(path, "sha1")
    return None if found == stated else f"Checksum mismatch for {path.name}: expected {stated}, got {found}"


def _sum_of(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _stated_sum(artifact: Any) -> str | None:
    """Return the SHA-1 that the first repository with one states; None where there is none."""
    import requests  # noqa: PLC0415 - of jgo, needed only to download

    folder = artifact.component.path_prefix.as_posix()
    for repository in artifact.context.remote_repos.values():
        url = f"{repository}/{folder}/{artifact.filename}.sha1"
        with requests.get(url, timeout=artifact.context.timeout, stream=True) as response:
            if response.status_code == _OK:
                text = next(response.iter_content(_LONGEST_SUM), b"").decode("latin-1")
                return found[1].lower() if (found := _SHA1.match(text)) else ""
    return None
