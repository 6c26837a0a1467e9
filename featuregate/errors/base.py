"""The base of every error, and errors of any object."""

from __future__ import annotations


class FeatureGateError(Exception):
    """The base of every error that featuregate raises on purpose."""


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
