"""The brokers of a fake cluster as a source of polls: real messages, byte by byte, without a network."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
from featuregate.testing import FakeCluster
from featuregate.testing.fakes.broker import FakeBroker
from featuregate.testing.fakes.session import ServerSession
from featuregate.view.answers import BrokerAnswer
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.frames import FrameReader
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from featuregate.wire.session import Negotiated, Refused, Reply, Session, SessionEvent

PASSWORD: Final = "hunter2-fake"
"""Protects nothing; a test searches for it where it must not appear."""
PASSWORDS: Final = MappingProxyType({"app": PASSWORD})
_LISTS_FENCED_FROM: Final = 2


class ListedBrokers(NamedTuple):
    """The brokers that a cluster lists."""

    node_ids: tuple[int, ...] = ()
    includes_fenced: bool = False
    """Whether the list holds brokers that are down too (KIP-1073)."""


def probe(cluster: FakeCluster, node_id: int, *, now: float = 0.0, cut_after: int | None = None) -> BrokerAnswer:
    """Ask one broker for its versions and features, on a new connection, which ends after some bytes."""
    address = Address(f"node-{node_id}.invalid", 9092)
    broker = next((broker for broker in cluster.brokers if broker.node_id == node_id), None)
    result: Negotiated | FeatureGateError
    if broker is None or not broker.running:
        result = ConnectFailed(address, "connecting", "refused")
    elif not broker.alive:
        result = TimedOut(address, "waiting for ApiVersions")
    else:
        result = _negotiate(address, broker, cut_after)
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


def fetch_broker_list(cluster: FakeCluster, turn: int = 0) -> ListedBrokers:
    """Ask a broker which brokers the cluster has. The list is empty where no broker answers.

    Only newer brokers list fenced ones, so it matters which broker is asked: running brokers take turns, by ``turn``.
    """
    running = [broker for broker in cluster.brokers if broker.alive]
    if not running:
        return ListedBrokers()
    ranges = running[turn % len(running)].state.api_ranges
    includes_fenced = ranges.get(DescribeClusterRequest.API_KEY, (0, -1))[1] >= _LISTS_FENCED_FROM
    listed = (broker.node_id for broker in cluster.brokers if includes_fenced or not broker.node.is_fenced)
    return ListedBrokers(tuple(listed), includes_fenced)


class UnpluggedBrokers:
    """A source of polls: ``now`` is the time of the answers, and ``cut`` has nodes whose next connections end."""

    timeout: Final = 15.0  # nothing waits here, but a busy machine takes its time

    def __init__(
        self, cluster: FakeCluster, *, now: float = 0.0, cut: Mapping[int, int] = MappingProxyType({}), turn: int = 0
    ) -> None:
        self.cluster, self.now, self.cut, self.turn = cluster, now, cut, turn

    def __str__(self) -> str:
        return f"fake cluster {self.cluster.cluster_id}"

    async def fetch(self) -> BrokerAnswers:
        """Probe every listed broker on a new connection. Raises DiscoveryError where none answered."""
        listed, registered = fetch_broker_list(self.cluster, self.turn)
        self.turn += 1
        answers = tuple(probe(self.cluster, each, now=self.now, cut_after=self.cut.get(each)) for each in listed)
        if not any(answer.answered for answer in answers):
            raise DiscoveryError([])
        return BrokerAnswers(
            cluster_id=self.cluster.cluster_id,
            controller_id=self.cluster.controller_id,
            broker_list="cluster",
            registered=registered,
            role="broker",
            answers=answers,
            answered_at=self.now,
        )


class _Connection:
    """Both ends of one connection to one broker."""

    def __init__(self, broker: FakeBroker, cut_after: int | None) -> None:
        self.session = Session(client_id="unplugged", software=("featuregate", "unplugged"))
        self._broker = broker
        self._left = cut_after
        self._server = ServerSession()
        self._frames = FrameReader()

    def next_event(self) -> SessionEvent | None:
        """Exchange bytes until the client has an event; ``None`` where no more bytes can arrive."""
        while True:
            sent = self.session.data_to_send()
            for payload in self._frames.feed(sent):
                self._deliver(self._broker.receive(self._server, payload))
            event = self.session.next_event()
            if event is not None or not sent:
                return event

    def _deliver(self, transmission: Any) -> None:
        data, close = transmission.data, transmission.close
        if self._left is not None:
            data, close = data[: self._left], close or len(data) > self._left
            self._left -= len(data)
        self.session.receive_data(data)
        if close:
            self.session.receive_eof()


def _negotiate(address: Address, broker: FakeBroker, cut_after: int | None) -> Negotiated | FeatureGateError:
    connection = _Connection(broker, cut_after)
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
    token = f"\0app\0{PASSWORD}".encode()
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)):
        connection.session.send(request)
        event = connection.next_event()
        if not isinstance(event, Reply):
            return ConnectionLost(address, f"waiting for {request.NAME}")
        if event.response.error_code:  # type: ignore[attr-defined]  # both have one
            return AuthenticationFailed(address, "PLAIN", f"{request!r} was refused")
    return None
