"""Read one document over HTTP, as the client of the relay does: tokens, TLS, and a bound on bytes and seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from featuregate.abortable import AbortableAdapter, DirectSession
from featuregate.printable import shown
from featuregate.sources.bodies import ACCEPTED, BodyError, read_body
from featuregate.sources.relay_connection import Identity
from featuregate.sources.relay_responses import reason_of

if TYPE_CHECKING:
    from featuregate.config.secrets import Secret

PAGE_SECONDS: Final = 30.0
"""For one document: the first scrape of a broker with many rules takes two."""
_OK: Final = 200


class MetricsUnread(ValueError):
    """A document cannot be read: its text says why."""


class Web:
    """Reads documents with one identity; one connection for each server is kept."""

    def __init__(
        self,
        *,
        token: Secret | None = None,
        verify: bool | str = True,
        cert: str | None = None,
        seconds: float = PAGE_SECONDS,
    ) -> None:
        self._identity = Identity(token=token, verify=verify, cert=cert)
        self._seconds = seconds
        self._adapter = AbortableAdapter()
        self._session = DirectSession(self._adapter)
        self._session.auth = self._identity
        self._session.headers["Accept-Encoding"] = ACCEPTED

    def get(self, url: str, accept: str, most_bytes: int, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body of a response with status 200. A query is sent as a form, because a URL has its limits.

        Raises
        ------
        MetricsUnread
            It cannot be reached, answers something else, or has more bytes than are believed.
        """
        check_url(url)
        began = time.monotonic()
        try:
            with (
                self._adapter.limited(self._seconds),
                self._session.request(
                    "GET" if query is None else "POST",
                    url,
                    data=query,
                    headers={"Accept": accept},
                    timeout=self._seconds,
                    verify=self._identity.verify,
                    cert=self._identity.cert,
                    allow_redirects=False,
                    stream=True,
                ) as response,
            ):
                return self._body(response, most_bytes)
        except (requests.RequestException, HTTPError, OSError) as error:
            late = self._adapter.aborted or time.monotonic() - began >= self._seconds
            raise MetricsUnread(f"no answer within {self._seconds:g} s" if late else reason_of(error)) from error
        except BodyError as error:
            raise MetricsUnread(f"the answer is refused: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _body(self, response: requests.Response, most_bytes: int) -> bytes:
        if response.status_code == _OK:
            if not response.headers.keys() & {"content-length", "transfer-encoding"}:
                raise MetricsUnread("the answer does not say how long it is, so that it may be cut")
            return read_body(response, most_bytes)
        try:
            said = shown(read_body(response, 64 * 1024).decode(errors="replace").strip())
        except BodyError:
            said = ""
        moved = ", and redirects are not followed" if response.is_redirect or "Location" in response.headers else ""
        raise MetricsUnread(f"the server answered {response.status_code}{moved}{f': {said}' if said else ''}")


def check_url(url: str) -> None:
    """Raise `MetricsUnread` for what is not an address of HTTP, or has a password in it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise MetricsUnread(f"this is not a URL: {error}") from None
    if not usable:
        raise MetricsUnread("this is not a URL such as http://broker-1:9404/metrics")
    if "@" in parts.netloc:
        raise MetricsUnread("a URL with a password is not used: give --token-file")
