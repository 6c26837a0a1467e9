"""Latches that outlive the process.

A :class:`LatchStore` holds one :class:`~featuregate.gating.latches.LatchState` for each cluster id, and *joins*
a new one with what is there. :class:`FileLatchStore` is a folder of small JSON files that people can read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from featuregate.errors import LatchStoreCorrupt, LatchStoreError
from featuregate.files import load_modules, local_path, read_file, replace_file, turn
from featuregate.gating.latch_documents import SCHEMA_VERSION, latch_document, latch_state_from, readable_latches
from featuregate.gating.latches import LatchState, join
from featuregate.json_values import JsonValue, parse_json
from featuregate.logs import get_logger
from featuregate.printable import some

if TYPE_CHECKING:
    import os
    from pathlib import Path

logger = get_logger("featuregate")
T = TypeVar("T")
_MOST_NAMED: Final = 3
_ASIDE: Final = ".damaged-"

PIN_FOLDER: Final = "featuregate"
"""The folder of pins, in the checkpoint of a query."""
PIN_PREFIX: Final = "pin-"
PIN_VERSION: Final = 1
ABOUT = "What featuregate has latched for one Kafka cluster. It only grows; delete it to let every gate start afresh."


class LatchStore(Protocol):
    """Where latches are stored. Both methods may block, and are never called by a check.

    Each poll calls ``load``, for the latches of other processes, and ``save`` where something is new. So does
    :meth:`featuregate.Discoverer.gate` where a new gate opens by the view so far. What they raise other than the errors
    below counts as a latch store that failed: the view is taken in, and no latch opens.
    """

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster, or ``None`` where there is none.

        Raises `LatchStoreCorrupt`: what was there cannot be read; it has been set aside, and the next load returns
        ``None``.
        Raises `LatchStoreError`: the latch store cannot be read now.
        """
        ...

    def save(self, state: LatchState) -> LatchState:
        """Join ``state`` with what is there, and return the joined state once it is durable.

        Raises `LatchStoreError`: it is not durable.
        """
        ...


@runtime_checkable
class StartingLatchStore(LatchStore, Protocol):
    """A latch store that knows which cluster a source last led to, for ``start_from="latch"``.

    Both methods may block and raise as those of :class:`LatchStore` do.
    """

    def last_cluster(self, source: str) -> str | None:
        """Return the id of the cluster that this source last led to; ``None`` where that is not known.

        ``source`` names it, for example by its bootstrap list.
        """
        ...

    def note_cluster(self, source: str, cluster_id: str) -> None:
        """Keep that the source leads to this cluster now."""
        ...


@runtime_checkable
class PartialLatchStore(LatchStore, Protocol):
    """A latch store of many records, of which it leaves out those that it cannot read."""

    unread: str | None
    """What calls have left out, and why; None where the last one has read all, and nothing is lost."""


class FileLatchStore:
    """A folder with one file per cluster id, and one per source that has led to a cluster.

    Files are replaced atomically and flushed to the disk before :meth:`save` returns. Processes that share the
    folder take turns by a lock file, so that none loses another's latch.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = local_path("latch_store", folder).absolute()  # daemons and servers change the current folder
        self.unread: str | None = None
        """Which rows this process has left out of files, and why."""
        load_modules()

    def __repr__(self) -> str:
        return f"FileLatchStore({str(self.folder)!r})"

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster; see :meth:`LatchStore.load`.

        Files are replaced whole, so a read takes no turn, and works where the folder cannot be written.
        """
        path = self.path(cluster_id)
        state: LatchState | None
        try:
            state, damaged = _of_cluster(path, cluster_id)
        except FileNotFoundError:
            return None
        except _Damaged:
            with self._turn(cluster_id):
                state, damaged = _read_or_set_aside(path, cluster_id)
        self._leave_out(path, damaged)
        return state

    def _leave_out(self, path: Path, damaged: list[str], copied: str = "") -> None:
        """Say which rows do not count; what a copy has alone is said until the process ends, as for a whole file."""
        if damaged:
            unread = f"{path}: damaged ({some(damaged, _MOST_NAMED, '; ')}): its other latches count{copied}"
            if unread != self.unread:
                logger.error("%s", unread)
            self.unread = unread

    def save(self, state: LatchState) -> LatchState:
        """Join ``state`` with the file and make it durable; see :meth:`LatchStore.save`."""
        if state.cluster_id is None:
            raise LatchStoreError(self.folder, "a cluster without an id has no place on a latch store")
        with self._turn(state.cluster_id) as path:
            there, damaged = _read_or_set_aside(path, state.cluster_id)
            joined = state if there is None else join(there, state)
            if joined != there:
                if damaged:
                    (aside := _aside(path)).write_bytes(read_file(path))
                    self._leave_out(path, damaged, f"; a copy is {aside}")
                text = json.dumps({"about": ABOUT, **latch_document(joined)}, indent=2, ensure_ascii=False) + "\n"
                replace_file(path, text)
                if read_file(path) != text.encode():  # some file systems report a rename that they have not made
                    raise LatchStoreError(path, "the file system reports that it replaced the file, and did not")
        return joined

    def last_cluster(self, source: str) -> str | None:
        """Return the cluster that this source last led to; see :meth:`StartingLatchStore.last_cluster`."""
        path = self._source_path(source)
        try:
            document = parse_json(read_file(path), "source")
            known = document.field("source").text() == source
            return document.field("cluster_id").text() if known else None
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LatchStoreError(path, f"damaged ({error}); delete it, and the next answer writes it again") from error
        except OSError as error:
            raise LatchStoreError(path, error.strerror or str(error)) from error

    def note_cluster(self, source: str, cluster_id: str) -> None:
        """Replace the file of this source; see :meth:`StartingLatchStore.note_cluster`."""
        path = self._source_path(source)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps({"source": source, "cluster_id": cluster_id}, ensure_ascii=False) + "\n")
        except OSError as error:
            raise LatchStoreError(path, error.strerror or str(error)) from error

    def _source_path(self, source: str) -> Path:
        """Return a name of one length: a bootstrap list may be longer than the name of a file."""
        from hashlib import sha256  # noqa: PLC0415 - see path

        return self.folder / f"{sha256(source.encode(errors='surrogateescape')).hexdigest()[:32]}.source"

    def path(self, cluster_id: str) -> Path:
        """Return the file of this cluster. The id came over the network: nothing in it can leave the folder."""
        from urllib.parse import quote  # noqa: PLC0415 - see __init__

        return self.folder / f"{quote(cluster_id, safe='')[:200]}.json"

    @contextmanager
    def _turn(self, cluster_id: str) -> Iterator[Path]:
        path = self.path(cluster_id)
        try:
            with turn(path):
                yield path
        except OSError as error:
            raise LatchStoreError(path, error.strerror or str(error)) from error


