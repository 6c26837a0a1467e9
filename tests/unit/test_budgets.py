"""How much a peer may cost: each door with the most that is allowed, and with one more."""

from dataclasses import replace
from pathlib import Path

import pytest

import featuregate as fg
from featuregate import budgets
from featuregate.config import Address
from featuregate.errors import ConnectFailed, DiscoveryError, RemoteWireError
from featuregate.net.cluster_metadata import BrokerList, _broker_list
from featuregate.net.probe import AnswerPool, ProbeResult
from featuregate.polling.poll_state import PollState
from featuregate.printable import some
from featuregate.sources.brokers import broker_answers
from featuregate.testing import FakeCluster, release_view
from featuregate.view.answers import BrokerAnswer, Failure
from featuregate.view.cluster_view import members, runs
from featuregate.view.merging import merge
from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.cluster import Node

ROOT = Path(__file__).parents[2]
ALL_VERSIONS = [0, 2, 3, 4, 5]
WITH_FEATURES = [3, 4, 5]


def features(count):
    return {f"f{number}": (0, 1) for number in range(count)}


def ranges(count, highest=1):
    return dict.fromkeys(range(count), (0, highest))


def decoded(version, response):
    return ApiVersionsResponse.decode(version, response.encode(version))


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_invariant_14_an_answer_has_some_hundreds_of_apis(version) -> None:
    """One more is refused before it is read."""
    assert len(decoded(version, ApiVersionsResponse(error_code=0, api_ranges=ranges(512))).api_ranges) == 512
    with pytest.raises(RemoteWireError, match="513 elements, more than the 512"):
        decoded(version, ApiVersionsResponse(error_code=0, api_ranges=ranges(513)))


@pytest.mark.parametrize("version", WITH_FEATURES)
@pytest.mark.parametrize("kind", ["supported", "finalized"])
def test_invariant_14_an_answer_has_some_hundreds_of_features(version, kind) -> None:
    """Supported features and finalized ones each have a bound."""
    answer = ApiVersionsResponse(error_code=0, api_ranges={}, epoch=1)
    assert len(getattr(decoded(version, replace(answer, **{kind: features(256)})), kind)) == 256
    with pytest.raises(RemoteWireError, match="257 elements, more than the 256"):
        decoded(version, replace(answer, **{kind: features(257)}))


def test_invariant_14_the_answers_of_a_poll_have_a_budget_together() -> None:
    """Each element of an answer that is like no other counts; the next one is refused."""
    pool = AnswerPool(most=30)
    pool.shared(ApiVersionsResponse(error_code=0, api_ranges=ranges(10), supported=features(5), finalized=features(4)))
    pool.shared(ApiVersionsResponse(error_code=0, api_ranges=ranges(11, highest=2)))
    with pytest.raises(RemoteWireError, match="more than the 30 API ranges and features that are believed of one poll"):
        pool.shared(ApiVersionsResponse(error_code=0, api_ranges=ranges(1, highest=3)))


def test_answers_that_are_alike_count_once_and_share_their_content() -> None:
    """The brokers of one release take the memory of one."""
    pool = AnswerPool(most=20)
    answers = [
        pool.shared(ApiVersionsResponse(error_code=0, api_ranges=ranges(10), supported=features(5), epoch=at))
        for at in range(100)
    ]
    assert {id(each.api_ranges) for each in answers} == {id(answers[0].api_ranges)}
    assert [each.epoch for each in answers] == list(range(100))


def test_a_thousand_brokers_of_which_no_two_are_alike_are_within_the_budget() -> None:
    """Each with more APIs and features than Kafka 4.4 has."""
    pool = AnswerPool()
    for at in range(1000):
        levels = {f"f{number}": (at, at) for number in range(20)}
        pool.shared(ApiVersionsResponse(error_code=0, api_ranges=ranges(110, at), supported=levels, finalized=levels))


@pytest.mark.parametrize("brokers", [3, 12])
def test_brokers_that_list_thousands_of_apis_fail_with_one_clear_error(brokers) -> None:
    """Every node of the hostile cluster answers with 30,000 API ranges; one cause stands for all."""
    with (
        FakeCluster(brokers=brokers, api_ranges={**ranges(30_000), 18: (0, 5)}) as cluster,
        pytest.raises(DiscoveryError, match="30000 elements, more than the 512") as caught,
    ):
        fg.discover(cluster.bootstrap, timeout=30)
    assert len(str(caught.value)) < 1000


