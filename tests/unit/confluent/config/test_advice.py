"""What a cluster allows a client to switch on."""

import logging
import pickle
from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, libversion

from featuregate.errors import ConfigError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import presets
from featuregate.testing import StaticFeatures, release_view
from featuregate.view.cluster_view import View
from featuregate_confluent import Advice, AdviceState, advise, with_advice
from featuregate_confluent.config import advice
from featuregate_librdkafka.advice import judge

OLD, MIDDLE, NEW = release_view("2.4"), release_view("3.9"), release_view("4.2")
ROLLING = release_view("4.2", "2.4")
QUIET = logging.getLogger("tests.advice")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
CLASSIC_ONLY = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.protocol.type")


def one(name: str, view: View, config: Mapping[str, object] | None = None) -> Advice:
    """Return the advice of this name."""
    both = (*advise(view, "consumer", config or {}), *advise(view, "producer", config or {}))
    return next(each for each in both if each.name == name)


def judged(name: str, librdkafka: tuple[int, int, int] | None) -> Advice:
    """Return the advice of this name on a new cluster for another librdkafka than the one of this process."""
    setting = next(each for each in advice.settings(librdkafka) if each.name == name)
    assert setting.requirement is not None
    return judge(setting, evaluate(NEW, setting.requirement), lambda _spellings: [])


def test_an_old_cluster_allows_zstd_and_idempotence_only() -> None:
    """A cluster of 2.4 has neither the new group protocol nor offsets that are fenced by the group."""
    states = {each.name: each.state for role in ("consumer", "producer") for each in advise(OLD, role, {})}
    assert states == {
        "group-protocol": AdviceState.NOT_YET,
        "read-committed": AdviceState.ON,
        "zstd": AdviceState.MAY,
        "idempotence": AdviceState.MAY,
        "one-producer-per-process": AdviceState.NOT_YET,
        "transactions-v2": AdviceState.NO_EFFECT,
    }


def test_the_new_group_protocol_needs_the_finalized_level() -> None:
    """Release 3.9 serves the API but has not finalized group.version; 4.2 has."""
    assert one("group-protocol", MIDDLE).state is AdviceState.NOT_YET
    assert "group.version>=1" in one("group-protocol", MIDDLE).reason
    assert one("group-protocol", NEW).state is AdviceState.MAY


def test_one_old_broker_holds_everything_back_that_it_lacks() -> None:
    """That broker may coordinate the group tomorrow; the reason names it."""
    found = one("one-producer-per-process", ROLLING)
    assert found.state is AdviceState.NOT_YET
    assert "broker 2" in found.reason


def test_a_broker_that_said_nothing_holds_everything_back() -> None:
    """An unknown verdict never opens a gate."""
    silent = release_view("4.2", "4.2", silent=(2,))
    assert {each.state for each in advise(silent, "producer", {})} == {AdviceState.NOT_YET, AdviceState.NO_EFFECT}


def test_transactions_v2_are_for_information() -> None:
    """The cluster supports them, and librdkafka does not."""
    found = one("transactions-v2", NEW)
    assert found.decision.open
    assert (found.state, found.used, found.setting) == (AdviceState.NO_EFFECT, False, None)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"group.protocol": "CONSUMER"}, "group-protocol"),
        ({"compression.codec": "zstd"}, "zstd"),
        ({"topic.compression.type": "zstd"}, "zstd"),
        ({"enable.idempotence": "T"}, "idempotence"),
        ({"transactional.id": "mine"}, "idempotence"),
        ({}, "read-committed"),
        ({"isolation.level": "READ_COMMITTED"}, "read-committed"),
    ],
)
def test_what_is_on_is_seen_in_every_spelling(config: dict[str, object], name: str) -> None:
    """A setting is on by the app's own property, by one that implies it, or by librdkafka's default."""
    found = one(name, NEW, config)
    assert (found.state, found.conflicts, found.applies) == (AdviceState.ON, (), False)


def test_what_is_on_without_the_cluster_is_said() -> None:
    """A consumer that insists on the new protocol does not start on an old cluster."""
    found = one("group-protocol", OLD, {"group.protocol": "consumer"})
    assert found.state is AdviceState.NOT_YET
    assert found.reason.startswith("it is on, but closed: ")


@pytest.mark.parametrize("key", CLASSIC_ONLY)
def test_librdkafka_refuses_what_we_call_a_conflict(key: str) -> None:
    """If the advice were applied all the same, the app could not make its consumer."""
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
    Consumer(config, logger=QUIET).close()
    value = {"group.protocol.type": "consumer", "partition.assignment.strategy": "range"}.get(key, "6000")
    with pytest.raises(KafkaException, match="not supported"):
        Consumer({**config, key: value}, logger=QUIET)


