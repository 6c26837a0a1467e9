"""Answers from an address that several nodes have, and what proves which of them gave it."""

from dataclasses import replace
from time import process_time

import pytest

from featuregate.config import Address, Settings
from featuregate.config.tls import Tls
from featuregate.errors import SharedAddress, TimedOut
from featuregate.net.cluster_metadata import BrokerList, bootstrap_broker_list
from featuregate.net.probe import ProbeResult, without_shared
from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.cluster import Node

BROKERS = Settings(bootstrap=(Address("b1", 9092),))
TLS = replace(BROKERS, protocol="SSL", tls=Tls())
CONTROLLERS = replace(BROKERS, role="controller")
ANSWER = ApiVersionsResponse(error_code=0, api_ranges={18: (0, 4)})
NAMED, PROVING = 4, 5
"""Versions of ApiVersions."""


def listed(*hosts: str, cluster_id: str | None = "c", source="cluster") -> BrokerList:
    """List a node at each of these hosts, all with the same port."""
    nodes = tuple(Node(node_id=at, host=host, port=9092) for at, host in enumerate(hosts, 1))
    return BrokerList(cluster_id, 1, nodes, source, registered=True)


def result(node: Node, *, version: int = NAMED, peer: str | None = None, port: int = 9092) -> ProbeResult:
    """Return the answer of a node, from a connection that ended at ``peer``; by default no other one did."""
    address = Address(node.host, node.port)
    ended = (peer or f"10.0.0.{abs(node.node_id)}", port)
    return ProbeResult(node.node_id, address, "broker", ANSWER, version, None, 0.1, ended)


def unproven(settings: Settings, broker_list: BrokerList, *results: ProbeResult) -> list[int | None]:
    """Return the nodes whose answers prove nothing."""
    by_id = {node.node_id: each for node, each in zip(broker_list.nodes, results, strict=True)}
    checked = without_shared(settings, broker_list, by_id)
    return [key for key, each in checked.items() if isinstance(each.failure, SharedAddress) and each.response is None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lb", "lb"),
        ("lb.example", "LB.Example"),
        ("lb.example", "lb.example."),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "FE80:0::1%eth0"),
        ("10.0.0.9", "::ffff:10.0.0.9"),
    ],
)
@pytest.mark.parametrize("settings", [BROKERS, TLS])
def test_invariant_13_nodes_at_one_address_in_any_spelling_prove_nothing(
    settings: Settings, one: str, other: str
) -> None:
    """A third node, at an address of its own, does."""
    broker_list = listed(one, other, "b3")
    assert unproven(settings, broker_list, *map(result, broker_list.nodes)) == [1, 2]


def test_the_same_host_with_other_ports_is_another_address() -> None:
    """As where one machine runs several brokers, or port forwarding tells them apart."""
    nodes = tuple(Node(node_id=at, host="lb", port=9090 + at) for at in (1, 2))
    results = [result(node, peer="10.0.0.9", port=node.port) for node in nodes]
    assert unproven(BROKERS, BrokerList("c", 1, nodes, "cluster", registered=True), *results) == []


def test_names_that_lead_to_one_address_share_it() -> None:
    """Nothing in a connection without TLS tells which of the names the client used."""
    broker_list = listed("b1", "b2", "b3")
    peers = ("10.0.0.9", "::ffff:10.0.0.9", "10.0.0.3")
    results = [result(node, peer=peer) for node, peer in zip(broker_list.nodes, peers, strict=True)]
    assert unproven(BROKERS, broker_list, *results) == [1, 2]


def test_a_router_tells_names_apart_by_tls() -> None:
    """The client sends the name (SNI), as to the routes of an ingress, which all lead to one address."""
    broker_list = listed("b1", "b2")
    assert unproven(TLS, broker_list, *(result(node, peer="10.0.0.9") for node in broker_list.nodes)) == []


