"""Short ways to say what brokers answered, for the tests of every room above the network."""

from featuregate.gating.events import Changed
from featuregate.gating.store import Store
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

TXN_KEY = 28  # TxnOffsetCommit
DEAF = Failure("TimedOut", "said nothing for 5 s")


def broker(node_id: int = 1, *, epoch: int = 10, txn: int | None = 3, **levels: int) -> BrokerAnswer:
    """Say what one broker answered: TxnOffsetCommit up to ``txn``, and finalized levels (``group_version=1``)."""
    return BrokerAnswer(
        node_id=node_id,
        host=f"b{node_id}",
        port=9092,
        api_ranges={} if txn is None else {TXN_KEY: ApiRange(0, txn)},
        finalized={name.replace("_", "."): level for name, level in levels.items()},
        epoch=epoch,
        asked_version=4,
        answered_at=1.0,
    )


def deaf(node_id: int = 1) -> BrokerAnswer:
    return BrokerAnswer(node_id=node_id, host=f"b{node_id}", port=9092, answered_at=1.0, failure=DEAF)


def view(*answers: BrokerAnswer, cluster_id: str | None = "c", previous: View | None = None) -> View:
    return merge(answers, cluster_id=cluster_id, previous=previous, seen_at=1.0)


def update(store: Store, seen: View) -> bool:
    """Commit a view and notify the hooks, as a poll does; return whether its content differs from the one before."""
    events = store.commit(seen)
    store.hooks.notify(*events)
    return any(isinstance(event, Changed) for event in events)
