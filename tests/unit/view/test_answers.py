"""One broker's answer: the translation, what a lie means, and what processes share."""

import pickle

import pytest

from featuregate.config import Address
from featuregate.errors import FeatureGateError, TimedOut
from featuregate.kafka_errors import broker_error
from featuregate.net.probe import ProbeResult
from featuregate.sources.brokers import broker_answer
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange, above_zero, unlisted
from featuregate.wire.api_versions import ApiVersionsResponse


def heard(
    response: ApiVersionsResponse | None = None,
    failure: FeatureGateError | None = None,
    *,
    role: str = "broker",
    version: int | None = 4,
) -> ProbeResult:
    return ProbeResult(
        node_id=2,
        address=Address("b2", 9093),
        role=role,
        response=response,
        version=version,
        failure=failure,
        seconds=0.01,
    )


RESPONSE = ApiVersionsResponse(
    error_code=0,
    api_ranges={18: (0, 4), 1: (4, 17)},
    supported={"metadata.version": (7, 25), "group.version": (0, 1)},
    epoch=5613,
    finalized={"metadata.version": (21, 21), "group.version": (1, 1)},
)


def answer(**said: object) -> BrokerAnswer:
    return BrokerAnswer(node_id=2, host="b2", port=9092, **said)


def test_an_answer_is_translated_whole() -> None:
    """Every field that the domain knows arrives."""
    assert broker_answer(heard(RESPONSE), answered_at=12.5) == BrokerAnswer(
        node_id=2,
        host="b2",
        port=9093,
        role="broker",
        api_ranges={1: ApiRange(4, 17), 18: ApiRange(0, 4)},
        supported={"group.version": SupportedRange(0, 1), "metadata.version": SupportedRange(7, 25)},
        finalized={"group.version": 1, "metadata.version": 21},
        epoch=5613,
        asked_version=4,
        answered_at=12.5,
    )


def test_a_controller_stays_a_controller() -> None:
    """Controllers are merged apart, so the role must not get lost."""
    assert broker_answer(heard(RESPONSE, role="controller"), answered_at=0).role == "controller"


def test_a_failure_is_data() -> None:
    """A silent broker raises nothing; the kind of its failure is the name of the error, and its text has no address."""
    silent = broker_answer(heard(failure=TimedOut("b2:9093", "connecting")), answered_at=3)
    assert not silent.answered
    assert silent.failure == Failure("TimedOut", "timed out while connecting")


def test_answers_print_as_one_line_each() -> None:
    """The ranges of 75 APIs would fill a screen."""
    broker = BrokerAnswer(node_id=1, host="a", port=9092, api_ranges={18: ApiRange(0, 5)}, epoch=7)
    assert repr(broker) == "<broker 1 at a:9092: 1 APIs, 0 features, epoch 7>"
    silent = BrokerAnswer(
        node_id=None, host="a", port=9092, role="controller", failure=Failure("TimedOut", "no answer")
    )
    assert repr(silent) == "<controller at a:9092: no answer: TimedOut: no answer>"


def test_a_refusal_is_called_by_kafkas_name() -> None:
    """A program can tell REBOOTSTRAP_REQUIRED from others."""
    refused = broker_answer(heard(failure=broker_error(129, "another cluster")), answered_at=3)
    assert refused.failure == Failure("REBOOTSTRAP_REQUIRED", "REBOOTSTRAP_REQUIRED (error 129): another cluster")


def test_a_response_with_an_error_code_is_a_failure() -> None:
    """What stands beside an error code proves nothing."""
    refused = broker_answer(heard(ApiVersionsResponse(error_code=42, api_ranges={1: (0, 4)})), answered_at=3)
    assert refused.failure == Failure("INVALID_REQUEST", "answered with error 42")
    assert not refused.api_ranges


def test_nothing_at_all_is_a_failure() -> None:
    """No answer and no error is not an answer."""
    assert not broker_answer(heard(), answered_at=3).answered


def test_a_finalized_minimum_above_the_maximum_counts_by_the_lower_one() -> None:
    """A liar cannot open anything too early."""
    lying = ApiVersionsResponse(error_code=0, api_ranges={}, epoch=1, finalized={"group.version": (9, 1)})
    assert broker_answer(heard(lying), answered_at=0).finalized == {"group.version": 1}


@pytest.mark.parametrize("level", [0, -1, -32768])
def test_a_finalized_level_of_zero_or_below_is_absence(level: int) -> None:
    """Kafka never sends 0; a broker that does counts as one that sends no level."""
    lying = ApiVersionsResponse(error_code=0, api_ranges={}, epoch=1, finalized={"group.version": (level, level)})
    assert broker_answer(heard(lying), answered_at=0).finalized == {}


def test_an_epoch_below_minus_one_is_unknown() -> None:
    """There is one way to say unknown."""
    lying = ApiVersionsResponse(error_code=0, api_ranges={}, epoch=-(2**63))
    assert broker_answer(heard(lying), answered_at=0).epoch == -1


def test_raw_ranges_stay_raw() -> None:
    """What a broker said can be read as it said it, lies included."""
    lying = ApiVersionsResponse(error_code=0, api_ranges={1: (5, 2)}, supported={"group.version": (-3, -1)})
    said = broker_answer(heard(lying), answered_at=0)
    assert (said.api_ranges, said.supported) == ({1: (5, 2)}, {"group.version": (-3, -1)})


