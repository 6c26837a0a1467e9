"""Whether and how an app reports: what :class:`featuregate.Discoverer` takes as ``usage``."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

from featuregate.errors import ConfigError
from featuregate.usage.report import LONGEST_NAME, Reporter
from featuregate.version import __version__

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

    Raises
    ------
    ConfigError
        A name is empty or longer than 256 characters, or the interval is shorter than a minute.
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
        names = (("app", self.app), ("instance", self.instance), *(("software", part) for part in self.software))
        for key, name in names:
            if not (key == "instance" and name is None) and not (
                isinstance(name, str) and 0 < len(name) <= LONGEST_NAME
            ):
                raise ConfigError(key, f"must be a text of 1 to {LONGEST_NAME} characters, not {name!r}")
        if type(self.interval) not in {int, float} or not SHORTEST_INTERVAL <= self.interval < float("inf"):
            raise ConfigError("interval", f"must be {SHORTEST_INTERVAL:g} seconds or more, not {self.interval!r}")

    def name_process(self) -> Reporter:
        """Return the names of the process that calls, which may be a forked child."""
        import socket  # noqa: PLC0415 - apps that do not report do not pay for it

        instance = self.instance or f"{socket.gethostname()[:200] or 'unknown'}-{os.getpid()}"
        return Reporter(self.app, instance, *self.software)
