"""A small, complete exactly-once app: it copies topics, on any cluster and during upgrades.

Start any number of instances in one group. They begin in the model that the cluster allows, with one transactional
producer for each input partition, and switch together to one producer for each process. SIGTERM stops an instance
gracefully.

.. code-block:: console

    $ python examples/exactly_once_app.py --bootstrap localhost:9092 --group copiers --input orders --output copies \
          --app-id copier --state-dir state --status-file status.jsonl
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import KafkaException, Message, Producer

from featuregate import Discoverer, FeatureGateError
from featuregate_confluent import DeadLetter, ExactlyOnceProcessor, Record

STATUS_SECONDS = 0.25
FIRST_ANSWER_SECONDS = 15.0


class Copy:
    """The transform: it copies each message, with headers that name the input."""

    def __init__(self, output: str, work_ms: float) -> None:
        self._output = output
        self._work_seconds = work_ms / 1000

    def __call__(self, messages: Sequence[Message]) -> Iterator[Record]:
        """Return a record for each message, after the time of the simulated work."""
        for message in messages:
            if self._work_seconds:
                time.sleep(self._work_seconds)
            yield self._record(message)

    def _record(self, message: Message) -> Record:
        headers = [
            *(message.headers() or []),
            ("fg.topic", message.topic()),
            ("fg.partition", str(message.partition())),
            ("fg.offset", str(message.offset())),
        ]
        return Record(self._output, message.value(), key=message.key(), headers=headers)


class StatusFile(threading.Thread):
    """Writes a processor's health as a line of JSON four times a second, in a thread of its own."""

    def __init__(self, path: Path, processor: ExactlyOnceProcessor) -> None:
        super().__init__(name="status", daemon=True)
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._processor = processor
        self._ended = threading.Event()

    def run(self) -> None:
        """Write until the processor has ended. If the disk is full, print that once, and let the processor continue."""
        try:
            self._write()
        except OSError as error:
            print(f"exactly_once_app: nothing more is written to the status file: {error}", file=sys.stderr)

    def _write(self) -> None:
        with self._file as file:
            while True:
                ended = self._ended.wait(STATUS_SECONDS)
                now = datetime.now(UTC).isoformat(timespec="milliseconds")
                file.write(json.dumps({"time": now, **self._processor.health()}) + "\n")
                if ended:
                    return

    def end(self) -> None:
        """Write the last line."""
        self._ended.set()
        self.join()


