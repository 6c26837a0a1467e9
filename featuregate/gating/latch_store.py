"""Latches that outlive the process.

A :class:`LatchStore` holds one :class:`~featuregate.gating.latches.LatchState` for each cluster id, and *joins*
a new one with what is there. :class:`FileLatchStore` is a folder of small JSON files that people can read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from featuregate.errors import LatchStoreCorrupt, LatchStoreError, RequirementError
from featuregate.files import load_modules, local_path, read_file, replace_file, turn
from featuregate.gating.latches import BurnIn, LatchedGate, LatchState, join
from featuregate.json_values import JsonValue, parse_json
from featuregate.requirements import parse

if TYPE_CHECKING:
    import os
    from pathlib import Path


SCHEMA_VERSION = 1
_HIGHEST_LEVEL = 2**15 - 1
ABOUT = "What featuregate has latched for one Kafka cluster. It only grows; delete it to let every gate start afresh."


class LatchStore(Protocol):
    """Where latches are stored. Both methods may block, and are never called by a check.

    Each poll calls ``load``, for the latches of other processes, and ``save`` where something is new. So does
    :meth:`featuregate.Discoverer.gate` where a new gate opens by the view so far. What they raise beside the errors
    below counts as a latch store that failed: the view is taken in, and no latch opens.
    """

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster, or ``None`` where there is none.

        Raises
        ------
        LatchStoreCorrupt
            What was there cannot be read; it has been set aside, and the next load returns ``None``.
        LatchStoreError
            The latch store cannot be read now.
        """
        ...

    def save(self, state: LatchState) -> LatchState:
        """Join ``state`` with what is there, and return the joined state once it is durable.

        Raises
        ------
        LatchStoreError
            It is not durable.
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
    """What the last call has left out, and why; None where it has read all."""


class FileLatchStore:
    """A folder with one file per cluster id, and one per source that has led to a cluster.

    Files are replaced atomically and flushed to the disk before :meth:`save` returns. Processes that share the
    folder take turns by a lock file, so that none loses another's latch.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = local_path("latch_store", folder)
        load_modules()

    def __repr__(self) -> str:
        return f"FileLatchStore({str(self.folder)!r})"

    def load(self, cluster_id: str) -> LatchState | None:
        """Return the state of this cluster; see :meth:`LatchStore.load`.

        Files are replaced whole, so a read takes no turn, and works where the folder cannot be written.
        """
        path = self.path(cluster_id)
        try:
            return _read(path, cluster_id)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LatchStoreError(path, error.strerror or str(error)) from error
        except _Corrupt:
            with self._turn(cluster_id):
                return _read_or_set_aside(path, cluster_id)

    def save(self, state: LatchState) -> LatchState:
        """Join ``state`` with the file and make it durable; see :meth:`LatchStore.save`."""
        if state.cluster_id is None:
            raise LatchStoreError(self.folder, "a cluster without an id has no place on a latch store")
        with self._turn(state.cluster_id) as path:
            there = _read_or_set_aside(path, state.cluster_id)
            joined = state if there is None else join(there, state)
            if joined != there:
                text = _to_text(joined)
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


class _Corrupt(Exception):
    """A file does not hold what `FileLatchStore` writes."""


def read_latch_file(path: Path) -> LatchState:
    """Return what one file of a :class:`FileLatchStore` holds. The file stays as it is, also where it is corrupt.

    Raises
    ------
    LatchStoreError
        The file cannot be read, does not parse, or was written by a newer featuregate; not for a missing file.
    FileNotFoundError
        There is no such file.
    """
    try:
        return _parse(path)
    except _Corrupt as problem:
        raise LatchStoreError(path, f"damaged ({problem})") from problem
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LatchStoreError(path, error.strerror or str(error)) from error


def _read(path: Path, cluster_id: str) -> LatchState:
    state = _parse(path)
    if state.cluster_id != cluster_id:
        raise LatchStoreError(path, f"belongs to cluster {state.cluster_id}, not to {cluster_id}")
    return state


