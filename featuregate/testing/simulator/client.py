"""What a client receives from simulated brokers: real messages, without a network.

A real :class:`~featuregate.wire.session.Session` talks to the fake brokers' side of the protocol, byte by byte, on a
new connection for each probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.config import Address
from featuregate.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    FeatureGateError,
    RemoteWireError,
    TimedOut,
)
from featuregate.net.probe import ProbeResult
from featuregate.sources.brokers import broker_answer
from featuregate.sources.source import BrokerAnswers
from featuregate.testing.fakes.answers import ClusterMembers, NodeState
from featuregate.testing.fakes.session import ServerSession
from featuregate.view.merging import merge
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.events import Negotiated, Refused, Reply, SessionEvent
from featuregate.wire.frames import FrameReader
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from featuregate.wire.session import Session

if TYPE_CHECKING:
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View

_PORT: Final = 9092
_LISTS_FENCED_FROM: Final = 2
_SOFTWARE: Final = ("featuregate", "simulated")
_USER: Final = "app"
PASSWORD: Final = "hunter2-simulated"  # noqa: S105 - it protects nothing; a test searches for it where it must not appear
_MEMBERS: Final = ClusterMembers(brokers=(), passwords={_USER: PASSWORD})


class ListedBrokers(NamedTuple):
    """The brokers that a cluster lists."""

    node_ids: tuple[int, ...] = ()
    includes_fenced: bool = False
    """Whether the list holds brokers that are down too (KIP-1073)."""


def address_of(node_id: int) -> Address:
    """Return the address of a simulated node, a name that never resolves (RFC 2606)."""
    return Address(f"node-{node_id}.invalid", _PORT)


def probe(cluster: Cluster, node_id: int, *, now: float = 0.0, cut_after: int | None = None) -> BrokerAnswer:
    """Ask one broker for its versions and features, on a new connection.

    Parameters
    ----------
    cluster
        The cluster as it is now.
    node_id
        The broker. The answer of a broker that is down or paused is a failure.
    now
        The time of the answer, in seconds since the Unix epoch.
    cut_after
        The number of bytes from the broker after which the connection ends.
    """
    address, node = address_of(node_id), cluster.nodes.get(node_id)
    result: Negotiated | FeatureGateError
    if node is None or not node.accepts_connections("broker"):
        result = ConnectFailed(address, "connecting", "refused")
    elif node.status == "paused":
        result = TimedOut(address, "waiting for ApiVersions")
    else:
        result = _negotiate(address, cluster.node_state(node_id), cut_after)
    negotiated = result if isinstance(result, Negotiated) else None
    probed = ProbeResult(
        node_id=node_id,
        address=address,
        role="broker",
        response=negotiated.response if negotiated else None,
        version=negotiated.version if negotiated else None,
        failure=None if isinstance(result, Negotiated) else result,
        seconds=0.0,
    )
    return broker_answer(probed, answered_at=now)


def fetch_broker_list(cluster: Cluster, turn: int = 0) -> ListedBrokers:
    """Ask a broker which brokers the cluster has. The list is empty where no broker answers.

    Only newer brokers list fenced ones, so it matters which broker is asked: running brokers take turns, by ``turn``.
    """
    running = [node_id for node_id, node in cluster.nodes.items() if node.is_broker and node.status == "running"]
    if not running:
        return ListedBrokers()
    ranges = cluster.node_state(running[turn % len(running)]).api_ranges
    includes_fenced = ranges.get(DescribeClusterRequest.API_KEY, (0, -1))[1] >= _LISTS_FENCED_FROM
    listed = (node_id for node_id, fenced in cluster.listed_brokers.items() if includes_fenced or not fenced)
    return ListedBrokers(tuple(listed), includes_fenced)


def view_of(cluster: Cluster, *, previous: View | None = None, now: float = 0.0) -> View:
    """Probe every registered broker once, and merge the answers, for example for ``StaticFeatures.show``."""
    return merge(
        (probe(cluster, node_id, now=now) for node_id in cluster.listed_brokers),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        previous=previous,
        seen_at=now,
    )


class SimulatedBrokers:
    """The brokers of a simulated cluster as a source of polls: ``Discoverer(source=SimulatedBrokers(cluster))``.

    Attributes
    ----------
    cluster : Cluster
        The cluster as the next poll finds it. A test may set it between two polls.
    now : float
        The time of the next answers, in seconds since the Unix epoch.
    cut : Mapping
        Node id to the number of bytes after which its next connections end.
    turn : int
        Which of the running brokers sends the broker list; the next one in the next poll.
    """

    timeout: Final = 15.0  # nothing waits here, but a busy machine takes its time

    def __init__(
        self, cluster: Cluster, *, now: float = 0.0, cut: Mapping[int, int] = MappingProxyType({}), turn: int = 0
    ) -> None:
        self.cluster, self.now, self.cut, self.turn = cluster, now, cut, turn

    def __str__(self) -> str:
        return f"simulated cluster {self.cluster.cluster_id}"

    async def fetch(self) -> BrokerAnswers:
        """Probe every listed broker on a new connection.

        Raises
        ------
        DiscoveryError
            No broker answered.
        """
        cluster, now = self.cluster, self.now
        listed, registered = fetch_broker_list(cluster, self.turn)
        self.turn += 1
        answers = tuple(probe(cluster, node_id, now=now, cut_after=self.cut.get(node_id)) for node_id in listed)
        if not any(answer.answered for answer in answers):
            raise DiscoveryError([])
        return BrokerAnswers(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id,
            broker_list="cluster",
            registered=registered,
            role="broker",
            answers=answers,
            answered_at=now,
        )


class _Connection:
    """Both ends of one connection to one broker."""

    def __init__(self, state: NodeState, cut_after: int | None) -> None:
        self.session = Session(client_id="simulated", software=_SOFTWARE)
        self._state = state
        self._left = cut_after
        self._server = ServerSession()
        self._frames = FrameReader()

    def next_event(self) -> SessionEvent | None:
        """Exchange bytes until the client has an event; ``None`` where no more bytes can arrive."""
        while True:
            sent = self.session.data_to_send()
            for payload in self._frames.feed(sent):
                self._answer(self._server.answer(payload, self._state, _MEMBERS))
            event = self.session.next_event()
            if event is not None or not sent:
                return event

    def _answer(self, data: bytes | None) -> None:
        """Deliver an answer, as far as the connection lasts. ``None``: the broker closes the connection."""
        whole = data is not None and (self._left is None or len(data) <= self._left)
        sent = data or b""
        self.session.receive_data(sent if whole else sent[: self._left])
        if not whole:
            self.session.receive_eof()
        elif self._left is not None:
            self._left -= len(sent)


def _negotiate(address: Address, state: NodeState, cut_after: int | None) -> Negotiated | FeatureGateError:
    """Negotiate versions and authenticate."""
    connection = _Connection(state, cut_after)
    connection.session.negotiate()
    try:
        event = connection.next_event()
        if isinstance(event, Negotiated):
            problem = _authenticate(connection, address)
            return event if problem is None else problem
    except (RemoteWireError, BrokerError) as error:
        return error
    return event.error if isinstance(event, Refused) else ConnectionLost(address, "waiting for ApiVersions")


def _authenticate(connection: _Connection, address: Address) -> FeatureGateError | None:
    token = f"\0{_USER}\0{PASSWORD}".encode()
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)):
        connection.session.send(request)
        event = connection.next_event()
        if not isinstance(event, Reply):
            return ConnectionLost(address, f"waiting for {request.NAME}")
        assert isinstance(event.response, SaslHandshakeResponse | SaslAuthenticateResponse)
        if event.response.error_code:
            return AuthenticationFailed(address, "PLAIN", f"{request!r} was refused")
    return None
