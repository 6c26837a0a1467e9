"""Where logs and tables are: folders of this machine, or URIs of a storage, as Python and as Spark name them.

A path of a storage is one of universal-pathlib, over the user's fsspec backend. It is typed as `Path`, and has the
methods of `Path` that the pipeline calls. Backends find their credentials themselves, as Spark finds its own.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from datetime import UTC, datetime
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from featuregate.errors import ConfigError
from featuregate.files import local_path, require_text
from featuregate_fleet.errors import StorageFailed
from featuregate_librdkafka.calls import NotReturned, call_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
"""The storages with real folders, where a file can be renamed and cannot be made on a condition."""

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(//([^/]*))?(/.*)?", re.DOTALL)
_OF_AZURE: Final = re.compile(r"[^@]+@[^@]+\.(dfs|blob)\.core\.windows\.net")
"""Its backend would take a folder for the container of an authority that names the account alone."""
FOLLOWED: Final = frozenset({0, stat.S_IFREG, stat.S_IFDIR})
"""The kinds of what is read, and of nothing, which its reader names. Others are links, pipes, sockets and devices."""
_NEIGHBOURS: Final = 2000
"""Files of a folder among which the ones that were renamed last are looked for."""
_DBFS: Final = Path("/dbfs")
"""Where Databricks mounts its file system."""
_OF_DATABRICKS: Final = "DATABRICKS_RUNTIME_VERSION"


def storage_path(key: str, place: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder, of a path or of a URI of this machine or of a storage.

    Raises
    ------
    ConfigError
        For ``key``: it is the URI of a storage that cannot be used here. The text does not have the URI, which may
        hold a key.
    """
    found = None if isinstance(place, Path) else _URI.fullmatch(str(place).strip())
    scheme = found[1].lower() if found else ""
    if found and scheme == "dbfs" and found[4]:
        return _in_databricks(key, found[4])
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
        text = str(path)
        if path.is_relative_to(_DBFS) and _OF_DATABRICKS in os.environ:
            return f"dbfs:/{path.relative_to(_DBFS)}"
        return text
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
        return Path(unquote(found.path))
    if found.scheme == "dbfs":
        return Path(f"{_DBFS}{unquote(found.path)}")
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


def on_s3(*paths: Path | None) -> bool:
    """Return whether one of some paths is on S3."""
    return any(STORES[_scheme(path)].spark == "s3a" for path in paths if path is not None and not is_local(path))


def make_folder(path: Path) -> None:
    """Make a folder where there are any: an object store has none, and its backend might make a bucket instead."""
    if is_local(path) or _scheme(path) in OF_HADOOP:
        path.mkdir(parents=True, exist_ok=True)


def read_now(path: Path) -> str:
    """Return the text of a small file of a storage that may change meanwhile, in one request."""
    text: bytes = _backend(path).cat_file(path.path)  # type: ignore[attr-defined]
    return text.decode()


def rename_over_none(path: Path, target: Path) -> None:
    """Rename a file of HDFS. The name node leaves both as they are where the target exists."""
    _backend(path).mv(path.path, target.path)  # type: ignore[attr-defined]


def stamps_below(folder: Path) -> Callable[[str], tuple[int, object] | None]:
    """Return what says the size of a file below a folder, and when it was written; None for one that is gone.

    The time is a number, in nanoseconds since 1970, where a file that is renamed counts as written.

    A storage is asked for all files at once: a request for each would take hours.
    """
    return (lambda path: _stamp(f"{folder}/{path}")) if is_local(folder) else listing(folder).get


def listing(folder: Path) -> dict[str, tuple[int, object]]:
    """Return the files below a folder of a storage, each with its size, and when it was written."""
    root = folder.path.rstrip("/") + "/"  # type: ignore[attr-defined]
    found = _backend(folder).find(root, detail=True)
    return {name.removeprefix(root): _stamp_of(about) for name, about in found.items()}


def sizes_below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the path of each file below a folder, and its size. Links of this machine are left out."""
    if not is_local(folder):
        yield from ((path, size) for path, (size, _) in listing(folder).items())
        return
    for place, _, names in os.walk(folder):
        for path in (f"{place}/{name}" for name in names):
            if not is_link(path) and (stamp := _stamp(path)) is not None:
                yield path.removeprefix(f"{folder}/"), stamp[0]


def changed_last(path: Path, most: int) -> list[Path]:
    """Return the other files in the folder of one that were renamed or written last, the newest first.

    Very many files of a folder may be deleted at once, and this is asked for each of them: some thousands of its files
    are looked at.
    """
    others = (one for one in islice(path.parent.iterdir(), _NEIGHBOURS) if one.name != path.name)
    found = [(stamp[1], one) for one in others if (stamp := _stamp(one)) is not None]
    return [one for _, one in nlargest(most, found)]


def modified_at(path: Path) -> datetime:
    """Return when a file was last written. Backends differ in the unit of the time that ``stat()`` has."""
    if is_local(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    found: datetime = _backend(path).modified(path.path)  # type: ignore[attr-defined]
    return found.astimezone(UTC)  # that of webhdfs is in the zone of this host, and does not say so


def is_link(path: str) -> bool:
    """Return whether a path of this machine is a symbolic link; False for one that is gone."""
    return kind_of(path) == stat.S_IFLNK


def kind_of(path: str) -> int:
    """Return what is at a path of this machine, as `stat.S_IFMT` has it; 0 where nothing is."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def _stamp(path: str | Path) -> tuple[int, int] | None:
    try:
        about = os.stat(path)  # noqa: PTH116 - of each file that was read, in each run: a path takes longer than this
    except OSError:
        return None
    return (about.st_size, max(about.st_mtime_ns, about.st_ctime_ns)) if stat.S_ISREG(about.st_mode) else None


def _stamp_of(about: Any) -> tuple[int, object]:
    """Return the stamp of one entry of a listing. Each backend names the time in its own way.

    On S3 it is a number, as on this machine: an object that is renamed is written. A file of HDFS keeps its time.
    """
    if (written := about.get("LastModified")) is not None:
        return about["size"], int(written.timestamp()) * 10**9
    return about["size"], str(next((about[name] for name in _WRITTEN if name in about), None))


_WRITTEN: Final = ("updated", "last_modified", "modificationTime", "modification_time", "mtime")


def reached(key: str, path: Path, within: float = 120.0) -> Path:
    """Return a path after a look at it, so that a storage which cannot be reached is said in one line.

    A backend without credentials may ask for them at many places, for longer than a person waits: ``within`` is in
    seconds.

    Raises
    ------
    ConfigError
        For ``key``: the storage does not answer, or does not allow it.
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


def _in_databricks(key: str, below: str) -> Path:
    if not _DBFS.is_dir():
        raise ConfigError(key, f"is a URI of Databricks, whose file system is a folder there: there is no {_DBFS} here")
    return _DBFS / below.lstrip("/")


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
    return f"needs the backend of {scheme}://, pip install '.[{STORES[scheme].extra}]' in a checkout ({what}){way}"


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
