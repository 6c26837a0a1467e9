"""The faults of single answers: an error code, other bytes, a delay, or the end of the connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from featuregate.testing.fakes.answers import APIS, fail
from featuregate.testing.fakes.listener import Transmission
from featuregate.wire.frames import RequestHeader, write_response


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of one answer to one of these APIs.

    Raises
    ------
    ValueError
        Fake brokers do not know an API, or its answers have no error code.
    """

    apis: frozenset[str]
    state: Mapping[str, Any] = field(default_factory=dict)
    error_code: int | None = None
    garbage: bytes | None = None
    cut_after: int | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        known = {request.NAME: request for request in APIS.values()}
        for api in self.apis:
            if api not in known:
                raise ValueError(f"fake brokers do not know {api!r}, only {', '.join(known)}")
            if self.error_code is not None:
                fail(known[api], 0, self.error_code)

    def applied(self, header: RequestHeader, data: bytes | None) -> Transmission:
        """Return the answer with the fault. ``data`` is ``None`` where the broker closes the connection anyway."""
        if self.garbage is not None:
            return Transmission(self.garbage, close=True)
        if self.error_code is not None:
            response, version = fail(APIS[header.api_key], header.api_version, self.error_code)
            return Transmission(write_response(response, version, header.correlation_id))
        if data is None:
            return Transmission(b"", close=True, after=self.delay)
        if self.cut_after is not None:
            return Transmission(data[: self.cut_after], close=True)
        return Transmission(data, after=self.delay)
