"""What a cluster allows of Spark's Kafka source and sink, and what has no effect there."""

import logging
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate import View
from featuregate.errors import ConfigError
from featuregate.testing import StaticFeatures, release_view
from featuregate_spark import Advice, AdviceState, kafka_options, with_kafka_options
from featuregate_spark.options.advice import SparkRole
from featuregate_spark.options.connector import OPTIONS as TABLE

ANCIENT, OLD, NEW = release_view("0.10.0"), release_view("1.0"), release_view("4.2")
ROLES: tuple[SparkRole, ...] = ("reader", "writer")
REFUSED = {
    "reader": (
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
    ),
    "writer": ("kafka.key.serializer", "kafka.value.serializer", "kafka.transactional.id"),
}


def advice_by_name(view: View | None, options: Mapping[str, Any] | None = None) -> dict[str, Advice]:
    """Return the advice for both roles, by name."""
    return {each.name: each for role in ROLES for each in kafka_options(view, role, options)}


def test_a_new_cluster_allows_all_and_some_of_it_has_no_effect() -> None:
    """Defaults of the Java producer are on, and options that Spark does not use have no effect."""
    assert {name: each.state for name, each in advice_by_name(NEW).items()} == {
        "read-committed": AdviceState.MAY,
        "group-protocol": AdviceState.NO_EFFECT,
        "zstd": AdviceState.MAY,
        "acks-all": AdviceState.ON,
        "idempotence": AdviceState.ON,
        "transactional-id": AdviceState.FAILS,
        "transactions-v2": AdviceState.NO_EFFECT,
    }


def test_an_option_that_the_cluster_lacks_is_not_yet_possible() -> None:
    """The reason names the broker; an option that is on by default says so."""
    assert advice_by_name(OLD)["zstd"].state is AdviceState.NOT_YET
    assert "broker 1" in advice_by_name(OLD)["zstd"].reason
    assert advice_by_name(ANCIENT)["read-committed"].state is AdviceState.NOT_YET
    assert advice_by_name(ANCIENT)["idempotence"].reason.startswith("it is on, but closed: ")


@pytest.mark.parametrize("view", [None, release_view("4.2", "4.2", silent=(2,)), release_view("4.2", "0.10.0")])
def test_one_broker_that_is_old_or_does_not_answer_prevents_all(view: View | None) -> None:
    """A cluster of which no broker has answered prevents all options, too."""
    assert not any(each.applies for each in advice_by_name(view).values())
    assert advice_by_name(view)["zstd"].state is AdviceState.NOT_YET


def test_an_option_without_effect_still_has_the_cluster_s_decision() -> None:
    """A user might set it because the cluster supports it."""
    protocol = advice_by_name(NEW)["group-protocol"]
    assert protocol.decision is not None
    assert (protocol.decision.open, protocol.used, protocol.applies) == (True, False, False)
    assert "Spark assigns the partitions" in protocol.reason
    level = advice_by_name(NEW)["transactions-v2"]
    assert (level.setting, level.used) == (None, False)


@pytest.mark.parametrize(("role", "option"), [(role, option) for role in ROLES for option in REFUSED[role]])
def test_a_rejected_option_is_named_with_what_to_remove(role: SparkRole, option: str) -> None:
    """Spark ignores the case of an option's name, and so does the advice."""
    (found,) = (each for each in kafka_options(NEW, role, {option.upper(): "x"}) if each.setting == option)
    assert (found.state, found.conflicts, found.applies) == (AdviceState.FAILS, (option.upper(),), False)
    assert f"(remove {option.upper()})" in str(found)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kafka.isolation.level": "read_committed"}, "read-committed"),
        ({"KAFKA.Compression.Type": "zstd"}, "zstd"),
        ({"kafka.enable.idempotence": True}, "idempotence"),
        ({"kafka.acks": -1}, "acks-all"),
        ({"kafka.acks": -1}, "idempotence"),
        ({"kafka.max.in.flight.requests.per.connection": 5}, "idempotence"),
    ],
)
def test_an_option_that_is_set_is_on(options: dict[str, object], name: str) -> None:
    """The app may set it in each spelling that Kafka's Java client accepts."""
    found = advice_by_name(NEW, options)[name]
    assert (found.state, found.conflicts, found.applies) == (AdviceState.ON, (), False)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"kafka.isolation.level": "read_uncommitted"}, "read-committed"),
        ({"kafka.isolation.level": "READ_COMMITTED"}, "read-committed"),
        ({"kafka.compression.type": "lz4"}, "zstd"),
        ({"kafka.acks": "1"}, "acks-all"),
        ({"kafka.acks": "1"}, "idempotence"),
        ({"kafka.retries": 0}, "idempotence"),
        ({"kafka.enable.idempotence": False}, "idempotence"),
        ({"Kafka.Max.In.Flight.Requests.Per.Connection": "6"}, "idempotence"),
    ],
)
def test_the_app_s_own_value_is_a_conflict(options: dict[str, object], name: str) -> None:
    """The advice names the option as the app spelled it, and never overrides it."""
    found = advice_by_name(NEW, options)[name]
    assert (found.state, found.conflicts, found.applies) == (AdviceState.MAY, (*options,), False)


