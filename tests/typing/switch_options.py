"""What a type checker must understand of the producer switch's options. Checked by mypy and Pyright, never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, assert_type

from featuregate_confluent import DeadLetter, ExactlyOnceProcessor, ProducerSwitch, Record, SwitchOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message


CLIENT = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def copy(messages: Sequence[Message]) -> list[Record]:
    """Stand in for the app's transform."""
    return [Record("bills", message.value(), key=message.key()) for message in messages]


processor = ExactlyOnceProcessor(
    consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="billing", transform=copy, poison=DeadLetter("dead")
)
assert_type(processor.switch, ProducerSwitch)
assert_type(processor.health(), dict[str, Any])

# Wrong names and types are errors, and so is what is missing.
ExactlyOnceProcessor(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", transform=copy, modell="v2")  # type: ignore[call-arg]
ExactlyOnceProcessor(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id=1, transform=copy)  # type: ignore[arg-type]
ExactlyOnceProcessor(consumer=CLIENT, producer=CLIENT, topics=["orders"], transform=copy)  # type: ignore[call-arg]
ProducerSwitch(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", interval="15")  # type: ignore[arg-type]


class Billing(ProducerSwitch):
    """Stand in for an app's own class that hands the options on."""

    def __init__(self, **options: Unpack[SwitchOptions]) -> None:
        super().__init__(**options)


Billing(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", instance_id="one")
Billing(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a", instance="one")  # type: ignore[call-arg]

# A transaction may swallow what its block raises, so that the code behind the block is reachable.
for transaction in Billing(consumer=CLIENT, producer=CLIENT, topics=["orders"], app_id="a").transactions([]):
    with transaction as same:
        same.produce("bills", b"", key=b"")
