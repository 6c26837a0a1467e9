"""The base of every error, and the errors of objects, gates, latches, updates of levels, and values of an app."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final

from featuregate.patterns import pattern
from featuregate.printable import harmless

_CAUSE: Final = pattern(r"\w(?:Exception|Error): (?P<words>.+?)(?=\\x0a|\n|$)")
"""The line of a log of Java that says what is wrong."""


class FeatureGateError(Exception):
    """The base of every error that featuregate raises on purpose.

    Texts among the arguments of an error may be those of a broker, a relay or a file. They are escaped and cut here,
    before any subclass keeps them.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _with_fit_texts(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, *args: Any) -> None:
        super().__init__(*map(harmless, args))


def _with_fit_texts(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def with_fit_texts(self: FeatureGateError, *args: Any, **kwargs: Any) -> None:
        init(self, *map(harmless, args), **harmless(kwargs))

    return with_fit_texts


class ClosedError(FeatureGateError):
    """An object was used after ``close()``."""


class NotPicklable(FeatureGateError, TypeError):
    """An object with threads or sockets cannot be pickled; ``instead`` says what to send in its place."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what, instead)
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        return f"a {self.what} cannot be pickled: {self.instead}"


class LocalKafkaError(FeatureGateError):
    """Real Kafka, for tests, could not be downloaded, started or controlled; ``log`` is the end of its log."""

    def __init__(self, problem: str, log: str = "") -> None:
        super().__init__(problem, log)
        self.problem = problem
        self.log = log

    def __str__(self) -> str:
        return f"{self.problem}\n{self.log}" if self.log else self.problem

    @property
    def in_one_line(self) -> str:
        """What went wrong, with the words of the first error of the log in place of its traces."""
        found = _CAUSE.search(self.log)
        return f"{self.problem}: {found['words']}" if found else " ".join(re.sub(r"\\x0[9a]", " ", str(self)).split())


class GateClosed(FeatureGateError):
    """A gate is not open where it had to be; ``decision`` gives the reason for each broker."""

    def __init__(self, gate: str, decision: Any) -> None:
        super().__init__(gate, decision)
        self.gate = gate
        self.decision = decision

    def __str__(self) -> str:
        return f"gate {self.gate!r} is not open: {self.decision}"


class RefreshTimedOut(FeatureGateError, TimeoutError):
    """No poll has ended within ``seconds``; polling continues."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"no poll has ended within {self.seconds:g} s"


class LatchStoreError(FeatureGateError):
    """The durable latch at ``place`` could not be read or written."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__(str(place), problem)
        self.place = str(place)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class LatchStoreCorrupt(LatchStoreError):
    """The durable latch at ``place`` does not parse, and was moved to ``aside`` for inspection."""

    def __init__(self, place: object, aside: object, problem: str) -> None:
        super().__init__(place, problem)
        self.args = (str(place), str(aside), problem)
        self.aside = str(aside)

    def __str__(self) -> str:
        return (
            f"{self.place}: damaged ({self.problem}); set aside as {self.aside}: "
            "gates that were latched there start afresh"
        )


class InvalidUpdate(FeatureGateError, ValueError):
    """No cluster can have such levels; nothing was sent."""


class UpdateRefused(FeatureGateError):
    """The controller refused a level; ``outcome`` has the result of each update."""

    def __init__(self, outcome: Any) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return str(self.outcome)


class UpdateUncertain(FeatureGateError):
    """An update was sent, and neither its answer nor the levels read back show whether it was applied.

    ``problem`` describes the lost or unclear answer. ``seen`` has the level of each feature that is in doubt, as read
    back; None for unknown. ``outcome`` is the controller's answer, None where no answer came.
    """

    def __init__(
        self, problem: str, wanted: Mapping[str, int], seen: Mapping[str, int | None], outcome: Any = None
    ) -> None:
        super().__init__(problem, dict(wanted), dict(seen), outcome)
        self.problem = problem
        self.wanted = dict(wanted)
        self.seen = dict(seen)
        self.outcome = outcome

    def __str__(self) -> str:
        levels = ", ".join(
            f"{feature} is {'unknown' if level is None else level} (wanted {self.wanted[feature]})"
            for feature, level in self.seen.items()
        )
        return (
            f"the update may or may not have been applied: {self.problem.removesuffix('.')}. Read back: {levels}. "
            "Look again with 'featuregate describe' before you repeat it"
        )


class LevelsNotReached(FeatureGateError, TimeoutError):
    """Not every broker shows the levels within ``seconds``; ``laggards`` describes each of the others."""

    def __init__(self, seconds: float, laggards: Iterable[str]) -> None:
        self.laggards = tuple(laggards)
        super().__init__(seconds, self.laggards)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not every broker shows it within {self.seconds:g} s: {'; '.join(self.laggards)}"


class ConfigError(FeatureGateError, ValueError):
    """A property has a value that cannot be used.

    ``key`` is the name of the property in the app's configuration, such as ``security.protocol``. ``problem`` says what
    is wrong and which values are allowed, and never repeats a secret.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


class OtherCluster(ConfigError):
    """A broker belongs to another cluster than the one that the app names; ``found`` is the id of that cluster."""

    def __init__(self, address: object, found: str, expected: str) -> None:
        super().__init__("cluster_id", f"{address} belongs to cluster {found}, not to {expected}")
        self.args = (str(address), found, expected)
        self.found = found


class RequirementError(FeatureGateError, ValueError):
    """The text of a requirement does not parse.

    ``position`` is the index of the first wrong character in ``text``; ``len(text)`` is its end.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}, at position {self.position} of {self.text!r}"


class UnknownApi(FeatureGateError, LookupError):
    """No API is called ``name``; ``close`` holds similar names, the closest first."""

    def __init__(self, name: str, close: tuple[str, ...] = ()) -> None:
        super().__init__(name, close)
        self.name = name
        self.close = close

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.close)}?" if self.close else ""
        return f"no API is called {self.name!r}{hint}"


class UsageReportError(FeatureGateError, ValueError):
    """JSON text is not a usage report; ``where`` is the place in it, such as ``report.gates[0].state``."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class ViewJsonError(FeatureGateError, ValueError):
    """JSON text is not a view; ``where`` is the place in it, such as ``view.brokers[0].port``."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"
