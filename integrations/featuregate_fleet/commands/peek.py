"""``featuregate fleet peek``: what one log says of a move, in a second and without Spark."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.cli.plugin import FAILED, OK, CommandError, add_output, aligned, option, printable
from featuregate.errors import ConfigError
from featuregate.files import local_path
from featuregate_fleet.commands.options.tables import OF_BROKERS, add_moves, add_time_options, log_times
from featuregate_fleet.commands.readiness import NO_VERDICT
from featuregate_fleet.evidence.lines.times import layouts_for
from featuregate_fleet.evidence.paths import LogFile, LogTimes
from featuregate_fleet.evidence.reasons import DROPPED, ENCODED, NOTHING_MISSING, TEXT_LOG, UNKNOWN_LAYOUT, UNREADABLE
from featuregate_fleet.readiness.checks.coverage_checks import say_too_little
from featuregate_fleet.readiness.evidence import Evidence, Usage
from featuregate_fleet.readiness.hours import ALL_REQUESTS
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = """\
Look at one request log, or at standard input as '-': which of its clients does a move break? It is read by the parser
and judged by the checks of 'readiness', without Spark and without tables. It is a look and no verdict: of one broker,
of the time that this log spans, and without levels, records and gates.\
"""
_OF_REQUESTS: Final = frozenset({"api-versions", "client-software", "cut-requests", "inter-broker", "refused-requests"})
"""The checks that need nothing but the requests of one log."""
_FIELDS: Final = tuple(Usage.__dataclass_fields__)
_HEAD: Final = 160
"""Characters of a line."""
_EVER: Final = timedelta(days=36_500)
_ANY_BROKER: Final = "0"


class _Look(NamedTuple):
    evidence: Evidence
    reasons: Counter[str]
    """The lines that were not understood, by reason."""
    first: dict[str, str]
    """The beginning of the first of them, by reason; for a file that cannot be read, why."""
    has_all: bool
    """Whether requests were logged at a level with all of them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``peek``."""
    option(parser, "log", "a request log, gzipped or not; '-' is standard input", metavar="FILE")
    add_moves(parser, OF_BROKERS)
    add_time_options(parser)
    add_output(parser, "a table, or one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print who breaks. The exit code is 0 where nobody in the log does, 1 where somebody does, 3 for unknown."""
    try:
        with _file(args.log) as path:
            look = _look_at(path, log_times(args))
    except ConfigError as error:
        raise CommandError(f"argument FILE: {error.problem}") from error
    except OSError as error:
        raise CommandError(f"{args.log}: it cannot be read: {error.strerror or error}") from error
    report = assess(look.evidence, args.move, datetime.now(UTC), _EVER)
    rows = [row for row in report.rows if row.check in _OF_REQUESTS]
    print(json.dumps(_to_json(look, report)) if args.output == "json" else _to_text(args, look, rows))
    found = {row.verdict for row in rows}
    if Verdict.BLOCK in found:
        return FAILED
    return NO_VERDICT if Verdict.UNKNOWN in found or _lacks(look) else OK


@contextmanager
def _file(name: str) -> Iterator[Path]:
    """Yield the path of a file; what standard input holds is on disk meanwhile."""
    if name != "-":
        if (path := local_path("", name)).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        yield path
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "standard-input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


