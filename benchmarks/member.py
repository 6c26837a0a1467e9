"""One member of a group, in a process of its own: `python member.py OPTIONS`. It ends with its standard input."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import handwritten
from switching import Meter, Options

from featuregate_confluent.events import SwitchEvent, TransactionCommitted
from featuregate_confluent.processor import ExactlyOnceProcessor

if TYPE_CHECKING:
    from confluent_kafka import Message

    from featuregate_confluent.records import RecordLike


class Member(Protocol):
    """A member, with the loop of featuregate or of the benchmark."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


def processor(options: Options, meter: Meter) -> ExactlyOnceProcessor:
    """Do the same with featuregate."""

    def transform(messages: Sequence[Message]) -> list[RecordLike]:
        meter.received()
        return [(options.output, message.value(), message.key()) for message in messages]

    def count(event: SwitchEvent) -> None:
        if isinstance(event, TransactionCommitted):
            meter.committed(event.messages, event.seconds)

    brokers = {"bootstrap.servers": options.bootstrap}
    return ExactlyOnceProcessor(
        consumer={**brokers, "group.id": options.group, "auto.offset.reset": "earliest", **options.consumer},
        producer={**brokers, **options.producer},
        topics=[options.topic],
        transform=transform,
        app_id=options.app_id,
        model=options.model,
        instance_id=options.slot,
        batch_size=options.batch,
        linger=options.wait,
        metrics=count,
    )


LOOPS = {"legacy": handwritten.Legacy, "bridge": handwritten.Bridge, "v2": handwritten.V2}


def make(options: Options) -> Member:
    meter = Meter(options.turn)
    if options.loop == "featuregate":
        return processor(options, meter)
    return LOOPS[options.model](options, meter)


def main() -> None:
    member = make(Options.from_json(sys.argv[1]))

    def stop_with_owner() -> None:
        sys.stdin.read()
        member.stop()

    threading.Thread(target=stop_with_owner, name="stop-with-owner", daemon=True).start()
    member.run()


if __name__ == "__main__":
    main()
