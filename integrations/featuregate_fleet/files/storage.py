"""Where logs and tables are: folders of this machine, or URIs of a storage, and which files are below one.

A path of a storage is one of universal-pathlib, over the user's fsspec backend. It is typed as `Path`, and has the
methods of `Path` that the pipeline calls. Backends find their credentials themselves, as Spark finds its own.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from featuregate.calls import NotReturned, call_within
from featuregate.errors import ConfigError
from featuregate.files import local_path, require_text
from featuregate.version import how_to_install
from featuregate_fleet.evidence.paths import UNLISTED, why_left

STORES: Final = {
    "s3": "fleet-s3",
    "s3a": "fleet-s3",
    "gs": "fleet-gcs",
    "abfss": "fleet-azure",
    "hdfs": "fleet-hdfs",
    "webhdfs": "fleet-hdfs",
}
"""By the scheme of a URI, the extra that it needs."""
_S3: Final = frozenset({"s3", "s3a"})
"""Hadoop has the second one alone."""
OF_HADOOP: Final = frozenset({"hdfs", "webhdfs"})
"""The storages with real folders, where a file can be renamed, and can grow."""
_AUTHORITIES: Final = {"abfss": "container and account", "hdfs": "name node", "webhdfs": "name node"}

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(//([^/]*))?(/.*)?", re.DOTALL)
_OF_AZURE: Final = re.compile(r"[^@]+@[^@]+\.(dfs|blob)\.core\.windows\.net")
"""Its backend would take a folder for the container of an authority that names the account alone."""


def storage_path(key: str, place: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder, of a path or of a URI of this machine or of a storage.

    Raises ConfigError (for ``key``: it is the URI of a storage that cannot be used here. The text does not have the
    URI, which may hold a key).
    """
    found = None if isinstance(place, Path) else _URI.fullmatch(str(place).strip())
    scheme = found[1].lower() if found else ""
    if found is None or scheme not in STORES:
        return _local(key, place)
    if not found[3]:
        raise ConfigError(key, f"names no {_AUTHORITIES.get(scheme, 'bucket')}: write it behind {scheme}://")
    user, _, host = found[3].rpartition("@")
    if ":" in user or (":" in host and not host.rpartition(":")[2].isdigit()):  # a password may hold a slash
        raise ConfigError(key, f"has a password in it: leave it out, and let {scheme}:// find its credentials")
    if scheme == "abfss" and not _OF_AZURE.fullmatch(found[3]):
        raise ConfigError(key, "must name CONTAINER@ACCOUNT.dfs.core.windows.net behind abfss://")
    return _of_storage(key, scheme, found[3], found[4] or "/")


def is_local(path: Path) -> bool:
    """Return whether a path is one of this machine."""
    return isinstance(path, Path)


def spark_path(path: Path) -> str:
    """Return how Spark names a path. It takes the text as it is, and would not decode a URI."""
    return str(path) if is_local(path) else "".join(_parts(path))


def uri_of(path: Path) -> str:
    """Return the URI of an absolute path, in Spark's spelling."""
    if is_local(path):
        return path.as_uri()
    root, below = _parts(path)
    return root + quote(below)


def path_at(uri: str) -> Path:
    """Return the path of a URI in Spark's spelling."""
    found = urlsplit(uri)
    if found.scheme in {"", "file"}:
        return Path(os.fsdecode(unquote_to_bytes(found.path)))  # a name need not be text
    return _of_storage("logs", found.scheme, found.netloc, unquote(found.path))


def is_below(path: Path, folder: Path) -> bool:
    """Return whether a path is a folder or is within it, and on the same storage."""
    if is_local(path) != is_local(folder):
        return False
    one, other = (f"{uri_of(each.resolve()).rstrip('/')}/" for each in (path, folder))
    return one.startswith(other)


def why_no_folder(path: Path) -> str:
    """Say why a path is not one of a folder; empty for a folder."""
    if path.is_dir():
        return ""
    return "this is not a folder, but a file" if path.exists() else "there is no such folder"


def on_s3(*paths: Path | str | None) -> bool:
    """Return whether one of some paths is on S3."""
    return any(not isinstance(path, str | None) and not is_local(path) and _scheme(path) in _S3 for path in paths)


def written_at(uri: str) -> datetime | None:
    """Return when a file was last written; None for one that is gone, and for a time that no calendar has."""
    try:
        path = path_at(uri)
        if is_local(path):
            return datetime.fromtimestamp(path.stat().st_mtime, UTC)
        # Backends differ in the unit of the time that stat() has; that of webhdfs is in the zone of this host.
        found: datetime = _backend(path).modified(path.path)  # type: ignore[attr-defined]
        return found.astimezone(UTC)
    except (OSError, OverflowError, ValueError):  # its reader says so, or its broker has set it
        return None


def reached(key: str, path: Path, within: float = 120.0) -> Path:
    """Return a path after a look at it, so that a storage which cannot be reached is said in one line.

    A backend without credentials may ask for them at many places, for longer than a person waits: ``within`` is in
    seconds. Raises ConfigError (for ``key``: the storage does not answer, or does not allow it).
    """
    if is_local(path):
        return path
    try:
        call_within(within, path.exists)
    except NotReturned as error:
        raise ConfigError(key, f"{spark_path(path)} has not answered within {within:g} seconds") from error
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(key, f"{spark_path(path)} cannot be reached: {reason}") from error
    return path


