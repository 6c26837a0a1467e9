"""How the app's properties are completed, and which of them are refused."""

import contextlib
import logging

import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import given
from hypothesis import strategies as st

from featuregate.errors import ConfigError
from featuregate_confluent.config import settings
from featuregate_confluent.errors import SettingsContradict
from featuregate_confluent.models import Model

NOWHERE = "127.0.0.1:1"
QUIET = logging.getLogger("tests.settings")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def consumer(**properties: object) -> dict[str, object]:
    """Return the consumer's properties; ``__`` stands for a dot."""
    user = {"bootstrap.servers": NOWHERE, "group.id": "g", **dotted(properties)}
    return settings.consumer_config(user, app_id="app", tag=Model.BRIDGE)


def producer(**properties: object) -> dict[str, object]:
    return settings.producer_config({"bootstrap.servers": NOWHERE, **dotted(properties)}, transactional_id="app-in-0")


def dotted(properties: dict[str, object]) -> dict[str, object]:
    return {key.replace("__", "."): value for key, value in properties.items()}


def librdkafka_takes(config: dict[str, object]) -> bool:
    """Ask the client itself, which connects to no broker."""
    try:
        Producer(config, logger=QUIET)
    except KafkaException:
        return False
    return True


def test_the_consumer_reads_committed_and_commits_nothing_by_itself() -> None:
    """A new owner's stable read and the group's latch depend on both."""
    config = consumer()
    assert config["isolation.level"] == "read_committed"
    assert config["enable.auto.commit"] is False
    assert config["enable.auto.offset.store"] is False


def test_a_static_member_shows_its_tag_in_its_instance_id_too() -> None:
    """A classic group still shows the client id of the member that had the instance id before."""
    static = settings.consumer_config(
        {"bootstrap.servers": "b:1", "group.id": "g", "group.instance.id": "one#fg=legacy"},
        app_id="app",
        tag=Model.BRIDGE,
    )
    assert static["group.instance.id"] == "one#fg=bridge"
    assert "group.instance.id" not in consumer()


def test_the_consumer_shows_its_tag() -> None:
    """The tag is added to the app's own client.id, or else to the app id."""
    assert consumer(client__id="mine")["client.id"] == "mine#fg=bridge"
    assert consumer()["client.id"] == "app#fg=bridge"
    assert consumer(client__id="")["client.id"] == "app#fg=bridge"


def test_the_producer_is_idempotent_has_an_id_and_a_short_timeout() -> None:
    """A dead member holds up the next owner for ten seconds at most."""
    config = producer()
    assert config["enable.idempotence"] is True
    assert config["transactional.id"] == "app-in-0"
    assert config["transaction.timeout.ms"] == 10_000
    assert librdkafka_takes(config)


def test_the_app_s_dict_stays_as_it_was_and_callbacks_pass_through() -> None:
    """The app may use it for other clients."""

    def error_cb(_error: object) -> None: ...

    user = {"bootstrap.servers": NOWHERE, "group.id": "g", "client.id": "mine", "error_cb": error_cb}
    before = dict(user)
    assert settings.consumer_config(user, app_id="app", tag=Model.LEGACY)["error_cb"] is error_cb
    assert settings.producer_config(user, transactional_id="t")["error_cb"] is error_cb
    assert user == before


def test_what_is_not_judged_is_kept() -> None:
    """The app's value takes precedence over a default unless it is a contradiction."""
    config = producer(transaction__timeout__ms="60000", linger__ms=50, acks="ALL")
    assert (config["transaction.timeout.ms"], config["linger.ms"], config["acks"]) == (60_000, 50, "ALL")


@pytest.mark.parametrize("value", ["read_uncommitted", "READ_UNCOMMITTED", " read_uncommitted"])
def test_reading_uncommitted_is_refused(value: str) -> None:
    """The mixed group in which a bridge member took over with read_uncommitted doubled each message."""
    with pytest.raises(SettingsContradict, match=r"^isolation\.level: is .*Remove it, or set read_committed$"):
        consumer(isolation__level=value)


@pytest.mark.parametrize("value", [True, "true", "True", "T", "1", 1])
def test_automatic_commits_are_refused_in_every_spelling_of_true(value: object) -> None:
    """librdkafka reads all of these as true, and would commit beside the transaction."""
    with pytest.raises(SettingsContradict, match=r"^enable\.auto\.commit: is "):
        consumer(enable__auto__commit=value)


@pytest.mark.parametrize("value", [False, "false", "F", "0", 0])
def test_no_automatic_commits_in_the_app_s_own_words_are_fine(value: object) -> None:
    """A value that equals the default is not refused."""
    assert consumer(enable__auto__commit=value)["enable.auto.commit"] == value


@pytest.mark.parametrize("value", [None, "", " "])
def test_a_group_is_needed(value: object) -> None:
    """confluent-kafka ends the whole process over an empty group.id."""
    with pytest.raises(SettingsContradict, match=r"^group\.id: is missing or empty"):
        consumer(group__id=value)


def test_brokers_are_needed() -> None:
    """Either spelling counts. A client without brokers would wait for ever."""
    with pytest.raises(SettingsContradict, match=r"^bootstrap\.servers: is missing"):
        settings.consumer_config({"group.id": "g"}, app_id="app", tag=Model.BRIDGE)
    with pytest.raises(SettingsContradict, match=r"^bootstrap\.servers: is missing"):
        settings.producer_config({}, transactional_id="t")
    assert settings.producer_config({"metadata.broker.list": NOWHERE}, transactional_id="t")


