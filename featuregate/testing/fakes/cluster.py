"""A fake Kafka cluster on the loopback interface that speaks the real protocol, for tests of features and gates.

Any client can connect to it. The cluster negotiates versions, lists its brokers, reports what each supports and which
levels are finalized, and updates levels by the rules of Kafka's controllers. It has no topics. A test can change what
each broker reports, and make it wrong, slow or unreachable, at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from featuregate.errors import ClosedError
from featuregate.testing.cluster_ids import random_cluster_id
from featuregate.testing.fakes.answers import NodeState, configs_of
from featuregate.testing.fakes.broker import FakeBroker
from featuregate.testing.fakes.listener import Listener, LoopThread, ReceivedRequest
from featuregate.testing.fakes.nodes import FakeNodes
from featuregate.testing.fakes.releases import ReleaseFacts, Service, release_facts, service_named

if TYPE_CHECKING:
    import ssl

    from featuregate.roles import Role

__all__ = ["FakeBroker", "FakeCluster", "ReceivedRequest"]

_FIRST_CONTROLLER = 3000
_LOG_SIZE = 100_000
_NOT_RUNNING = "this fake cluster is not running: use it inside its with block"


class FakeCluster(FakeNodes):
    """Loopback brokers that answer ApiVersions, Metadata, DescribeCluster, UpdateFeatures and SASL/PLAIN as real ones.

    Every broker has a port of 127.0.0.1 of its own, which stays the same inside the ``with`` block. Node ids of brokers
    start at 1, those of controllers at 3000. Outside of it the cluster has no sockets: :meth:`view` returns what a poll
    would return, and all other methods work, too. Raises `ValueError`: no broker of this release was captured, or it
    has no controllers to ask; or there is no such service.

    Parameters
    ----------
    brokers
        The number of brokers.
    controllers
        The number of controllers with a listener of their own; ``bootstrap_controllers`` has their addresses. Without
        any, the first broker that runs decides as the active controller.
    release
        The release that all nodes run at first, such as ``"3.9"``, with its API ranges, supported and finalized levels.
    service
        Another service than Apache Kafka, or a proxy, in place of ``release``: ``"event-hubs"``, ``"redpanda"``,
        ``"kroxylicious"``, ``"msk-proxy"`` or ``"kafka-proxy"``, as public reports describe it.
    api_ranges, supported
        These in the place of the release's: API key to versions, feature name to levels, lowest and highest each.
    finalized, epoch
        The finalized levels at first, and their epoch; -1 for brokers that do not know any.
    cluster_id
        By default random, so that latches of one test do not affect the next.
    passwords
        User name to password. Brokers require SASL/PLAIN for all requests except ApiVersions.
    tls
        The server-side TLS context of the listeners.
    port
        The port of the first broker; the others have the next ones. By default each has any free port.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        release: str = "4.2",
        service: str | None = None,
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
        passwords: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        port: int | None = None,
    ) -> None:
        self._service = Service(release=release) if service is None else service_named(service)
        self._tells_configs = service is None
        facts = self._service.facts()
        self._facts = replace(
            facts,
            api_ranges=facts.api_ranges if api_ranges is None else {**facts.api_ranges, "broker": api_ranges},
            supported=facts.supported if supported is None else supported,
        )
        if controllers:
            facts.ranges("controller")
        super().__init__(
            cluster_id or random_cluster_id(),
            facts.finalized if finalized is None else finalized,
            facts.epoch if epoch is None else epoch,
            passwords,
        )
        self._first = self.finalized, self.epoch
        self._tls = tls
        self._port = port
        self._requests: deque[ReceivedRequest] = deque(maxlen=_LOG_SIZE)
        self._loop: LoopThread | None = None
        self._closed = False
        for node_id in range(1, brokers + 1):
            self._brokers[node_id] = self._new_node(node_id, self._facts)
        for node_id in range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + controllers):
            self._controllers[node_id] = self._new_node(node_id, self._facts, role="controller")
        self.elect_again()

    def __repr__(self) -> str:
        return f"<FakeCluster {self.cluster_id} of {len(self._brokers)} brokers>"

    # ------------------------------------------------------------------ life

    def start(self) -> Self:
        """Open the listeners. A second call does nothing. A closed cluster cannot be started again."""
        with self.changed:
            if self._closed:
                raise ClosedError("this fake cluster has been closed; make a new one")
            if self._loop is not None:
                return self
            self._loop = LoopThread("featuregate-fake-cluster")
        try:
            self._listen()
        except BaseException:  # too many open files: close those that are open
            self.close()
            raise
        return self

    def close(self) -> None:
        """Release all ports and the thread. A second call does nothing."""
        with self.changed:
            self._closed, loop, self._loop = True, self._loop, None
            nodes = self._all_nodes()
        if loop is not None:
            try:
                loop.run_all(node.listener.release() for node in nodes if node.listener is not None)
            finally:
                loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ nodes

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, separated by commas, for ``bootstrap.servers``."""
        if self._loop is None and not self._closed:
            raise ClosedError(_NOT_RUNNING)
        return ",".join(broker.address for broker in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """``host:port`` of every controller."""
        return ",".join(controller.address for controller in self.controllers)

    def add_broker(self, node_id: int | None = None, *, release: str | None = None) -> FakeBroker:
        """Register and start one more broker, by default with the next free id and the cluster's first release."""
        with self.changed:
            chosen = max(self._brokers, default=0) + 1 if node_id is None else node_id
            if chosen in self._brokers or chosen in self._controllers:
                raise ValueError(f"there is a node {chosen} already")
            facts = self._facts if release is None else release_facts(release)
            broker = self._new_node(chosen, facts)
            self._brokers[chosen] = broker
            self._brokers = dict(sorted(self._brokers.items()))
            if self._loop is not None:
                self._listen_at(broker)
        broker.running = False
        broker.start()
        return broker

    def remove_broker(self, node_id: int) -> None:
        """Unregister a broker and release its port. The cluster no longer lists it, not even as fenced."""
        with self.changed:
            broker = self._brokers.pop(node_id)
            broker.running = False
        if broker.listener is not None:
            self.loop.run(broker.listener.release())

    def roll(self, node_id: int, release: str) -> None:
        """Stop a node, and start it with another release, newer or older. It stays down if it cannot run the levels."""
        node = self.broker(node_id)
        release_facts(release).ranges(node.state.role)  # before it stops: there is such a release, with such nodes
        node.stop()
        node.start(release)

    def stop(self, node_id: int) -> None:
        """Stop a node: it refuses connections. A broker is fenced; controllers elect another one if a majority runs."""
        self.broker(node_id).stop()

    def rebuild(self, cluster_id: str | None = None) -> None:
        """Become another cluster at the same addresses, with another cluster id, and the first levels and epoch.

        With its own cluster id, it is restored from a backup. Every broker restarts: connections are reset, and lagging
        brokers catch up.
        """
        with self.changed:
            self.cluster_id = cluster_id or random_cluster_id()
            self.finalized, self.epoch = self._first
            for node in self._all_nodes():
                node.set(cluster_id=self.cluster_id)
                node.catch_up()
        if self._loop is not None:
            self._loop.run_all(node.listener.hang_up() for node in self._all_nodes() if node.listener is not None)

    # ------------------------------------------------------------------ received requests

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """The received requests, oldest first; at most the last 100 000."""
        with self.changed:
            return tuple(self._requests)

    def wait_for(self, done: Callable[[Sequence[ReceivedRequest]], bool], timeout: float) -> bool:
        """Block until ``done(requests)`` is true, checked after each request, for at most ``timeout`` seconds.

        Returns whether it is true. A broker logs a request before it answers. A paused broker reads one request of each
        connection.
        """
        with self.changed:
            return self.changed.wait_for(lambda: done(self._requests), timeout)

    # ------------------------------------------------------------------ called by the brokers

    @property
    def loop(self) -> LoopThread:
        """The thread of the listeners. Used by the brokers."""
        if self._loop is None:
            raise ClosedError(_NOT_RUNNING)
        return self._loop

    def elect_again(self) -> None:
        """Elect a controller, now that a node has started or stopped. Called by the brokers."""
        if self.controller_id is not None and self._waiting and self._loop is not None:
            self._waiting = False
            self._loop.run_all(node.listener.go_on() for node in self._all_nodes() if node.listener is not None)

    def log(self, request: ReceivedRequest) -> None:
        """Log a request, and wake threads that wait for one. Called by the brokers."""
        self._requests.append(request)
        self.changed.notify_all()

    def _listen(self) -> None:
        with self.changed:
            for node in self._all_nodes():
                fixed = self._port is not None and node.node_id in self._brokers
                self._listen_at(node, port=(self._port or 0) + node.node_id - 1 if fixed else 0)
        self.loop.run_all(node.listener.open() for node in self._all_nodes() if node.listener and node.running)

    def _listen_at(self, node: FakeBroker, port: int = 0) -> None:
        node.listener = Listener(node, self._tls, port)
        node.node = replace(node.node, port=node.listener.port)

    def _new_node(self, node_id: int, facts: ReleaseFacts, *, role: Role = "broker") -> FakeBroker:
        state = NodeState(
            node_id=node_id,
            role=role,
            cluster_id=self.cluster_id,
            api_ranges=facts.ranges(role),
            supported=facts.supported,
            finalized=self.finalized,
            epoch=self.epoch,
            configs=configs_of(facts.release) if self._tells_configs else {},
            service=self._service,
        )
        return FakeBroker(self, state, facts)
