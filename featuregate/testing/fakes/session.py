"""The server side of one connection: its authentication, and which answer follows a request. Pure.

Source: ``SaslServerAuthenticator`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from featuregate.testing.fakes.answers import (
    APIS,
    ClusterMembers,
    NodeState,
    api_versions,
    describe_cluster,
    describe_configs,
    describe_quorum,
    metadata,
    too_new,
    write_answer,
)
from featuregate.wire.api_versions import ApiVersionsRequest
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.configs import DescribeConfigsRequest
from featuregate.wire.frames import RequestHeader, frame, read_request_header
from featuregate.wire.metadata import MetadataRequest
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from featuregate.wire.message import Response

Controller = Callable[[UpdateFeaturesRequest, int], UpdateFeaturesResponse | None]
"""Answers UpdateFeatures of a version; ``None``: it cannot answer now, for example without a quorum."""

_BEFORE_AUTHENTICATION: Final = frozenset(
    {ApiVersionsRequest.API_KEY, SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY}
)
_UNSUPPORTED_SASL_MECHANISM: Final = 33
_SASL_AUTHENTICATION_FAILED: Final = 58
_MECHANISM: Final = "PLAIN"


class ServerSession:
    """The server side of one connection: its authentication, and the answers to its requests."""

    __slots__ = ("_authenticated", "_bare_token_next", "_mechanism", "ended")

    def __init__(self) -> None:
        self.ended = False
        """Whether the broker closes the connection after this answer."""
        self._authenticated = False
        self._mechanism: str | None = None
        self._bare_token_next = False

    def read(self, payload: bytes) -> RequestHeader | None:
        """Read the header of a request; ``None`` for a bare SASL token, which has no header."""
        return None if self._bare_token_next else read_request_header(payload, APIS)[0]

    def answer(
        self, payload: bytes, state: NodeState, members: ClusterMembers, controller: Controller | None = None
    ) -> bytes | None:
        """Return the frame of the answer; ``None`` if the broker closes the connection instead.

        The frame is empty if the broker cannot answer now. Without a ``controller``, UpdateFeatures closes the
        connection. Raises `RemoteWireError`: the request does not parse. A broker closes the connection.
        """
        if self._bare_token_next:
            self._bare_token_next = False
            return frame(b"") if self._check_token(payload, members) else None
        header, body = read_request_header(payload, APIS)
        if header.api_key == UpdateFeaturesRequest.API_KEY and self._accepts_request(header, state, members):
            return _updated(header, body, controller)
        response = self._response(header, body, state, members)
        return None if response is None else write_answer(response, header)

    def _response(
        self, header: RequestHeader, body: bytes, state: NodeState, members: ClusterMembers
    ) -> Response | None:
        key, version = header.api_key, header.api_version
        if not self._accepts_request(header, state, members):
            return too_new(state, version) if key == ApiVersionsRequest.API_KEY else None
        if key == MetadataRequest.API_KEY:  # it may name topics, and there are none
            return metadata(state, members)
        response: Response | None
        match request := APIS[key].decode(version, body):
            case ApiVersionsRequest():
                response = api_versions(state, request, version)
            case SaslHandshakeRequest():
                response = self._handshake(request, version, members)
            case SaslAuthenticateRequest():
                response = self._authenticate(request, members)
            case DescribeClusterRequest():
                response = describe_cluster(state, members, request)
            case DescribeConfigsRequest():
                response = describe_configs(state, request)
            case _:
                response = describe_quorum(members)
        return response

    def _accepts_request(self, header: RequestHeader, state: NodeState, members: ClusterMembers) -> bool:
        """Return whether broker and code know the version, and the client has authenticated if it must."""
        key = header.api_key
        known = (state.api_ranges.get(key, (0, -1)), APIS[key].VERSIONS if key in APIS else (0, -1))
        if not all(lowest <= header.api_version <= highest for lowest, highest in known):
            return False
        return key in _BEFORE_AUTHENTICATION or members.passwords is None or self._authenticated

    def _handshake(self, request: SaslHandshakeRequest, version: int, members: ClusterMembers) -> SaslHandshakeResponse:
        offered = () if members.passwords is None else (_MECHANISM,)
        if request.mechanism not in offered:
            return SaslHandshakeResponse(error_code=_UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self._mechanism = request.mechanism
        self._bare_token_next = version == 0
        return SaslHandshakeResponse(mechanisms=offered)

    def _authenticate(
        self, request: SaslAuthenticateRequest, members: ClusterMembers
    ) -> SaslAuthenticateResponse | None:
        if self._mechanism is None:
            return None
        if self._check_token(request.auth_bytes, members):
            return SaslAuthenticateResponse()
        self.ended = True
        return SaslAuthenticateResponse(
            error_code=_SASL_AUTHENTICATION_FAILED, error_message="Authentication failed: Invalid username or password"
        )

    def _check_token(self, token: bytes, members: ClusterMembers) -> bool:
        """Check a token of SASL/PLAIN (RFC 4616): authorization id, user and password, separated by zero bytes."""
        _, _, rest = token.partition(b"\0")
        user, _, password = rest.partition(b"\0")
        known = members.passwords or {}
        self._authenticated = known.get(user.decode(errors="replace")) == password.decode(errors="replace")
        return self._authenticated


def _updated(header: RequestHeader, body: bytes, controller: Controller | None) -> bytes | None:
    if controller is None:
        return None
    response = controller(UpdateFeaturesRequest.decode(header.api_version, body), header.api_version)
    return b"" if response is None else write_answer(response, header)