@pytest.mark.parametrize("key", CLASSIC_ONLY)
def test_properties_of_the_classic_protocol_go_first(key: str) -> None:
    """librdkafka refuses to make a consumer with both."""
    found = one("group-protocol", NEW, {key: "1"})
    assert (found.state, found.conflicts, found.applies) == (AdviceState.MAY, (key,), False)
    assert f"(remove {key})" in str(found)


@pytest.mark.parametrize(
    ("config", "name", "conflict"),
    [
        ({"group.protocol": "classic"}, "group-protocol", "group.protocol"),
        ({"compression.type": "lz4"}, "zstd", "compression.type"),
        ({"compression.codec": "none"}, "zstd", "compression.codec"),
        ({"isolation.level": "read_uncommitted"}, "read-committed", "isolation.level"),
        ({"enable.idempotence": "False"}, "idempotence", "enable.idempotence"),
        ({"acks": 1}, "idempotence", "acks"),
        ({"default.topic.config": {"acks": "0"}}, "idempotence", "default.topic.config: acks"),
        ({"max.in.flight": 6}, "idempotence", "max.in.flight"),
        ({"retries": "0"}, "idempotence", "retries"),
        ({"queuing.strategy": "lifo"}, "idempotence", "queuing.strategy"),
        ({"queue.buffering.backpressure.threshold": 2}, "idempotence", "queue.buffering.backpressure.threshold"),
    ],
)
def test_the_app_s_own_choice_stands_in_the_way(config: dict[str, object], name: str, conflict: str) -> None:
    """The app's property is named, and never overridden."""
    found = one(name, NEW, config)
    assert (found.state, found.conflicts, found.applies) == (AdviceState.MAY, (conflict,), False)
    with_features = with_advice(config, role="producer", features=StaticFeatures(NEW))
    assert {key: with_features[key] for key in config} == config


@pytest.mark.parametrize("config", [{"acks": "ALL"}, {"acks": -1}, {"max.in.flight": 5}, {"queuing.strategy": "fifo"}])
def test_what_idempotence_can_live_with_is_no_conflict(config: dict[str, object]) -> None:
    """Only values that librdkafka refuses beside idempotence are conflicts."""
    assert one("idempotence", NEW, config).applies


def test_an_old_librdkafka_holds_the_group_protocol_back() -> None:
    """Before 2.12 the group protocol was a preview, which the cluster cannot know."""
    found = judged("group-protocol", (2, 11, 1))
    assert (found.state, found.used, found.applies) == (AdviceState.NOT_YET, False, False)
    assert "2.11.1" in found.reason
    assert "2.12.0" in found.reason
    assert judged("group-protocol", (2, 12, 0)).applies


def test_it_works_where_confluent_kafka_is_not_installed() -> None:
    """An operator may ask for the app from another machine; the reason says that the client is not known."""
    found = judged("group-protocol", None)
    assert found.applies
    assert found.reason.endswith("confluent-kafka is not installed here")


def test_the_version_of_librdkafka_is_the_one_in_this_process() -> None:
    """The numbers are those of the version's own text."""
    found = advice.installed_librdkafka()
    assert found is not None
    assert ".".join(map(str, found)) == libversion()[0]


def test_every_advice_says_why_and_crosses_process_borders() -> None:
    """An advice has a reason, and can be pickled."""
    for view in (OLD, ROLLING, NEW):
        for role in ("consumer", "producer"):
            for found in advise(view, role, {}):
                assert found.reason
                assert pickle.loads(pickle.dumps(found)) == found


def test_share_groups_are_a_preview_in_librdkafka() -> None:
    """The cluster has them from 4.2 on, and no librdkafka is fit for production with them."""
    (found,) = advise(NEW, "share", {})
    assert found.decision is not None
    assert (found.name, found.decision.open, found.state) == ("share-groups", True, AdviceState.NOT_YET)
    preview = "since 2.15.0 librdkafka does it, as a preview that is not for production; "
    assert found.reason.startswith(preview)


