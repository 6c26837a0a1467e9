"""Producers and groups that use a level that an update lowers: who is asked for them, and what a plan says."""

from typing import Any

import pytest
from builders import broker, view
from scripted import HANG_UP, SILENCE, ScriptedCluster, ScriptedNode

from featuregate import Admin
from featuregate.admin.in_use import lowered
from featuregate.admin.updates import Update, disable, downgrade, upgrade
from featuregate.wire.in_use import (
    ListedGroup,
    ListedTransaction,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsResponse,
)

GROUPS = (("a", "Consumer", "Stable"), ("b", "consumer", "Empty"), ("c", "classic", "Stable"), ("s", "share", "Stable"))
TRANSACTIONS = (("t1", "Ongoing"), ("t2", "Empty"), ("t3", "PrepareCommit"), ("t4", "CompleteAbort"))

PRODUCERS = (
    "2 transactional ids with an open transaction and 2 others were seen, whose producers go on with "
    "transaction.version=1 at their next transaction: t1, t3"
)


def lists(request: Any, node: ScriptedNode) -> Any:
    """Answer what node 1 coordinates; the others have one group more each."""
    if isinstance(request, ListGroupsRequest):
        own = GROUPS if node.node_id == 1 else ((f"g{node.node_id}\x1b", "consumer", "Assigning"),)
        groups = (
            ListedGroup(group_id=name, protocol_type="", group_state=at, group_type=kind) for name, kind, at in own
        )
        return ListGroupsResponse(groups=tuple(groups))
    listed = (
        ListedTransaction(transactional_id=name, producer_id=1, transaction_state=at) for name, at in TRANSACTIONS
    )
    return ListTransactionsResponse(transaction_states=tuple(listed) if node.node_id == 1 else ())


def notes(updates: tuple[Update, ...], answers: Any = lists, nodes: int = 2) -> list[str]:
    """Plan an update of a cluster that answers so, and return what the plan says of those who use the levels."""
    with ScriptedCluster(nodes) as cluster:
        cluster.lists = answers
        cluster.apply({"group.version": 1, "share.version": 2, "transaction.version": 2, "streams.version": 1})
        return list(Admin(cluster.bootstrap).plan(updates).in_use)


def test_where_no_node_reports_levels_what_is_to_lower_one_may() -> None:
    """The controller carries it out all the same, and those who use the level are to be named before."""
    unknown = view(broker(epoch=-1))
    assert unknown.level("group.version") is None
    assert lowered([*disable("group.version"), *upgrade({"share.version": 1})], unknown) == {"group.version": 0}


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        (
            disable("group.version"),
            ["2 consumer groups with members need group.version, and their next heartbeat fails: a, g2?"],
        ),
        (
            disable("share.version"),
            ["1 share group with members need share.version, and their next heartbeat fails: s"],
        ),
        (downgrade({"transaction.version": 1}), [PRODUCERS]),
        (
            disable("streams.version"),
            ["no streams group with members was seen, and a client sees only what it may DESCRIBE"],
        ),
        (downgrade({"share.version": 1}), ["1 share group with members use share.version, and go on at 1: s"]),
        (upgrade({"group.version": 1}), []),  # it is there already
        (downgrade({"metadata.version": 27}), []),
    ],
)
def test_a_plan_names_those_who_use_a_level_that_it_lowers(updates: tuple[Update, ...], said: list[str]) -> None:
    """Each broker lists what it coordinates; names of groups are escaped."""
    assert notes(updates) == said


def test_what_was_not_seen_is_said() -> None:
    """A group that was not listed is not a group without members."""

    def fails(request: Any, node: ScriptedNode) -> Any:
        if node.node_id == 1:
            return ListGroupsResponse(error_code=14) if isinstance(request, ListGroupsRequest) else HANG_UP
        return lists(request, node)

    one, other = notes(disable("group.version"), fails)
    assert one.startswith("1 consumer group with members")
    assert other.startswith("whether producers or groups use group.version is not known of broker 1: ")
    assert "COORDINATOR_LOAD_IN_PROGRESS" in other
    none, producers = notes(downgrade({"transaction.version": 1}), fails)
    assert none == "no transactional id was seen, and a client sees only what it may DESCRIBE"
    assert "is not known of broker 1: 127.0.0.1" in producers


def test_producers_without_an_open_transaction_have_no_names() -> None:
    idle = ListTransactionsResponse(
        transaction_states=(ListedTransaction(transactional_id="t2", producer_id=1, transaction_state="Empty"),)
    )
    (said,) = notes(downgrade({"transaction.version": 1}), lambda *_: idle, nodes=1)
    assert said.startswith("0 transactional ids with an open transaction and 1 others were seen")
    assert said.endswith(" at their next transaction")


def test_a_broker_that_does_not_answer_in_time_is_named() -> None:
    """The time of the whole plan bounds it, and not that of each request."""
    with ScriptedCluster(2) as cluster:
        cluster.lists = lambda request, node: SILENCE if node.node_id == 1 else lists(request, node)
        cluster.apply({"group.version": 1})
        made = Admin(cluster.bootstrap, timeout=1.0).plan(disable("group.version"))
    assert made.in_use[-1].endswith(" is not known of broker 1: no answer in time")


def test_controllers_are_not_asked() -> None:
    with ScriptedCluster(1, role="controller") as cluster:
        cluster.apply({"group.version": 1})
        made = Admin({"bootstrap.controllers": cluster.bootstrap}).plan(disable("group.version"))
    assert "whether producers or groups use group.version is not known of brokers, which were not asked" in made.in_use
