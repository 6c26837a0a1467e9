"""The session: it negotiates, retries once, sends requests, and ends on an error or a closed connection."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import LocalWireError, RemoteWireError, UnsupportedVersion
from featuregate.wire.api_versions import ApiVersionsRequest, ApiVersionsResponse
from featuregate.wire.cluster import DescribeClusterRequest, DescribeClusterResponse, Node
from featuregate.wire.frames import FrameReader, RequestHeader, frame, read_request_header, write_response
from featuregate.wire.message import Request, Response
from featuregate.wire.metadata import MetadataRequest, MetadataResponse
from featuregate.wire.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from featuregate.wire.session import (
    Disconnected,
    ExpectedNode,
    Negotiated,
    Refused,
    Reply,
    Session,
    SessionEvent,
    Token,
)
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest

APIS: dict[int, type[Request[Any]]] = {
    cls.API_KEY: cls for cls in (ApiVersionsRequest, MetadataRequest, DescribeClusterRequest, SaslHandshakeRequest)
}
RANGES = {3: (0, 12), 17: (0, 1), 18: (0, 4), 60: (0, 1)}


def new(**options: Any) -> Session:
    """Make a session without special options."""
    return Session(**{"client_id": "app", "software": ("my app", "1.0+dev")} | options)


def asked(session: Session) -> list[tuple[RequestHeader, Request[Any]]]:
    """Take the queued bytes, and read them as a broker does."""
    headers = (read_request_header(payload, APIS) for payload in FrameReader().feed(session.data_to_send()))
    return [(header, APIS[header.api_key].decode(header.api_version, body)) for header, body in headers]


def negotiating(**options: Any) -> Session:
    """Make a session whose request is on its way."""
    session = new(**options)
    session.negotiate()
    session.data_to_send()
    return session


def answer(session: Session, response: Response, version: int, correlation_id: int) -> SessionEvent | None:
    """Give a response to the session, and return the next event."""
    session.receive_data(write_response(response, version, correlation_id))
    return session.next_event()


def hello(code: int = 0, ranges: dict[int, tuple[int, int]] | None = None) -> ApiVersionsResponse:
    """Make a response of ApiVersions."""
    return ApiVersionsResponse(error_code=code, api_ranges=RANGES if ranges is None else ranges)


def ready(ranges: dict[int, tuple[int, int]] | None = None) -> Session:
    """Make a session that has been negotiated."""
    session = negotiating()
    assert isinstance(answer(session, hello(ranges=ranges), 5, 0), Negotiated)
    return session


def refusal(code: int, asked_version: int = 5, **options: Any) -> Refused:
    """Negotiate with a broker that answers an error."""
    session = new(**options)
    session.negotiate()
    event = answer(session, hello(code, {}), 0 if code == 35 else asked_version, 0)
    assert isinstance(event, Refused)
    assert session.api_ranges is None
    return event


class TestNegotiating:
    """The session from its first byte to its first event."""

    def test_it_asks_at_the_newest_version(self) -> None:
        """The request has software names that fit Kafka's rule, and no ids."""
        session = new()
        session.negotiate()
        [(header, request)] = asked(session)
        assert (header.api_version, header.client_id, header.correlation_id) == (5, "app", 0)
        assert request == ApiVersionsRequest(client_software_name="my-app", client_software_version="1.0-dev")

    def test_it_names_the_node_that_it_expects(self) -> None:
        """The request has the cluster id and the node id that the client expects."""
        session = new(expected=ExpectedNode("abc", 3))
        session.negotiate()
        [(_, request)] = asked(session)
        assert isinstance(request, ApiVersionsRequest)
        assert (request.cluster_id, request.node_id) == ("abc", 3)

    def test_the_answer_makes_it_ready(self) -> None:
        """The session has the API ranges of the broker from then on."""
        session = negotiating()
        assert session.api_ranges is None
        assert answer(session, hello(), 5, 0) == Negotiated(hello(), 5)
        assert session.api_ranges == RANGES

    def test_it_may_happen_again(self) -> None:
        """The broker is asked at the newest version in common, and its newest answer holds."""
        session = ready()
        session.negotiate()
        header, _ = asked(session)[-1]
        assert (header.api_key, header.api_version) == (18, 4)
        later = hello(ranges={**RANGES, 60: (0, 2)})
        assert answer(session, later, 4, header.correlation_id) == Negotiated(later, 4)
        assert session.api_ranges == later.api_ranges

    @pytest.mark.parametrize(
        ("lists", "again"),
        [
            ([{18: (0, 3)}], [3]),
            ([{18: (0, 4)}, {18: (0, 3)}], [4, 3]),  # a proxy of 4.0 before a broker of 3.8
            ([{18: (0, 4)}, {18: (0, 3)}, {}], [4, 3, 0]),  # and a broker of 1.0 behind both
            ([{18: (2, 9)}] * 4, [4, 3, 2, 0]),  # not 5, which the broker has just refused although it lists it
            ([{}], [0]),  # brokers before 2.4
            ([{18: (6, 9)}], [0]),  # too new, reversed or negative: every broker should know v0
            ([{18: (3, 1)}], [0]),
            ([{18: (-4, -1)}], [0]),
        ],
    )
    def test_invariant_6_error_35_is_retried_as_long_as_the_version_sinks(
        self, lists: list[dict[int, tuple[int, int]]], again: list[int]
    ) -> None:
        """The body of error 35 is v0, whatever the version of the request."""
        session = negotiating()
        for at, (theirs, version) in enumerate(zip(lists, again, strict=True)):
            assert answer(session, hello(35, theirs), 0, at) is None
            [(header, _)] = asked(session)
            assert (header.api_version, header.correlation_id) == (version, at + 1)
        assert answer(session, hello(), again[-1], len(again)) == Negotiated(hello(), again[-1])

    @pytest.mark.parametrize(
        ("theirs", "advertised"), [({}, "none"), ({18: (6, 9)}, "6 to 9"), ({18: (-4, -1)}, "-4 to -1")]
    )
    def test_a_broker_that_refuses_v0_has_no_version(self, theirs: dict[int, tuple[int, int]], advertised: str) -> None:
        """The refusal names both sides, and the session sends nothing more."""
        session = negotiating()
        assert answer(session, hello(35, theirs), 0, 0) is None
        asked(session)
        event = answer(session, hello(35, theirs), 0, 1)
        assert isinstance(event, Refused)
        assert (event.error.code, event.error.name) == (35, "UNSUPPORTED_VERSION")
        assert f"refused ApiVersions v0 and advertises {advertised}; this client supports 0 to 5" in str(event.error)
        assert asked(session) == []

    def test_invariant_6_a_connection_that_was_refused_once_may_be_negotiated_again(self) -> None:
        """The broker behind a proxy may be another one at the next poll."""
        session = negotiating()
        assert answer(session, hello(35, {18: (0, 4)}), 0, 0) is None
        asked(session)
        assert isinstance(answer(session, hello(), 4, 1), Negotiated)
        session.negotiate()
        assert answer(session, hello(35, {18: (0, 3)}), 0, 2) is None
        assert answer(session, hello(), 3, 3) == Negotiated(hello(), 3)

    def test_invariant_6_the_code_alone_tells_that_librdkafkas_mock_cluster_wants_v0(self) -> None:
        """The mock cluster of librdkafka 2.16 sends a body that fits no version."""
        session = negotiating()
        session.receive_data(frame(bytes(4) + bytes.fromhex("0023 01 0012 0000 0002 00 00000000")))
        assert session.next_event() is None
        assert [header.api_version for header, _ in asked(session)] == [0]
        assert answer(session, hello(), 0, 1) == Negotiated(hello(), 0)

    @pytest.mark.parametrize(
        ("code", "says"),
        [
            (42, "INVALID_REQUEST.*'my-app' '1.0-dev'"),  # a broker refuses nothing else
            (129, "REBOOTSTRAP_REQUIRED.*this is not node 3 of cluster 'abc'"),
            (999, "UNKNOWN_CODE_999"),  # of a newer broker
        ],
    )
    def test_a_refusal_says_what_it_means(self, code: int, says: str) -> None:
        """The error has the code, its name, and what was sent."""
        error = refusal(code, expected=ExpectedNode("abc", 3)).error
        assert error.code == code
        assert re.search(says, str(error))

    def test_it_waits_for_the_answers_before(self) -> None:
        """A session that negotiates takes the next answer for that of ApiVersions."""
        session = ready()
        session.negotiate()
        with pytest.raises(LocalWireError, match="when it is new, or idle"):
            session.negotiate()


