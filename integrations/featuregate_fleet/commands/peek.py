"""``featuregate fleet peek``: what one log says of a move, in a second and without Spark."""

# ruff: noqa: T201 - what a command prints is its result

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import FAILED, OK, CommandError, add_output, aligned, printable
from featuregate.errors import ConfigError
from featuregate.files import local_path
from featuregate.version import how_to_install
from featuregate_fleet.commands.options.log_times import add_time_options, log_times
from featuregate_fleet.commands.options.moves import add_moves_of_brokers
from featuregate_fleet.commands.reports import NO_VERDICT
from featuregate_fleet.evidence.lines.layouts import layouts_for
from featuregate_fleet.evidence.reasons import ENCODED, NOTHING_MISSING, TEXT_LOG, UNKNOWN_LAYOUT, UNREADABLE
from featuregate_fleet.readiness.checks.coverage_checks import say_too_little
from featuregate_fleet.readiness.evidence import Evidence, Usage
from featuregate_fleet.readiness.known_checks import CHECKS
from featuregate_fleet.readiness.report import Report, assess
from featuregate_fleet.readiness.rows import Row, Verdict

if TYPE_CHECKING:
    import argparse

    from featuregate_fleet.files.look import Look

DESCRIPTION: Final = """\
Look at one request log, or at standard input as '-': which of its clients does a move break? It is read by the parser
and judged by the checks of 'readiness', without Spark and without tables. It is a look and no verdict: of one broker,
of the time that this log spans, and without levels, records and gates.\
"""
_OF_REQUESTS: Final = frozenset(check.name for check in CHECKS if check.of_requests)
_HEAD: Final = 160
"""Characters of a line."""
_EVER: Final = timedelta(days=36_500)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``peek``."""
    parser.add_argument("log", metavar="FILE", help="a request log, gzipped or not; '-' is standard input")
    add_moves_of_brokers(parser)
    add_time_options(parser)
    add_output(parser, "a table, or one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print who breaks. The exit code is 0 where nobody in the log does, 1 where somebody does, 3 for unknown."""
    try:
        from featuregate_fleet.files.look import look_at  # noqa: PLC0415 - pyarrow
    except ImportError as error:
        raise CommandError(f"peek needs pyarrow: {how_to_install('peek')}") from error
    try:
        with _file(args.log) as path:
            look = look_at(path, log_times(args))
    except ConfigError as error:
        raise CommandError(error.problem) from error
    except OSError as error:
        raise CommandError(f"{args.log}: it cannot be read: {error.strerror or error}") from error
    evidence = evidence_of(look)
    report = assess(evidence, args.move, datetime.now(UTC), _EVER)
    rows = [row for row in report.rows if row.check in _OF_REQUESTS]
    print(json.dumps(_to_json(look, report)) if args.output == "json" else _to_text(args, look, evidence, rows))
    found = {row.verdict for row in rows}
    if Verdict.BLOCK in found:
        return FAILED
    return NO_VERDICT if Verdict.UNKNOWN in found or not evidence.usage or _says_too_little(look) else OK


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


def evidence_of(look: Look) -> Evidence:
    """Return what a log says as evidence. The id in the client ids of nodes identifies a node of the cluster."""
    usage = tuple(_usage(row, row["outcome"], row["first_seen"], row["last_seen"]) for row in look.usage)
    unknown = dict.fromkeys(field for field in Usage.__dataclass_fields__)
    cut = tuple(
        _usage({**unknown, **row, "count": row["lines"]}, "cut", row["seen_at"], row["seen_at"]) for row in look.heads
    )
    ids = {number for one in usage for number in re.findall(r"\d+", one.client_id or "")}
    return Evidence(
        usage=usage,
        cut=cut,
        expected=frozenset(ids),
        read=look.understood + look.reasons.total(),
        rows=look.understood,
        lines_quarantined=look.reasons.total(),
    )


def _usage(row: dict[str, Any], outcome: Any, first_seen: datetime, last_seen: datetime) -> Usage:
    kept = {
        name: row[name] for name in Usage.__dataclass_fields__ if name not in {"outcome", "first_seen", "last_seen"}
    }
    return Usage(**kept, outcome=outcome, first_seen=first_seen, last_seen=last_seen)


def _says_too_little(look: Look) -> bool:
    missing = {reason: count for reason, count in look.reasons.items() if reason not in NOTHING_MISSING}
    return bool(missing) and say_too_little(missing, look.understood)


def _to_text(args: argparse.Namespace, look: Look, evidence: Evidence, rows: list[Row]) -> str:
    lines = [f"a look at {args.log}, and no verdict on a move {args.move.title}:", *_summary(look, evidence)]
    found = [row for row in rows if row.verdict is not Verdict.OK]
    if found:
        table = [("", "WHO", "WHY"), *((row.verdict, printable(row.subject), printable(row.why)) for row in found)]
        lines += ["", *aligned(table), "", *dict.fromkeys(printable(row.do) for row in found if row.do)]
    elif evidence.usage and not _says_too_little(look):
        lines += ["", "nobody in it breaks"]
    elif evidence.usage:
        lines += ["", "nobody in what was read breaks: too many requests were not read"]
    return "\n".join(lines)


def _summary(look: Look, evidence: Evidence) -> Iterator[str]:
    if evidence.usage:
        first, last = min(one.first_seen for one in evidence.usage), max(one.last_seen for one in evidence.usage)
        clients = {(one.client_id, one.principal, one.software) for one in evidence.usage}
        times = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{sum(one.count for one in evidence.usage)} requests of {len(clients)} clients, {times}"
    else:
        yield "it has no request that was understood"
    if look.reasons:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(look.reasons.items()))
        yield f"lines that say nothing: {reasons}"
    if TEXT_LOG in look.reasons:
        yield f"{TEXT_LOG}: brokers before 2.8 log requests as text, of which any client can write lines"
    for reason in (UNREADABLE, UNKNOWN_LAYOUT, ENCODED):
        if reason in look.first:
            yield f"{reason}: {printable(look.first[reason][:_HEAD])}"
    if fitting := layouts_for(look.first.get(UNKNOWN_LAYOUT, "")):
        yield f"say how its times are written: {' or '.join(f'--layout {layout!r}' for layout in fitting)}"


def _to_json(look: Look, report: Report) -> dict[str, Any]:
    whole = report.to_json()
    return {
        "move": whole["move"],
        "rows": [row for row in whole["rows"] if row["check"] in _OF_REQUESTS],
        "lines": {"understood": look.understood, "others": dict(look.reasons)},
    }
