"""What the headers of a relay's response say, and what a failed exchange means."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from featuregate.errors import ViewJsonError
from featuregate.gating.holds import ALL_GATES, Hold, Holds
from featuregate.gating.latch_documents import canonical
from featuregate.gating.latches import LatchKey
from featuregate.json_values import JsonError, JsonValue, parse_json
from featuregate.printable import as_unicode, shown, some
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
_DIGITS: Final = 10
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
    Raises `ValueError`: a header is missing, or no view with this content has such a value.
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
    """Return the seconds that a relay asks for; 0 where there are none, or a date (RFC 9110, 10.2.3)."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_REST) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0.0


def reason_of(error: Exception) -> str:
    """Return the innermost cause, without the objects that requests and urllib3 wrap around it."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    named = f"{type(cause).__name__}: {cause}" if isinstance(cause, OSError) else type(error).__name__
    return shown(getattr(cause, "strerror", None) or named)


T = TypeVar("T")

_LATCHED: Final = "latched"
_HOLDS: Final = "holds"
_MOST: Final = 1000  # gates of one relay
RELAY: Final = "the relay"


def with_latched(view: str, latched: Collection[LatchKey], holds: Iterable[Hold] = ()) -> str:
    """Add latched gates and holds to the JSON of a view, in texts that can be sent; other readers skip both."""
    import json  # noqa: PLC0415 - see featuregate.view.json_text

    fields = {_LATCHED: [key._asdict() for key in latched], _HOLDS: [_sent(hold) for hold in holds]}
    text = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items() if value)
    return f"{view[:-1]}{text}}}" if text else view


def latched_from_json(text: str) -> frozenset[LatchKey]:
    """Read the latched gates from the JSON of a view.

    Raises `ViewJsonError`: they are not what :func:`with_latched` writes, or too many; the error says where.
    """
    return frozenset(_read(text, _LATCHED, _key))


def holds_from_json(text: str) -> Holds:
    """Read the holds from the JSON of a view; they are fit for a log. Raises as :func:`latched_from_json`.

    A name that is not fit holds every gate: what is cut off might be a gate.
    """
    found = _read(text, _HOLDS, _hold)
    fit = (hold._replace(gate=shown(hold.gate), where=f"{RELAY}: {shown(hold.where)}") for hold in found)
    unfit = [shown(hold.gate) for hold in found if shown(hold.gate) != hold.gate]
    problem = f"{some(unfit, 1)} cannot be the name of a gate, so every gate is held"
    return Holds((*fit, *([Hold(ALL_GATES, problem, RELAY)] if unfit else [])))


def _sent(hold: Hold) -> dict[str, str]:
    return {"gate": as_unicode(hold.gate), "reason": _whole(hold.reason), "where": as_unicode(hold.where)}


def _hold(at: JsonValue) -> Hold:
    return Hold(at.field("gate").text(), _whole(at.field("reason").text()), at.field("where").text())


def _whole(reason: str) -> str:
    """Return a reason that is fit for a log. It may list gates, so nothing of it is cut."""
    return shown(reason, len(reason))


def _key(gate: JsonValue) -> LatchKey:
    return LatchKey(gate.field("gate").text(), canonical(gate.field("requirement").text()))


def _read(text: str, field: str, read: Callable[[JsonValue], T]) -> list[T]:
    if f'"{field}"' not in text:  # most views: they are large, and need not be read twice
        return []
    try:
        fields = parse_json(text, "view").fields()
        rows = fields[field].items() if field in fields else []
        if len(rows) > _MOST:
            raise ViewJsonError(f"view.{field}", f"has {len(rows)} gates, and {_MOST} are allowed")
        return [read(row) for row in rows]
    except JsonError as error:
        raise ViewJsonError(error.where, error.problem) from error
