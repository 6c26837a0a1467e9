"""The options of switch and processor: one source of names and defaults, and what is refused."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from featuregate.errors import ClosedError, ConfigError
from featuregate.testing import StaticFeatures
from featuregate_confluent import DeadLetter, ExactlyOnceProcessor, ProducerSwitch, SwitchFatal, SwitchOptions
from featuregate_confluent.config.options import DEFAULTS, complete

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing", "log_level": 0}
NEEDED: dict[str, Any] = {"consumer": NOWHERE, "producer": NOWHERE, "topics": ["orders"], "app_id": "billing"}


def switch(**options: Any) -> ProducerSwitch:
    return ProducerSwitch(**{**NEEDED, "features": StaticFeatures(), **options})


def processor(**options: Any) -> ExactlyOnceProcessor:
    given = {**NEEDED, "features": StaticFeatures(), "transform": lambda _messages: [], **options}
    return ExactlyOnceProcessor(**given)


def test_each_option_is_needed_or_has_a_default() -> None:
    """The options that type checkers know are those that are read."""
    assert SwitchOptions.__optional_keys__ == DEFAULTS.keys()
    assert SwitchOptions.__required_keys__ == NEEDED.keys()
    assert complete(SwitchOptions(**NEEDED)) == {**DEFAULTS, **NEEDED}
    assert complete(SwitchOptions(**NEEDED, model="v2"))["model"] == "v2"


def test_an_unknown_option_is_reported_as_in_any_call() -> None:
    """The processor passes the option on, and reports it in the same way."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'modell'"):
        switch(modell="v2")
    with pytest.raises(TypeError, match="unexpected keyword argument 'group_intervall'"):
        processor(group_intervall=1)
    with pytest.raises(TypeError, match="missing 'app_id', 'topics'"):
        ProducerSwitch(consumer=NOWHERE, producer=NOWHERE)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"poison": "skip"}, "poison"),
        ({"poison": None}, "poison"),
        ({"poison": DeadLetter("")}, "poison"),
        ({"poison": DeadLetter("dead letters")}, "poison"),
        ({"poison": DeadLetter("orders")}, "poison"),
        ({"poison": DeadLetter("orders.dead"), "topics": ["^orders"]}, "poison"),
        ({"poison": DeadLetter(5)}, "poison"),
        ({"poison": DeadLetter("dead"), "topics": 5}, "topics"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1_000_001}, "batch_size"),
        ({"linger": -0.1}, "linger"),
        ({"linger": float("inf")}, "linger"),
        ({"model": "v3"}, "model"),
        ({"app_id": ""}, "app_id"),
        ({"topics": "orders"}, "topics"),
        ({"topics": 5}, "topics"),
        ({"topics": ["orders", 5]}, "topics"),
        ({"consumer": "127.0.0.1:1"}, "consumer"),
        ({"producer": None}, "producer"),
        ({"app_id": 5}, "app_id"),
        ({"instance_id": 5}, "instance_id"),
        ({"instance_id": ""}, "instance_id"),
        ({"latch_topic": " "}, "latch_topic"),
        ({"usage_topic": "", "features": None}, "usage_topic"),
        ({"features": "127.0.0.1:1"}, "features"),
        ({"metrics": 5}, "metrics"),
        ({"name_of": "billing"}, "name_of"),
        ({"transform": "bill"}, "transform"),
        ({"batch_size": "500"}, "batch_size"),
        ({"usage_topic": "featuregate-usage"}, "usage_topic"),
        ({"topics": []}, "topics"),
        ({"group_interval": 0}, "group_interval"),
        ({"group_interval": "3"}, "group_interval"),
        ({"features": None, "interval": -1}, "interval"),
        ({"consumer": {**NOWHERE, "enable.auto.commit": True}}, "enable.auto.commit"),
        ({"producer": {**NOWHERE, "transactional.id": "mine"}}, "transactional.id"),
        ({"producer": {**NOWHERE, "bootstrap.servers": "127.0.0.1:2"}}, "bootstrap.servers"),
        ({"state_dir": "/dev/null/folder", "instance_id": None}, "state_dir"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], name: str) -> None:
    """The error is raised at once, and not at the first assignment."""
    with pytest.raises(ConfigError) as refused:
        processor(**options)
    assert refused.value.key == name


def test_a_producer_property_that_librdkafka_refuses_is_reported() -> None:
    """The first producer fails with it, and another attempt would fail as well."""
    made = switch(producer={**NOWHERE, "no.such.property": 1})
    with pytest.raises(SwitchFatal, match=r"no\.such\.property"):
        _ = made._producers.for_process
    made.close()


