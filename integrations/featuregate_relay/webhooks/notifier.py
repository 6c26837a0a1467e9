"""Compares the states of clusters with those before, and sends the messages about what has changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from featuregate_relay.webhooks.messages import messages_between

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from featuregate_relay.clusters import ServedCluster
    from featuregate_relay.states import ClusterState
    from featuregate_relay.webhooks.sender import Deliveries, Sender


class Notifier:
    """Notifies endpoints. What a relay finds when it starts is no change.

    Parameters
    ----------
    senders
        Each with the names of the clusters whose changes it gets; None: those of all.
    """

    def __init__(self, senders: Sequence[tuple[Sender, frozenset[str] | None]]) -> None:
        self._senders = senders
        self._last: dict[str, ClusterState] = {}

    def look(self, cluster: ServedCluster) -> None:
        """Send what has changed since the last look. Takes longer the larger the cluster is."""
        last, state = self._last.get(cluster.name), cluster.state.made()
        if state is None or state is last:
            return
        self._last[cluster.name] = state
        if last is None:
            return
        at = datetime.now(UTC).isoformat(timespec="seconds")
        messages = list(messages_between(cluster.name, last, state, at))
        for sender, clusters in self._senders:
            if clusters is None or cluster.name in clusters:
                for message in messages:
                    sender.send(message)

    def deliveries(self) -> dict[str, Deliveries]:
        """Return the numbers of each endpoint, by its name."""
        return {sender.name: sender.deliveries() for sender, _ in self._senders}

    def __enter__(self) -> Self:
        for sender, _ in self._senders:
            sender.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sender, _ in self._senders:
            sender.close()
