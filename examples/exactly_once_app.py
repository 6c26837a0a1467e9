"""An exactly-once app, small and complete: copies topics, whatever the cluster can do now and later.

Start as many as you like in one group. They begin in the model that the cluster allows, and move up together, one
transactional producer for each input partition first, one for each process in the end. SIGTERM stops one gracefully.

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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from featuregate import FeatureGateError
from featuregate_confluent import DeadLetter, ExactlyOnceProcessor, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

STATUS_SECONDS = 0.25


class Copy:
    """The transform: each message once more, with headers that say where it came from."""

    def __init__(self, output: str, work_ms: float) -> None:
        self._output = output
        self._work_seconds = work_ms / 1000

    def __call__(self, messages: Sequence[Message]) -> Iterator[Record]:
        """Give a record for each message, and take the time that real work would."""
        for message in messages:
            if self._work_seconds:
                time.sleep(self._work_seconds)
            headers = [
                *(message.headers() or []),
                ("fg.topic", message.topic()),
                ("fg.partition", str(message.partition())),
                ("fg.offset", str(message.offset())),
            ]
            yield Record(self._output, message.value(), key=message.key(), headers=headers)


class StatusFile(threading.Thread):
    """Writes a line of JSON about a processor's health, four times a second, from a thread of its own."""

    def __init__(self, path: Path, processor: ExactlyOnceProcessor) -> None:
        super().__init__(name="status", daemon=True)
        self._path = path
        self._processor = processor
        self._ended = threading.Event()

    def run(self) -> None:
        """Write until the processor has ended, and once more then."""
        with self._path.open("a", encoding="utf-8", buffering=1) as file:
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
    """Read ``KEY=VALUE`` arguments."""
    for pair in pairs:
        if "=" not in pair:
            sys.exit(f"exactly_once_app: {pair!r} is not KEY=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Copy a topic, exactly once, in the best model that is safe now.")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT", help="brokers to begin with")
    parser.add_argument("--group", required=True, help="the consumer group")
    parser.add_argument("--input", required=True, action="append", help="a topic to read; more than one may be given")
    parser.add_argument("--output", required=True, help="the topic to write")
    parser.add_argument("--app-id", required=True, help="the app's name, the same in each of its processes")
    parser.add_argument("--instance-id", help="this process's name among them, the same after a restart")
    parser.add_argument("--model", default="auto", choices=["auto", "legacy", "bridge", "v2"], help="pin a model")
    parser.add_argument("--state-dir", type=Path, help="a folder for what outlives the process on this machine")
    parser.add_argument("--status-file", type=Path, help="JSON lines: time, model, gate, latch, generation and more")
    parser.add_argument("--consumer", action="append", default=[], metavar="KEY=VALUE", help="a consumer property")
    parser.add_argument("--producer", action="append", default=[], metavar="KEY=VALUE", help="a producer property")
    parser.add_argument("--work-ms", type=float, default=0, help="milliseconds of work for each message")
    parser.add_argument("--batch-size", type=int, default=500, help="messages in one round (default: %(default)s)")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between polls of the cluster")
    parser.add_argument("--mirror", metavar="TOPIC", help="a compacted topic that keeps the group's latch too")
    parser.add_argument("--dead-letter", metavar="TOPIC", help="where messages go that cannot be processed")
    parser.add_argument("--verbose", action="store_true", help="log what happens, on standard error")
    return parser.parse_args()


def main() -> int:
    """Run until SIGTERM or SIGINT."""
    options = parse_arguments()
    logging.basicConfig(level=logging.INFO if options.verbose else logging.ERROR, format="%(asctime)s %(message)s")
    try:
        processor = ExactlyOnceProcessor(
            consumer={
                "auto.offset.reset": "earliest",
                **properties(options.consumer),
                "bootstrap.servers": options.bootstrap,
                "group.id": options.group,
            },
            producer={**properties(options.producer), "bootstrap.servers": options.bootstrap},
            topics=options.input,
            app_id=options.app_id,
            transform=Copy(options.output, options.work_ms),
            model=options.model,
            instance_id=options.instance_id,
            state_dir=options.state_dir,
            mirror=options.mirror,
            poison=DeadLetter(options.dead_letter) if options.dead_letter else "raise",
            batch_size=options.batch_size,
            interval=options.interval,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: processor.stop())
        with contextlib.ExitStack() as at_end:
            if options.status_file:
                status = StatusFile(options.status_file, processor)
                status.start()
                at_end.callback(status.end)
            processor.run()
    except FeatureGateError as error:
        print(f"exactly_once_app: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
