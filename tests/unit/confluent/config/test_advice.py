"""What a cluster allows a client to switch on."""

import logging
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, libversion

from featuregate.errors import ConfigError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate_confluent import Advice, advise, with_advice
from featuregate_confluent.config import advice
from featuregate_librdkafka.advice import judge

NEW = release_view("4.2")
VIEWS = {
    "2.4": release_view("2.4"),
    "3.9": release_view("3.9"),
    "4.2": NEW,
    "4.2 and 2.4": release_view("4.2", "2.4"),
    "4.2, one silent": release_view("4.2", "4.2", silent=(2,)),
}
QUIET = logging.getLogger("tests.advice")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type")
CONFIGS: tuple[tuple[str, dict[str, object]], ...] = (
    ("consumer", {"group.protocol": "CONSUMER"}),
    ("consumer", {"group.protocol": "classic"}),
    *(("consumer", {key: "1"}) for key in CLASSIC_ONLY),
    ("consumer", {"isolation.level": "READ_COMMITTED"}),
    ("consumer", {"isolation.level": "read_uncommitted"}),
    ("producer", {"compression.codec": "zstd"}),
    ("producer", {"topic.compression.type": "zstd"}),
    ("producer", {"compression.type": "lz4"}),
    ("producer", {"compression.codec": "none"}),
    ("producer", {"enable.idempotence": "T"}),
    ("producer", {"enable.idempotence": "False"}),
    ("producer", {"transactional.id": "mine"}),
    ("producer", {"transactional.id": "mine", "acks": "1"}),
    *(("producer", {"acks": value}) for value in (1, "ALL", -1)),
    ("producer", {"default.topic.config": {"acks": "0"}}),
    *(("producer", {"max.in.flight": value}) for value in (5, 6)),
    ("producer", {"retries": "0"}),
    *(("producer", {"queuing.strategy": value}) for value in ("lifo", "fifo")),
    ("producer", {"queue.buffering.backpressure.threshold": 2}),
)


def lines_of(found: Iterable[Advice]) -> list[str]:
    """Return a line for each advice, without the version of librdkafka that is installed here."""
    return [f"  {each.name}{marks_of(each)}: {each}".replace(libversion()[0], "HERE") for each in found]


def marks_of(each: Advice) -> str:
    verdict = f", {each.decision.verdict}" if each.decision else ""
    return f"{verdict}{', applies' if each.applies else ''}{'' if each.used else ', not used'}"


def judged(name: str, librdkafka: tuple[int, int, int] | None) -> Advice:
    """Return the advice of this name on a new cluster for another librdkafka than the one of this process."""
    setting = next(each for each in advice.settings(librdkafka) if each.name == name)
    assert setting.requirement is not None
    return judge(setting, evaluate(NEW, setting.requirement), lambda _spellings: [])


def test_all_advice_is_as_kept() -> None:
    """By cluster and role; by the app's own properties, in every spelling; and by the release of librdkafka."""
    told = []
    for name, view in VIEWS.items():
        for role in ("consumer", "producer", "share"):
            told += [f"{name}, {role}", *lines_of(advise(view, role, {}))]
    for role, config in CONFIGS:
        before = advise(NEW, role, {})
        changed = [each for each in advise(NEW, role, config) if each not in before]
        told += [f"4.2, {role} with {config}", *lines_of(changed)]
    told += [
        "2.4, consumer with group.protocol=consumer",
        *lines_of(advise(VIEWS["2.4"], "consumer", {"group.protocol": "consumer"})),
    ]
    for name in ("group-protocol", "share-groups"):
        for release in (None, (2, 11, 1), (2, 12, 0), (2, 14, 2), (2, 15, 0)):
            told += [f"4.2, {name} with librdkafka {release}", *lines_of((judged(name, release),))]
    kept = Path(__file__).parent / "advice.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


def test_every_advice_crosses_process_borders() -> None:
    for found in advise(NEW, "consumer", {}):
        assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(("role", "config"), CONFIGS)
def test_the_app_s_own_choice_is_never_overridden(role: str, config: dict[str, object]) -> None:
    found = with_advice(config, role=role, features=StaticFeatures(NEW))  # type: ignore[arg-type]
    assert {key: found[key] for key in config} == config


