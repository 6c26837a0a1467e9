"""The protocol of one connection: negotiate first, then requests and their responses. A state machine without I/O.

The caller passes in received bytes, sends queued bytes, and takes events::

    session = Session(client_id="app", software=("featuregate", "1.0"))
    session.negotiate()
    sock.sendall(session.data_to_send())
    while (event := session.next_event()) is None:
        if data := sock.recv(65536):
            session.receive_data(data)
        else:
            session.receive_eof()

The rules are those of KIP-35 and KIP-511. API ranges hold for one connection, so each connection begins with
ApiVersions at the newest version of the client. An older broker answers error 35, and the session asks again at the
newest older version that the broker lists, or at v0 where the list does not parse. A proxy may have answered for
itself, and the broker behind it refuses that version, too: the session asks as long as the version sinks. A timeout
never leads to another version: the caller reports it. A peer that closes the connection in place of an answer leads to
another version on another connection, which is up to the caller: `Session.negotiate` takes the newest to ask for.

`Session.next_event` raises every error. After a `RemoteWireError` it raises the same error again, since the rest of the
stream cannot be trusted; the caller can only close the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.budgets import MAX_API_VERSIONS_FRAME, MAX_FRAME
from featuregate.errors import BrokerError, LocalWireError, RemoteWireError, UnsupportedVersion
from featuregate.kafka_errors import INVALID_REQUEST, NONE, REBOOTSTRAP_REQUIRED, UNSUPPORTED_VERSION, broker_error
from featuregate.values import dataclass
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse, fit_software
from featuregate.wire.frames import FrameReader, frame, read_correlation_id, read_response_body, write_request

if TYPE_CHECKING:
    from featuregate.wire.message import Request, Response


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
NEWEST: Final = ApiVersionsRequest.VERSIONS[1]
"""The newest version of ApiVersions of this client."""


class Session:
    """The client's side of one connection.

    ``software`` is the name and version of the client for the brokers' metrics, changed to fit Kafka's rule.
    ``max_frame`` is the longest accepted response in bytes; a response to ApiVersions has `MAX_API_VERSIONS_FRAME`
    at most.
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
        self._api_versions_request = ApiVersionsRequest(
            client_software_name=fit_software(software[0]),
            client_software_version=fit_software(software[1]),
            cluster_id=expected.cluster_id if expected else None,
            node_id=expected.node_id if expected else -1,
        )
        self._max_frame = max_frame
        self._frames = FrameReader(max_frame)
        self._out = bytearray()
        self._pending: deque[_Pending | None] = deque()  # None: a bare token
        self._next_id = 0
        self._state = _State.NEW
        self._eof = False
        self.received = False
        """Whether the broker has sent any byte."""
        self._broken: RemoteWireError | None = None
        self._api_ranges: Mapping[int, tuple[int, int]] | None = None

    @property
    def api_ranges(self) -> Mapping[int, tuple[int, int]] | None:
        """The version ranges of the broker, by API key; None before the negotiation."""
        return self._api_ranges

    def negotiate(self, newest: int = NEWEST) -> None:
        """Queue ApiVersions: at the newest version of the client, or again at the newest in common.

        The version is ``newest`` at the most, for a peer that closes the connection on newer ones.
        """
        if self._state not in (_State.NEW, _State.READY) or self._pending:
            raise LocalWireError(f"a connection is negotiated when it is new, or idle: {self._state.name}")
        common = NEWEST if self._state is _State.NEW else self.version_for(self._api_versions_request)
        self._state = _State.NEGOTIATING
        self._frames.max_frame = min(self._max_frame, MAX_API_VERSIONS_FRAME)
        self._queue(self._api_versions_request, min(common, newest))

    def send(self, request: Request[Any]) -> int:
        """Queue a request at the newest version in common, and return its correlation id.

        Any number of requests may be in flight; brokers answer in order. Raises `UnsupportedVersion` where there is no
        version in common, and `LocalWireError` before `Negotiated` and after the end.
        """
        return self._queue(request, self.version_for(request))

    def version_for(self, request: Request[Any]) -> int:
        """Return the version that `send` uses: the newest that both sides support, or the preferred one."""
        api_ranges = self._ready()
        supported = api_ranges.get(request.API_KEY)
        lowest, newest = request.VERSIONS
        preferred = newest if request.PREFERRED is None else request.PREFERRED
        version = _newest_common((lowest, preferred), supported)
        if version is None:
            version = _newest_common(request.VERSIONS, supported)
        if version is None:
            raise UnsupportedVersion(request.NAME, request.VERSIONS, supported)
        return version

    def send_token(self, token: bytes) -> None:
        """Queue a bare SASL token behind its length, as after SaslHandshake v0; the response is a `Token` event.

        Brokers before 1.0 support nothing else. They close the connection to refuse a token.
        """
        self._ready()
        self._out += frame(token)
        self._pending.append(None)

    def data_to_send(self) -> bytes:
        """Return the queued bytes, and clear the queue."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def receive_data(self, data: bytes) -> None:
        """Take in bytes from the broker."""
        self.received = self.received or bool(data)
        self._frames.feed(data)

    def receive_eof(self) -> None:
        """Note that the broker has closed its side of the connection."""
        self._eof = True

    def next_event(self) -> SessionEvent | None:
        """Return the next event; None where more bytes are needed, and after the end.

        Raises `RemoteWireError` where the bytes do not parse, or answer no request.
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

    def _next_event(self) -> SessionEvent | None:
        while (payload := self._frames.next_frame()) is not None:
            event = self._answered(payload)
            if event is not None:
                return event
        if not self._eof:
            return None
        self._state = _State.OVER
        return Disconnected()

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

    def _answered(self, payload: bytes) -> SessionEvent | None:
        """Match a frame with the oldest request; a broker answers in order."""
        if not self._pending:
            raise RemoteWireError(f"{len(payload)} bytes that answer no request", "response header", 0)
        pending = self._pending[0]
        if pending is None:
            self._pending.popleft()
            return Token(payload)
        correlation_id = read_correlation_id(payload)
        if correlation_id != pending.correlation_id:
            named = f"{pending.request.NAME} v{pending.version}"
            problem = f"{correlation_id}, but {named} has {pending.correlation_id}"
            raise RemoteWireError(problem, "response header: correlation_id", 0)
        body = read_response_body(payload, pending.request.RESPONSE, pending.version)
        response, version = pending.request.RESPONSE.decode_answer(pending.version, body)
        self._pending.popleft()
        if self._state is _State.NEGOTIATING and isinstance(response, ApiVersionsResponse):
            return self._negotiated(response, version, pending.version)
        return Reply(response)

    def _negotiated(self, response: ApiVersionsResponse, version: int, asked: int) -> SessionEvent | None:
        if response.error_code == NONE:
            self._api_ranges = response.api_ranges
            self._state = _State.READY
            self._frames.max_frame = self._max_frame
            return Negotiated(response, version)
        if response.error_code == UNSUPPORTED_VERSION and asked:
            self._queue(self._api_versions_request, _older_than(asked, response))
            return None
        self._state = _State.OVER
        return Refused(broker_error(response.error_code, self._advice(response, asked)))

    def _advice(self, response: ApiVersionsResponse, asked: int) -> str:
        if response.error_code == UNSUPPORTED_VERSION:
            lowest, highest = ApiVersionsRequest.VERSIONS
            theirs = response.api_ranges.get(ApiVersionsRequest.API_KEY)
            listed = f"advertises {theirs[0]} to {theirs[1]}" if theirs else "advertises none"
            return f"the broker refused ApiVersions v{asked} and {listed}; this client supports {lowest} to {highest}"
        request = self._api_versions_request
        if response.error_code == INVALID_REQUEST:
            return (
                f"the broker refused the client software {request.client_software_name!r} "
                f"{request.client_software_version!r} or the expected node: give both of its ids, or none"
            )
        if response.error_code == REBOOTSTRAP_REQUIRED:
            return (
                f"this is not node {request.node_id} of cluster {request.cluster_id!r}: "
                "fetch the broker list again from the bootstrap servers; "
                "behind a proxy that gives brokers other ids, set metadata.cluster.check.enable=false"
            )
        return f"in the response to ApiVersions v{asked}"


