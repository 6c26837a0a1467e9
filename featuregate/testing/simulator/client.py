"""What a client hears from simulated brokers: real messages over no network.

A real :class:`~featuregate.wire.session.Session` talks to the fake brokers' side of the protocol, byte by byte, on a
connection of its own for each look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.config import Address
from featuregate.errors import (
    AuthenticationFailed,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    RemoteWireError,
    TimedOut,
)
from featuregate.net.probe import ProbeResult
from featuregate.sources.brokers import broker_answer
from featuregate.testing.fakes.answers import Conversation, Listing
from featuregate.view.cluster_view import View, merge
from featuregate.wire.cluster import DescribeClusterRequest
from featuregate.wire.frames import FrameReader
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from featuregate.wire.session import Negotiated, Refused, Reply, Session

if TYPE_CHECKING:
    from featuregate.errors import FeatureGateError
    from featuregate.testing.fakes.answers import Tells
    from featuregate.testing.simulator.cluster import Cluster
    from featuregate.view.answers import BrokerAnswer
    from featuregate.wire.session import Event

__all__ = ["PASSWORD", "address_of", "ask", "listed_brokers", "view_of"]

_PORT: Final = 9092
_FENCED_FROM: Final = 2
_SOFTWARE: Final = ("featuregate", "simulated")
_USER: Final = "app"
PASSWORD: Final = "hunter2-simulated"  # noqa: S105 - it guards nothing: it is there not to be seen anywhere
_DOOR: Final = Listing(brokers=(), passwords={_USER: PASSWORD})


def address_of(node_id: int) -> Address:
    """Return an address for a simulated node, which never resolves (RFC 2606)."""
    return Address(f"node-{node_id}.invalid", _PORT)


def ask(cluster: Cluster, node_id: int, *, now: float = 0.0, cut_after: int | None = None) -> BrokerAnswer:
    """Ask one broker what it can do.

    Parameters
    ----------
    cluster
        As it is now.
    node_id
        Whom to ask. One that is down or hangs is an answer with a failure.
    now
        Seconds since the Unix epoch, for the answer.
    cut_after
        The connection ends after so many bytes of what the broker sends.
    """
    address, node = address_of(node_id), cluster.nodes.get(node_id)
    said: Negotiated | FeatureGateError
    if node is None or not node.listens("broker"):
        said = ConnectFailed(address, "connecting", "refused")
    elif node.state == "paused":
        said = TimedOut(address, "waiting for ApiVersions")
    else:
        said = _negotiate(address, cluster.tells(node_id), cut_after)
    negotiated = said if isinstance(said, Negotiated) else None
    heard = ProbeResult(
        node_id=node_id,
        address=address,
        role="broker",
        response=negotiated.response if negotiated else None,
        version=negotiated.version if negotiated else None,
        failure=None if isinstance(said, Negotiated) else said,
        seconds=0.0,
    )
    return broker_answer(heard, answered_at=now)


def listed_brokers(cluster: Cluster, turn: int = 0) -> tuple[tuple[int, ...], bool] | None:
    """Return the brokers that the cluster names, and whether it names those that are down too (KIP-1073).

    Brokers of different releases differ in that, so it matters which one is asked; they take turns, by ``turn``.
    ``None`` where no broker speaks.
    """
    speaking = [node_id for node_id, node in cluster.nodes.items() if node.is_broker and node.state == "running"]
    if not speaking:
        return None
    key = DescribeClusterRequest.API_KEY
    asked = speaking[turn % len(speaking)]
    tells_fenced = cluster.tells(asked).api_ranges.get(key, (0, -1))[1] >= _FENCED_FROM
    return tuple(node_id for node_id, fenced in cluster.known.items() if tells_fenced or not fenced), tells_fenced


def view_of(cluster: Cluster, *, previous: View | None = None, now: float = 0.0) -> View:
    """Ask every broker that is registered once, and merge what they say; for ``StaticFeatures.show``."""
    return merge(
        (ask(cluster, node_id, now=now) for node_id in cluster.known),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        previous=previous,
        seen_at=now,
    )


class _Connection:
    """One connection to one broker: both ends of it, and the bytes between."""

    def __init__(self, tells: Tells, cut_after: int | None) -> None:
        self.session = Session(client_id="simulated", software=_SOFTWARE)
        self._tells = tells
        self._left = cut_after
        self._conversation = Conversation()
        self._frames = FrameReader()

    def next_event(self) -> Event | None:
        """Carry bytes to and fro until something has happened; ``None`` where nothing can any more."""
        while True:
            asked = self.session.data_to_send()
            for payload in self._frames.feed(asked):
                self._answer(self._conversation.answer(payload, self._tells, _DOOR))
            event = self.session.next_event()
            if event is not None or not asked:
                return event

    def _answer(self, data: bytes | None) -> None:
        """Deliver an answer as far as the connection lasts; ``None`` is a broker that closes it."""
        whole = data is not None and (self._left is None or len(data) <= self._left)
        sent = data or b""
        self.session.receive_data(sent if whole else sent[: self._left])
        if not whole:
            self.session.receive_eof()
        elif self._left is not None:
            self._left -= len(sent)


def _negotiate(address: Address, tells: Tells, cut_after: int | None) -> Negotiated | FeatureGateError:
    """Negotiate, and log in, as a client of a cluster with passwords does."""
    connection = _Connection(tells, cut_after)
    connection.session.negotiate()
    try:
        said = connection.next_event()
        if isinstance(said, Negotiated):
            problem = _log_in(connection, address)
            return said if problem is None else problem
    except (RemoteWireError, BrokerError) as error:
        return error
    return said.error if isinstance(said, Refused) else ConnectionLost(address, "waiting for ApiVersions")


def _log_in(connection: _Connection, address: Address) -> FeatureGateError | None:
    token = f"\0{_USER}\0{PASSWORD}".encode()
    for request in (SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=token)):
        connection.session.send(request)
        said = connection.next_event()
        if not isinstance(said, Reply):
            return ConnectionLost(address, f"waiting for {request.NAME}")
        assert isinstance(said.response, SaslHandshakeResponse | SaslAuthenticateResponse)
        if said.response.error_code:
            return AuthenticationFailed(address, "PLAIN", f"{request!r} was refused")
    return None
