"""What is left of a request that was cut: its head says who used which version of which API. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.catalog import api_key
from featuregate.errors import UnknownApi
from featuregate_fleet.evidence.lines.layouts import time_in
from featuregate_fleet.evidence.lines.request import ANSWERED, MARKER
from featuregate_fleet.evidence.lines.text_format import CUT_HEADS, HEADS

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
    if (found := _head(text)) is None or (named := _named(found)) is None:
        return None
    key, client_id = named
    version = int(found["version"])
    if key not in ANSWERED or version not in ANSWERED:
        return None
    return CutRequest(
        seen_at=time.time,
        forwarded=found.groupdict().get("forwarded") == "true",
        api_key=key,
        version=version,
        client_id=client_id,
        in_utc=time.in_utc,
    )


def _head(text: str) -> re.Match[str] | None:
    begin = next((begin for begin in HEADS if text.startswith(begin)), None)
    if begin is None:
        return _JSON.match(text)
    return re.match(HEADS[begin], text, re.ASCII) or re.match(CUT_HEADS[begin], text, re.ASCII)


def _named(head: re.Match[str]) -> tuple[int, str | None] | None:
    """Return the API and the client id; None for an API of a newer release, or for a text that is not Unicode."""
    api, client_id = head["api"], head["client_id"]
    try:
        key = int(api) if api.isdecimal() else api_key(api)
        if client_id is None or client_id == "null":
            return key, None
        name = json.loads(client_id) if head.re is _JSON else client_id
        name.encode()
    except (UnknownApi, ValueError):
        return None
    return key, name
