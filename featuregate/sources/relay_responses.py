"""What a relay's response says beside its body, and what a failed exchange means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from featuregate.json_values import JsonError, parse_json
from featuregate.printable import shown
from featuregate.sources.seen import Seen

if TYPE_CHECKING:
    import requests

    from featuregate.view.cluster_view import View

AGE_HEADER: Final = "Featuregate-Age"
"""Seconds since the brokers answered, by the relay's clock, when it sent the response."""
EPOCH_HEADER: Final = "Featuregate-Epoch"
"""The epoch of the view. The body that the client or a cache has may be of an earlier poll with the same content."""
SEEN_HEADER: Final = "Featuregate-Seen"
"""What the client has seen by this response: the parameter ``seen`` of its next request."""
SEEN_AT_HEADER: Final = "Featuregate-Seen-At"
"""`View.seen_at` of the view, likewise."""
REVISION_HEADER: Final = "Featuregate-Revision"
"""Which content the view has: a text that is the same at each relay, and that times and epochs do not change."""
_LONGEST_REST: Final = 300.0
"""Seconds that a relay can ask for: a wrong header must not silence a client for a day."""


def error_of(body: str) -> str:
    """Return the text of a relay's error, ``{"error": "..."}``, or the start of another body."""
    try:
        return shown(parse_json(body, "error").field("error").text())
    except JsonError:
        return shown(body)


def age_of(response: requests.Response) -> float | None:
    """Return the age that the relay says, with the time that caches on the way have added (RFC 9111, 5.1)."""
    try:
        age = float(response.headers[AGE_HEADER]) + float(response.headers.get("Age", 0))
    except (KeyError, ValueError):
        return None
    return age if 0 <= age < math.inf else None


def freshness_of(view: View) -> dict[str, str]:
    """Return the headers that say of which poll a view is, and what the next request must not be answered below."""
    return {EPOCH_HEADER: str(view.epoch), SEEN_AT_HEADER: repr(view.seen_at), SEEN_HEADER: Seen.of(view).text}


def renewed(view: View, headers: Mapping[str, str]) -> View:
    """Return the view of the poll that the headers name: the same content at another epoch and another time.

    The epochs and times of brokers move with those of the view, so that a broker which was behind stays as far behind.

    Raises
    ------
    ValueError
        A header is missing, or no view with this content has such a value.
    """
    try:
        epoch, seen_at = int(headers[EPOCH_HEADER]), float(headers[SEEN_AT_HEADER])
    except KeyError:
        raise ValueError(f"there is no {EPOCH_HEADER}, or no {SEEN_AT_HEADER}") from None
    if (epoch >= 0) is not (view.epoch >= 0) or not math.isfinite(seen_at):
        raise ValueError(f"epoch {epoch} at {seen_at} is none of this content")
    risen, later = epoch - view.epoch, seen_at - view.seen_at
    if not risen and not later:
        return view
    brokers = [
        replace(
            broker,
            epoch=broker.epoch if broker.epoch < 0 else max(0, broker.epoch + risen),
            answered_at=broker.answered_at + later,
        )
        for broker in view.brokers
    ]
    return replace(view, epoch=epoch, seen_at=seen_at, brokers=tuple(brokers))


def retry_after(response: requests.Response) -> float:
    """Return the seconds that a relay asks for, or a proxy by a date (RFC 9110, 10.2.3); 0 where there are none."""
    text = response.headers.get("Retry-After", "")
    try:
        seconds = float(text) if text.isdecimal() else _seconds_until(text, response.headers.get("Date"))
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), _LONGEST_REST)


def _seconds_until(date: str, now: str | None) -> float:
    """Return the seconds between two dates of HTTP; the response's own date is one of the same clock."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - it brings in socket, and only proxies send dates

    began = datetime.now(UTC) if now is None else parsedate_to_datetime(now)
    return (parsedate_to_datetime(date) - began).total_seconds()


def reason_of(error: Exception) -> str:
    """Return the innermost cause, without the objects that requests and urllib3 wrap around it."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return shown(f"{type(cause).__name__}: {cause}") if isinstance(cause, OSError) else type(error).__name__