@pytest.mark.parametrize("key", CLASSIC_ONLY)
def test_librdkafka_refuses_what_we_call_a_conflict(key: str) -> None:
    """If the advice were applied all the same, the app could not make its consumer."""
    config = {**NOWHERE, "group.id": "g", "group.protocol": "consumer"}
    Consumer(config, logger=QUIET).close()
    value = {"group.protocol.type": "consumer", "partition.assignment.strategy": "range"}.get(key, "6000")
    with pytest.raises(KafkaException, match="not supported"):
        Consumer({**config, key: value}, logger=QUIET)


@pytest.mark.parametrize("config", [{"enable.idempotence": "true"}, {"transactional.id": "mine"}])
def test_what_is_on_beside_what_excludes_it_fails(config: dict[str, object]) -> None:
    with pytest.raises(KafkaException, match="must be set"):
        Producer({**NOWHERE, **config, "acks": "1"}, logger=QUIET)
    found = {each.name: each for each in advise(NEW, "producer", {**config, "acks": "1"})}["idempotence"]
    assert str(found).startswith("enable.idempotence=true: fails (remove acks)")


@pytest.mark.parametrize("key", advice.REFUSED_BY_SHARE_CONSUMERS)
def test_a_share_consumer_is_refused_what_we_call_a_conflict(key: str) -> None:
    """librdkafka refuses any value, also its own default; the advice names the property."""
    values = {"on_commit": print, "enable.auto.commit": "true", "session.timeout.ms": "45000", "socket.max.fails": "1"}
    given = {**NOWHERE, "group.id": "g", key: values.get(key, _default_of(key))}
    with pytest.raises((KafkaException, TypeError, ValueError), match=r"share consumer|ShareConsumer"):
        ShareConsumer(given, logger=QUIET)
    (found,) = advise(NEW, "share", given)
    assert found.conflicts == (key,)


@pytest.mark.parametrize("key", ["client.rack", "fetch.min.bytes", "max.poll.interval.ms", "check.crcs"])
def test_what_a_share_consumer_takes_is_no_conflict(key: str) -> None:
    given = {**NOWHERE, "group.id": "g", key: _default_of(key)}
    ShareConsumer(given, logger=QUIET).close()
    (found,) = advise(NEW, "share", given)
    assert found.conflicts == ()


def _default_of(key: str) -> str:
    if key.endswith((".ms", ".bytes", ".kbytes", ".messages")):
        return "100000"
    known = {"isolation.level": "read_committed", "partition.assignment.strategy": "range", "group.protocol": "classic"}
    return {**known, "auto.offset.reset": "latest"}.get(key, "true")


def test_there_are_three_roles() -> None:
    with pytest.raises(ConfigError, match="role: must be consumer, producer or share, not 'admin'"):
        advise(NEW, "admin", {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="role"):
        with_advice({}, role="admin", features=StaticFeatures(NEW))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("role", "more"),
    [
        ("consumer", {"group.protocol": "consumer"}),
        ("producer", {"compression.type": "zstd", "enable.idempotence": "true"}),
    ],
)
def test_what_may_be_switched_on_is_added_to_a_copy(role: str, more: Mapping[str, str]) -> None:
    """A gate without a view is closed, so that nothing is switched on before any broker has answered."""
    config = {"group.id": "g", "linger.ms": 5}
    assert with_advice(config, role=role, features=StaticFeatures(NEW)) == {**config, **more}  # type: ignore[arg-type]
    assert with_advice(config, role=role, features=StaticFeatures()) == config  # type: ignore[arg-type]
    assert config == {"group.id": "g", "linger.ms": 5}


def test_what_was_switched_on_stays_on() -> None:
    """A new view that lacks the level, as of a stale broker, does not bring the next consumer back to classic."""
    features = StaticFeatures(NEW)
    first = with_advice({}, role="consumer", features=features)
    features.show(release_view("4.2", finalized={}, epoch=NEW.epoch + 1))
    assert evaluate(features.view, presets.kip848).verdict == "closed"
    assert with_advice({}, role="consumer", features=features) == first == {"group.protocol": "consumer"}


def test_the_gates_are_named() -> None:
    """The names let health() show the gates, and an app force one closed in its tests."""
    features = StaticFeatures(NEW)
    features.force_closed("advice-zstd")
    assert with_advice({}, role="producer", features=features) == {"enable.idempotence": "true"}
    gates = features.health()["gates"]
    assert not gates["advice-zstd"]
    assert gates["advice-idempotence"]


def test_each_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="featuregate_confluent.config.advice"):
        with_advice({"acks": 1}, role="producer", features=StaticFeatures(NEW))
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("producer set: compression.type=zstd") for line in lines)
    assert any(line.startswith("producer not set: enable.idempotence=true: may be") for line in lines)