class TestAsking:
    """Requests and responses, once negotiated."""

    def test_nothing_can_be_asked_before(self) -> None:
        """The session does not guess the version of a request."""
        with pytest.raises(LocalWireError, match="between Negotiated and the end"):
            new().send(MetadataRequest())
        with pytest.raises(LocalWireError, match="between Negotiated and the end"):
            new().send_token(b"token")

    @pytest.mark.parametrize(("theirs", "sent"), [((0, 2), 1), ((0, 1), 1), ((0, 0), 0), ((2, 3), 2)])
    def test_a_preferred_version_is_taken_where_the_server_has_it(self, theirs: tuple[int, int], sent: int) -> None:
        """An active controller of 3.9 behind a newer broker closes the connection on UpdateFeatures v2."""
        request = UpdateFeaturesRequest(updates=(FeatureUpdate(feature="f", max_version_level=1),))
        assert ready({18: (0, 4), 57: theirs}).version_for(request) == sent

    def test_the_newest_common_version_is_taken(self) -> None:
        """The client supports versions up to 13, and the broker up to 12."""
        session = ready()
        assert session.version_for(MetadataRequest()) == 12
        session.send(MetadataRequest())
        assert asked(session)[0][0].api_version == 12

    def test_an_api_that_is_not_listed_is_not_sent(self) -> None:
        """A controller does not list Metadata."""
        session = ready({18: (0, 4)})
        with pytest.raises(UnsupportedVersion, match=r"^The node does not support Metadata$"):
            session.send(MetadataRequest())
        assert session.data_to_send() == b""

    @pytest.mark.parametrize("theirs", [(14, 15), (0, 0), (5, 2)])
    def test_versions_without_one_in_common_are_not_sent(self, theirs: tuple[int, int]) -> None:
        """The range of the broker is too new, too old or reversed."""
        session = ready({3: theirs})
        with pytest.raises(UnsupportedVersion, match=r"with version in range \[1,13\]"):
            session.send(MetadataRequest())

    def test_the_answer_comes_with_its_request(self) -> None:
        """The reply also has the version of the request."""
        session = ready()
        request = MetadataRequest()
        correlation_id = session.send(request)
        response = MetadataResponse(brokers=(Node(node_id=1, host="a", port=9092),), cluster_id="abc")
        assert answer(session, response, 12, correlation_id) == Reply(response)

    def test_several_requests_may_be_on_their_way(self) -> None:
        """The broker answers in order, and two responses may arrive in one piece."""
        session = ready()
        ids = [session.send(MetadataRequest()), session.send(DescribeClusterRequest())]
        assert [header.correlation_id for header, _ in asked(session)] == ids
        session.receive_data(
            write_response(MetadataResponse(brokers=()), 12, ids[0])
            + write_response(DescribeClusterResponse(cluster_id="abc"), 1, ids[1])
        )
        events = [session.next_event(), session.next_event()]
        assert [type(event.response) for event in events if isinstance(event, Reply)] == [
            MetadataResponse,
            DescribeClusterResponse,
        ]
        assert session.next_event() is None

    def test_a_request_that_cannot_be_encoded_is_not_waited_for(self) -> None:
        """The error leaves the session as it was before."""
        session = ready({60: (0, 0)})
        with pytest.raises(LocalWireError):
            session.send(DescribeClusterRequest(endpoint_type=2))
        correlation_id = session.send(DescribeClusterRequest())
        assert isinstance(answer(session, DescribeClusterResponse(), 0, correlation_id), Reply)