def test_an_empty_transactional_id_is_refused() -> None:
    """librdkafka accepts it, and would send without transactions."""
    with pytest.raises(ConfigError, match="must not be empty"):
        settings.producer_config({"bootstrap.servers": NOWHERE}, transactional_id="")
    assert librdkafka_takes({"bootstrap.servers": NOWHERE, "transactional.id": ""})


def test_the_app_cannot_name_the_producers() -> None:
    """The error says how producers are named instead."""
    with pytest.raises(SettingsContradict, match=r"^transactional\.id: is 'mine', .*app_id.*instance_id"):
        producer(transactional__id="mine")


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"acks": 0}, "acks"),
        ({"acks": "1"}, "acks"),
        ({"request.required.acks": 1}, "request.required.acks"),
        ({"topic.acks": 1}, "topic.acks"),
        ({"default.topic.config": {"acks": 1}}, "default.topic.config: acks"),
        ({"acks": "all", "request.required.acks": 1}, "request.required.acks"),
        ({"enable.idempotence": False}, "enable.idempotence"),
        ({"enable.idempotence": "F"}, "enable.idempotence"),
        ({"max.in.flight": "0x6"}, "max.in.flight"),
        ({"max.in.flight.requests.per.connection": 6}, "max.in.flight.requests.per.connection"),
        ({"message.timeout.ms": 10_001}, "message.timeout.ms"),
        ({"delivery.timeout.ms": "30000"}, "delivery.timeout.ms"),
        ({"topic.message.timeout.ms": "30000"}, "topic.message.timeout.ms"),
        ({"socket.timeout.ms": 60_000}, "socket.timeout.ms"),
        ({"transaction.timeout.ms": 5000, "message.timeout.ms": 6000}, "message.timeout.ms"),
        ({"transaction.timeout.ms": "soon"}, "transaction.timeout.ms"),
    ],
)
def test_contradictions_of_the_producer_are_named_as_the_app_spelled_them(
    properties: dict[str, object], key: str
) -> None:
    """librdkafka refuses each of them as well; this error names the property and says what to do."""
    with pytest.raises(SettingsContradict) as refused:
        producer(**properties)
    assert refused.value.key == key
    assert not librdkafka_takes(
        {
            "bootstrap.servers": NOWHERE,
            "transactional.id": "t",
            "transaction.timeout.ms": 10_000,
            "enable.idempotence": True,
            **properties,
        }
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"acks": "ALL"},
        {"acks": -1},
        {"topic.acks": "-1"},
        {"enable.idempotence": "T"},
        {"max.in.flight": "0x5"},
        {"message.timeout.ms": 0},
        {"message.timeout.ms": 10_000},
        {"socket.timeout.ms": 10_100},
        {"transaction.timeout.ms": "0x2710", "message.timeout.ms": "0x2710"},
        {"default.topic.config": {"acks": "all"}},
    ],
)
def test_nothing_is_refused_that_the_client_takes(properties: dict[str, object]) -> None:
    """Its own spellings are accepted, up to the bounds."""
    assert librdkafka_takes(producer(**properties))


def test_a_timeout_beyond_our_default_says_that_the_bound_is_ours() -> None:
    """The app may not have set transaction.timeout.ms at all."""
    with pytest.raises(SettingsContradict, match=r"10000, the default here\)\. Remove it, lower it, or raise"):
        producer(message__timeout__ms=30_000)
    with pytest.raises(SettingsContradict, match=r"\(20000\)"):
        producer(message__timeout__ms=30_000, transaction__timeout__ms=20_000)


def test_two_clusters_are_refused() -> None:
    """A transaction cannot span two clusters; the error shows both lists."""
    with pytest.raises(SettingsContradict, match=r"a:9092.*b:9093.*same list"):
        settings.require_one_cluster({"bootstrap.servers": "a"}, {"metadata.broker.list": "b:9093"})


@pytest.mark.parametrize("written", ["a:9092", "A", "b:1, a", "PLAINTEXT://a:9092"])
def test_lists_that_share_a_broker_are_one_cluster(written: str) -> None:
    """The lists need not be equal, and may spell the broker in different ways."""
    settings.require_one_cluster({"bootstrap.servers": "a:9092,c:9092"}, {"bootstrap.servers": written})


def test_where_brokers_are_named_twice_the_last_counts() -> None:
    """librdkafka does the same: one name is an alias of the other."""
    twice = {"bootstrap.servers": "a", "metadata.broker.list": "b"}
    with pytest.raises(SettingsContradict):
        settings.require_one_cluster(twice, {"bootstrap.servers": "a"})
    settings.require_one_cluster(twice, {"bootstrap.servers": "b"})


@given(value=st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()))
def test_no_value_raises_anything_but_an_error_of_ours(value: object) -> None:
    """The switch passes any value on, and librdkafka reports a bad one later."""
    for name in ("acks", "max.in.flight", "message.timeout.ms", "enable.idempotence", "transaction.timeout.ms"):
        with contextlib.suppress(SettingsContradict):
            assert settings.producer_config({"bootstrap.servers": NOWHERE, name: value}, transactional_id="t")


@pytest.mark.parametrize("value", [True, "true", "T", 1])
def test_a_consumer_that_stores_offsets_is_refused(value: object) -> None:
    """Consumer.commit() would commit them, and wipe the group's latch."""
    with pytest.raises(SettingsContradict, match="wipe the group's latch"):
        consumer(enable__auto__offset__store=value)
    assert consumer(enable__auto__offset__store="false")["enable.auto.offset.store"] == "false"