def test_invariant_14_what_nodes_share_is_translated_once() -> None:
    """The most nodes with the most APIs and features: per node this would take seconds after the deadline of a poll."""
    pool = AnswerPool()
    said = ApiVersionsResponse(error_code=0, api_ranges=ranges(512), supported=features(256), finalized=features(256))
    nodes = tuple(Node(node_id=at, host=f"b{at}", port=1) for at in range(budgets.MOST_NODES))
    results = [
        ProbeResult(node.node_id, Address(node.host, 1), "broker", pool.shared(said), 4, None, 0.1) for node in nodes
    ]
    answers = broker_answers(BrokerList("c", 1, nodes, "cluster", registered=True), results, "broker").answers
    for field in ("api_ranges", "supported", "finalized"):
        assert len({id(getattr(answer, field)) for answer in answers}) == 1
    assert (len(answers), len(answers[0].api_ranges), len(answers[0].supported)) == (budgets.MOST_NODES, 512, 256)
    mixed = [results[0], results[1]._replace(response=replace(said, api_ranges=ranges(3)))]
    few = broker_answers(BrokerList("c", 1, nodes[:2], "cluster", registered=True), mixed, "broker").answers
    assert [len(answer.api_ranges) for answer in few] == [512, 3]


def test_a_cluster_has_as_many_nodes_as_a_cluster_can_have() -> None:
    """A list of one more is refused."""
    nodes = tuple(Node(node_id=at, host="h", port=9092) for at in range(budgets.MOST_NODES + 1))
    assert len(_broker_list("c", 1, nodes[1:], registered=True).nodes) == budgets.MOST_NODES
    with pytest.raises(RemoteWireError, match="5001 nodes are more than a cluster can have"):
        _broker_list("c", 1, nodes, registered=True)


def poll_state():
    return PollState(interval=60, stale_after=180, forget_after=3600)


def view_of(ids):
    answers = [BrokerAnswer(node_id=at, host="h", port=9092) for at in ids]
    return merge(answers, cluster_id="c", seen_at=0.0)


def test_other_node_ids_in_each_answer_do_not_make_more_known_brokers_than_a_cluster_can_have() -> None:
    """The last ones that vanished stay known: the view is incomplete for as long as with all of them."""
    state, listed = poll_state(), 1000
    view = view_of(range(listed))
    for poll in range(1, 8):
        ids = range(poll * listed, (poll + 1) * listed)
        gone = state.vanished(view, "c", ids, float(poll), registered=False)
        view = merge([*view_of(ids).brokers, *gone], cluster_id="c", seen_at=float(poll))
        assert len(view.brokers) == min((poll + 1) * listed, budgets.MOST_NODES)
        assert view.incomplete
    assert min(broker.node_id for broker in view.brokers) == 3 * listed


def test_the_health_names_some_silent_brokers_and_counts_the_others() -> None:
    """Its text does not grow with what a broker lists."""
    silent = [
        BrokerAnswer(node_id=at, host="h" * 255, port=9092, failure=Failure("TimedOut", "no answer"))
        for at in range(budgets.MOST_NODES)
    ]
    state = poll_state()
    view = merge([*silent, BrokerAnswer(node_id=9000, host="h", port=1)], cluster_id="c", seen_at=0.0)
    state.succeed(None, view, 1.0)
    (reason,) = state.health(view, 2.0, troubles=())["reasons"]
    assert "5000 of 5001 brokers did not answer: 0 (" in reason
    assert reason.endswith("and 4980 more")
    assert len(reason) < 6_000


def test_the_error_of_many_brokers_that_fail_in_many_ways_is_short() -> None:
    """It has the first causes, and the number of the others."""
    causes = [(f"h{at}:9092", ConnectFailed(f"h{at}:9092", "connecting", f"reason {at}")) for at in range(5000)]
    said = str(DiscoveryError(causes))
    assert said.endswith("and 4990 more")
    assert len(said) < 1000
    assert len(DiscoveryError(causes).causes) == 5000


def test_ids_without_order_are_named_in_part() -> None:
    """A line names the first runs of ids; the brokers that it leaves out are counted."""
    assert runs(range(100)) == "0-99"
    assert runs(range(0, 40, 2)).endswith("36,38")
    assert runs([*range(0, 40, 2), 50, 51, 52]).endswith("36,38 and 3 more")
    hosts = [BrokerAnswer(node_id=None, host=f"h{at}", port=1) for at in range(22)]
    assert members(hosts).endswith("h19:1 and 2 more")
    assert members([*release_view("4.2").brokers[:1], *hosts[:1]]) == "1,h0:1"


def test_some_names_and_the_number_of_the_others() -> None:
    """Nothing is counted where all are named."""
    assert some(["a", "b"], 2) == "a, b"
    assert some(["a", "b", "c"], 2, "; ") == "a; b and 1 more"


def test_the_security_page_has_each_budget() -> None:
    """A budget that changes, changes there, too."""
    page = (ROOT / "SECURITY.md").read_text()
    numbers = {name: value for name, value in vars(budgets).items() if name.isupper()}
    assert len(numbers) > 10
    assert {name for name, value in numbers.items() if f"{value:,}" not in page} == set()
