"""A fake Kafka cluster on the loopback interface, which speaks the real protocol. For tests of features and gates.

Any client can be pointed at it: it negotiates, says which brokers there are, and reports what each can do and what the
cluster has finalized. It has no topics. Each broker can be made to tell something else, to be wrong, slow or gone, at
any moment of a test.
"""

from __future__ import annotations

import threading
from base64 import urlsafe_b64encode
from collections import deque
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import uuid4

from featuregate.errors import ClosedError
from featuregate.testing.fakes.answers import ClusterMembers, NodeState
from featuregate.testing.fakes.broker import FakeBroker, ReceivedRequest
from featuregate.testing.fakes.listener import LoopThread
from featuregate.testing.fakes.releases import release_facts

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from featuregate.roles import Role
    from featuregate.testing.fakes.answers import Controller
    from featuregate.testing.fakes.releases import ReleaseFacts

__all__ = ["FakeBroker", "FakeCluster", "ReceivedRequest"]

_FIRST_CONTROLLER = 3000
_LOG_SIZE = 100_000


class FakeCluster:
    """Loopback brokers that answer ApiVersions, Metadata, DescribeCluster and SASL/PLAIN as real ones do.

    Every broker has its own port of 127.0.0.1, which is the same from entering to leaving the ``with``. Node ids of
    brokers start at 1, of controllers at 3000.

    Parameters
    ----------
    brokers
        How many brokers.
    controllers
        How many controllers with a listener of their own; ``bootstrap_controllers`` names them.
    release
        What all nodes run at first, such as ``"3.9"``: it gives API ranges, supported and finalized levels.
    api_ranges, supported
        Instead of those of the release: API key to versions, feature name to levels, each lowest and highest.
    finalized, epoch
        What the cluster has finalized at first, and its epoch; -1 for brokers that do not know any.
    cluster_id
        A random one by default, so that what one test latched says nothing to the next.
    passwords
        User name to password: brokers want SASL/PLAIN before they answer anything but ApiVersions.
    tls
        Listeners speak TLS with this server-side context.

    Raises
    ------
    ValueError
        No broker of this release was captured, or it has no controllers to ask.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        release: str = "4.2",
        api_ranges: Mapping[int, tuple[int, int]] | None = None,
        supported: Mapping[str, tuple[int, int]] | None = None,
        finalized: Mapping[str, int] | None = None,
        epoch: int | None = None,
        cluster_id: str | None = None,
        passwords: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        facts = release_facts(release)
        self._facts = replace(
            facts,
            api_ranges=facts.api_ranges if api_ranges is None else {**facts.api_ranges, "broker": api_ranges},
            supported=facts.supported if supported is None else supported,
        )
        if controllers:
            facts.ranges("controller")
        self.cluster_id = cluster_id or _random_id()
        self.finalized: Mapping[str, int] = MappingProxyType(dict(facts.finalized if finalized is None else finalized))
        self.epoch = facts.epoch if epoch is None else epoch
        self.changed = threading.Condition(threading.RLock())
        self._first = self.finalized, self.epoch
        self._passwords = passwords
        self._tls = tls
        self._wanted = brokers, controllers
        self._brokers: dict[int, FakeBroker] = {}
        self._controllers: dict[int, FakeBroker] = {}
        self._requests: deque[ReceivedRequest] = deque(maxlen=_LOG_SIZE)
        self._loop: LoopThread | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<FakeCluster {self.cluster_id} of {len(self._brokers)} brokers>"

    # ------------------------------------------------------------------ life

    def start(self) -> Self:
        """Listen. Starting twice is starting once; a cluster that was closed stays closed."""
        with self.changed:
            if self._closed:
                raise ClosedError("this fake cluster has been closed; make a new one")
            if self._loop is not None:
                return self
            self._loop = LoopThread("featuregate-fake-cluster")
        try:
            self._listen()
        except BaseException:  # too many open files: give back those that there are
            self.close()
            raise
        return self

    def close(self) -> None:
        """Give back every port and the thread. Closing twice is closing once."""
        with self.changed:
            self._closed, loop, self._loop = True, self._loop, None
            nodes = self._everybody()
        if loop is not None:
            try:
                loop.run(_all(node.listener.release() for node in nodes))
            finally:
                loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ who there is

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, with commas between: what goes into ``bootstrap.servers``."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """``host:port`` of every controller."""
        return ",".join(controller.address for controller in self.controllers)

    @property
    def brokers(self) -> tuple[FakeBroker, ...]:
        """The registered brokers, by node id."""
        with self.changed:
            return tuple(self._brokers.values())

    @property
    def controllers(self) -> tuple[FakeBroker, ...]:
        """The controllers, by node id."""
        with self.changed:
            return tuple(self._controllers.values())

    def broker(self, node_id: int) -> FakeBroker:
        """Return the handle of a broker or a controller."""
        with self.changed:
            return {**self._controllers, **self._brokers}[node_id]

    def add_broker(self, node_id: int | None = None, *, release: str | None = None) -> FakeBroker:
        """Register one more broker and start it, by default with the next free id and the cluster's first release."""
        with self.changed:
            chosen = max(self._brokers, default=0) + 1 if node_id is None else node_id
            if chosen in self._brokers or chosen in self._controllers:
                raise ValueError(f"there is a node {chosen} already")
            facts = self._facts if release is None else release_facts(release)
            broker = self._make(chosen, facts)
            self._brokers[chosen] = broker
            self._brokers = dict(sorted(self._brokers.items()))
        self.loop.run(broker.listener.open())
        return broker

    def remove_broker(self, node_id: int) -> None:
        """Unregister a broker, and give its port back: it is not listed any more, not even as fenced."""
        with self.changed:
            broker = self._brokers.pop(node_id)
        self.loop.run(broker.listener.release())

    # ------------------------------------------------------------------ what the cluster agrees on

    def finalize(self, levels: Mapping[str, int]) -> None:
        """Finalize these levels, 0 for none, at a higher epoch; brokers that do not lag tell it at once.

        Up or down, and whether or not brokers support it: nothing is checked, because clusters that are wrong have to
        be made too.
        """
        with self.changed:
            merged = {**self.finalized, **levels}
            self.finalized = MappingProxyType({name: level for name, level in merged.items() if level > 0})
            self.advance_epoch()

    def advance_epoch(self, by: int = 1) -> None:
        """Let the epoch rise while nothing else changes, as KRaft's does twice a second."""
        with self.changed:
            self.epoch += by
            for node in self._everybody():
                node.follow_cluster()

    def rebuild(self, *, cluster_id: str | None = None) -> None:
        """Become another cluster under the same addresses: another cluster id, a low epoch, what it finalized at first.

        Every broker restarts, so connections are reset; those that lagged do not any more.
        """
        with self.changed:
            self.cluster_id = cluster_id or _random_id()
            self.finalized, self.epoch = self._first
            for node in self._everybody():
                node.set(cluster_id=self.cluster_id)
                node.catch_up()
        self.loop.run(_all(node.listener.hang_up() for node in self._everybody()))

    # ------------------------------------------------------------------ what was asked

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """What was asked so far, oldest first; the last 100 000 requests."""
        with self.changed:
            return tuple(self._requests)

    def wait_for(self, done: Callable[[Sequence[ReceivedRequest]], bool], timeout: float) -> bool:
        """Block until ``done(requests)``, looked at after each request, for ``timeout`` seconds at most.

        Returns whether it is. A request is logged when the broker reads it, which is before it answers; a silent broker
        reads one on each connection.
        """
        with self.changed:
            return self.changed.wait_for(lambda: done(self._requests), timeout)

    # ------------------------------------------------------------------ the brokers' side

    @property
    def loop(self) -> LoopThread:
        """The thread of the listeners. For the brokers."""
        if self._loop is None:
            raise ClosedError("this fake cluster is not running: use it inside its with block")
        return self._loop

    def members(self) -> ClusterMembers:
        """Say which nodes there are. For the brokers."""
        return ClusterMembers(
            brokers=tuple(broker.node for broker in self._brokers.values()),
            controllers=tuple(controller.node for controller in self._controllers.values()),
            passwords=self._passwords,
        )

    def controller(self, node_id: int, role: Role) -> Controller | None:  # noqa: ARG002 - nobody checks updates here
        """Answer no UpdateFeatures: see :class:`SimulatedCluster`. For the brokers."""
        return None

    def log(self, asked: ReceivedRequest) -> None:
        """Remember a request, and wake who waits for it. For the brokers."""
        self._requests.append(asked)
        self.changed.notify_all()

    def _listen(self) -> None:
        brokers, controllers = self._wanted
        with self.changed:
            for node_id in range(1, brokers + 1):
                self._brokers[node_id] = self._make(node_id, self._facts)
            for node_id in range(_FIRST_CONTROLLER, _FIRST_CONTROLLER + controllers):
                self._controllers[node_id] = self._make(node_id, self._facts, role="controller")
        self.loop.run(_all(node.listener.open() for node in self._everybody()))

    def _everybody(self) -> list[FakeBroker]:
        return [*self._brokers.values(), *self._controllers.values()]

    def _make(self, node_id: int, facts: ReleaseFacts, *, role: Role = "broker") -> FakeBroker:
        state = NodeState(
            node_id=node_id,
            role=role,
            cluster_id=self.cluster_id,
            api_ranges=facts.ranges(role),
            supported=facts.supported,
            finalized=self.finalized,
            epoch=self.epoch,
        )
        return FakeBroker(self, state, tls=self._tls)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    for each in work:
        await each


def _random_id() -> str:
    """Make a cluster id as Kafka's storage tool does: the 22 characters of a random UUID in base64."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
