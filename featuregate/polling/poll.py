"""What one poll does with the answers that it got: merge them with what is known, and let gates settle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from featuregate.gating.store import Store
    from featuregate.polling.poll_state import Polls
    from featuregate.roles import Role
    from featuregate.sources.brokers import Asked
    from featuregate.view.cluster_view import View

__all__ = ["take_in"]


def take_in(asked: Asked, role: Role, *, polls: Polls, store: Store[Any], now: float) -> View:
    """Merge the answers with the last view of this cluster and its brokers that vanished, and offer the result.

    Parameters
    ----------
    now
        Seconds of the monotonic clock of ``polls``.
    """
    cluster_id, last = asked.broker_list.cluster_id, store.last(asked.broker_list.cluster_id)
    listed = {answer.node_id for answer in asked.answers}
    vanished = polls.vanished(last, cluster_id, listed, now, registered=asked.broker_list.registered)
    view = asked.view(role, previous=last, unlisted=vanished)
    with store.turn:  # a gate that is made meanwhile must not take the view before for a fresh one
        polls.succeeded(store.view, view, now)
        events = store.take(view)
    store.tell(*events)
    return view
