"""Small JSON documents by HTTP, with bounds: over TLS, without redirects, in limited time and size."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from featuregate.json_values import parse_json
from featuregate.sources.abortable import AbortableAdapter
from featuregate.sources.bodies import ACCEPTED, BodyError, read_body

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
            found = parse_json(_content(session, url, ca), "answer").value
    except OSError as error:  # of requests, or of the file of certificates, which requests does not wrap
        late = f"it did not answer within {_SECONDS:g} s"
        raise FetchError(late if adapter.aborted else type(error).__name__) from None
    except BodyError as error:
        raise FetchError(f"its answer is too large, or not coded as asked for: {error}") from None
    except ValueError:
        raise FetchError("its answer is not JSON") from None
    if not isinstance(found, dict):
        raise FetchError("its answer is not a JSON object")
    return found


def _content(session: requests.Session, url: str, ca: Path | None) -> bytes:
    with session.get(
        url,
        headers={"Accept-Encoding": ACCEPTED},
        timeout=_SECONDS,
        allow_redirects=False,
        stream=True,
        verify=str(ca) if ca else True,
    ) as response:
        if response.status_code != _OK:
            raise FetchError(f"it answered {response.status_code}")
        try:
            return read_body(response, _MOST_BYTES)
        except HTTPError as error:
            raise FetchError(type(error).__name__) from None