class TestBareTokens:
    """SASL with brokers before 1.0."""

    def test_a_token_goes_bare_and_comes_back_bare(self) -> None:
        """The session sends a length and the bytes of the mechanism, without a header."""
        session = ready({17: (0, 0)})
        correlation_id = session.send(SaslHandshakeRequest(mechanism="PLAIN"))
        response = SaslHandshakeResponse(mechanisms=("PLAIN",))
        assert answer(session, response, 0, correlation_id) == Reply(response)
        session.data_to_send()
        session.send_token(b"\0alice\0secret")
        assert session.data_to_send() == frame(b"\0alice\0secret")
        session.receive_data(frame(b""))
        assert session.next_event() == Token(b"")

    def test_a_broker_that_closes_instead_is_told_apart(self) -> None:
        """A broker before 1.0 refuses a password by closing the connection."""
        session = ready()
        session.send_token(b"token")
        session.receive_eof()
        assert session.next_event() == Disconnected()

    def test_invariant_12_a_token_is_never_shown(self) -> None:
        """The repr of a token has only its length."""
        assert repr(Token(b"secret")) == "Token(6 bytes)"


class TestEnding:
    """A broker that closes the connection, or breaks the protocol."""

    def test_a_broker_that_closes_while_negotiating(self) -> None:
        """A 0.8 broker does not know ApiVersions, and closes the connection."""
        session = negotiating()
        session.receive_eof()
        assert session.next_event() == Disconnected()
        assert session.next_event() is None

    def test_answers_that_came_before_the_end_are_given_first(self) -> None:
        """The last event names the request that was not answered."""
        session = ready()
        first = session.send(MetadataRequest())
        session.send(DescribeClusterRequest())
        session.receive_data(write_response(MetadataResponse(brokers=()), 12, first))
        session.receive_eof()
        assert isinstance(session.next_event(), Reply)
        assert session.next_event() == Disconnected()

    def test_an_answer_to_nothing_is_refused(self) -> None:
        """A broker sends nothing without a request."""
        with pytest.raises(RemoteWireError, match="that answer no request"):
            answer(new(), hello(), 5, 0)

    def test_a_broken_session_stays_broken(self) -> None:
        """The session raises the same error again, whatever the broker sends."""
        session = negotiating()
        session.receive_data(b"HTTP/1.1 400 Bad Request\r\n")
        with pytest.raises(RemoteWireError, match="HTTP server"):
            session.next_event()
        session.receive_data(write_response(hello(), 5, 0))
        session.receive_eof()
        with pytest.raises(RemoteWireError, match="HTTP server"):
            session.next_event()

    def test_an_answer_out_of_order_ends_the_session(self) -> None:
        """A broker answers the requests of one connection in order. After that even a correct response is refused."""
        session = ready()
        first, second = session.send(MetadataRequest()), session.send(MetadataRequest())
        for correlation_id in (second, first):
            with pytest.raises(RemoteWireError, match=r"correlation_id at byte 0: 2, but Metadata v12 has 1"):
                answer(session, MetadataResponse(brokers=()), 12, correlation_id)

    def test_a_body_that_does_not_parse_is_refused(self) -> None:
        """The error has the offset in the message."""
        session = negotiating()
        session.receive_data(frame(bytes(4) + b"\0"))
        with pytest.raises(
            RemoteWireError, match=r"^ApiVersionsResponse v5: error_code at byte 0: wanted 2 bytes, 1 left"
        ):
            session.next_event()

    @pytest.mark.parametrize(("options", "most"), [({"max_frame": 1000}, 1000), ({}, 1024 * 1024)])
    def test_invariant_7_a_response_to_negotiation_has_a_limit(self, options: dict[str, int], most: int) -> None:
        """A probe holds a response of every broker at the same time. The frame is refused before its bytes arrive."""
        session = negotiating(**options)
        session.receive_data((most + 1).to_bytes(4, "big"))
        with pytest.raises(RemoteWireError, match=f"more than the limit of {most}"):
            session.next_event()

    def test_after_that_answers_may_be_as_long_as_the_caller_allows(self) -> None:
        """A list of ten thousand brokers is longer than the limit of a negotiation."""
        session = ready()
        correlation_id = session.send(MetadataRequest())
        brokers = tuple(Node(node_id=node_id, host="a" * 64, port=9092) for node_id in range(10_000))
        assert isinstance(answer(session, MetadataResponse(brokers=brokers), 12, correlation_id), Reply)