def _older_than(refused: int, response: ApiVersionsResponse) -> int:
    """Choose the version after a refusal: the newest older one in the list, or v0, which every broker supports."""
    ours = (ApiVersionsRequest.VERSIONS[0], refused - 1)
    return _newest_common(ours, response.api_ranges.get(ApiVersionsRequest.API_KEY)) or 0


def _newest_common(ours: tuple[int, int], theirs: tuple[int, int] | None) -> int | None:
    """Return the newest version in both ranges; an inverted range has none."""
    if theirs is None:
        return None
    lowest, highest = max(ours[0], theirs[0]), min(ours[1], theirs[1])
    return highest if lowest <= highest else None


@dataclass(frozen=True, slots=True)
class ExpectedNode:
    """The node that the client expects at an address (KIP-1242); brokers that know ApiVersions v5 check it."""

    cluster_id: str
    node_id: int


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The broker sent its API ranges; the session can send requests now."""

    response: ApiVersionsResponse
    version: int
    """Version of ApiVersions of the response's body."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refused to negotiate; the session has ended."""

    error: BrokerError


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request. The caller checks its error code."""

    response: Response


@dataclass(frozen=True, slots=True)
class Token:
    """The broker's bare SASL token."""

    data: bytes

    def __repr__(self) -> str:
        return f"Token({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The broker closed the connection."""


SessionEvent = Negotiated | Refused | Reply | Token | Disconnected
