"""``featuregate fleet collect``: cut a live log into files for ``run``."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from featuregate.cli.plugin import (
    OK,
    UNKNOWN,
    CommandError,
    local_path_argument,
    positive_seconds,
    print_message,
    printable,
)
from featuregate_fleet.commands.options.log_times import add_time_options_of_one
from featuregate_fleet.commands.stop_signals import stop_signals
from featuregate_fleet.errors import BodiesUncut
from featuregate_fleet.evidence.lines.layouts import Layout
from featuregate_fleet.evidence.lines.one_line import read_line
from featuregate_fleet.evidence.lines.request import MARKER
from featuregate_fleet.evidence.paths import LogTimes, broker_of
from featuregate_fleet.evidence.reasons import UNKNOWN_LAYOUT, WRONG_FIELDS
from featuregate_fleet.evidence.unread import MissingRequests
from featuregate_fleet.files.bodies import cut_bodies
from featuregate_fleet.files.segments import Segmenter
from featuregate_fleet.stream.unread_files import why_missing
from featuregate_fleet.tables.locks import alone

_NOT_UNDERSTOOD: Final = frozenset({UNKNOWN_LAYOUT, WRONG_FIELDS})
"""A line that was cut may go on in the next one."""
_LOOKED_AT: Final = 20
"""Lines of each segment."""
_HEAD: Final = 160
"""Characters of a line."""

DESCRIPTION: Final = """\
Cut the live log of a broker on this host into files below DIR/ID, whole lines each, until SIGTERM or Ctrl-C. The log
must be rotated by renaming, which is what Kafka's own configuration does. A restart goes on where the last run ended.\
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``collect``."""
    parser.add_argument(
        "--log", metavar="FILE", type=local_path_argument, required=True, help="the file to which the broker appends"
    )
    parser.add_argument("--broker", metavar="ID", type=_broker, required=True, help="the node id of the broker")
    parser.add_argument(
        "--logs", metavar="DIR", type=local_path_argument, required=True, help="takes files below DIR/ID"
    )
    parser.add_argument("--once", action="store_true", help="collect what is there, and end")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=positive_seconds,
        default=60.0,
        help="write a file this often (default: 60)",
    )
    less = parser.add_mutually_exclusive_group()
    less.add_argument("--cut-bodies", action="store_true", help="leave out the bodies of requests and responses")
    less.add_argument("--aggregate", action="store_true", help="count the requests by client, and hand in the counts")
    add_time_options_of_one(parser)


def _broker(text: str) -> str:
    if broker_of(f"{text}/file") != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a node id")
    return text


def _change(args: argparse.Namespace) -> Callable[[bytes], bytes]:
    """Return what is done with the lines before they leave the host."""
    if args.aggregate:
        try:
            from featuregate_fleet.files.parsing import aggregate  # noqa: PLC0415 - pyarrow
        except ImportError as error:
            raise CommandError("--aggregate needs pyarrow: pip install '.[fleet]' in a checkout") from error
        times = LogTimes(args.time_zone, args.layout or "")
        return lambda text: aggregate(text, times, _written_at(args.log))
    return cut_bodies if args.cut_bodies else bytes


def _written_at(log: Path) -> datetime:
    """Return when a log was last written: just now where a rotation has renamed it."""
    return datetime.fromtimestamp(log.stat().st_mtime, UTC) if log.exists() else datetime.now(UTC)


class _Watched:
    """Changes the lines of segments, and names a log of which no request would be read."""

    def __init__(self, log: Path, layout: str | None, change: Callable[[bytes], bytes]) -> None:
        self._log, self._layout, self._change = log, layout, change
        self.nothing_read = False

    def __call__(self, text: bytes) -> bytes:
        """Return the changed lines, after a look at the first ones with a request."""
        lines = islice((line for line in text.split(b"\n") if MARKER.encode() in line), _LOOKED_AT)
        texts = [line.decode(errors="replace") for line in lines]
        layout = Layout(self._layout, _written_at(self._log)) if self._layout else None
        found = [read_line(line, layout) for line in texts]
        reasons = [reason for reason in found if isinstance(reason, str) and reason in _NOT_UNDERSTOOD]
        if texts and len(reasons) == len(texts) and not self.nothing_read:
            self.nothing_read = True
            file = MissingRequests(str(self._log), reasons[0], len(texts), texts[0][:_HEAD])
            print_message(printable(f"{file.path}: {why_missing(file)}"))
        try:
            return self._change(text)
        except BodiesUncut as error:
            raise CommandError(
                f"{self._log}: --cut-bodies cannot cut the lines after the last file ({error}), and none of them is "
                "written: take --aggregate, which reads them, or collect without --cut-bodies",
                UNKNOWN,
            ) from error


def run(args: argparse.Namespace) -> int:
    """Collect until the interrupt, or once."""
    folder = args.logs / args.broker
    watched = _Watched(args.log, args.layout, _change(args))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        segmenter = Segmenter(args.log, folder, watched)
        with alone(folder / ".lock", f"another process collects into {folder}: end it first"), closing(segmenter):
            if not args.log.is_file():
                print_message(f"{args.log}: there is no such file yet")
            with stop_signals() as stop:
                while True:
                    for name in segmenter.collect():
                        print(folder / name, flush=True)
                    if args.once or stop.wait(args.interval):
                        return UNKNOWN if watched.nothing_read else OK
    except OSError as error:
        raise CommandError(f"the log cannot be collected: {error}", UNKNOWN) from error