@given(follows=st.lists(st.binary(max_size=60), min_size=6, max_size=6))
def test_invariant_6_error_35_is_asked_again_at_sinking_versions_whatever_follows_it(follows: list[bytes]) -> None:
    """The session takes error 35 of v0 as a refusal, and sends nothing more."""
    session = new()
    session.negotiate()
    version, event = 6, None
    for after in follows:
        [(header, _)] = asked(session)
        assert 0 <= header.api_version < version
        version = header.api_version
        session.receive_data(frame(header.correlation_id.to_bytes(4, "big") + b"\0\x23" + after))
        if (event := session.next_event()) is not None:
            break
    assert isinstance(event, Refused)
    assert version == 0
    assert event.error.code == 35
    assert session.data_to_send() == b""


@given(chunks=st.lists(st.binary(max_size=60) | st.just(b"\0\0\0\x06\0\0\0\0\0\x23"), max_size=8), eof=st.booleans())
def test_whatever_a_broker_sends_an_event_or_our_error_comes(chunks: list[bytes], eof: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
    """The session raises no exception but RemoteWireError, and returns at most two events."""
    session = negotiating()
    for chunk in chunks:
        session.receive_data(chunk)
    if eof:
        session.receive_eof()
    try:
        events = [event for _ in range(20) if (event := session.next_event()) is not None]
    except RemoteWireError:
        return
    assert len(events) <= 2
