"""One fake broker: what it reports, the faults of its next answers, and the handle for tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.config import Address
from featuregate.errors import ConnectFailed, FeatureGateError, TimedOut
from featuregate.net.probe import ProbeResult
from featuregate.testing.fakes.answers import APIS, NodeState, api_versions, configs_of, fail, write_answer
from featuregate.testing.fakes.listener import HOST, Listener, ReceivedRequest, Transmission
from featuregate.testing.fakes.releases import ReleaseFacts, release_facts, start_problem
from featuregate.wire.api_versions import ApiVersionsRequest
from featuregate.wire.cluster import Node

if TYPE_CHECKING:
    from featuregate.testing.fakes.cluster import FakeCluster
    from featuregate.testing.fakes.session import ServerSession
    from featuregate.wire.frames import RequestHeader
    from featuregate.wire.message import Request

_API_VERSIONS: Final = frozenset({"ApiVersions"})
_CLUSTER_APIS: Final = frozenset({"Metadata", "DescribeCluster"})
_ASKS: Final = ApiVersionsRequest(client_software_name="featuregate", client_software_version="fake")
_FIRST_PORT: Final = 9091


class FakeBroker:
    """The handle of one fake broker, from :meth:`featuregate.testing.FakeCluster.broker`.

    Every method may be called from any thread.

    What it reports stays until a method changes it. Each call of a method that ends in ``_once`` affects one answer, in
    the order of the calls.

    Attributes
    ----------
    node_id : int
        The id of the broker.
    host, port : str, int
        The address of its listener. It stays the same when the broker is stopped and started.
    running : bool
        Whether it runs, paused or not.
    problem : str
        Why it did not start, in Kafka's words; empty if it did.
    """

    def __init__(self, cluster: FakeCluster, state: NodeState, facts: ReleaseFacts) -> None:
        self.node_id = state.node_id
        self.host = HOST
        self.listener: Listener | None = None
        self.node = Node(node_id=state.node_id, host=HOST, port=_FIRST_PORT + state.node_id)
        """How the cluster lists it. Prepared, because every request needs the list of all nodes."""
        self.running, self.problem = True, ""
        self._cluster = cluster
        self._state = state
        self._facts = facts
        self._lagging = False
        self._paused = False
        self._faults: list[Fault] = []

    def __repr__(self) -> str:
        return f"<FakeBroker {self.node_id} at {self.address}>"

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def port(self) -> int:
        """The port of its listener; before the cluster is started, one that nothing listens on."""
        return self.node.port

    @property
    def release(self) -> tuple[int, ...]:
        """The release that it runs, as numbers."""
        return tuple(map(int, self._facts.release.split(".")))

    @property
    def supported(self) -> Mapping[str, tuple[int, int]]:
        """Feature name to the lowest and highest supported level. The cluster counts them while the broker is down."""
        return self._state.supported

    @property
    def alive(self) -> bool:
        """Whether it runs, and is not paused."""
        return self.running and not self._paused

    @property
    def state(self) -> NodeState:
        """What it reports now. A broker reports forwarded APIs only as far as the active controller serves them."""
        own = self._state.api_ranges is self._facts.ranges(self._state.role)
        return self._cluster.seen_by_clients(self._state) if own else self._state

    def probed(self) -> ProbeResult:
        """Return the result of a client that asks it now, without a network, passwords and faults of one answer."""
        address, response, version = Address(self.host, self.port), None, None
        failure: FeatureGateError | None = None
        if not self.running:
            failure = ConnectFailed(address, "connecting", "refused")
        elif self._paused:
            failure = TimedOut(address, "waiting for ApiVersions")
        else:
            state = self.state
            version = min(ApiVersionsRequest.VERSIONS[1], state.api_ranges[ApiVersionsRequest.API_KEY][1])
            response = api_versions(state, _ASKS, version)
        return ProbeResult(self.node_id, address, self._state.role, response, version, failure, seconds=0.0)

    # ------------------------------------------------------------------ what the broker reports

    def set(
        self,
        *,
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
        configs: Mapping[str, str] | None = None,
        fenced: bool | None = None,
    ) -> None:
        """Change what the broker reports. Parameters that are not given stay as they are.

        Parameters
        ----------
        api_ranges
            API key to lowest and highest version, for all APIs.
        supported
            Feature name to the lowest and highest supported level, for all features.
        finalized, epoch
            The finalized levels and their epoch, right or wrong. They stay until the cluster changes its levels, and
            after :meth:`lag` until :meth:`catch_up`. Epoch -1: the broker does not know the levels.
        cluster_id
            The cluster id that the broker reports.
        configs
            Name to value, for all configs that the broker tells (DescribeConfigs).
        fenced
            Whether the cluster lists the broker as registered and not in use. :meth:`stop` and :meth:`start` set it
            too; a real cluster fences a broker that is down after some seconds.
        """
        given = {"api_ranges": api_ranges, "supported": supported, "finalized": finalized, "epoch": epoch}
        with self._cluster.changed:
            self._change(cluster_id=cluster_id, configs=configs, **given)
            if fenced is not None:
                self.node = replace(self.node, is_fenced=fenced)

    def lag(self) -> None:
        """Read no news of the cluster: keep reporting these levels and this epoch until :meth:`catch_up`."""
        with self._cluster.changed:
            self._lagging = True

    def catch_up(self) -> None:
        """Read the news of the cluster again, and report the current levels at once."""
        with self._cluster.changed:
            self._lagging = False
            self.follow_cluster()

    def follow_cluster(self) -> None:
        """Report the levels of the cluster, unless the broker lags. Called by the cluster, which holds the lock."""
        if not self._lagging:
            self._change(finalized=self._cluster.finalized, epoch=self._cluster.epoch)

    # ------------------------------------------------------------------ whether the broker answers

    def stop(self) -> None:
        """Go down: refuse connections, reset open ones, and be fenced."""
        with self._cluster.changed:
            self.running = False
            self.node = replace(self.node, is_fenced=True)
        self._move(lambda listener: listener.shut())
        self._cluster.elect_again()

    def start(self, release: str | None = None) -> None:
        """Run again, with another release if one is given. The port stays the same, and a broker that lags still lags.

        A node that does not support the finalized levels stays down and fenced, as a real one does, and has a
        :attr:`problem`.
        """
        with self._cluster.changed:
            if release is not None:
                self._facts = facts = release_facts(release)
                ranges, configs = facts.ranges(self._state.role), configs_of(facts.release)
                self._change(api_ranges=ranges, supported=facts.supported, configs=configs)
            self.problem = start_problem(self._state.role, self.supported, self._cluster.finalized)
            if self.problem:
                return
            self.running = True
        self._move(lambda listener: listener.open())
        with self._cluster.changed:
            self.node = replace(self.node, is_fenced=False)
        self._cluster.elect_again()

    def pause(self) -> None:
        """Accept connections and answer nothing, as a broker that hangs."""
        with self._cluster.changed:
            self._paused = True
        self._cluster.elect_again()

    def resume(self) -> None:
        """Answer new requests. Requests that came while the broker was paused stay without an answer."""
        self._move(lambda listener: listener.forget())
        with self._cluster.changed:
            self._paused = False
        self._cluster.elect_again()

    # ------------------------------------------------------------------ faults of one answer

    def answers_once(
        self,
        *,
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Answer the next ApiVersions with these values. Parameters that are not given stay as they are.

        ``cluster_id`` is for the next answer to Metadata or DescribeCluster, which are the only ones that contain it.
        """
        if cluster_id is not None:
            self._add_fault(Fault(_CLUSTER_APIS, state={"cluster_id": cluster_id}))
        given = {"api_ranges": api_ranges, "supported": supported, "finalized": finalized, "epoch": epoch}
        if state := {name: value for name, value in given.items() if value is not None}:
            self._add_fault(Fault(_API_VERSIONS, state=state))

    def error_once(self, code: int, *, api: str = "ApiVersions") -> None:
        """Answer the next ApiVersions, DescribeCluster or DescribeConfigs with only this error code.

        Raises `ValueError`: answers of this API have no error code.
        """
        answer = fail(request_named(api), code)
        self._add_fault(Fault({api}, lambda _, header: Transmission(write_answer(answer, header))))

    def delay_once(self, seconds: float, *, api: str = "ApiVersions") -> None:
        """Answer the next request of this API late. Later requests of the connection wait too."""
        self._add_fault(Fault({api}, lambda right, _: right._replace(after=seconds)))

    def cut_once(self, *, after_bytes: int = 0, api: str = "ApiVersions") -> None:
        """Answer the next request of this API with the first bytes of the right answer, and close the connection."""
        self._add_fault(Fault({api}, lambda right, _: Transmission(right.data[:after_bytes], close=True)))

    def garbage_once(self, data: bytes, *, api: str = "ApiVersions") -> None:
        """Answer the next request of this API with exactly these bytes, and close the connection."""
        self._add_fault(Fault({api}, lambda *_: Transmission(data, close=True)))

    # ------------------------------------------------------------------ called by the listener

    def receive(self, session: ServerSession, payload: bytes) -> Transmission | None:
        """Log a request and return the answer; ``None``: not yet. Called in the thread of the loop."""
        with self._cluster.changed:
            self._cluster.log(self._request(session.read(payload)))
            return self.respond(session, payload)

    def respond(self, session: ServerSession, payload: bytes) -> Transmission | None:
        """Return the answer to a logged request; ``None``: not yet. Called in the thread of the loop."""
        with self._cluster.changed:
            if self._paused:
                return None
            header = session.read(payload)
            api = self._request(header).api
            fault = next((fault for fault in self._faults if api in fault.apis), None)
            state = replace(self.state, **fault.state) if fault else self.state
            controller = self._cluster.controller(self.node_id, state.role)
            data = session.answer(payload, state, self._cluster.members(), controller)
            if data == b"":  # the controller cannot answer yet: a fault waits for the answer too
                return None
            if fault is not None:
                self._faults.remove(fault)
        right = Transmission(data or b"", close=data is None or session.ended)
        return right if fault is None or header is None else fault.applied(right, header)

    def _move(self, move: Callable[[Listener], Coroutine[Any, Any, None]]) -> None:
        """Move the listener; a cluster that was not started has none."""
        if self.listener is not None:
            self._cluster.loop.run(move(self.listener))

    def _request(self, header: RequestHeader | None) -> ReceivedRequest:
        if header is None:
            return ReceivedRequest(self.node_id, "SaslToken", -1, None)
        known = APIS.get(header.api_key)
        api = known.NAME if known else f"API {header.api_key}"
        return ReceivedRequest(self.node_id, api, header.api_version, header.client_id)

    def _add_fault(self, fault: Fault) -> None:
        """Keep a fault; ValueError where fake brokers do not know its API."""
        for api in fault.apis:
            request_named(api)
        with self._cluster.changed:
            self._faults.append(fault)

    def _change(self, **state: Any) -> None:
        self._state = replace(self._state, **{name: value for name, value in state.items() if value is not None})


class Fault(NamedTuple):
    """A fault of one answer to one of these APIs."""

    apis: Collection[str]
    applied: Callable[[Transmission, RequestHeader], Transmission] = lambda right, _: right
    """Makes what is sent of the right answer, which may be to close the connection."""
    state: Mapping[str, Any] = {}
    """What the broker reports otherwise in this answer."""


def request_named(api: str) -> type[Request[Any]]:
    """Return the request of an API by its name; ValueError where fake brokers do not know it."""
    known = {request.NAME: request for request in APIS.values()}
    if api not in known:
        raise ValueError(f"fake brokers do not know {api!r}, only {', '.join(known)}")
    return known[api]
