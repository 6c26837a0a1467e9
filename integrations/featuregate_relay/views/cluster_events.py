"""The events of a cluster for one client: nothing older than what it has seen, by the id that it sends back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.sources.seen import Seen
from featuregate_relay.views.event_stream import ClientEvents, event

if TYPE_CHECKING:
    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.states import ServedState


class ClusterEvents(ClientEvents):
    """Events with the view, the status and the gates. A gate that the client has seen latched is open for it."""

    def __init__(self, cluster: ServedCluster, last_event_id: str | None) -> None:
        super().__init__(cluster)
        self._seen = next(iter(Seen.read(last_event_id)), None)
        self._revision = (last_event_id or "").partition(".")[0]
        """What the client has; a script may send a revision alone."""

    def problem(self) -> str | None:
        """Say whether this relay is behind what the client has seen."""
        view, _ = self.cluster.features.view_and_age()  # before the state, which is not older then
        state = self.cluster.state()
        if self._seen is None:
            return None
        if view is None or state is None:
            return "no broker has answered yet, and the client has seen answers"
        if self.cluster.state.is_behind:
            return "the newest answers are not read yet"
        behind = Seen.of(view, state.revision).is_below(self._seen, datetime.now(UTC).timestamp())
        return "this relay is behind: the client has seen newer answers" if behind else None

    def of(self, state: ServedState) -> bytes:
        """Return the event of a state."""
        kind, self._revision = "view" if state.revision != self._revision else "health", state.revision
        latches = self.cluster.latches(state.cluster_id)
        self._seen = self._id(frozenset(latch for name, latch in latches.items() if state.gates[name]))
        gates = {name: is_open or latches.get(name) in self._seen.latched for name, is_open in state.gates.items()}
        return event(kind, {"cluster": self.cluster.name, **state.to_dict(), "gates": gates}, ident=self._seen.text)

    def heartbeat(self) -> bytes:
        """Return a heartbeat. The last poll has confirmed what the client has seen."""
        if self._seen is not None and self._seen.content == self._revision:
            self._seen = self._id(self._seen.latched)
        return event("heartbeat", self.health(), ident=None if self._seen is None else self._seen.text)

    def _id(self, latched: frozenset[str]) -> Seen:
        view = self.cluster.features.view  # after the state, which is not newer then
        assert view is not None
        return Seen.of(view, self._revision, latched).joined(*(() if self._seen is None else (self._seen,)))
