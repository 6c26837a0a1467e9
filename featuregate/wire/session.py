"""The conversation of one connection: negotiate first, then requests and their answers. A state machine without I/O.

Whoever carries the bytes feeds what was received, sends what is queued, and takes events::

    session = Session(client_id="app", software=("featuregate", "1.0"))
    session.negotiate()
    sock.sendall(session.data_to_send())
    while (event := session.next_event()) is None:
        if data := sock.recv(65536):
            session.receive_data(data)
        else:
            session.receive_eof()

The rules are those of KIP-35 and KIP-511. API ranges hold for one connection, so each begins with ApiVersions, at the
newest version that we speak. A broker that is older answers error 35, and is asked once more, whatever follows that
code: at the newest older version that it lists, or at v0 where none can be read. Nothing is ever guessed from silence:
a wait that runs out is the carrier's to report, and sends nothing.

Every error comes from `Session.next_event`. After a `RemoteWireError` the stream cannot be trusted, so the same error
comes again; all that is left to do is to close the connection.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.errors import BrokerError, LocalWireError, RemoteWireError, UnsupportedVersion
from featuregate.kafka_errors import (
    INVALID_REQUEST,
    NONE,
    REBOOTSTRAP_REQUIRED,
    UNSUPPORTED_VERSION,
    broker_error,
)
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse, fit_software
from featuregate.wire.frames import (
    MAX_FRAME,
    MAX_HELLO,
    FrameReader,
    frame,
    read_correlation_id,
    read_response_body,
    write_request,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from featuregate.wire.message import Request, Response

__all__ = ["Disconnected", "Event", "ExpectedNode", "Negotiated", "Refused", "Reply", "Session", "Token"]


class ExpectedNode(NamedTuple):
    """Which node of which cluster we expect to talk to (KIP-1242); sent to brokers that know ApiVersions v5."""

    cluster_id: str
    node_id: int


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The broker said what it can do; requests may be sent now."""

    response: ApiVersionsResponse
    version: int
    """The version of ApiVersions that was answered: the body's."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker would not negotiate; the conversation is over."""

    error: BrokerError


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request. Its error code, where it has one, is for the asker to judge."""

    correlation_id: int
    request: Request[Any]
    response: Response
    version: int


@dataclass(frozen=True, slots=True)
class Token:
    """The answer to a bare SASL token."""

    data: bytes

    def __repr__(self) -> str:
        return f"Token({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The broker closed the connection."""

    while_waiting_for: str | None
    """The oldest request without an answer, such as ``ApiVersions v5``; None when nothing was owed to us."""


Event = Negotiated | Refused | Reply | Token | Disconnected


class _State(Enum):
    NEW = auto()
    NEGOTIATING = auto()
    READY = auto()
    OVER = auto()


class _Pending(NamedTuple):
    correlation_id: int
    request: Request[Any]
    version: int


_IDS: Final = 2**31