def _look_at(path: Path, times: LogTimes) -> _Look:
    """Read a log, compressed or not, as the pipeline reads it. What cannot be read is a reason.

    The id in the client ids of nodes identifies a node of the cluster.
    """
    from featuregate_fleet.files.parsing import parse_pieces  # noqa: PLC0415 - pyarrow
    from featuregate_fleet.files.pieces import Piece  # noqa: PLC0415 - likewise

    file = LogFile(path.absolute().as_uri(), path.name, _ANY_BROKER, path.stat().st_size, times)
    batches = list(parse_pieces([Piece(file)]))
    of_usage, hours, quarantine, sources = (
        [row for batch in batches for row in batch.column(kind).to_pylist() if row is not None]
        for kind in ("usage", "hour", "quarantine", "source")
    )
    reasons: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in quarantine:
        reasons[row["reason"]] += row["lines"]
        first.setdefault(row["reason"], row["raw"])
    for row in sources:
        if row["reason"] is not None:
            reasons[row["reason"]] += 1
            first.setdefault(row["reason"], row["why"])
    usage = tuple(Usage(**{name: row[name] for name in _FIELDS}) for row in of_usage)
    understood = sum(row["rows"] for row in sources)
    evidence = Evidence(
        usage=usage,
        cut=tuple(_cut(row) for row in quarantine if row["seen_at"] is not None),
        expected=frozenset(number for one in usage for number in re.findall(r"\d+", one.client_id or "")),
        read=understood + reasons.total(),
        rows=understood,
        lines_quarantined=reasons.total(),
    )
    return _Look(evidence, reasons, first, has_all=any(row["level"] in ALL_REQUESTS for row in hours))


def _cut(row: dict[str, Any]) -> Usage:
    known: dict[str, Any] = {name: row.get(name) for name in _FIELDS}
    seen = {"first_seen": row["seen_at"], "last_seen": row["seen_at"]}
    return Usage(**known | seen | {"outcome": "cut", "count": row["lines"]})


def _lacks(look: _Look) -> str:
    """Return what is missing to say that nobody breaks; empty where nothing is."""
    if not look.has_all:
        return "it has no requests at DEBUG, and a broker logs them all at that level alone"
    missing = {reason: count for reason, count in look.reasons.items() if reason not in NOTHING_MISSING}
    return "too many requests were not read" if missing and say_too_little(missing, look.evidence.rows) else ""


def _to_text(args: argparse.Namespace, look: _Look, rows: list[Row]) -> str:
    lines = [f"a look at {args.log}, and no verdict on a move {args.move.title}:", *_summary(look)]
    lines += [f"requests of {printable(row.subject)}: {row.count}" for row in rows if row.check == "inter-broker"]
    found, lacks = [row for row in rows if row.verdict is not Verdict.OK], _lacks(look)
    if found:
        table = [("", "WHO", "WHY"), *((row.verdict, printable(row.subject), printable(row.why)) for row in found)]
        lines += ["", *aligned(table), "", *dict.fromkeys(printable(row.do) for row in found if row.do)]
        lines += [f"Others may break, too: {lacks}."] if lacks else []
    elif look.evidence.usage:
        lines += ["", f"nobody in what was read breaks: {lacks}" if lacks else "nobody in it breaks"]
    return "\n".join(lines)


def _summary(look: _Look) -> Iterator[str]:
    if usage := look.evidence.usage:
        first, last = min(one.first_seen for one in usage), max(one.last_seen for one in usage)
        clients = {(one.client_id, one.principal, one.software) for one in usage}
        times = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{sum(one.count for one in usage)} requests of {len(clients)} clients, {times}"
    else:
        yield "it has no request that was understood"
    if look.reasons:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(look.reasons.items()))
        yield f"lines that say nothing: {reasons}"
    if TEXT_LOG in look.reasons:
        yield f"{TEXT_LOG}: brokers before 2.8 log requests as text, of which any client can write lines"
    for reason in (UNREADABLE, UNKNOWN_LAYOUT, ENCODED, DROPPED):
        if reason in look.first:
            yield f"{reason}: {printable(look.first[reason][:_HEAD])}"
    if fitting := layouts_for(look.first.get(UNKNOWN_LAYOUT, "")):
        yield f"say how its times are written: {' or '.join(f'--layout {layout!r}' for layout in fitting)}"


def _to_json(look: _Look, report: Report) -> dict[str, Any]:
    whole = report.to_json()
    return {
        "move": whole["move"],
        "rows": [row for row in whole["rows"] if row["check"] in _OF_REQUESTS],
        "lines": {"understood": look.evidence.rows, "others": dict(look.reasons)},
        "lacks": _lacks(look) or None,
    }
