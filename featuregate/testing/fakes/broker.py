"""One fake broker: what it reports, the faults of its next answers, and the handle for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from featuregate.testing.fakes.answers import APIS, fail
from featuregate.testing.fakes.listener import HOST, Listener, Transmission
from featuregate.testing.fakes.releases import release_facts
from featuregate.wire.cluster import Node
from featuregate.wire.frames import write_response

if TYPE_CHECKING:
    import ssl
    import threading
    from collections.abc import Mapping

    from featuregate.roles import Role
    from featuregate.testing.fakes.answers import ClusterMembers, Controller, NodeState, ServerSession
    from featuregate.testing.fakes.listener import LoopThread
    from featuregate.wire.frames import RequestHeader

__all__ = ["FakeBroker", "Home", "ReceivedRequest"]

_API_VERSIONS: Final = frozenset({"ApiVersions"})
_ROSTER_APIS: Final = frozenset({"Metadata", "DescribeCluster"})


class ReceivedRequest(NamedTuple):
    """One request, as a fake broker read it."""

    broker: int
    """Node id of who was asked."""
    api: str
    """Kafka's name, such as ``ApiVersions``; ``API 999`` for what fake brokers do not speak, ``SaslToken`` for a token
    that has no header."""
    version: int
    """-1 for such a token."""
    client_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """What goes wrong with one answer to one of these APIs."""

    apis: frozenset[str]
    state: Mapping[str, Any] = field(default_factory=dict)
    error_code: int | None = None
    garbage: bytes | None = None
    cut_after: int | None = None
    delay: float = 0.0


class Home(Protocol):
    """What a fake broker knows of its cluster. All but ``loop`` is used with ``changed`` held."""

    changed: threading.Condition
    finalized: Mapping[str, int]
    epoch: int

    @property
    def loop(self) -> LoopThread:
        """The thread of the listeners."""
        ...

    def members(self) -> ClusterMembers:
        """Say which nodes there are."""
        ...

    def log(self, asked: ReceivedRequest) -> None:
        """Remember a request."""
        ...

    def controller(self, node_id: int, role: Role) -> Controller | None:
        """Give what answers UpdateFeatures at this node's listener, where anything does."""
        ...