def latch_file(path: Path, newest: int) -> JsonValue:
    """Return the document of a file that holds latches, in a schema that is not newer than ``newest``.

    Raises
    ------
    LatchStoreError
        It was written by a newer featuregate.
    ValueError
        It is no such document.
    OSError
        It cannot be read.
    """
    document = parse_json(read_file(path), "latches")
    version = document.field("schema_version").integer()
    if version > newest:
        raise LatchStoreError(path, f"written by a newer featuregate (schema version {version}); upgrade this one")
    return document


def _parse(path: Path) -> LatchState:
    try:
        return latch_state_from(latch_file(path, SCHEMA_VERSION))
    except ValueError as error:
        raise _Corrupt(str(error)) from error


def _read_or_set_aside(path: Path, cluster_id: str) -> LatchState | None:
    try:
        return _read(path, cluster_id)
    except FileNotFoundError:
        return None
    except _Corrupt as problem:
        raise LatchStoreCorrupt(path, _set_aside(path), str(problem)) from problem


def _set_aside(path: Path) -> Path:
    """Rename a corrupt file: an operator may still read the latches in it."""
    number = 1
    while (aside := path.with_suffix(f".damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    return aside


def _to_text(state: LatchState) -> str:
    return json.dumps({"about": ABOUT, **latch_document(state)}, indent=2, ensure_ascii=False) + "\n"


def latch_document(state: LatchState) -> dict[str, Any]:
    """Return the state as plain JSON-able values, by schema version 1."""
    gates = [
        {
            "gate": latched.gate,
            "requirement": latched.requirement,
            "opened_at": datetime.fromtimestamp(latched.opened_at, UTC).isoformat(),
            "epoch": latched.epoch,
        }
        for latched in state.gates.values()
    ]
    burn_ins = [
        {
            "gate": counted.gate,
            "requirement": counted.requirement,
            "attempt": counted.attempt,
            "seconds": counted.seconds,
            "since": None if counted.since is None else datetime.fromtimestamp(counted.since, UTC).isoformat(),
        }
        for counted in state.burn_ins.values()
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": state.cluster_id,
        "levels": dict(state.levels),
        "gates": gates,
        **({"burn_ins": burn_ins} if burn_ins else {}),
    }


def latch_state_from(document: JsonValue) -> LatchState:
    """Build the state from parsed JSON; raises `ValueError` for any other document."""
    gates = [latched_gate_from(row) for row in document.field("gates").items()]
    counted = document.field("burn_ins").items() if "burn_ins" in document.fields() else ()
    burn_ins = [burn_in_from(row) for row in counted]
    return LatchState(
        cluster_id=document.field("cluster_id").text(),
        levels={name: level_from(level) for name, level in document.field("levels").fields().items()},
        gates={latched.key: latched for latched in gates},
        burn_ins={counted.key: counted for counted in burn_ins},
    )


def level_from(level: JsonValue) -> int:
    """Return a finalized level; raises `ValueError` for anything else."""
    if not 0 <= level.integer() <= _HIGHEST_LEVEL:
        raise level.wrong("a level")
    return level.integer()


def latched_gate_from(row: JsonValue) -> LatchedGate:
    """Build a latched gate; raises `ValueError` for anything else."""
    return LatchedGate(
        gate=row.field("gate").text(),
        requirement=canonical(row.field("requirement").text()),
        opened_at=_time(row.field("opened_at")),
        epoch=row.field("epoch").integer(),
    )


def burn_in_from(row: JsonValue) -> BurnIn:
    """Build a burn-in; raises `ValueError` for anything else."""
    return BurnIn(
        gate=row.field("gate").text(),
        requirement=canonical(row.field("requirement").text()),
        attempt=row.field("attempt").integer(),
        seconds=float(row.field("seconds").seconds()),
        since=row.field("since").optional(_time),
    )


def _time(at: JsonValue) -> float:
    """Read a time of ISO 8601, as files have it, or seconds since the Unix epoch, as records have them."""
    if type(at.value) is not str:
        return float(at.seconds())
    time = datetime.fromisoformat(at.value)
    return time.replace(tzinfo=time.tzinfo or UTC).timestamp()


@lru_cache(maxsize=1024)
def canonical(requirement: str) -> str:
    """Spell a requirement as this release does.

    A newer catalog may know an API or a feature by name that was a bare number or ``feature:`` when the latch was
    written; the promise is the same, and its latch must be found again.
    """
    try:
        return str(parse(requirement))
    except RequirementError:
        return requirement
