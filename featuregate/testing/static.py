"""Features without a network: a discoverer with views that the test sets, for unit tests of both branches of an app.

The decisions are those of the production code, so that a test that passes here also passes with brokers that answer the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self

from featuregate.catalog import METADATA_VERSION
from featuregate.errors import ClosedError, DiscoveryError
from featuregate.excluded_apis import ExcludedApis, excluded_apis
from featuregate.gating.decisions import Decision, GateVerdict, Reason
from featuregate.gating.store import Store
from featuregate.polling.discoverer import Discoverer
from featuregate.sources.source import MergedView
from featuregate.testing.fakes.answers import configs_of
from featuregate.testing.fakes.releases import release_facts
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, Failure, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge
from featuregate.wire.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from featuregate.gating.gates import Gate

_FOR_EVER: Final = 1e12
"""Seconds between two polls: views do not grow stale, and all time counts for burn-ins."""
_API_VERSIONS: Final = ApiVersionsRequest.API_KEY
_ASKED_VERSION: Final = ApiVersionsRequest.VERSIONS[1]


class StaticFeatures(Discoverer):
    """A :class:`~featuregate.Discoverer` without a network: the test sets its view.

    It has no thread, opens no socket, and needs no ``with``. Waits return at once.

    Parameters
    ----------
    view
        The first view, such as one of :func:`release_view`; ``None``: no broker has answered yet.
    exclude_apis
        As for :class:`~featuregate.BrokerSource`.
    """

    def __init__(self, view: View | None = None, *, exclude_apis: ExcludedApis | str | None = None) -> None:
        self._now = 0.0
        super().__init__(source=_NoSource(excluded_apis(exclude_apis)), interval=_FOR_EVER, clock=lambda: self._now)
        if view is not None:
            self.show(view)

    def _make_store(self, **options: Any) -> Store:
        self._forcing = _ForcingStore(**options)
        return self._forcing

    def __repr__(self) -> str:
        return f"<StaticFeatures over {self.view!r}>"

    def show(self, view: View) -> None:
        """Set the view as a poll does: update gates and run callbacks of ``on_change`` before it returns.

        The rules are those of every poll: latches stay, and so do the finalized levels of a higher epoch while the
        cluster id is the same.
        """
        if not isinstance(view, View):
            raise TypeError(f"a view is shown, such as release_view('4.2'), and not {view!r}")
        self._poller.apply(MergedView(view=view))

    def advance(self, time: timedelta) -> None:
        """Let time pass, as with polls that all show the same view: the burn-ins of gates with ``open_after`` count it.

        Raises `ValueError`: the time is negative.
        """
        if time < timedelta(0):
            raise ValueError(f"time goes on, and not back by {-time}")
        for seconds in (0.0, time.total_seconds()):  # a burn-in counts from one poll to the next
            self._now += seconds
            if self.view is not None:
                self._poller.apply(MergedView(view=self.view))

    def force_open(self, *gates: str) -> None:
        """Keep the gates with these names open whatever the view is, including gates that are created later."""
        self._forcing.force(gates, "open")

    def force_closed(self, *gates: str) -> None:
        """Keep the gates with these names closed, whatever the view is and whatever was latched."""
        self._forcing.force(gates, "closed")

    def start(self) -> Self:
        """Return the features. There is nothing to start."""
        if self._poller.state.closed:
            raise ClosedError("these features have been closed; make new ones")
        return self

    async def __aenter__(self) -> Self:
        return self.start()

    def refresh(self, timeout: float | None = None) -> View:  # noqa: ARG002 - the discoverer's signature
        """Return the view. Raises `DiscoveryError`: there is no view."""
        self.start()
        if self.view is None:
            raise DiscoveryError([])
        return self.view

    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:  # noqa: ARG002 - see refresh
        """Return ``done()`` at once: waiting would change nothing."""
        return super().wait_until(done, 0)


class _NoSource:
    """A source without a cluster: the test sets the views."""

    timeout = 0.0

    def __init__(self, excluded: ExcludedApis) -> None:
        self.exclude_apis = excluded

    async def fetch(self) -> MergedView:
        """Raise."""
        raise DiscoveryError([])


class _ForcingStore(Store):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._forced: dict[str, GateVerdict] = {}

    def force(self, gates: Iterable[str], verdict: GateVerdict) -> None:
        """Force the gates with these names, existing ones at once."""
        with self.changing():
            self._forced |= dict.fromkeys(gates, verdict)
            events = self._decide_all([gate for gate in self.gates() if gate.name in self._forced])
        self.hooks.notify(*events)

    def add_gate(self, name: str, make: Callable[[], Gate]) -> Gate:
        """Add a gate, and decide it even without a view."""
        gate = super().add_gate(name, make)
        if name in self._forced:
            self.force([name], self._forced[name])
        return gate

    def _decide(self, gate: Gate) -> Decision:
        verdict = self._forced.get(gate.name)
        if verdict is None:
            return super()._decide(gate)
        return Decision(
            verdict=verdict,
            requirement=str(gate.requirement),
            reasons=(Reason("the test", None, None, verdict, f"holds this gate {verdict}"),),
            cluster_id=self.view.cluster_id if self.view else None,
            epoch=self.view.epoch if self.view else -1,
            policy=gate.policy,
        )


def release_view(
    *releases: str,
    finalized: Mapping[str, int] | None = None,
    epoch: int | None = None,
    silent: Collection[int] = (),
    cluster_id: str = "static",
) -> View:
    """Return the view of a cluster with one broker of each release, which is in a roll if they differ.

    Raises `ValueError`: no broker of such a release was captured.

    Parameters
    ----------
    releases
        Such as ``"3.9", "3.9", "4.2"``. Node ids start at 1.
    finalized
        Feature name to level; by default those of a new cluster of the oldest of these releases.
    epoch
        The epoch of brokers that have one; brokers before 2.7 have -1. By default that of a new cluster.
    silent
        The ids of brokers that do not answer.
    cluster_id
        The cluster id, to which latches belong.
    """
    facts = [release_facts(release) for release in releases]
    oldest = min(facts, key=lambda each: each.supported.get(METADATA_VERSION, (0, 0))[1])
    agreed = oldest.finalized if finalized is None else finalized
    at = datetime.now(UTC).timestamp()
    brokers = [
        BrokerAnswer(
            node_id=node_id,
            host=f"broker-{node_id}",
            port=9092,
            api_ranges={key: ApiRange._make(versions) for key, versions in each.ranges("broker").items()},
            supported={name: SupportedRange._make(levels) for name, levels in each.supported.items()},
            finalized=agreed if each.epoch >= 0 else {},
            epoch=each.epoch if epoch is None or each.epoch < 0 else epoch,
            asked_version=min(_ASKED_VERSION, each.ranges("broker")[_API_VERSIONS][1]),
            answered_at=at,
            configs={name: BrokerConfig(value) for name, value in configs_of(each.release).items()},
        )
        for node_id, each in enumerate(facts, 1)
    ]
    answers = [_silenced(broker) if broker.node_id in silent else broker for broker in brokers]
    return merge(answers, cluster_id=cluster_id, seen_at=at)


def _silenced(broker: BrokerAnswer) -> BrokerAnswer:
    failure = Failure("TimedOut", "silent in this test")
    return BrokerAnswer(
        node_id=broker.node_id, host=broker.host, port=broker.port, answered_at=broker.answered_at, failure=failure
    )