class FakeBroker:
    """The handle of one fake broker, from :meth:`FakeCluster.broker`. Every method may be called from any thread.

    What it reports stays until a method changes it. Each call of a method that ends in ``_once`` affects one answer, in
    the order of the calls.

    Attributes
    ----------
    node_id : int
        The id of the broker.
    host, port : str, int
        Where it listens; the same when it is stopped and started again.
    """

    def __init__(self, home: Home, state: NodeState, *, tls: ssl.SSLContext | None) -> None:
        self.node_id = state.node_id
        self.host = HOST
        self.listener = Listener(self, tls)
        self.port = self.listener.port
        self.node = Node(node_id=state.node_id, host=HOST, port=self.port)
        """How the cluster lists it. Prepared, because every request needs the list of all nodes."""
        self._home = home
        self._state = state
        self._lagging = False
        self._paused = False
        self._faults: list[_Fault] = []

    def __repr__(self) -> str:
        return f"<FakeBroker {self.node_id} at {self.address}>"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    # ------------------------------------------------------------------ what it reports

    def set(
        self,
        *,
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
        fenced: bool | None = None,
    ) -> None:
        """Tell something else from now on; what is not given stays.

        Parameters
        ----------
        api_ranges
            API key to lowest and highest version: all of them.
        supported
            Feature name to the lowest and the highest level that this broker can run: all of them.
        finalized, epoch
            Its finalized levels and their epoch, true or not. They hold until the cluster moves on, and longer
            after :meth:`lag`. Epoch -1 is a broker that does not know.
        cluster_id
            The cluster that it says it belongs to.
        fenced
            Whether the cluster lists it as registered and not in use. :meth:`stop` and :meth:`start` set it too; real
            clusters notice after some seconds that a broker is gone.
        """
        given = {"api_ranges": api_ranges, "supported": supported, "finalized": finalized, "epoch": epoch}
        with self._home.changed:
            self._change(cluster_id=cluster_id, **given)
            if fenced is not None:
                self.node = replace(self.node, is_fenced=fenced)

    def upgrade(self, release: str) -> None:
        """Run another release, newer or older: its API ranges and supported levels, on new connections.

        What is finalized does not change: see :meth:`FakeCluster.finalize`.
        """
        facts = release_facts(release)
        with self._home.changed:
            self._change(api_ranges=facts.ranges(self._state.role), supported=facts.supported)
        self._home.loop.run(self.listener.hang_up())

    def lag(self) -> None:
        """Hear nothing new of the cluster: keep telling these levels and this epoch, until :meth:`catch_up`."""
        with self._home.changed:
            self._lagging = True

    def catch_up(self) -> None:
        """Hear of the cluster again, and tell at once what is true now."""
        with self._home.changed:
            self._lagging = False
            self.follow_cluster()

    def follow_cluster(self) -> None:
        """Take over what the cluster has finalized, unless it lags. For the cluster, which holds the lock."""
        if not self._lagging:
            self._change(finalized=self._home.finalized, epoch=self._home.epoch)

    def set_state(self, state: NodeState, *, fenced: bool, paused: bool) -> None:
        """Tell this from now on. For a simulated cluster, which holds the lock."""
        self._state, self._paused = state, paused
        self.node = replace(self.node, is_fenced=fenced)

    # ------------------------------------------------------------------ whether it answers

    def stop(self) -> None:
        """Be down: refuse connections, reset those that there are, and be fenced."""
        with self._home.changed:
            self.node = replace(self.node, is_fenced=True)
        self._home.loop.run(self.listener.shut())

    def start(self) -> None:
        """Be up again, on the same port."""
        self._home.loop.run(self.listener.open())
        with self._home.changed:
            self.node = replace(self.node, is_fenced=False)

    def pause(self) -> None:
        """Accept connections, and answer nothing, as a broker that hangs."""
        with self._home.changed:
            self._paused = True

    def resume(self) -> None:
        """Answer again; what was asked meanwhile stays without an answer."""
        self._home.loop.run(self.listener.forget())
        with self._home.changed:
            self._paused = False

    # ------------------------------------------------------------------ what goes wrong once

    def answers_once(
        self,
        *,
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Answer the next ApiVersions with this; what is not given is as ever.

        ``cluster_id`` is told in the next answer to Metadata or DescribeCluster, the only ones in which it is.
        """
        if cluster_id is not None:
            self._add_fault(_Fault(apis=_ROSTER_APIS, state={"cluster_id": cluster_id}))
        given = {"api_ranges": api_ranges, "supported": supported, "finalized": finalized, "epoch": epoch}
        if state := {name: value for name, value in given.items() if value is not None}:
            self._add_fault(_Fault(apis=_API_VERSIONS, state=state))

    def error_once(self, code: int, *, api: str = "ApiVersions") -> None:
        """Answer the next ApiVersions or DescribeCluster with this error code and nothing else.

        Raises
        ------
        ValueError
            The answers of this API have no error code.
        """
        fail(APIS[_key(api)], 0, code)
        self._add_fault(_Fault(apis=frozenset({api}), error_code=code))

    def delay_once(self, seconds: float, *, api: str = "ApiVersions") -> None:
        """Answer the next request of this API late. What comes behind it on the connection waits too."""
        self._add_fault(_Fault(apis=_one(api), delay=seconds))

    def cut_once(self, *, after_bytes: int = 0, api: str = "ApiVersions") -> None:
        """Answer the next request of this API with the first bytes of a good answer, and close the connection."""
        self._add_fault(_Fault(apis=_one(api), cut_after=after_bytes))

    def garbage_once(self, data: bytes, *, api: str = "ApiVersions") -> None:
        """Answer the next request of this API with exactly these bytes, and close the connection."""
        self._add_fault(_Fault(apis=_one(api), garbage=data))

    # ------------------------------------------------------------------ the listener's side

    def receive(self, session: ServerSession, payload: bytes) -> Transmission | None:
        """Log a request, and decide what becomes of it; ``None`` for not now. Called by the listener, in its thread."""
        with self._home.changed:
            self._home.log(self._asked(session.read(payload)))
            return self.respond(session, payload)

    def respond(self, session: ServerSession, payload: bytes) -> Transmission | None:
        """Decide what becomes of a request that is logged. Called by the listener, in its thread."""
        with self._home.changed:
            if self._paused:
                return None
            header = session.read(payload)
            fault = self._fault_for(self._asked(header).api)
            state = replace(self._state, **fault.state) if fault else self._state
            controller = self._home.controller(self.node_id, state.role)
            data = session.answer(payload, state, self._home.members(), controller)
            if data == b"":  # a controller that cannot answer: whatever goes wrong with its answer can wait too
                return None
            if fault is not None:
                self._faults.remove(fault)
        if fault is None or header is None:
            return Transmission(b"", close=True) if data is None else Transmission(data, close=session.ended)
        return _apply_fault(fault, header, data)

    def _asked(self, header: RequestHeader | None) -> ReceivedRequest:
        if header is None:
            return ReceivedRequest(self.node_id, "SaslToken", -1, None)
        known = APIS.get(header.api_key)
        api = known.NAME if known else f"API {header.api_key}"
        return ReceivedRequest(self.node_id, api, header.api_version, header.client_id)

    def _fault_for(self, api: str) -> _Fault | None:
        return next((fault for fault in self._faults if api in fault.apis), None)

    def _add_fault(self, fault: _Fault) -> None:
        with self._home.changed:
            self._faults.append(fault)

    def _change(self, **state: Any) -> None:
        self._state = replace(self._state, **{name: value for name, value in state.items() if value is not None})


def _apply_fault(fault: _Fault, header: RequestHeader, data: bytes | None) -> Transmission:
    """Spoil an answer; ``None`` is one that closes the connection by itself."""
    if fault.garbage is not None:
        return Transmission(fault.garbage, close=True)
    if fault.error_code is not None:
        response, version = fail(APIS[header.api_key], header.api_version, fault.error_code)
        return Transmission(write_response(response, version, header.correlation_id))
    if data is None:
        return Transmission(b"", close=True, after=fault.delay)
    if fault.cut_after is not None:
        return Transmission(data[: fault.cut_after], close=True)
    return Transmission(data, after=fault.delay)


def _one(api: str) -> frozenset[str]:
    _key(api)
    return frozenset({api})


def _key(api: str) -> int:
    """Return the key of an API that fake brokers answer to."""
    keys = {request.NAME: key for key, request in APIS.items()}
    if api in keys:
        return keys[api]
    raise ValueError(f"fake brokers do not answer to {api!r}, only to {', '.join(keys)}")