@pytest.mark.parametrize(
    ("properties", "incremental"),
    [
        ({}, False),
        ({"group.protocol": "classic"}, False),
        ({"group.protocol": "consumer"}, True),
        ({"group.protocol": "CONSUMER"}, True),
        ({"partition.assignment.strategy": "range,roundrobin"}, False),
        ({"partition.assignment.strategy": "cooperative-sticky"}, True),
    ],
)
def test_how_assignments_come_is_read_as_librdkafka_reads_it(properties: dict[str, str], *, incremental: bool) -> None:
    """Case does not count. A consumer fails if its assignments are taken for the other kind."""
    given = {**NOWHERE, **properties}
    Consumer(given).close()  # librdkafka takes it
    made = switch(consumer=given)
    assert made._membership._incremental is incremental
    made.close()


def test_closing_twice_is_closing_once_and_nothing_goes_on_then() -> None:
    """One event is emitted; to consume from a closed or a never subscribed switch is an error."""
    told: list[object] = []
    made = switch(metrics=told.append)
    with pytest.raises(SwitchFatal, match="subscribe"):
        made.consume()
    made.close()
    made.close()
    assert len(told) == 1
    with pytest.raises(ClosedError):
        made.consume()


def test_no_messages_of_an_iterator_are_no_messages() -> None:
    """An iterator is true, and has nothing left for a second look."""
    made = switch()
    assert list(made.transactions(iter(()))) == []  # type: ignore[arg-type]
    made.close()


def test_features_that_were_given_are_not_closed() -> None:
    """They belong to the app, and other gates may depend on them."""
    features = StaticFeatures()
    switch(features=features).close()
    assert features.start().health()["status"] != "closed"
    own = switch(features=None)
    own.close()
    assert own.health()["discovery"] == "closed"


def test_a_processor_that_was_closed_before_it_ran_does_nothing() -> None:
    with processor() as made:
        pass
    made.run()
    assert made.health()["status"] == "stopped"
    with pytest.raises(ClosedError, match="make a new one"):
        made.run()


def test_a_process_name_is_free_again_after_close(tmp_path: Path) -> None:
    made = [switch(state_dir=tmp_path) for _ in range(2)]
    names = [each.process.name for each in made]
    assert len(set(names)) == 2
    for each in made:
        each.close()
    again = switch(state_dir=tmp_path)
    assert again.process.name == names[0]
    again.close()


REENTRANT = """
import sys, threading
from featuregate.testing import StaticFeatures
from featuregate_confluent import ExactlyOnceProcessor
config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
made = ExactlyOnceProcessor(
    consumer=config, producer=config, topics=["t"], app_id="a", transform=list, features=StaticFeatures()
)
stop = made.stop if sys.argv[1] == "stop" else threading.Event().set
inside = []

def signal_comes(frame, event, argument):  # between any two steps of it
    if event in ("call", "c_call", "c_return") and len(inside) < 30 and frame.f_code is not signal_comes.__code__:
        inside.append(event)
        stop()

sys.setprofile(signal_comes)
stop()
sys.setprofile(None)
made.close()
print(len(inside))
"""


@pytest.mark.slow
def test_stop_may_be_called_from_a_signal_handler_at_any_time() -> None:
    """A handler may interrupt another stop(), where an Event would wait for itself."""
    command = [sys.executable, "-c", REENTRANT]
    stopped = subprocess.run([*command, "stop"], capture_output=True, text=True, timeout=30, check=True)
    assert int(stopped.stdout) > 0
    with subprocess.Popen([*command, "event"], stdout=subprocess.PIPE) as stuck:
        with pytest.raises(subprocess.TimeoutExpired):
            stuck.wait(3)
        stuck.send_signal(signal.SIGKILL)


def test_no_placeholder_reaches_librdkafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka knows no config.providers, and would send the placeholder as the password."""
    monkeypatch.setenv("KPW", "hush")
    env = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    secret = {**NOWHERE, "sasl.password": "${env:KPW}"}
    found = complete(SwitchOptions(**{**NEEDED, "consumer": secret | env, "producer": secret | env}))
    assert found["consumer"] == found["producer"] == {**NOWHERE, "sasl.password": "hush"}
    with pytest.raises(ConfigError, match=r"sasl\.password: .* set config\.providers=env"):
        switch(producer=secret)
