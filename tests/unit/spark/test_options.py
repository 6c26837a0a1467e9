"""What a cluster allows of Spark's Kafka source and sink, and what has no effect there."""

import logging
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from featuregate import View
from featuregate.errors import ConfigError
from featuregate.testing import StaticFeatures, release_view
from featuregate_spark import Advice, kafka_options, with_kafka_options
from featuregate_spark.options import OPTIONS as TABLE
from featuregate_spark.options import SparkRole

ANCIENT, OLD, NEW = release_view("0.10.0"), release_view("1.0"), release_view("4.2")
VIEWS = {
    "nothing seen": None,
    "0.10": ANCIENT,
    "1.0": OLD,
    "4.2": NEW,
    "4.2, one silent": release_view("4.2", "4.2", silent=(2,)),
    "4.2 and 0.10": release_view("4.2", "0.10.0"),
}
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


CONFIGS: tuple[tuple[SparkRole, dict[str, object]], ...] = (
    *((role, {option.upper(): "x"}) for role in ROLES for option in REFUSED[role]),
    ("reader", {"kafka.isolation.level": "read_committed"}),
    ("reader", {"kafka.isolation.level": "read_uncommitted"}),
    ("reader", {"kafka.isolation.level": "READ_COMMITTED"}),
    ("reader", {"kafka.partition.assignment.strategy": "range", "kafka.group.instance.id": "one"}),
    ("writer", {"KAFKA.Compression.Type": "zstd"}),
    ("writer", {"kafka.compression.type": "lz4"}),
    ("writer", {"kafka.enable.idempotence": True}),
    ("writer", {"kafka.enable.idempotence": False}),
    ("writer", {"kafka.enable.idempotence": "true", "kafka.acks": "1"}),
    *(("writer", {"kafka.acks": value}) for value in (-1, "1")),
    ("writer", {"kafka.max.in.flight.requests.per.connection": 5}),
    ("writer", {"Kafka.Max.In.Flight.Requests.Per.Connection": "6"}),
    ("writer", {"kafka.retries": 0}),
    ("writer", {"kafka.transaction.timeout.ms": 5}),
)


def test_all_advice_is_as_kept() -> None:
    """By cluster and role, and by the app's own options; Spark ignores the case of their names."""
    told = []
    for name, view in VIEWS.items():
        for role in ROLES:
            told += [f"{name}, {role}", *lines_of(kafka_options(view, role))]
    for role, config in CONFIGS:
        before = kafka_options(NEW, role)
        changed = [each for each in kafka_options(NEW, role, config) if each not in before]
        told += [f"4.2, {role} with {config}", *lines_of(changed)]
    kept = Path(__file__).parent / "options.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


def lines_of(found: Iterable[Advice]) -> list[str]:
    marks = [(each, ", applies" if each.applies else "" if each.used else ", not used") for each in found]
    verdicts = [f", {each.decision.verdict}" if each.decision else "" for each, _ in marks]
    return [f"  {each.name}{verdict}{mark}: {each}" for (each, mark), verdict in zip(marks, verdicts, strict=True)]


def test_all_that_may_be_set_is_set() -> None:
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
    assert told == {"reader set": logging.INFO, "reader not set": logging.WARNING}


def test_there_are_two_roles() -> None:
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