class Session:
    """One connection's conversation.

    ``software`` is the name and the version that brokers see of us, made to fit Kafka's rule for them; ``max_frame``
    is the longest answer that is believed, in bytes; of ApiVersions it is `MAX_HELLO` at the most.
    """

    def __init__(
        self,
        *,
        client_id: str,
        software: tuple[str, str],
        expected: ExpectedNode | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self._client_id = client_id
        self._hello = ApiVersionsRequest(
            client_software_name=fit_software(software[0]),
            client_software_version=fit_software(software[1]),
            cluster_id=expected.cluster_id if expected else None,
            node_id=expected.node_id if expected else -1,
        )
        self._max_frame = max_frame
        self._frames = FrameReader(min(max_frame, MAX_HELLO))
        self._out = bytearray()
        self._pending: deque[_Pending | None] = deque()  # None: a bare token
        self._next_id = 0
        self._state = _State.NEW
        self._retried = False
        self._eof = False
        self._broken: RemoteWireError | None = None
        self._api_ranges: Mapping[int, tuple[int, int]] | None = None

    @property
    def api_ranges(self) -> Mapping[int, tuple[int, int]] | None:
        """What was negotiated, by API key; None before."""
        return self._api_ranges

    def negotiate(self) -> None:
        """Queue ApiVersions at the newest version that we speak."""
        if self._state is not _State.NEW:
            raise LocalWireError("a connection is negotiated once: open a new one to ask again")
        self._state = _State.NEGOTIATING
        self._queue(self._hello, ApiVersionsRequest.VERSIONS[1])

    def send(self, request: Request[Any]) -> int:
        """Queue a request at the newest version in common, and give its correlation id.

        Any number may be on their way; brokers answer in order. `UnsupportedVersion` when there is no version in
        common, `LocalWireError` before `Negotiated` and after the end.
        """
        return self._queue(request, self.version_for(request))

    def version_for(self, request: Request[Any]) -> int:
        """Choose the newest version of a request that both sides speak, as `send` does."""
        api_ranges = self._ready()
        supported = api_ranges.get(request.API_KEY)
        version = _newest_common(request.VERSIONS, supported)
        if version is None:
            raise UnsupportedVersion(request.NAME, request.VERSIONS, supported)
        return version

    def send_token(self, token: bytes) -> None:
        """Queue a SASL token bare behind its length: what follows SaslHandshake v0, answered by `Token`.

        Brokers before 1.0 know nothing else. Whether it went well is not said: they close the connection if not.
        """
        self._ready()
        self._out += frame(token)
        self._pending.append(None)

    def data_to_send(self) -> bytes:
        """Drain what is queued; empty when nothing is."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> None:
        """Take in bytes from the broker."""
        self._frames.feed(data)

    def receive_eof(self) -> None:
        """Note that the broker closed its end: no more bytes will come."""
        self._eof = True

    def next_event(self) -> Event | None:
        """Give the next thing that happened, None when more bytes are needed or nothing more can happen.

        `RemoteWireError` when the bytes do not parse, or answer what was not asked.
        """
        if self._broken:
            raise self._broken
        if self._state is _State.OVER:
            return None
        try:
            return self._next_event()
        except RemoteWireError as error:
            self._broken = error
            raise

    def _next_event(self) -> Event | None:
        while (payload := self._frames.next_frame()) is not None:
            event = self._answered(payload)
            if event is not None:
                return event
        if not self._eof:
            return None
        self._state = _State.OVER
        return Disconnected(_waited_for(self._pending))

    def _ready(self) -> Mapping[int, tuple[int, int]]:
        if self._state is not _State.READY or self._api_ranges is None:
            raise LocalWireError(f"a request can be sent only between Negotiated and the end: {self._state.name}")
        return self._api_ranges

    def _queue(self, request: Request[Any], version: int) -> int:
        correlation_id = self._next_id
        self._out += write_request(request, version, correlation_id, self._client_id)
        self._next_id = (correlation_id + 1) % _IDS
        self._pending.append(_Pending(correlation_id, request, version))
        return correlation_id

    def _answered(self, payload: bytes) -> Event | None:
        """Match a frame with the oldest request; brokers answer each connection in order."""
        if not self._pending:
            raise RemoteWireError(f"an answer of {len(payload)} bytes to nothing", "response header", 0)
        pending = self._pending[0]
        if pending is None:
            self._pending.popleft()
            return Token(payload)
        correlation_id = read_correlation_id(payload)
        if correlation_id != pending.correlation_id:
            problem = f"{correlation_id}, where {_waited_for(self._pending)} has {pending.correlation_id}"
            raise RemoteWireError(problem, "response header: correlation_id", 0)
        body = read_response_body(payload, pending.request.RESPONSE, pending.version)
        response, version = pending.request.RESPONSE.decode_answer(pending.version, body)
        self._pending.popleft()
        if self._state is _State.NEGOTIATING and isinstance(response, ApiVersionsResponse):
            return self._negotiated(response, version, pending.version)
        return Reply(correlation_id, pending.request, response, version)

    def _negotiated(self, response: ApiVersionsResponse, version: int, asked: int) -> Event | None:
        if response.error_code == NONE:
            self._api_ranges = response.api_ranges
            self._state = _State.READY
            self._frames.max_frame = self._max_frame
            return Negotiated(response, version)
        if response.error_code == UNSUPPORTED_VERSION and not self._retried:
            self._retried = True
            self._queue(self._hello, _older_than(asked, response))
            return None
        self._state = _State.OVER
        return Refused(broker_error(response.error_code, self._advice(response, asked)))

    def _advice(self, response: ApiVersionsResponse, asked: int) -> str:
        """Say what a refusal means here, and what to do about it."""
        if response.error_code == UNSUPPORTED_VERSION:
            lowest, highest = ApiVersionsRequest.VERSIONS
            theirs = response.api_ranges.get(ApiVersionsRequest.API_KEY)
            said = f"advertises {theirs[0]} to {theirs[1]}" if theirs else "advertises none"
            return f"the broker refused ApiVersions v{asked} and {said}; we speak {lowest} to {highest}"
        if response.error_code == INVALID_REQUEST:
            hello = self._hello
            return (
                f"the broker refused the client software {hello.client_software_name!r} "
                f"{hello.client_software_version!r} or the expected node: give both of its ids, or none"
            )
        if response.error_code == REBOOTSTRAP_REQUIRED:
            return (
                f"this is not node {self._hello.node_id} of cluster {self._hello.cluster_id!r}: "
                "find the brokers again from the bootstrap list"
            )
        return f"the answer to ApiVersions v{asked}"


def _older_than(refused: int, response: ApiVersionsResponse) -> int:
    """Choose the version to ask after a refusal: the newest older one that is listed, or v0, which all shall know."""
    ours = (ApiVersionsRequest.VERSIONS[0], refused - 1)
    return _newest_common(ours, response.api_ranges.get(ApiVersionsRequest.API_KEY)) or 0


def _newest_common(ours: tuple[int, int], theirs: tuple[int, int] | None) -> int | None:
    """Give the newest version in both ranges; a range that is upside down has none."""
    if theirs is None:
        return None
    lowest, highest = max(ours[0], theirs[0]), min(ours[1], theirs[1])
    return highest if lowest <= highest else None


def _waited_for(pending: deque[_Pending | None]) -> str | None:
    if not pending:
        return None
    oldest = pending[0]
    return "a SASL token" if oldest is None else f"{oldest.request.NAME} v{oldest.version}"