def properties(pairs: list[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments."""
    for pair in pairs:
        if "=" not in pair:
            sys.exit(f"exactly_once_app: {pair!r} is not KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


HELP = """\
Copy topics, exactly once, in the best model that is safe now: one transactional producer for each input partition
(legacy, bridge), or one for the process (v2, KIP-447) as soon as every broker and every live member of the group can.
Start as many processes as you like with the same --group and --app-id. SIGTERM stops one gracefully.\
"""
EXAMPLE = """\
example:
  python examples/exactly_once_app.py --bootstrap localhost:9092 --group copiers --input orders --output copies \\
      --app-id copier --instance-id copier-0 --status-file status.jsonl
  tail -f status.jsonl                                          # model, latch, and why
  featuregate group show --group copiers --bootstrap-server localhost:9092

exit codes: 0 stopped by a signal, 1 it cannot go on (one line on standard error says why), 2 wrong usage\
"""


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=HELP, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_argument_group("what to copy")
    what.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="brokers to begin with")
    what.add_argument("--group", required=True, help="the consumer group")
    what.add_argument(
        "--input", required=True, action="append", metavar="TOPIC", help="a topic to read; may be given more than once"
    )
    what.add_argument("--output", required=True, metavar="TOPIC", help="the topic to write")
    what.add_argument("--dead-letter", metavar="TOPIC", help="where messages go that cannot be processed")
    who = parser.add_argument_group("who this process is")
    who.add_argument("--app-id", required=True, metavar="NAME", help="the app, the same in each of its processes")
    who.add_argument("--instance-id", metavar="NAME", help="this process among them, the same after a restart")
    who.add_argument(
        "--state-dir", type=Path, metavar="DIR", help="where processes without --instance-id number themselves"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--model",
        default="auto",
        choices=["auto", "legacy", "bridge", "v2"],
        help="auto moves up by itself; any other pins it, or refuses to start where that is not safe (default: auto)",
    )
    how.add_argument("--latch-topic", metavar="TOPIC", help="a compacted topic that keeps the group's latch too")
    how.add_argument("--consumer", action="append", default=[], metavar="KEY=VALUE", help="a property of the consumer")
    how.add_argument("--producer", action="append", default=[], metavar="KEY=VALUE", help="a property of the producers")
    how.add_argument("--batch-size", type=int, default=500, metavar="N", help="messages in a round (default: 500)")
    how.add_argument("--interval", type=float, default=5.0, metavar="S", help="seconds between polls of the cluster")
    how.add_argument("--work-ms", type=float, default=0, metavar="N", help="milliseconds of work for each message")
    watch = parser.add_argument_group("how to watch it")
    watch.add_argument(
        "--status-file", type=Path, metavar="FILE", help="JSON lines: time, model, gate, latch, generation and more"
    )
    watch.add_argument("--verbose", action="store_true", help="log what happens, on standard error")
    return parser.parse_args()


def require_topics(producer: dict[str, str], names: list[str]) -> None:
    """Raise an error if a topic does not exist: otherwise the app would wait for it for ever.

    The controller has created a topic before each broker knows it, so that a missing one is asked for again.
    """
    client = Producer(producer, logger=logging.getLogger("client"))
    ends = time.monotonic() + FIRST_ANSWER_SECONDS
    while True:
        known = client.list_topics(timeout=FIRST_ANSWER_SECONDS).topics
        missing = sorted(name for name in names if name not in known and not name.startswith("^"))
        if not missing:
            return
        if time.monotonic() > ends:
            raise LookupError(f"no such topic, or this user must not see it: {', '.join(missing)}")
        client.poll(0.5)  # a pause


def copy_until_stopped(options: argparse.Namespace) -> None:
    """Run until SIGTERM or SIGINT."""
    brokers = {"bootstrap.servers": options.bootstrap}
    consumer = {"auto.offset.reset": "earliest", **properties(options.consumer), **brokers, "group.id": options.group}
    producer = {**properties(options.producer), **brokers}
    with contextlib.ExitStack() as at_end:
        features = at_end.enter_context(Discoverer(consumer, interval=options.interval, latch_store=options.state_dir))
        if not features.wait(FIRST_ANSWER_SECONDS):
            raise ConnectionError(features.health()["last_error"] or "no broker has answered yet")
        more = [topic for topic in (options.latch_topic, options.dead_letter) if topic]
        require_topics(producer, [*options.input, options.output, *more])
        copy = Copy(options.output, options.work_ms)
        processor = ExactlyOnceProcessor(
            consumer=consumer,
            producer=producer,
            topics=options.input,
            app_id=options.app_id,
            transform=copy,
            features=features,
            model=options.model,
            instance_id=options.instance_id,
            state_dir=options.state_dir,
            latch_topic=options.latch_topic,
            poison=DeadLetter(options.dead_letter) if options.dead_letter else "raise",
            batch_size=options.batch_size,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: processor.stop())
        if options.status_file:
            status = StatusFile(options.status_file, processor)
            status.start()
            at_end.callback(status.end)
        processor.run()


def fail(why: object) -> int:
    """Print why the app ends; return its exit code."""
    print(f"exactly_once_app: {why}", file=sys.stderr)
    return 1


def main() -> int:
    """Run the app, or print in one line why it cannot run."""
    options = parse_arguments()
    logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="%(asctime)s %(message)s")
    try:
        copy_until_stopped(options)
    except KafkaException as error:
        return fail(error.args[0].str())
    except (FeatureGateError, LookupError, OSError) as error:
        return fail(error)
    except KeyboardInterrupt:  # the processor does not exist yet, so nothing has to be stopped
        fail("interrupted before it began")
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