def test_idempotence_beside_what_excludes_it_fails() -> None:
    """Kafka's client does not silently disable idempotence that the app has set: the task fails."""
    found = advice_by_name(NEW, {"kafka.enable.idempotence": "true", "kafka.acks": "1"})["idempotence"]
    assert (found.state, found.conflicts) == (AdviceState.FAILS, ("kafka.acks",))


def test_all_that_may_be_set_is_set() -> None:
    """The result is a new dict, which also has the app's own options."""
    options = {"subscribe": "t", "kafka.acks": "1"}
    features = StaticFeatures(NEW)
    assert with_kafka_options(options, role="reader", features=features) == {
        **options,
        "kafka.isolation.level": "read_committed",
    }
    assert with_kafka_options(options, role="writer", features=features) == {
        **options,
        "kafka.compression.type": "zstd",
    }
    assert options == {"subscribe": "t", "kafka.acks": "1"}


def test_nothing_is_set_before_a_broker_has_answered() -> None:
    """Without a view each gate is closed."""
    for role in ROLES:
        assert with_kafka_options({}, role=role, features=StaticFeatures()) == {}


def test_a_reader_keeps_its_options_while_a_broker_does_not_answer() -> None:
    """The gate of an option is sticky, so that a set option stays set; kafka_options() shows the state of now."""
    features = StaticFeatures(NEW)
    first = with_kafka_options({}, role="reader", features=features)
    features.show(release_view("4.2", "4.2", silent=(2,), epoch=NEW.epoch + 1))
    assert not any(each.applies for each in kafka_options(features.view, "reader"))
    assert (
        with_kafka_options({}, role="reader", features=features) == first == {"kafka.isolation.level": "read_committed"}
    )


def test_only_what_may_be_set_has_a_gate() -> None:
    """Pins hold no gates of options without effect, and an app can close a gate in its tests."""
    features = StaticFeatures(NEW)
    features.force_closed("option-zstd")
    usable = [each for each in TABLE if each.role == "writer" and each.support.used]
    gates = [features.gate(f"option-{each.name}", each.requirement) for each in usable]
    assert with_kafka_options({}, role="writer", features=features) == {}
    assert features.health()["gates"] == {gate.name: gate.open for gate in gates}


def test_an_option_without_effect_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """All other advice is logged as information."""
    with caplog.at_level(logging.INFO, logger="featuregate.spark"):
        with_kafka_options({"kafka.group.protocol": "consumer"}, role="reader", features=StaticFeatures(NEW))
    told = {record.getMessage().partition(":")[0]: record.levelno for record in caplog.records}
    assert told == {
        "reader set": logging.INFO,
        "reader not set": logging.WARNING,
    }


def test_there_are_two_roles() -> None:
    """Any other role raises an error."""
    with pytest.raises(ConfigError, match="role: must be reader or writer, not 'consumer'"):
        kafka_options(NEW, "consumer")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="role"):
        with_kafka_options({}, role="consumer", features=StaticFeatures(NEW))  # type: ignore[arg-type]


OPTIONS = [
    *(each.setting for role in ROLES for each in kafka_options(NEW, role) if each.setting),
    *(option for role in ROLES for option in REFUSED[role]),
    "kafka.retries",
    "topic",
]
VALUES = st.one_of(
    st.booleans(), st.integers(-1, 9), st.sampled_from(["zstd", "lz4", "all", "true", "consumer", "read_committed", ""])
)


@given(
    st.dictionaries(st.sampled_from([*OPTIONS, *map(str.upper, OPTIONS)]), VALUES),
    st.sampled_from(ROLES),
    st.sampled_from([None, ANCIENT, OLD, NEW]),
)
def test_the_app_s_own_options_never_change(options: dict[str, Any], role: SparkRole, view: View | None) -> None:
    """Only options that the app has in no spelling are added, and each advice can be pickled."""
    features = StaticFeatures() if view is None else StaticFeatures(view)
    found = with_kafka_options(options, role=role, features=features)
    assert {key: found[key] for key in options} == options
    added = [key for key in found if key not in options]
    assert not {key.lower() for key in options} & {*added}
    for each in kafka_options(view, role, options):
        assert each.reason
        assert pickle.loads(pickle.dumps(each)) == each
