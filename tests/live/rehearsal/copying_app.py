"""An app as somebody may have it: it copies records from one topic to another, and commits what it has copied.

It knows nothing of rehearsals: the address of its cluster is in BOOTSTRAP_SERVERS, unless ``--bootstrap-file`` names a
file that has it. ``--config`` names a file of properties. It runs with old releases of the client, too.
"""

import argparse
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer


def main() -> None:
    """Copy until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="source", default="orders")
    parser.add_argument("--to", dest="target", default="bills")
    parser.add_argument("--bootstrap-file", type=Path)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--die-after", type=int, default=0, help="exit with 3 after so many records")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--stand-after", type=int, default=0, help="read no more after so many records, and live on")
    parser.add_argument("--feed", action="store_true", help="send records to the source, too")
    parser.add_argument("--kip848", action="store_true", help="join by the new protocol once all brokers have it")
    args = parser.parse_args()
    where = args.bootstrap_file.read_text().strip() if args.bootstrap_file else os.environ["BOOTSTRAP_SERVERS"]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    lines = args.config.read_text().split() if args.config else []
    common = {"bootstrap.servers": where, **dict(each.split("=", 1) for each in (*lines, *args.setting))}
    producer = Producer(common)
    consumer, gate = member(common, args.source), kip848(where) if args.kip848 else None
    copied = 0
    while not stopping.is_set():
        if gate is not None and gate.open:
            gate = None
            consumer.close()
            consumer = member({**common, "group.protocol": "consumer"}, args.source)
        if args.feed:
            producer.produce(args.source, b"fed")
            producer.poll(0)
        if args.stand_after and copied >= args.stand_after:
            stopping.wait(0.2)
            continue
        messages = [each for each in consumer.consume(50, timeout=0.2) if each.error() is None]
        if not messages:
            continue
        for message in messages:
            for _ in range(args.copies):
                producer.produce(args.target, message.value(), message.key())
        if producer.flush(60):
            sys.exit("records were not delivered")
        with suppress(KafkaException):  # a broker restarts; the next commit goes beyond it
            consumer.commit(asynchronous=False)
        copied += len(messages)
        if args.die_after and copied >= args.die_after:
            sys.exit(3)
    consumer.close()


def member(config: dict[str, str], topic: str) -> Consumer:
    """Join the group."""
    own = {"group.id": "copies", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**config, **own})
    consumer.subscribe([topic])
    return consumer


def kip848(where: str) -> Any:
    """Return a gate that opens once all brokers have the new protocol, and stays open on the way back."""
    import featuregate  # noqa: PLC0415 - not beside old releases of the client

    return featuregate.Discoverer(where, interval=0.2).gate("groups", featuregate.presets.kip848)


if __name__ == "__main__":
    main()
