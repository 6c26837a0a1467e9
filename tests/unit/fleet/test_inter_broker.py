"""Requests of brokers and controllers are told apart from those of clients, and no client hides behind a name."""

from dataclasses import replace
from typing import Any

import pytest
from fleet_evidence import LOG, NOW, TO_4_2, WEEK, assessed, usage

from featuregate.catalog import captured
from featuregate_fleet.readiness.api_ranges import DropApi
from featuregate_fleet.readiness.evidence import Evidence, Usage
from featuregate_fleet.readiness.inter_broker import of_nodes
from featuregate_fleet.readiness.moves import DowngradeTo, Move
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Verdict

FETCH, METADATA, API_VERSIONS, CREATE_TOPICS, ADD_PARTITIONS, MARKERS, HEARTBEAT = 1, 3, 18, 19, 24, 27, 63
BROKERS = ("1", "2", "3")
DOWN = DowngradeTo(captured()["3.9"], "3.9.2")
JAVA = "apache-kafka-java"


def sent(client_id: str, api_key: int = FETCH, version: int = 18, **changed: Any) -> Usage:
    """Return requests of a node: by default those of a follower of 4.2, which 3.9 does not serve."""
    named = {"client_id": client_id, "principal": "User:kafka", "listener": "INTERNAL"} | changed
    return usage(api_key, version, **named)


FOLLOWERS = tuple(sent(f"broker-{broker}-fetcher-0") for broker in BROKERS)
OTHERS = (
    sent("broker-1-txn-marker-sender", MARKERS, 2),
    sent("AddPartitionsManager-client-2", ADD_PARTITIONS, 5, software_name=JAVA),
    sent("AddPartitionsManager-client-2", API_VERSIONS, 4),
    *(sent(f"raft-client-{node}", listener="CONTROLLER", software_name=JAVA) for node in (*BROKERS, "101")),
    sent("1", HEARTBEAT, 1, listener="CONTROLLER", software_name=JAVA),
    sent("1", CREATE_TOPICS, 7, listener="CONTROLLER", software_name=JAVA),
)
"""As three brokers and a controller of 4.2.0 send them."""


def report(*used: Usage, move: Move = DOWN) -> Report:
    return assessed(*used, move=move, brokers=dict.fromkeys(BROKERS, LOG), records_read=NOW)


def blocked(*used: Usage, move: Move = DOWN) -> list[tuple[str | None, str | None]]:
    found = report(*used, move=move)
    return [(row.client_id, row.principal) for row in found.rows if row.verdict is Verdict.BLOCK]


def test_brokers_do_not_block_their_own_downgrade():
    """Their requests are no evidence of clients, and the report says how many there were, of whom and where."""
    found = report(*FOLLOWERS, *OTHERS, usage(FETCH, 17))
    rows = {row.subject: row for row in found.rows if row.check == "inter-broker"}
    assert {row.verdict for row in rows.values()} == {Verdict.OK}
    assert {subject: row.count for subject, row in rows.items()} == {
        "nodes on listener 'CONTROLLER'": 25,
        "nodes on listener 'INTERNAL'": 30,
    }
    internal = rows["nodes on listener 'INTERNAL'"]
    assert internal.client_id is not None
    assert internal.client_id.startswith(
        "AddPartitionsManager-client-2, broker-1-fetcher-0, broker-1-txn-marker-sender"
    )
    assert "5 client ids" in internal.why
    assert [row.client_id for row in found.rows if row.check == "api-versions"] == ["audit"]


IMPOSTORS = {
    "on another listener": sent("broker-2-fetcher-0", listener="CLIENT"),
    "of another principal": sent("broker-2-fetcher-0", principal="User:app"),
    "without a principal": sent("broker-2-fetcher-0", principal=None),
    "with a number alone": sent("2", principal="User:app"),
    "of other software": sent("broker-2-fetcher-0", software_name="librdkafka"),
    "of an unknown node": sent("broker-9-fetcher-0", principal="User:app"),
    "with an API that followers do not use": sent("broker-2-fetcher-0", METADATA, 99),
    "with another name": sent("broker-2-fetcher-0-of-mine"),
}


