"""What a type checker must understand of the producer switch's front door. Checked by mypy and Pyright, never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from confluent_kafka import Consumer, Message, Producer, TopicPartition

import featuregate as fg
import featuregate_confluent as switching
from featuregate.testing import StaticFeatures
from featuregate_confluent.events import SwitchEvent, TransactionCommitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from featuregate.errors import ConfigError

CLIENT = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}

# Models compare, and are told by their labels.
assert_type(switching.Model.LEGACY < switching.Model.V2, bool)
assert_type(switching.Model.V2.label, str)

# Every error is one of two trees, and the door gives the names that an app catches.
refused: fg.FeatureGateError = switching.ModelRefused(switching.Model.V2, "why")
errors: list[type[switching.SwitchError]] = [
    switching.Aborted,
    switching.CommitRefused,
    switching.ModelRefused,
    switching.MustRejoin,
    switching.SwitchFatal,
    switching.TransformFailed,
]
contradiction: ConfigError = switching.SettingsContradict("acks", "is 1")


# What may be switched on besides: as a list for people, or applied.
assert_type(switching.advise(fg.discover(CLIENT), "consumer", CLIENT), tuple[switching.Advice, ...])
assert_type(switching.with_advice(CLIENT, role="producer", features=fg.Discoverer(CLIENT)), dict[str, Any])
switching.advise(fg.discover(CLIENT), "broker", CLIENT)  # type: ignore[arg-type]


def transform(messages: Sequence[Message], /) -> Iterator[switching.Record]:
    """Stand in for a transform that is a generator."""
    for message in messages:
        yield switching.Record("bills", message.value(), headers=[("from", b"orders")], partition=0, timestamp=1)


def numbers(messages: Sequence[Message], /) -> list[int]:
    """Stand in for a transform that gives no records."""
    return [len(messages)]


def count(event: SwitchEvent, /) -> None:
    """Stand in for a metrics hook: events are told apart by their class."""
    if isinstance(event, TransactionCommitted):
        assert_type(event.model, switching.Model)
        assert_type(event.seconds, float)


with switching.ExactlyOnceProcessor(
    consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", transform=transform, metrics=count
) as processor:
    assert_type(processor, switching.ExactlyOnceProcessor)
    processor.stop()
switching.ExactlyOnceProcessor(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", transform=numbers)  # type: ignore[arg-type]
switching.ProducerSwitch(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", metrics=print)
switching.Record("bills", 1)  # type: ignore[arg-type]  # bytes or text


async def awaited(messages: Sequence[Message], /) -> list[switching.Record]:
    """Stand in for a coroutine function."""
    return [switching.Record("bills", message.value()) for message in messages]


switching.ExactlyOnceProcessor(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", transform=awaited)  # type: ignore[arg-type]

# The loop of an app of its own.
switch = switching.ProducerSwitch(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", model="v2")
assert_type(switch.consumer_config, dict[str, Any])
switch.subscribe(Consumer(switch.consumer_config))
messages = switch.consume(500, 0.2)
assert_type(messages, list[Message])
for transaction in switch.transactions(messages):
    with transaction:
        assert_type(transaction.producer, Producer)
        transaction.produce("bills", b"", key=b"")
assert_type(switch.model, switching.Model)
assert_type(switch.latch, switching.Model | None)
assert_type(switch.generation, int)
switch.leave()
switch.close()

# Its parts, without it: a gate has to be given.
gate = StaticFeatures().gate("kip447", fg.presets.kip447)
try:
    sent = switching.safe_send_offsets(
        Producer({}), Consumer(CLIENT), [TopicPartition("orders", 0, 1)], gate=gate, timeout=5
    )
    assert_type(sent, int)
except switching.CommitRefused as error:
    assert_type(error.action, switching.ErrorAction)
    assert_type(error.why, str)
switching.safe_send_offsets(Producer({}), Consumer(CLIENT), [])  # type: ignore[call-arg]
