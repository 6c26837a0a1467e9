"""Why a line is in quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from featuregate.errors import ConfigError

RAW_LENGTH: Final = 16_384
"""How many characters of a line the quarantine keeps."""

ROWS_OF_REASON: Final = 1_000
"""How many lines of a file, or of a piece of it, have a row each for one reason. Others that are alike share one."""

CUT: Final = "cut"
"""A request whose JSON does not parse, most often because the line was cut; or half of a refusal."""
PART: Final = "part"
"""A further part of a line that a container runtime has split. The first part has the reason."""
DROPPED: Final = "dropped"
"""A line in which journald, rsyslog or Log4j says that it has dropped others, or an answer of Elasticsearch that has
not all hits: which ones is not known."""
EMPTY: Final = "empty"
ENCODED: Final = "encoded"
"""A text that holds lines in base64 or in another code, or bytes that are not text: how many is not known."""
FAILED: Final = "failed"
"""A line at which the parser raised an error that nobody foresaw: the lines around it are read."""
NO_REQUEST: Final = "no-request"
"""A line of another logger."""
MALFORMED_REPORT: Final = "malformed-report"
"""A record of the topic of usage reports that is none."""
NEWER_REPORT: Final = "newer-report"
"""A usage report with a schema that this release does not read."""
OTHER_CLUSTER: Final = "other-cluster"
"""A usage report of an app that uses another cluster."""
TEXT_LOG: Final = "text-log"
"""A request as text, as brokers before 2.8 log it: any client can write such a line in the name of another one."""
TOO_LONG: Final = "too-long"
"""A line of more bytes than a line may have (`featuregate_fleet.evidence.lines.request.LONGEST`)."""
UNKNOWN_BROKER: Final = "unknown-broker"
"""The file is not in a folder whose name is a node id."""
UNKNOWN_LAYOUT: Final = "unknown-layout"
"""A request, but neither the text before it nor its envelope has a time with a date that is understood.
`--layout` may say how it is written. Or a request as fields, or half of a refusal."""
UNREADABLE: Final = "unreadable"
"""The rest of a file: of a damaged gzip, a damaged disk, a file that was cut, or one that is neither text nor gzip."""
VANISHED: Final = "vanished"
"""The rest of a file that was there when it was listed."""
WRONG_FIELDS: Final = "wrong-fields"
"""A request as JSON, but a field is missing, or has another type or an impossible value."""

OF_FILES: Final = frozenset({UNREADABLE, VANISHED})
"""The reasons of files, which their rows of kind ``source`` have: the number of missing requests is unknown."""

OF_REPORTS: Final = frozenset({MALFORMED_REPORT, NEWER_REPORT, OTHER_CLUSTER})
"""The reasons of usage reports."""

NOTHING_MISSING: Final = OF_REPORTS | {NO_REQUEST, EMPTY, PART}
"""The reasons of lines that are not requests. Each other reason, also of another release, is missing evidence."""

LAYOUTS: Final = "Kafka's, Strimzi's, other Log4j patterns with a date, CRI, Docker, kubectl, Compose, syslog and JSON"
"""What is read, in the words of messages."""

REASONS: Final = (
    OF_FILES
    | NOTHING_MISSING
    | {CUT, DROPPED, ENCODED, FAILED, TEXT_LOG, TOO_LONG, UNKNOWN_BROKER, UNKNOWN_LAYOUT, WRONG_FIELDS}
)
"""All of them."""


def known_reasons(texts: Iterable[str]) -> frozenset[str]:
    """Return some reasons. Raises ConfigError (one of them is not a reason)."""
    found = frozenset(texts)
    if unknown := sorted(found - REASONS):
        raise ConfigError("again", f"{unknown[0]!r} is none of the reasons: {', '.join(sorted(REASONS))}")
    return found
