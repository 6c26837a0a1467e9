"""How the app's properties are completed, and which of them are refused."""

import contextlib
import logging
from pathlib import Path

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
TRUE, FALSE = (True, "true", "True", "T", "1", 1), (False, "false", "F", "0", 0)

CONSUMERS: tuple[dict[str, object], ...] = (
    {},
    {"client.id": "mine"},
    {"client.id": ""},
    {"group.instance.id": "one#fg=legacy"},
    *({"isolation.level": value} for value in ("read_uncommitted", "READ_UNCOMMITTED", " read_uncommitted")),
    *({"enable.auto.commit": value} for value in (*TRUE, *FALSE)),
    *({"enable.auto.offset.store": value} for value in (*TRUE, "false")),
    *({"group.id": value} for value in (None, "", " ")),
    {"bootstrap.servers": None},
    {"bootstrap.servers": None, "metadata.broker.list": NOWHERE},
)
REFUSED: tuple[dict[str, object], ...] = (
    *({"acks": value} for value in (0, "1")),
    {"request.required.acks": 1},
    {"topic.acks": 1},
    {"default.topic.config": {"acks": 1}},
    {"acks": "all", "request.required.acks": 1},
    *({"enable.idempotence": value} for value in (False, "F")),
    {"max.in.flight": "0x6"},
    {"max.in.flight.requests.per.connection": 6},
    {"message.timeout.ms": 10_001},
    {"message.timeout.ms": 30_000, "transaction.timeout.ms": 20_000},
    {"delivery.timeout.ms": "30000"},
    {"topic.message.timeout.ms": "30000"},
    {"socket.timeout.ms": 60_000},
    {"transaction.timeout.ms": "soon"},
)
TAKEN: tuple[dict[str, object], ...] = (
    {},
    *({"acks": value} for value in ("ALL", -1)),
    {"topic.acks": "-1"},
    {"enable.idempotence": "T"},
    {"max.in.flight": "0x5"},
    *({"message.timeout.ms": value} for value in (0, 10_000)),
    {"socket.timeout.ms": 10_100},
    {"transaction.timeout.ms": "0x2710", "message.timeout.ms": "0x2710"},
    {"transaction.timeout.ms": "60000", "linger.ms": 50},
    {"default.topic.config": {"acks": "all"}},
)


def consumer(more: dict[str, object]) -> dict[str, object]:
    user = {"bootstrap.servers": NOWHERE, "group.id": "g", **more}
    return settings.consumer_config(user, app_id="app", tag=Model.BRIDGE)


def producer(more: dict[str, object]) -> dict[str, object]:
    return settings.producer_config({"bootstrap.servers": NOWHERE, **more}, transactional_id="app-in-0")


def librdkafka_takes(config: dict[str, object]) -> bool:
    """Ask the client itself, which connects to no broker."""
    try:
        Producer(config, logger=QUIET)
    except KafkaException:
        return False
    return True


def test_all_properties_and_errors_are_as_kept() -> None:
    """What is added, what is refused in which spelling, and what each error says to do."""
    told = []
    cases = [
        ("consumer", consumer, CONSUMERS),
        ("producer", producer, (*TAKEN, *REFUSED, {"transactional.id": "mine"})),
    ]
    for role, complete, given_properties in cases:
        for given_ in given_properties:
            try:
                found = str(dict(sorted(complete(given_).items())))
            except ConfigError as error:
                found = f"{type(error).__name__}: {error}"
            told.append(f"{role} {given_}\n  {found}")
    kept = Path(__file__).parent / "settings.txt"
    assert "\n".join(told) + "\n" == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("properties", REFUSED)
def test_librdkafka_refuses_the_same(properties: dict[str, object]) -> None:
    """Our error names the property as the app spelled it, and says what to do."""
    ours = {"transactional.id": "t", "transaction.timeout.ms": 10_000, "enable.idempotence": True}
    assert not librdkafka_takes({"bootstrap.servers": NOWHERE, **ours, **properties})


@pytest.mark.parametrize("properties", TAKEN)
def test_nothing_is_refused_that_the_client_takes(properties: dict[str, object]) -> None:
    """Its own spellings are accepted, up to the bounds."""
    assert librdkafka_takes(producer(properties))


def test_the_app_s_dict_stays_as_it_was_and_callbacks_pass_through() -> None:
    """The app may use it for other clients."""

    def error_cb(_error: object) -> None: ...

    user = {"bootstrap.servers": NOWHERE, "group.id": "g", "client.id": "mine", "error_cb": error_cb}
    before = dict(user)
    assert settings.consumer_config(user, app_id="app", tag=Model.LEGACY)["error_cb"] is error_cb
    assert settings.producer_config(user, transactional_id="t")["error_cb"] is error_cb
    assert user == before


def test_brokers_and_a_transactional_id_are_needed() -> None:
    """librdkafka accepts an empty id, and would send without transactions; without brokers it waits for ever."""
    with pytest.raises(SettingsContradict, match=r"^bootstrap\.servers: is missing"):
        settings.producer_config({}, transactional_id="t")
    assert settings.producer_config({"metadata.broker.list": NOWHERE}, transactional_id="t")
    with pytest.raises(ConfigError, match="must not be empty"):
        settings.producer_config({"bootstrap.servers": NOWHERE}, transactional_id="")
    assert librdkafka_takes({"bootstrap.servers": NOWHERE, "transactional.id": ""})


@pytest.mark.parametrize("written", ["a:9092", "A", "b:1, a", "PLAINTEXT://a:9092"])
def test_lists_that_share_a_broker_are_one_cluster(written: str) -> None:
    """The lists need not be equal, and may spell the broker in different ways."""
    settings.require_one_cluster({"bootstrap.servers": "a:9092,c:9092"}, {"bootstrap.servers": written})


def test_two_clusters_are_refused() -> None:
    """A transaction cannot span two clusters. Where brokers are named twice, the last counts, as for librdkafka."""
    with pytest.raises(SettingsContradict, match=r"a:9092.*b:9093.*same list"):
        settings.require_one_cluster({"bootstrap.servers": "a"}, {"metadata.broker.list": "b:9093"})
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
