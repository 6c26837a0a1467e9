"""Whether and how an app reports its gates, and the thread of a discoverer that sends the reports.

It is a thread, because ``send`` is the app's and may block: neither the poll loop nor the caller's event loop may wait
for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from featuregate.errors import ConfigError
from featuregate.forks import load
from featuregate.logs import get_logger
from featuregate.owner_thread import OwnerThread
from featuregate.printable import as_unicode
from featuregate.usage.report import LONGEST_NAME, Reporter, make_report
from featuregate.version import __version__

if TYPE_CHECKING:
    from featuregate.gating.store import Store

SHORTEST_INTERVAL: Final = 60.0


class UsageSender(Protocol):
    """What sends a report, such as a producer of the app."""

    def __call__(self, value: bytes, /) -> None:
        """Send one report to the topic. A call that raises or blocks costs that report, and nothing else."""


@dataclass(frozen=True, slots=True)
class UsageReporter:
    """Lets a discoverer report its gates: for each process one report, once a minute.

    The discoverer calls ``send`` in a thread of its own: neither the app nor the poll loop waits for it. A report holds
    the names, requirements and states of the gates, the levels that they require, and the names below. It holds nothing
    of what the app reads or writes.

    Raises `ConfigError`: a name is empty or longer than 256 characters, or the interval is shorter than a minute.
    """

    send: UsageSender
    """Called with each report as JSON in UTF-8."""
    _: KW_ONLY
    app: str
    """The name that all instances of the app share, such as ``orders``."""
    instance: str | None = None
    """The name of this process, such as that of its pod; the host and the process id by default."""
    software: tuple[str, str] = ("featuregate", __version__)
    """Name and version of the software that works with the features, such as the Kafka client."""
    interval: float = SHORTEST_INTERVAL
    """Seconds from one report to the next; 60 or more."""

    def __post_init__(self) -> None:
        software: Sequence[str] = self.software
        if isinstance(software, str) or len(software) != len(("name", "version")):
            raise ConfigError("software", f"must be a name and a version, not {software!r}")
        object.__setattr__(self, "software", tuple(software))
        names = (("app", self.app), ("instance", self.instance), *(("software", part) for part in self.software))
        for key, name in names:
            if not (key == "instance" and name is None) and not (
                isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and as_unicode(name) == name
            ):
                raise ConfigError(key, f"must be a text of 1 to {LONGEST_NAME} characters of Unicode, not {name!r}")
        if type(self.interval) not in {int, float} or not SHORTEST_INTERVAL <= self.interval < float("inf"):
            raise ConfigError("interval", f"must be {SHORTEST_INTERVAL:g} seconds or more, not {self.interval!r}")

    def name_process(self) -> Reporter:
        """Return the names of the process that calls, which may be a forked child."""
        import socket  # noqa: PLC0415 - apps that do not report do not pay for it

        instance = self.instance or f"{socket.gethostname()[:200] or 'unknown'}-{os.getpid()}"
        return Reporter(self.app, instance, *self.software)


logger = get_logger("featuregate")

CLOSE_SECONDS: Final = 2.0
"""How long ``close()`` waits for the last report."""


def seconds_until_due(last: float | None, now: float, interval: float) -> float:
    """Return the seconds until the next report is due; 0 where it is."""
    return 0.0 if last is None else max(last + interval - now, 0.0)


class Reporting:
    """Reports what a store holds.

    ``age``: returns the seconds since a broker answered; None before the first answer. ``wall``: seconds since the Unix
    epoch, for the times that people read. ``clock``: seconds of a monotonic clock.
    """

    def __init__(
        self,
        reporter: UsageReporter,
        store: Store,
        *,
        age: Callable[[], float | None],
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._reporter: UsageReporter | None = reporter
        self._interval = reporter.interval
        self._store = store
        self._age = age
        self._wall = wall
        self._clock = clock
        self._closed = False
        self._reported_at: float | None
        self._last_error: str | None
        self._thread: OwnerThread[Reporting]
        self.forked()
        store.hooks.listen(lambda _: self._thread.wake())  # the first view is worth a report

    def start(self) -> None:
        """Start the thread where none runs. A failure costs reports, and nothing else."""
        if self._closed:
            return
        load(("json", "socket"))
        try:
            self._thread.start()
        except RuntimeError as error:  # the interpreter is going down, or there are too many threads
            self._fail(error)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send the last report, and wait for that; closing twice is closing once."""
        self._closed = True
        self._thread.end(seconds)

    def forked(self) -> None:
        """Begin as a new process does: without a thread, with a queue whose lock is not held, and with no report."""
        self._reported_at = self._last_error = None
        self._sent = self._failed = 0
        self._thread = OwnerThread(self, Reporting.report_when_due, name="featuregate-usage", at_end=Reporting.finish)

    def health(self) -> dict[str, Any]:
        """Return the state of reporting as plain JSON-able values."""
        last = self._reported_at
        return {
            "sent": self._sent,
            "failed": self._failed,
            "last_error": self._last_error,
            "age_seconds": None if last is None else max(self._clock() - last, 0.0),
        }

    def report_when_due(self) -> float:
        """Report if that is due and there is a view; return the seconds until the next report."""
        if self._store.view is None:
            return self._interval
        now = self._clock()
        if seconds_until_due(self._reported_at, now, self._interval) == 0:
            self._reported_at = now
            self.report()
        return seconds_until_due(self._reported_at, self._clock(), self._interval)

    def report(self, *, closing: bool = False) -> None:
        """Send a report of the current gates, and count a failure. Without a view there is nothing to report."""
        store, view, reporter = self._store, self._store.view, self._reporter
        if view is None or reporter is None:
            return
        try:
            made = make_report(
                reporter.name_process(),
                view,
                store.gates(),
                store.latch_state,
                age_seconds=self._age() or 0.0,
                reported_at=self._wall(),
                closing=closing,
            )
            reporter.send(made.to_json().encode())
        except Exception as error:  # noqa: BLE001 - the code of the app may raise anything
            self._fail(error)
        else:
            self._sent += 1
            self._last_error = None

    def finish(self) -> None:
        """Send the last report, and let go of the sender, which may hold connections."""
        self.report(closing=True)
        self._reporter = None

    def _fail(self, error: Exception) -> None:
        self._failed += 1
        if self._last_error is None:
            logger.warning("a usage report was not sent: %s", error)
        self._last_error = str(error) or type(error).__name__
