"""How far a stream is: a line for people, or one of JSON for programs."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate_fleet.commands.options.tables import counts

if TYPE_CHECKING:
    import argparse

    from featuregate_fleet.evidence.line_counts import LineCounts


def add_progress_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--progress``."""
    parser.add_argument(
        "--progress",
        choices=("text", "json"),
        help="print text when something was read, or a line of JSON each time (default: text on a terminal)",
    )


class Progress:
    """Prints the counts of a cluster."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._cluster: str = args.cluster
        self._json = (args.progress or ("text" if sys.stdout.isatty() else "json")) == "json"
        self._last: LineCounts | None = None

    def show(self, found: LineCounts) -> None:
        """Print the counts of all lines that were ever read; as text, only when they have changed."""
        if self._json:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            print(json.dumps({"cluster": self._cluster, "time": now, **found._asdict()}), flush=True)
        elif found != self._last:
            print(f"{self._cluster}: {counts(found)}", flush=True)
        self._last = found
