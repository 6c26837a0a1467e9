"""Events that a session returns, and the node that it expects."""

from typing import Any, NamedTuple

from featuregate.errors import BrokerError
from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.message import Request, Response


class ExpectedNode(NamedTuple):
    """The node that the client expects at an address (KIP-1242); brokers that know ApiVersions v5 check it."""

    cluster_id: str
    node_id: int


class Negotiated(NamedTuple):
    """The broker sent its API ranges; the session can send requests now."""

    response: ApiVersionsResponse
    version: int
    """Version of ApiVersions of the response's body."""


class Refused(NamedTuple):
    """The broker refused to negotiate; the session has ended."""

    error: BrokerError


class Reply(NamedTuple):
    """The response to a request. The caller checks its error code."""

    correlation_id: int
    request: Request[Any]
    response: Response
    version: int


class Token(NamedTuple):
    """The broker's bare SASL token."""

    data: bytes

    def __repr__(self) -> str:
        return f"Token({len(self.data)} bytes)"


class Disconnected(NamedTuple):
    """The broker closed the connection."""

    while_waiting_for: str | None
    """The oldest request without a response, such as ``ApiVersions v5``; None where there is none."""


SessionEvent = Negotiated | Refused | Reply | Token | Disconnected
