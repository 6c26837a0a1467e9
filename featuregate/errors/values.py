"""Values that an app passes and that cannot be used."""

from __future__ import annotations

from featuregate.errors.base import FeatureGateError


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