class _Damaged(LatchStoreError):
    """A file does not hold what `FileLatchStore` writes."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(path, f"damaged ({problem})")
        self.found = problem


def read_latch_file(path: Path) -> LatchState:
    """Return what one file of a :class:`FileLatchStore` holds. The file stays as it is, also where it is corrupt.

    Raises `LatchStoreError`: the file cannot be read, does not parse, or was written by a newer featuregate; not for a
    missing file.
    Raises `FileNotFoundError`: there is no such file.
    """
    return _read(path, SCHEMA_VERSION, latch_state_from)


def _read(path: Path, newest: int, build: Callable[[JsonValue], T]) -> T:
    """Build what a file holds, in a schema that is not newer than ``newest``; raises as :func:`read_latch_file`."""
    try:
        document = parse_json(read_file(path), "latches")
        version = document.field("schema_version").integer()
        if version > newest:
            raise LatchStoreError(path, f"written by a newer featuregate (schema version {version}); upgrade this one")
        return build(document)
    except FileNotFoundError:
        raise
    except ValueError as error:
        raise _Damaged(path, str(error)) from error
    except OSError as error:
        raise LatchStoreError(path, error.strerror or str(error)) from error


def _of_cluster(path: Path, cluster_id: str) -> tuple[LatchState, list[str]]:
    """Return what can be read of a file, and what is wrong with each other row: one closes no other gate."""
    state, damaged = _read(path, SCHEMA_VERSION, readable_latches)
    if state.cluster_id != cluster_id:
        raise LatchStoreError(path, f"belongs to cluster {state.cluster_id}, not to {cluster_id}")
    return state, damaged


def _read_or_set_aside(path: Path, cluster_id: str) -> tuple[LatchState | None, list[str]]:
    """Read a file; rename it where it is damaged as a whole: an operator may still read the latches in it."""
    try:
        return _of_cluster(path, cluster_id)
    except FileNotFoundError:
        return None, []
    except _Damaged as damaged:
        path.rename(aside := _aside(path))
        raise LatchStoreCorrupt(path, aside, damaged.found) from damaged


def files_set_aside(path: Path) -> list[Path]:
    """Return what is left of damaged files of a path: latches that do not count may be in them."""
    return sorted(path.parent.glob(path.with_suffix(f"{_ASIDE}*").name))


def _aside(path: Path) -> Path:
    """Return the first name for a damaged file that is free."""
    number = 1
    while (aside := path.with_suffix(f"{_ASIDE}{number}")).exists():
        number += 1
    return aside


# ------------------------------------------------- the pins of a Spark query, which commands read without Spark


def batch_of(name: str) -> int | None:
    """Return the number of the batch that a file is the pin of; None for any other file."""
    digits = name.removeprefix(PIN_PREFIX)
    return int(digits) if name.startswith(PIN_PREFIX) and digits.isdecimal() else None


def newest_pin(folder: Path) -> Path | None:
    """Return the newest pin of a checkpoint, or of its folder of pins; None where there is none."""
    below = folder / PIN_FOLDER if (folder / PIN_FOLDER).is_dir() else folder
    pins = {number: file for file in below.iterdir() if (number := batch_of(file.name)) is not None}
    return pins[max(pins)] if pins else None


def latches_in(pin: Path) -> list[LatchState]:
    """Return what a query has latched, for each cluster: the newest pin holds the latches of older ones.

    Raises `LatchStoreError`: the pin cannot be read, or was written by a newer featuregate.
    """
    try:
        return _read(
            pin, PIN_VERSION, lambda document: [*map(latch_state_from, document.field("latch_states").items())]
        )
    except FileNotFoundError as error:
        raise LatchStoreError(pin, error.strerror or str(error)) from error
