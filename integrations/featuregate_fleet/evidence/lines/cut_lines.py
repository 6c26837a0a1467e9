"""What is left of a request that was cut: its head says who used which version of which API. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate_fleet.evidence.lines.layouts import time_in
from featuregate_fleet.evidence.lines.request import ANSWERED, MARKER

if TYPE_CHECKING:
    from datetime import datetime

    from featuregate_fleet.evidence.lines.unwrapped import Unwrapped

_NUMBER: Final = r"(?P<{}>\d{{1,5}})"
_JSON: Final = re.compile(
    r'\{"isForwarded":(?P<forwarded>true|false),"requestHeader":\{"requestApiKey":'
    + _NUMBER.format("api")
    + r',"requestApiVersion":'
    + _NUMBER.format("version")
    + r',"correlationId":-?\d+,"clientId":(?P<client_id>null|"(?:[^"\\]|\\.)*")[,}]'
)
_ESCAPED: Final = '{\\"isForwarded'
_ESCAPE: Final = re.compile(r"\\(.)")


class CutRequest(NamedTuple):
    """The head of a request whose line was cut."""

    seen_at: datetime
    forwarded: bool
    api_key: int
    version: int
    client_id: str | None
    in_utc: bool = False


def read_head(line: Unwrapped) -> CutRequest | None:
    """Return what the head of a line says; None if that was cut, too, or an error that nobody foresaw is raised."""
    try:
        return _read_head(line)
    except Exception:  # noqa: BLE001 - one line may not end the reading of all others
        return None


def _read_head(line: Unwrapped) -> CutRequest | None:
    before, _, text = line.text.partition(MARKER)
    time = time_in(before.rpartition("\n")[2], line.layout) or line.time
    if time is None or time.time is None:
        return None
    if text.startswith(_ESCAPED):  # the JSON around it was cut
        text = _ESCAPE.sub(r"\1", text)
    if (found := _JSON.match(text)) is None:
        return None
    key, version = int(found["api"]), int(found["version"])
    if key not in ANSWERED or version not in ANSWERED:
        return None
    client_id: str | None = json.loads(found["client_id"])
    (client_id or "").encode()  # raises for a half of a surrogate pair, which no table can keep
    return CutRequest(
        seen_at=time.time,
        forwarded=found["forwarded"] == "true",
        api_key=key,
        version=version,
        client_id=client_id,
        in_utc=time.in_utc,
    )