def _local(key: str, place: str | os.PathLike[str]) -> Path:
    require_text(key, place)
    try:
        return local_path(key, place)
    except ConfigError:
        raise ConfigError(
            key,
            "is a URI of a storage that cannot be used here: take a path, or one of "
            f"{', '.join(f'{scheme}://' for scheme in STORES)} and file://; a local folder whose name looks like a URI "
            "needs its absolute path",
        ) from None


def _of_storage(key: str, scheme: str, authority: str, below: str) -> Path:
    try:
        from upath import UPath  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigError(key, _missing(scheme, "universal-pathlib")) from None
    # Other processes write there, too. Backends of HDFS keep no listings, and hdfs-native takes no option but texts.
    options: dict[str, Any] = {} if scheme in OF_HADOOP else {"use_listings_cache": False}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "UPath '.*' filesystem not explicitly implemented", UserWarning)
            path = UPath(f"{scheme}://{authority}{below}", **options)
        path.fs  # noqa: B018 - imports the backend
    except (ImportError, OSError, ValueError) as error:  # fsspec knows abfss:// from its backend alone
        raise ConfigError(key, _missing(scheme, str(error).partition("\n")[0])) from error
    return cast("Path", path)


def _missing(scheme: str, what: str) -> str:
    way = "; or take webhdfs://, which needs no libraries of Hadoop" if scheme == "hdfs" else ""
    return f"needs the backend of {scheme}:// ({what}): {how_to_install(STORES[scheme])}{way}"


def _scheme(path: Path) -> str:
    scheme: str = path.protocol  # type: ignore[attr-defined]
    return scheme


def _backend(path: Path) -> Any:
    return path.fs  # type: ignore[attr-defined]


def _parts(path: Path) -> tuple[str, str]:
    """Return scheme and authority of a path of a storage, as Spark has them, and what is behind these."""
    whole: str = path.path  # type: ignore[attr-defined]
    options: Any = path.storage_options  # type: ignore[attr-defined]
    scheme = _scheme(path)
    if scheme in OF_HADOOP:  # these backends drop the authority
        port = f":{options['port']}" if options.get("port") else ""
        return f"{scheme}://{options['host']}{port}", whole
    first, _, below = whole.partition("/")
    if scheme == "abfss":
        first = f"{first}@{options['account_name']}.dfs.core.windows.net"
    return f"{'s3a' if scheme in _S3 else scheme}://{first}", f"/{below}"


# ---------------------------------------------------------------- what is below a folder of logs

_STILL: Final = 3600.0
"""Seconds for which a file was not written, after which its last line gets no end any more. Slow machines and buffered
appenders write half a line, and the rest of it minutes later."""
_WRITTEN: Final = ("LastModified", "updated", "last_modified", "modificationTime", "modification_time", "mtime")


class Listed(NamedTuple):
    """A file as it is listed."""

    uri: str
    size: int
    stamp: str
    """Changes whenever the file is written, renamed or replaced."""
    still: bool
    """Whether it was not written for an hour. On object stores, a file is there once it is whole."""


def list_logs(logs: Path, now: datetime) -> tuple[list[Listed], dict[str, str]]:
    """List the files below a folder in the order of their URIs, and by path why others are not read."""
    left: dict[str, str] = {}
    listed = _files_here if is_local(logs) else _stored_files
    return sorted(listed(logs, left, now.timestamp())), left


def _files_here(logs: Path, left: dict[str, str], now: float) -> Iterator[Listed]:
    root, uri_root = str(logs), uri_of(logs).rstrip("/")
    waiting = [root]
    while waiting:
        for entry in _entries(waiting.pop(), root, left):
            path = entry.path[len(root) + 1 :]
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:
                left[_text(path)] = UNLISTED
                continue
            if why := why_left(path, about.st_mode):
                left[_text(path)] = why
            elif stat.S_ISDIR(about.st_mode):
                waiting.append(entry.path)
            elif about.st_size:  # no line is missing of an empty file
                stamp = f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
                uri = f"{uri_root}/{quote(os.fsencode(path))}"
                yield Listed(uri, about.st_size, stamp, abs(now - about.st_mtime) > _STILL)


def _entries(folder: str, root: str, left: dict[str, str]) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a folder; nothing of one that is gone, or may not be listed."""
    try:
        found = os.scandir(folder)
    except FileNotFoundError:  # deleted since it was listed
        return
    except OSError:
        if folder == root:
            raise
        left[_text(folder[len(root) + 1 :])] = UNLISTED
        return
    with found:
        yield from found


def _text(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")


def _stored_files(logs: Path, left: dict[str, str], now: float) -> Iterator[Listed]:
    """Yield the files of a storage. One request has many: one for each would take hours."""
    root, uri_root = logs.path.rstrip("/") + "/", uri_of(logs).rstrip("/")  # type: ignore[attr-defined]
    for name, about in _backend(logs).find(root, detail=True).items():
        path = name.removeprefix(root)
        if why := why_left(path, stat.S_IFREG):
            left[path] = why
        elif about["size"]:
            yield _listed(f"{uri_root}/{quote(path)}", about, now, may_grow=_scheme(logs) in OF_HADOOP)


def _listed(uri: str, about: Any, now: float, *, may_grow: bool) -> Listed:
    """Return one entry of a listing. Each backend names the time in its own way; name nodes count in milliseconds."""
    written = next((about[name] for name in _WRITTEN if about.get(name) is not None), None)
    stamp = f"{about.get('ETag') or about.get('etag') or ''} {written}".strip()
    at = written.timestamp() if isinstance(written, datetime) else None
    if isinstance(written, int | float):
        at = written / 1000
    return Listed(uri, about["size"], stamp, not may_grow or at is None or abs(now - at) > _STILL)