def test_a_broker_that_compares_ids_proves_that_it_is_the_node() -> None:
    """Another broker at the address is older, and proves nothing."""
    broker_list = listed("lb", "lb", "lb")
    results = [result(node, version=at) for node, at in zip(broker_list.nodes, (PROVING, PROVING, NAMED), strict=True)]
    assert unproven(BROKERS, broker_list, *results) == [3]


def test_hosts_that_no_resolver_knows_take_no_time() -> None:
    """A broker may list thousands of the longest names, each of which costs milliseconds by IDNA."""
    longest = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 250  # which is 18 letters after normalization
    broker_list = listed(*(f"{longest}:{number:04}" for number in range(600)))
    begin = process_time()
    assert unproven(BROKERS, broker_list, *(result(node) for node in broker_list.nodes)) == []
    assert process_time() - begin < 2


@pytest.mark.parametrize("settings", [BROKERS, CONTROLLERS])
def test_the_version_alone_proves_nothing(settings: Settings) -> None:
    """Controllers do not compare ids, and neither does a broker where the cluster has no id."""
    broker_list = listed("lb", "lb", cluster_id="c" if settings is CONTROLLERS else None)
    results = [result(node, version=PROVING) for node in broker_list.nodes]
    assert unproven(settings, broker_list, *results) == [1, 2]


def test_a_bootstrap_list_has_no_ids_to_compare() -> None:
    """Two spellings of one address are not two brokers."""
    settings = replace(BROKERS, broker_list="bootstrap", bootstrap=(Address("lb", 9092), Address("LB", 9092)))
    broker_list = bootstrap_broker_list(settings)
    assert unproven(settings, broker_list, *(result(node, version=PROVING) for node in broker_list.nodes)) == [-1, -2]


def test_a_node_that_does_not_answer_shares_its_address_too() -> None:
    """Its own failure stays."""
    broker_list = listed("lb", "lb")
    first, second = broker_list.nodes
    silent = result(second)._replace(
        response=None, version=None, peer=None, failure=TimedOut("lb:9092", "connecting", "no answer")
    )
    checked = without_shared(BROKERS, broker_list, {1: result(first), 2: silent})
    assert isinstance(checked[1].failure, SharedAddress)
    assert checked[2] is silent


def test_one_node_alone_is_compared_with_the_whole_list() -> None:
    """The others were not asked."""
    broker_list = listed("lb", "lb")
    assert isinstance(without_shared(BROKERS, broker_list, {2: result(broker_list.nodes[1])})[2].failure, SharedAddress)


def test_the_error_names_the_nodes_the_address_and_the_way_out() -> None:
    broker_list = listed(*["lb"] * 7)
    checked = without_shared(BROKERS, broker_list, {node.node_id: result(node) for node in broker_list.nodes})
    assert str(checked[1].failure).startswith(
        "lb:9092: brokers 1, 2, 3, 4, 5 and 2 more share the address lb:9092, and an answer in ApiVersions v4 does not "
        "prove which of them gave it: give each an address of its own (advertised.listeners), or set "
        "featuregate.trust.shared.addresses=true"
    )
    names = listed("b1", "b2")
    checked = without_shared(BROKERS, names, {node.node_id: result(node, peer="10.0.0.9") for node in names.nodes})
    assert "brokers 1, 2 share one address, 10.0.0.9:9092, and" in str(checked[1].failure)


def test_an_app_may_know_better() -> None:
    """A proxy answers for all brokers, with the versions that all of them serve."""
    trusting = Settings.parse({"bootstrap.servers": "lb:9092", "featuregate.trust.shared.addresses": "true"})
    broker_list = listed("lb", "lb")
    assert unproven(trusting, broker_list, *map(result, broker_list.nodes)) == []


def test_nothing_is_proved_where_the_check_of_ids_is_turned_off() -> None:
    """With metadata.cluster.check.enable=false no request names the node, so a broker compares nothing."""
    broker_list = listed("lb", "lb")
    answers = [result(node, version=PROVING) for node in broker_list.nodes]
    assert unproven(BROKERS, broker_list, *answers) == []
    assert unproven(replace(BROKERS, check_node=False), broker_list, *answers) == [1, 2]
