"""The timeline of one cluster, in memory and, where a file is given, over restarts."""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate.gating.events import Polled, PollFailed
from featuregate_relay.timeline.changes import changes, moment_of
from featuregate_relay.timeline.entries import MOST_ENTRIES, Entry, entries_from_json, entries_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from featuregate import Gate, View
    from featuregate.gating.events import Event
    from featuregate_relay.timeline.changes import Moment

__all__ = ["Timeline"]

logger = logging.getLogger("featuregate.relay")

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of a file; the rest of a larger one, which no timeline has written, is not read."""


class Timeline:
    """What has happened to a cluster, newest last.

    Attributes
    ----------
    entries : tuple[Entry, ...]
        One reference that is replaced, so that readers need no lock.
    problems : dict[str, str]
        Why the file was not read, and why it is not written, as far as that is so.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._moment: Moment | None = None
        self.entries: tuple[Entry, ...] = ()
        self.problems: dict[str, str] = {}
        if file is not None:
            self._read(file)

    def follow(self, view: View | None, gates: Iterable[Gate], event: Event | None = None) -> None:
        """Note what differs from the last time. Called with each event of a discoverer, in the thread of its polls."""
        if view is None:
            return
        with self._lock:
            before = self._moment
            moment = moment_of(view, gates, before, reachable=_reachable(event, before))
            found = tuple(changes(before, moment))
            self._moment = moment
            if found:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                added = (Entry(at, view.epoch, change) for change in found)
                self.entries = (*self.entries, *added)[-MOST_ENTRIES:]
                self._write()

    def _read(self, file: Path) -> None:
        try:
            with file.open("rb") as opened:
                content = opened.read(_MOST_BYTES)
            self.entries, self._moment = entries_from_json(content)
        except FileNotFoundError:
            return
        except ValueError as error:
            self._tell(
                "read", f"the timeline in {file} is damaged ({error}): a new one begins, and the file is kept beside"
            )
            self._set_aside(file)
        except OSError as error:
            self._tell("read", f"the timeline in {file} cannot be read, and is not kept: {error.strerror or error}")
            self._file = None  # what is in it must not be lost

    def _set_aside(self, file: Path) -> None:
        try:
            file.replace(file.with_suffix(".damaged"))
        except OSError as error:
            self._tell("read", f"the damaged timeline in {file} cannot be renamed: {error.strerror or error}")

    def _write(self) -> None:
        """Write beside and swap: a crash leaves the old file or the new one, whole."""
        if self._file is None:
            return
        beside = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w", encoding="utf-8") as opened:
                opened.write(entries_to_json(self.entries, self._moment))
                opened.flush()
                os.fsync(opened.fileno())
            beside.replace(self._file)
            self.problems.pop("write", None)
        except OSError as error:
            self._tell("write", f"the timeline cannot be written to {self._file}: {error.strerror or error}")

    def _tell(self, what: str, problem: str) -> None:
        if problem != self.problems.get(what):
            logger.warning("%s", problem)
        self.problems[what] = problem


def _reachable(event: Event | None, before: Moment | None) -> bool:
    """Return whether brokers answer. Events that are none of polls do not tell."""
    match event:
        case Polled():
            return True
        case PollFailed():
            return False
        case _:
            return before is None or before.reachable
