"""The timeline of one cluster, in memory; where a file is given, also for restarts and replicas."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from featuregate.files import replace_file, turn
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.printable import printable
from featuregate_relay.timeline.changes import Moment, changes, moment_of
from featuregate_relay.timeline.entries import Entry, History, history_from_json, history_to_json

if TYPE_CHECKING:
    from featuregate import Gate, View

logger = logging.getLogger("featuregate.relay")

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Of a file; a larger one, which no timeline has written, is left as it is."""


class Timeline:
    """What has happened to a cluster, newest last.

    Of the replicas that share the file, one writes each change. A replica reads the entries of the others when it adds
    an entry to the file.

    Attributes
    ----------
    problems : dict[str, str]
        Why the file was not read, and why it is not written, as far as that is so.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.problems: dict[str, str] = {}
        self._history = self._in_file = History() if file is None else self._at_start(file)
        self._seen = self._written = self._history.moment
        """What this relay has seen last, and what it had seen when it looked into the file last."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What has happened, newest last."""
        return self._history.entries

    def follow(self, view: View | None, gates: Iterable[Gate], event: Event | None = None) -> None:
        """Note what differs from the last time. Called with each event of a discoverer, in the thread of its polls."""
        if view is None:
            return
        with self._lock:
            before = self._seen
            self._seen = now = moment_of(view, gates, before, reachable=_reachable(event, before))
            if any(changes(before, now)):
                at = datetime.now(UTC).isoformat(timespec="seconds")
                self._history = self._history.noted(before, now, at)
                if self._file is not None:
                    self._keep(self._file, now, at)

    def _keep(self, file: Path, now: Moment, at: str) -> None:
        """Write the history, with the changes that other replicas have written since this one read the file."""
        try:
            with turn(file):
                there = self._read(file)
                if there is not None and there != self._in_file:
                    self._history = there.noted(self._written, now, at)
                if there != self._history:
                    replace_file(file, history_to_json(self._history))
            self._in_file, self._written = self._history, now
            self.problems.pop("write", None)
        except OSError as error:
            self._tell("write", f"the timeline cannot be written to {file}: {error.strerror or error}")

    def _at_start(self, file: Path) -> History:
        try:
            try:
                return _parsed(file) or History()
            except ValueError:
                with turn(file):
                    return self._read(file) or History()
        except OSError as error:
            self._tell("read", f"the timeline in {file} cannot be read, and is not kept: {error.strerror or error}")
            self._file = None  # what is in it must not be lost
            return History()

    def _read(self, file: Path) -> History | None:
        """Return what is in the file; None where there is none, or was: a damaged one is set aside. Within a turn."""
        try:
            return _parsed(file)
        except ValueError as error:
            file.replace(file.with_suffix(".damaged"))
            self._tell(
                "read",
                f"the timeline in {file} is damaged ({error}): a new one begins, and this file is kept as .damaged",
            )
            return None

    def _tell(self, what: str, problem: str) -> None:
        if problem != self.problems.get(what):
            logger.warning("%s", printable(problem))
        self.problems[what] = problem


def _parsed(file: Path) -> History | None:
    """Return what is in the file; None where there is none. Raises ValueError and OSError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise OSError(f"it has more than {_MOST_BYTES} bytes, which no timeline has written")
            return history_from_json(content)
    except FileNotFoundError:
        return None


def _reachable(event: Event | None, before: Moment | None) -> bool:
    """Return whether brokers answer; events that are not of polls do not change that."""
    match event:
        case Polled():
            return True
        case PollFailed():
            return False
        case Changed() | GateMoved() | None:
            return before is None or before.reachable
        case _:
            assert_never(event)