@pytest.mark.parametrize(
    ("said", "means"), [((0, 4), (0, 4)), ((-3, 4), (0, 4)), ((5, 2), None), ((-3, -1), None), ((3, 3), (3, 3))]
)
def test_a_range_means_what_a_version_can_satisfy(said: tuple[int, int], means: tuple[int, int] | None) -> None:
    """A negative minimum counts as 0; a range without a version serves nothing."""
    judged = answer(api_ranges={28: ApiRange(*said)}, supported={"group.version": SupportedRange(*said)})
    assert judged.serves(28) == means
    assert judged.can_run("group.version") == means


def test_what_is_not_listed_is_not_served() -> None:
    """Silence about an API or a feature is no."""
    assert answer().serves(28) is None
    assert answer().can_run("group.version") is None


def test_produce_is_served_from_3_where_fetch_shows_kafka_4() -> None:
    """Kafka 4 advertises Produce from 0 and rejects what is below 3 (KAFKA-18659); its Fetch starts at 4."""
    assert answer(api_ranges={0: ApiRange(0, 12), 1: ApiRange(4, 17)}).serves(0) == (3, 12)


@pytest.mark.parametrize("others", [{}, {1: ApiRange(0, 17)}])
def test_produce_is_believed_elsewhere(others: dict[int, ApiRange]) -> None:
    """Kafka 3.9, and others that serve old Fetch, serve old Produce too."""
    assert answer(api_ranges={0: ApiRange(0, 12), **others}).serves(0) == (0, 12)


@pytest.mark.parametrize(("version", "hides"), [(None, False), (2, False), (3, True), (4, False), (5, False)])
def test_only_v3_hides_features(version, hides) -> None:
    """v3 leaves out supported features whose minimum is 0; v2 has none at all, v4 has all."""
    assert answer(asked_version=version).hides_features is hides


@pytest.mark.parametrize(
    ("host", "node_id", "name"), [("b2", 2, "broker 2 (b2:9092)"), ("::1", None, "broker [::1]:9092")]
)
def test_brokers_are_named_by_id_and_address(host: str, node_id: int | None, name: str) -> None:
    """A text says which broker it means, also where only the address is known."""
    assert BrokerAnswer(node_id=node_id, host=host, port=9092).name == name


def test_a_broker_that_is_not_listed_any_more_does_not_answer() -> None:
    """It stays known, because it may come back with its old software."""
    gone = unlisted(broker_answer(heard(RESPONSE), answered_at=5), seconds=7.4)
    assert gone == BrokerAnswer(
        node_id=2,
        host="b2",
        port=9093,
        answered_at=5,
        failure=Failure("Unlisted", "not listed by the cluster for 7 s; it may come back"),
    )


def test_answers_are_immutable_in_depth() -> None:
    """An answer that is shared by threads and views cannot change under them."""
    said = {28: ApiRange(0, 3)}
    frozen = answer(api_ranges=said)
    said[28] = ApiRange(0, 99)
    assert frozen.serves(28) == (0, 3)
    with pytest.raises(TypeError):
        frozen.api_ranges[28] = ApiRange(0, 99)


def test_answers_survive_pickling() -> None:
    """Spark sends them to workers."""
    said = broker_answer(heard(RESPONSE), answered_at=12.5)
    hash(said)
    assert pickle.loads(pickle.dumps(said)) == said


def test_frozen_maps_equal_by_content() -> None:
    """A map equals any mapping with the same content, in any order."""
    one = FrozenMap({"a": 1, "b": 2})
    assert one == FrozenMap([("b", 2), ("a", 1)])
    assert one == {"b": 2, "a": 1}
    assert one != {"a": 1}
    assert one != [("a", 1)]
    assert hash(one) == hash(FrozenMap({"b": 2, "a": 1})) == hash(one)
    assert hash(one) != hash(FrozenMap({"a": 1}))


class LikeFrozenMaps:
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenMap)


def test_what_is_no_mapping_says_itself_whether_it_equals_a_frozen_map() -> None:
    """From either side."""
    one = FrozenMap({"a": 1})
    assert one == LikeFrozenMaps()
    assert LikeFrozenMaps() == one


def test_frozen_maps_read_like_dicts() -> None:
    """Length, order, membership and text are those of what was frozen."""
    one = FrozenMap({"b": 2, "a": 1})
    assert (len(one), list(one), "a" in one, repr(one)) == (2, ["b", "a"], True, "{'b': 2, 'a': 1}")


def test_a_frozen_map_is_frozen_once() -> None:
    """Sharing depends on it."""
    one = FrozenMap({"a": 1})
    assert FrozenMap.of(one) is one
    assert above_zero(one) is one


@pytest.mark.parametrize("kind", [dict, FrozenMap])
def test_levels_that_mean_nothing_are_left_out(kind: type) -> None:
    """A finalized level of 0 is absence."""
    assert above_zero(kind({"a": 0, "b": 1, "c": -1})) == {"b": 1}


def test_an_unlisted_controller_stays_a_controller() -> None:
    """Its answers are none of a broker."""
    gone = BrokerAnswer(node_id=3, host="c3", port=9093, role="controller")
    assert unlisted(gone, seconds=1).role == "controller"