@pytest.mark.parametrize("impostor", IMPOSTORS.values(), ids=list(IMPOSTORS))
def test_invariant_11_a_client_that_merely_calls_itself_a_broker_counts(impostor: Usage):
    """Clients choose their id: a listener, a principal and the API have to agree with what brokers do."""
    (row,) = [row for row in report(*FOLLOWERS, *OTHERS, impostor).rows if row.check == "api-versions"]
    assert (row.client_id, row.principal, row.count) == (impostor.client_id, impostor.principal, impostor.count)
    assert row.verdict is (Verdict.WARN if impostor.software_name == "librdkafka" else Verdict.BLOCK)


SHARED = {"listener": "PLAINTEXT", "principal": "User:ANONYMOUS"}


def test_invariant_11_a_number_is_of_a_node_where_it_sent_what_only_nodes_send():
    """Without authentication, brokers and apps have one listener and principal: it says nothing of an app's number."""
    node, own = sent("1", HEARTBEAT, 1, **SHARED), sent("1", CREATE_TOPICS, 7, **SHARED)
    assert of_nodes((node, own, sent("42", CREATE_TOPICS, 7, **SHARED)), BROKERS) == (own,)


@pytest.mark.parametrize("client_id", ["raft-client-7", "broker-2-fetcher-0", "42"])
def test_invariant_11_a_version_that_no_node_would_send_counts(client_id: str):
    """Nodes send one another what both have: a version below that of the target is an app's that is called like one."""
    old = sent(client_id, FETCH if client_id != "42" else CREATE_TOPICS, 0, **SHARED)
    assert blocked(sent("1", HEARTBEAT, 1, **SHARED), old, move=TO_4_2) == [(client_id, "User:ANONYMOUS")]


def test_invariant_11_a_cut_line_under_the_id_of_a_node_counts_where_no_node_would_send_it():
    """Its head has no principal, so that a client id is all that tells it apart."""
    cut = [replace(sent("1", CREATE_TOPICS, version), outcome="cut", principal=None) for version in (0, 7)]
    evidence = Evidence(usage=OTHERS, cut=tuple(cut))
    rows = assess(evidence, TO_4_2, NOW, WEEK).rows
    assert [row.versions for row in rows if row.verdict is Verdict.BLOCK] == [(0,)]


def test_each_broker_may_have_a_principal_of_its_own():
    """As with certificates. Where two principals have the client id of one broker, neither counts as the broker."""
    own = [sent(f"broker-{broker}-fetcher-0", principal=f"User:CN=b{broker}") for broker in BROKERS]
    assert blocked(*own) == []
    another = sent("broker-2-fetcher-0", principal="User:app")
    assert blocked(*own, another) == [("broker-2-fetcher-0", "User:CN=b2"), ("broker-2-fetcher-0", "User:app")]


def test_one_name_alone_does_not_show_which_listener_is_that_of_brokers():
    """Nor do two listeners with as many names: these requests count as a client's. One of an internal API shows it."""
    one = FOLLOWERS[1]
    assert blocked(one) == [("broker-2-fetcher-0", "User:kafka")]
    assert len(blocked(*FOLLOWERS, *(sent(used.client_id or "", listener="CLIENT") for used in FOLLOWERS))) == 3
    assert blocked(one, sent("1", HEARTBEAT, 1)) == []


def test_a_forwarded_request_stays_that_of_its_client():
    """A controller logs it with the client's own id and principal, which are not those of a node."""
    forwarded = sent("1", CREATE_TOPICS, 99, listener="CONTROLLER", principal="User:app", forwarded=True)
    assert of_nodes((*FOLLOWERS, *OTHERS, forwarded), BROKERS) == (*FOLLOWERS, *(u for u in OTHERS if u.api_key != 63))


def test_an_api_that_is_dropped_is_dropped_for_brokers_too():
    """A follower uses the version of the finalized level, and does not negotiate."""
    assert blocked(*FOLLOWERS, move=DropApi(FETCH, 18)) == []
    assert len(blocked(*FOLLOWERS, move=DropApi(FETCH, 19))) == 3
