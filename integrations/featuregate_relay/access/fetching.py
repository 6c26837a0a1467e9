"""Small JSON documents by HTTP, with bounds: over TLS, without redirects, in limited time and size."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import requests

from featuregate.sources.abortable import AbortableAdapter

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS: Final = 5.0
_MOST_BYTES: Final = 256 * 1024
_OK: Final = 200


class FetchError(Exception):
    """A document cannot be fetched."""


def is_trusted_url(url: str) -> bool:
    """Return whether the response of this URL cannot be changed on the way: HTTPS, or a loopback address."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def fetch_json(url: str, ca: Path | None) -> dict[str, Any]:
    """Return a JSON object. Blocks for seconds at the most; raises `FetchError`."""
    if not is_trusted_url(url):
        raise FetchError("its address is not https")
    adapter = AbortableAdapter()
    try:
        with requests.Session() as session, adapter.limited(_SECONDS):
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            found = json.loads(_content(session, url, ca))
    except OSError as error:  # of requests, or of the file of certificates, which requests does not wrap
        late = f"it did not answer within {_SECONDS:g} s"
        raise FetchError(late if adapter.aborted else type(error).__name__) from None
    except (ValueError, RecursionError):
        raise FetchError("its answer is no JSON") from None
    if not isinstance(found, dict):
        raise FetchError("its answer is no JSON object")
    return found


def _content(session: requests.Session, url: str, ca: Path | None) -> bytes:
    content = bytearray()
    with session.get(
        url, timeout=_SECONDS, allow_redirects=False, stream=True, verify=str(ca) if ca else True
    ) as response:
        if response.status_code != _OK:
            raise FetchError(f"it answered {response.status_code}")
        for piece in response.iter_content(8192):
            content += piece
            if len(content) > _MOST_BYTES:
                raise FetchError("its answer is too large")
    return bytes(content)
