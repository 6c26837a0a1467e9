"""Where logs and tables are: folders of this machine, or URIs of a storage, as Python and as Spark name them.

A path of a storage is one of universal-pathlib, over the user's fsspec backend. It is typed as `Path`, and has the
methods of `Path` that the pipeline calls. Backends find their credentials themselves, as Spark finds its own.
"""

from __future__ import annotations

import os
import re
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from featuregate.calls import NotReturned, call_within
from featuregate.errors import ConfigError
from featuregate.files import local_path, require_text
from featuregate.version import how_to_install
from featuregate_fleet.errors import StorageFailed


class _Store(NamedTuple):
    spark: str
    """The scheme that Hadoop has for it."""
    extra: str


STORES: Final = {
    "s3": _Store("s3a", "fleet-s3"),
    "s3a": _Store("s3a", "fleet-s3"),
    "gs": _Store("gs", "fleet-gcs"),
    "abfss": _Store("abfss", "fleet-azure"),
    "hdfs": _Store("hdfs", "fleet-hdfs"),
    "webhdfs": _Store("webhdfs", "fleet-hdfs"),
}
"""By the scheme of a URI."""

OF_HADOOP: Final = frozenset({"hdfs", "webhdfs"})
"""The storages with real folders, where a file can be renamed, and can grow."""

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
        raise ConfigError(key, f"names no {_authority(scheme)}: write it behind {scheme}://")
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
    if is_local(path):
        return str(path)
    authority, below = _parts(path)
    return f"{STORES[_scheme(path)].spark}://{authority}{below}"


def path_in_uri(path: Path) -> str:
    """Return the part of its URI that is the path, decoded."""
    return str(path) if is_local(path) else _parts(path)[1]


def uri_of(path: Path) -> str:
    """Return the URI of an absolute path, in Spark's spelling."""
    if is_local(path):
        return path.as_uri()
    authority, below = _parts(path)
    return f"{STORES[_scheme(path)].spark}://{authority}{quote(below)}"


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
    return any(
        STORES[_scheme(path)].spark == "s3a"
        for path in paths
        if not isinstance(path, str | None) and not is_local(path)
    )


class StoredFile(NamedTuple):
    """A file of a storage, as it is listed."""

    size: int
    stamp: str
    """Changes whenever the file is written or replaced."""
    written: float | None
    """When, in seconds since 1970; None on object stores, where a file is there once it is whole."""


def stored_files(folder: Path) -> dict[str, StoredFile]:
    """Return the files below a folder of a storage, by path. One request has many: one for each would take hours."""
    root = folder.path.rstrip("/") + "/"  # type: ignore[attr-defined]
    found = _backend(folder).find(root, detail=True)
    may_grow = _scheme(folder) in OF_HADOOP
    return {name.removeprefix(root): _stored_file(about, may_grow=may_grow) for name, about in found.items()}


def _stored_file(about: Any, *, may_grow: bool) -> StoredFile:
    """Return one entry of a listing. Each backend names the time in its own way."""
    written = next((about[name] for name in _WRITTEN if about.get(name) is not None), None)
    stamp = f"{about.get('ETag') or about.get('etag') or ''} {written}".strip()
    return StoredFile(about["size"], stamp, _seconds(written) if may_grow else None)


def _seconds(written: object) -> float | None:
    """Return a time of HDFS in seconds: its name nodes count in milliseconds."""
    if isinstance(written, datetime):
        return written.timestamp()
    return written / 1000 if isinstance(written, int | float) else None


_WRITTEN: Final = ("LastModified", "updated", "last_modified", "modificationTime", "modification_time", "mtime")


def modified_at(path: Path) -> datetime:
    """Return when a file was last written. Backends differ in the unit of the time that ``stat()`` has."""
    if is_local(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    found: datetime = _backend(path).modified(path.path)  # type: ignore[attr-defined]
    return found.astimezone(UTC)  # that of webhdfs is in the zone of this host, and does not say so


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


def failure_of(path: Path, error: OSError) -> StorageFailed:
    """Return what is raised where a storage, and not the file, is why a file cannot be read."""
    return StorageFailed(f"{spark_path(path)} cannot be read: {error}")


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
    return f"needs the backend of {scheme}:// ({what}): {how_to_install(STORES[scheme].extra)}{way}"


def _authority(scheme: str) -> str:
    return {"abfss": "container and account", "hdfs": "name node", "webhdfs": "name node"}.get(scheme, "bucket")


def _scheme(path: Path) -> str:
    scheme: str = path.protocol  # type: ignore[attr-defined]
    return scheme


def _backend(path: Path) -> Any:
    return path.fs  # type: ignore[attr-defined]


def _parts(path: Path) -> tuple[str, str]:
    """Return the authority of the URI of a path of a storage, and what is behind it. Some backends drop the first."""
    whole: str = path.path  # type: ignore[attr-defined]
    options: Any = path.storage_options  # type: ignore[attr-defined]
    if _scheme(path) in OF_HADOOP:
        port = f":{options['port']}" if options.get("port") else ""
        return f"{options['host']}{port}", whole
    first, _, below = whole.partition("/")
    if _scheme(path) == "abfss":
        first = f"{first}@{options['account_name']}.dfs.core.windows.net"
    return first, f"/{below}"