@pytest.mark.parametrize(
    ("librdkafka", "words"),
    [
        ((2, 16, 0), "2.16.0 is installed here"),
        ((2, 15, 0), "2.15.0 is installed here"),
        ((2, 14, 2), "2.14.2 does not do it, and is installed here"),
        (None, "confluent-kafka is not installed here"),
    ],
)
def test_a_preview_is_used_from_its_first_release_on(librdkafka: tuple[int, int, int] | None, words: str) -> None:
    """The reason says whether this process has it."""
    found = judged("share-groups", librdkafka)
    assert (found.used, found.applies, found.state) == (
        librdkafka in {(2, 16, 0), (2, 15, 0)},
        False,
        AdviceState.NOT_YET,
    )
    assert found.reason.endswith(words)


@pytest.mark.parametrize("key", advice.REFUSED_BY_SHARE_CONSUMERS)
def test_a_share_consumer_is_refused_what_we_call_a_conflict(key: str) -> None:
    """librdkafka refuses any value, also its own default; the advice names the property."""
    values = {"on_commit": print, "enable.auto.commit": "true", "session.timeout.ms": "45000", "socket.max.fails": "1"}
    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", key: values.get(key, _default_of(key))}
    with pytest.raises((KafkaException, TypeError, ValueError), match=r"share consumer|ShareConsumer"):
        ShareConsumer(given, logger=QUIET)
    (found,) = advise(NEW, "share", given)
    assert found.conflicts == (key,)
    assert f"(remove {key})" in str(found)


@pytest.mark.parametrize("key", ["client.rack", "fetch.min.bytes", "max.poll.interval.ms", "check.crcs"])
def test_what_a_share_consumer_takes_is_no_conflict(key: str) -> None:
    """librdkafka makes the consumer."""
    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", key: _default_of(key)}
    ShareConsumer(given, logger=QUIET).close()
    (found,) = advise(NEW, "share", given)
    assert found.conflicts == ()


def _default_of(key: str) -> str:
    """Return a value that an ordinary consumer takes."""
    if key.endswith((".ms", ".bytes", ".kbytes", ".messages")):
        return "100000"
    known = {"isolation.level": "read_committed", "partition.assignment.strategy": "range", "group.protocol": "classic"}
    return {**known, "auto.offset.reset": "latest"}.get(key, "true")


@pytest.mark.parametrize("config", [{"enable.idempotence": "true"}, {"transactional.id": "mine"}])
def test_what_is_on_beside_what_excludes_it_fails(config: dict[str, object]) -> None:
    """librdkafka refuses to make the producer."""
    given = {"bootstrap.servers": "127.0.0.1:1", **config, "acks": "1"}
    with pytest.raises(KafkaException, match="must be set"):
        Producer(given, logger=QUIET)
    found = one("idempotence", NEW, given)
    assert (found.state, found.conflicts, found.applies) == (AdviceState.FAILS, ("acks",), False)


def test_share_groups_of_an_old_cluster_are_not_yet_there() -> None:
    """The brokers are the reason then."""
    (older,) = advise(OLD, "share", {})
    assert older.decision is not None
    assert not older.decision.open


def test_there_are_three_roles() -> None:
    """Any other role is refused."""
    with pytest.raises(ConfigError, match="role: must be consumer, producer or share, not 'admin'"):
        advise(NEW, "admin", {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="role"):
        with_advice({}, role="admin", features=StaticFeatures(NEW))  # type: ignore[arg-type]


def test_what_may_be_switched_on_is() -> None:
    """The advised settings are added to a copy of the app's properties."""
    config = {"group.id": "g", "linger.ms": 5}
    features = StaticFeatures(NEW)
    assert with_advice(config, role="consumer", features=features) == {**config, "group.protocol": "consumer"}
    assert with_advice(config, role="producer", features=features) == {
        **config,
        "compression.type": "zstd",
        "enable.idempotence": "true",
    }
    assert config == {"group.id": "g", "linger.ms": 5}


def test_nothing_is_switched_on_before_anybody_has_answered() -> None:
    """A gate without a view is closed."""
    config = {"group.id": "g"}
    for role in ("consumer", "producer"):
        assert with_advice(config, role=role, features=StaticFeatures()) == config


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
    zstd = features.gate("advice-zstd", presets.zstd)
    assert with_advice({}, role="producer", features=features) == {"enable.idempotence": "true"}
    gates = features.health()["gates"]
    assert not zstd.open
    assert not gates["advice-zstd"]
    assert gates["advice-idempotence"]


def test_each_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log says what was set, and why another setting was not."""
    with caplog.at_level(logging.INFO, logger="featuregate_confluent.config.advice"):
        with_advice({"acks": 1}, role="producer", features=StaticFeatures(NEW))
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("producer set: compression.type=zstd") for line in lines)
    assert any(line.startswith("producer not set: enable.idempotence=true: may be") for line in lines)
