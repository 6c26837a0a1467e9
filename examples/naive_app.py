"""A common exactly-once app: one transactional producer, and the consumer's group metadata.

The app is correct on brokers from 2.5 on, which compare the metadata with the group. For an older broker librdkafka
drops the metadata silently, and a process that the group has removed while it was stopped can still commit. ``make
demo`` runs this app beside ``exactly_once_app.py``, which takes the same options.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SECONDS = 30.0
"""What one call to the cluster may take."""
RESTART_SECONDS = 0.5
"""What a supervisor would wait before it starts the app again."""
STUCK_SECONDS = 40
"""After so many seconds in one transaction a supervisor would take the app for stuck."""

log = logging.getLogger("naive")


class App:
    """Consumes, works and produces, in one transaction for each batch."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.committed, self.aborted = counts_before(options.status_file)
        self.stopping = threading.Event()
        self.working = False

    def run(self) -> None:
        """Run until a signal; after any error the process restarts, as with a supervisor.

        The consumer is not closed: ``close()`` of a consumer that its group has removed may block for
        good, a deadlock of librdkafka.
        """
        threading.Thread(target=self.supervise, daemon=True).start()
        try:
            self.consume()
        except KafkaException as failure:
            self.restart(f"{failure}")

    def restart(self, why: str) -> None:
        """Replace the process by a new one with the same command."""
        log.warning("starting afresh after: %s", why)
        if not self.stopping.wait(RESTART_SECONDS):
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - this very command, without a shell

    def supervise(self) -> None:
        """Restart if a transaction does not end: librdkafka may wait for ever for a broker that is gone.

        Time in which the process was stopped does not count: the process still has to end its transaction.
        """
        left, ended = STUCK_SECONDS, self.ended
        while not self.stopping.wait(1.0):
            left = left - 1 if self.working and self.ended == ended else STUCK_SECONDS
            ended = self.ended
            if left == 0:
                self.restart(f"{STUCK_SECONDS} s in one transaction")

    @property
    def ended(self) -> int:
        """The number of ended transactions."""
        return self.committed + self.aborted

    def consume(self) -> None:
        """Join the group, and commit batch after batch."""
        options = self.options
        name = f"{options.app_id}-{options.instance_id}"
        common = {"bootstrap.servers": options.bootstrap, "client.id": name, "logger": log}
        producer = Producer({**common, "transactional.id": name, **dict(options.producer)})
        producer.init_transactions(SECONDS)
        consumer = Consumer(
            {
                **common,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **dict(options.consumer),
            }
        )
        consumer.subscribe([options.input])
        while not self.stopping.is_set():
            messages = [message for message in consumer.consume(100, timeout=0.2) if message.error() is None]
            if messages:
                self.commit(consumer, producer, messages)
        consumer.close()

    def commit(self, consumer: Consumer, producer: Producer, messages: list[Message]) -> None:
        """Process a batch, and commit its outputs and offsets in one transaction."""
        producer.begin_transaction()
        self.working = True
        self.report("working")
        try:
            for message in messages:
                time.sleep(self.options.work_ms / 1000)
                producer.produce(self.options.output, message.value(), message.key(), headers=origin(message))
            self.report("committing")
            producer.send_offsets_to_transaction(next_offsets(messages), consumer.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
        except KafkaException:
            self.aborted += 1
            self.working = False
            self.report("ended")
            with suppress(KafkaException):  # a fenced producer cannot abort; the producer that fenced it has done so
                producer.abort_transaction(SECONDS)
            raise
        self.committed += 1
        self.working = False
        self.report("ended")

    def report(self, stage: str) -> None:
        """Append a line to the status file: the stage of the transaction, and how many were committed and aborted."""
        if self.options.status_file:
            counts = {"committed": self.committed, "aborted": self.aborted}
            status = {"time": time.monotonic(), "model": "v2", "stage": stage, **counts}
            with self.options.status_file.open("a") as file:
                file.write(json.dumps(status) + "\n")


def counts_before(status_file: Path | None) -> tuple[int, int]:
    """Return how many transactions were committed and aborted before the process was restarted."""
    if status_file is None or not status_file.exists():
        return 0, 0
    last = json.loads(status_file.read_text().splitlines()[-1])
    return last["committed"], last["aborted"]


def origin(message: Message) -> list[tuple[str, str | bytes | None]]:
    """Return headers that name the input of an output."""
    return [
        ("topic", str(message.topic())),
        ("partition", str(message.partition())),
        ("offset", str(message.offset())),
    ]


def next_offsets(messages: Iterable[Message]) -> list[TopicPartition]:
    """Return the next offset of each partition of a batch."""
    ends = {(str(message.topic()), int(message.partition() or 0)): int(message.offset() or 0) for message in messages}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in ends.items()]


def pair(text: str) -> tuple[str, str]:
    """Parse KEY=VALUE."""
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def arguments() -> argparse.Namespace:
    """Parse the command line of exactly_once_app.py; options that only that app uses are ignored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--bootstrap", "--group", "--input", "--output", "--app-id"):
        parser.add_argument(name, required=True)
    parser.add_argument("--instance-id", default=str(os.getpid()))
    parser.add_argument("--status-file", type=Path)
    parser.add_argument("--consumer", type=pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--producer", type=pair, action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--work-ms", type=float, default=0.0)
    return parser.parse_args()


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    app = App(arguments())

    def stop(*_: Any) -> None:
        app.stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    app.run()


if __name__ == "__main__":
    main()
