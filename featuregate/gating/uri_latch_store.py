"""Latches in an object store, such as S3, that many processes and machines share.

.. code-block:: text

    s3://bucket/latches/cluster-ID/000000000042.json the joined state; the highest number counts
    s3://bucket/latches/SOURCE.source                the cluster to which a bootstrap list has led last

A state gets the next number on the condition that there is no object of that name (``If-None-Match: *`` on S3). So of
two writers one reads the state of the other and joins it, and a writer that is killed leaves all or nothing.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import SystemRandom
from secrets import token_hex
from typing import Any, Final, TypeVar

from featuregate.errors import ConfigError, LatchStoreError
from featuregate.gating.latch_store import SCHEMA_VERSION, latch_document, latch_state_from
from featuregate.gating.latches import LatchState, join
from featuregate.json_values import JsonError, check_schema, parse_json

T = TypeVar("T")

_URI: Final = re.compile(r"([a-z][a-z0-9+.\-]+)://([^/]+)(/.*)?", re.IGNORECASE)
_LOCAL: Final = frozenset({"file", "local", "memory"})
_RANDOM: Final = SystemRandom()
_PAUSE: Final = 0.05
_LONGEST: Final = 20
_KEPT: Final = 5
"""Older objects stay for readers that have listed them."""
_NUMBERED: Final = re.compile(r"(\d{12})\.json")


class UriLatchStore:
    """Keeps latches in an object store that can make an object on the condition that there is none of its name.

    .. code-block:: python

        fg.Discoverer(config, latch_store=fg.UriLatchStore("s3://bucket/latches"))

    Parameters
    ----------
    uri
        Such as ``s3://bucket/latches``, ``gs://bucket/latches`` or ``abfss://container@account.dfs.core.windows.net/x``.
        The fsspec backend of the scheme must be installed; it finds its credentials itself.
    options
        What the backend takes, for example ``{"endpoint_url": "https://minio:9000"}`` of s3fs.
    timeout
        Seconds for one call, at the most.

    Raises
    ------
    ConfigError
        The URI is none of an object store, has a password, or its backend is not installed.

    Notes
    -----
    The first :meth:`save` of a process tries the condition, and refuses a store that ignores it, because one writer
    would lose the latches of another. The store must list what it has just taken, as S3, GCS and Azure do.
    """

    def __init__(self, uri: str, *, options: dict[str, Any] | None = None, timeout: float = 10.0) -> None:
        found = _URI.fullmatch(uri)
        if found is None or found[1].lower() in _LOCAL:
            raise ConfigError(
                "uri", "must be one of an object store, such as s3://bucket/latches; a folder needs no URI"
            )
        if ":" in found[2].rpartition("@")[0]:
            raise ConfigError("uri", "has a password in it: leave it out, and let the backend find its credentials")
        self._uri = uri.rstrip("/")
        self._options = {"use_listings_cache": False, **(options or {})}
        self._timeout = timeout
        self._tried = False
        self._running: threading.Thread | None = None
        self._backend()

    def __repr__(self) -> str:
        return f"UriLatchStore({self._uri!r})"

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster; see :meth:`featuregate.LatchStore.load`."""
        return self._bounded(lambda: self._newest(cluster_id)[1])

    def save(self, state: LatchState) -> LatchState:
        """Join ``state`` with what is there, and make it durable; see :meth:`featuregate.LatchStore.save`."""
        if state.cluster_id is None:
            raise LatchStoreError(self._uri, "a cluster without an id has no place on a latch store")
        return self._bounded(lambda: self._save(state.cluster_id or "", state))

    def last_cluster(self, source: str) -> str | None:
        """Return the cluster that this source last led to; see ``StartingLatchStore``."""
        return self._bounded(lambda: self._last_cluster(source))

    def note_cluster(self, source: str, cluster_id: str) -> None:
        """Replace the object of this source; see ``StartingLatchStore``."""
        text = json.dumps({"source": source, "cluster_id": cluster_id}, ensure_ascii=False)
        self._bounded(lambda: self._backend()[0].pipe_file(self._source(source), text.encode()))

    # ------------------------------------------------------------------ objects

    def _backend(self) -> tuple[Any, str]:
        """Return the backend, which keeps no connection of a process before a fork, and the path of the URI."""
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

            backend, path = url_to_fs(self._uri, **self._options)
        except (ImportError, ValueError) as error:
            problem = f"needs the fsspec backend of its scheme, such as s3fs: {str(error).partition(chr(10))[0]}"
            raise ConfigError("uri", problem) from error
        return backend, path

    def _newest(self, cluster_id: str) -> tuple[int, LatchState | None]:
        """Return the highest number and its state; 0 and None where there is none."""
        backend, folder = self._folder(cluster_id)
        while number := max(_numbers(backend, folder), default=0):
            with suppress(FileNotFoundError):  # another writer has removed it since
                return number, self._parsed(cluster_id, backend.cat_file(_object(folder, number)))
        return 0, None

    def _save(self, cluster_id: str, state: LatchState) -> LatchState:
        """Write until the newest object has the state.

        A slow writer may take a number that others have used and removed, so its own object is not proof enough.
        """
        backend, folder = self._folder(cluster_id)
        self._try_condition(backend, folder)
        until, pause = time.monotonic() + self._timeout, threading.Event()
        for attempt in count():
            pause.wait(_RANDOM.uniform(0, _PAUSE * min(attempt, _LONGEST)))  # apart from those that write as well
            if time.monotonic() > until:
                break
            number, there = self._newest(cluster_id)
            joined = state if there is None else join(there, state)
            if joined == there:
                return joined
            text = json.dumps(latch_document(joined), indent=2, ensure_ascii=False) + "\n"
            with suppress(FileExistsError):
                backend.pipe_file(_object(folder, number + 1), text.encode(), mode="create")
                _remove_older(backend, folder, number + 1 - _KEPT)
        raise LatchStoreError(self._uri, f"others have written at the same time for {self._timeout:g} s")

    def _try_condition(self, backend: Any, folder: str) -> None:
        """Make an object twice: the second time must fail."""
        if self._tried:
            return
        probe = f"{folder}/.probe-{token_hex(8)}"
        backend.pipe_file(probe, b"1", mode="create")
        try:
            backend.pipe_file(probe, b"2", mode="create")
        except FileExistsError:
            self._tried = True
        finally:
            backend.rm_file(probe)
        if not self._tried:
            problem = (
                "this store, or its backend, replaces an object that was to be made only where there is none, so that "
                "writers would lose the latches of others: take another store, or a newer backend"
            )
            raise LatchStoreError(self._uri, problem)

    def _last_cluster(self, source: str) -> str | None:
        try:
            document = parse_json(self._backend()[0].cat_file(self._source(source)), "source")
        except FileNotFoundError:
            return None
        known = document.field("source").text() == source
        return document.field("cluster_id").text() if known else None

    def _parsed(self, cluster_id: str, data: bytes) -> LatchState:
        document = parse_json(data, "latches")
        check_schema(document, newest=SCHEMA_VERSION)
        state = latch_state_from(document)
        if state.cluster_id != cluster_id:
            raise LatchStoreError(self._uri, f"has the latches of cluster {state.cluster_id} for cluster {cluster_id}")
        return state

    def _folder(self, cluster_id: str) -> tuple[Any, str]:
        """Return the folder of a cluster. The id came over the network: nothing in it can leave the URI."""
        from urllib.parse import quote  # noqa: PLC0415 - only at the first use

        backend, path = self._backend()
        return backend, f"{path}/cluster-{quote(cluster_id, safe='')[:200]}"

    def _source(self, source: str) -> str:
        from hashlib import sha256  # noqa: PLC0415 - only at the first use

        return f"{self._backend()[1]}/{sha256(source.encode(errors='surrogateescape')).hexdigest()[:32]}.source"

    # ------------------------------------------------------------------ bounds

    def _bounded(self, call: Callable[[], T]) -> T:
        """Call in a thread, and wait for ``timeout`` seconds: backends have bounds of their own, of many minutes."""
        if self._running is not None and self._running.is_alive():
            raise LatchStoreError(self._uri, f"has not answered an earlier request for more than {self._timeout:g} s")
        results: list[T] = []
        failures: list[Exception] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # noqa: BLE001 - of any backend
                failures.append(error)

        self._running = threading.Thread(target=run, name="featuregate-latches", daemon=True)
        self._running.start()
        self._running.join(self._timeout)
        if results:
            return results[0]
        if not failures:
            raise LatchStoreError(self._uri, f"has not answered within {self._timeout:g} s")
        raise self._error(failures[0]) from failures[0]

    def _error(self, error: Exception) -> Exception:
        if isinstance(error, LatchStoreError | ConfigError):
            return error
        if isinstance(error, JsonError | ValueError):
            return LatchStoreError(
                self._uri, f"its newest object is damaged ({error}): remove it, and the one before counts"
            )
        return LatchStoreError(self._uri, str(error).partition("\n")[0] or type(error).__name__)


def _numbers(backend: Any, folder: str) -> list[int]:
    try:
        names = backend.ls(folder, detail=False)
    except FileNotFoundError:
        return []
    found = (_NUMBERED.fullmatch(name.rpartition("/")[2]) for name in names)
    return [int(match[1]) for match in found if match]


def _object(folder: str, number: int) -> str:
    return f"{folder}/{number:012}.json"


def _remove_older(backend: Any, folder: str, newest: int) -> None:
    for number in _numbers(backend, folder):
        if number <= newest:
            with suppress(OSError):
                backend.rm_file(_object(folder, number))
