"""Fetch the view of a cluster from a relay, which polls the brokers for many processes."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from featuregate.blocking import in_daemon_thread
from featuregate.errors import ConfigError, RelayError, ViewJsonError
from featuregate.printable import shown
from featuregate.sources.source import MergedView
from featuregate.view.cluster_view import View

if TYPE_CHECKING:
    import requests

__all__ = ["AGE_HEADER", "HttpSource"]

AGE_HEADER: Final = "Featuregate-Age"
"""Seconds since the brokers answered, by the relay's clock, when it sent the response."""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""A view of 1,000 brokers has about 10 MB."""
_PIECE: Final = 64 * 1024
_OK: Final = 200
_NOT_MODIFIED: Final = 304


class HttpSource:
    """Fetches the view of one cluster from a relay (``featuregate serve``).

    ``Discoverer(source=HttpSource("http://localhost:8080"))`` has the gates of a discoverer that asks the brokers, and
    needs no connection to them. Each poll is one ``GET /v1/clusters/{cluster}/view``. The view is as old as the
    brokers' answers in it: when the relay no longer reaches the brokers, the view of each client grows stale, too.

    Parameters
    ----------
    url
        Where the relay is: ``http://host:port`` or ``https://host:port``, with a path where a proxy adds one.
    cluster
        The name of the cluster at the relay.
    timeout
        Seconds for one poll, at the most.

    Raises
    ------
    ConfigError
        The URL or the timeout cannot be used.
    """

    def __init__(self, url: str, *, cluster: str = "default", timeout: float = 15.0) -> None:
        if type(timeout) not in {int, float} or not 0 < timeout < math.inf:
            raise ConfigError("timeout", f"must be a number of seconds above 0, not {timeout!r}")
        self.url = _checked(url)
        self.cluster = cluster
        self._timeout = timeout
        self._session: requests.Session | None = None
        self._etag: str | None = None
        self._view: View | None = None

    def __str__(self) -> str:
        return f"cluster {self.cluster} at {self.url}"

    @property
    def timeout(self) -> float:
        """Seconds for one poll."""
        return self._timeout

    async def fetch(self) -> MergedView:
        """Fetch the view, or learn that it has not changed.

        Raises
        ------
        RelayError
            The relay cannot be reached, or has no view of the cluster.
        """
        return await in_daemon_thread(self._fetch)

    def _fetch(self) -> MergedView:
        began = time.monotonic()
        session, self._session = self._session, None  # a call that was given up may still use the one before
        session = session or _session()
        with self._get(session) as response:
            view = self._view_of(response, began + self._timeout)
            age = _age(response)
        if age is None:
            raise RelayError(self.url, f"the response has no usable {AGE_HEADER}: is this a featuregate relay?")
        self._session, self._view, self._etag = session, view, response.headers.get("ETag")
        transit = time.monotonic() - began
        return MergedView(view=view, age=age + transit, transit=transit)

    def _get(self, session: requests.Session) -> requests.Response:
        import requests  # noqa: PLC0415 - only a relay needs it

        headers = {"If-None-Match": self._etag} if self._etag else {}
        try:
            return session.get(
                f"{self.url}/v1/clusters/{quote(self.cluster, safe='')}/view",
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
                stream=True,
            )
        except (requests.RequestException, OSError) as error:
            problem = f"the relay cannot be reached: {_reason(error)}"
        raise RelayError(self.url, problem)

    def _view_of(self, response: requests.Response, deadline: float) -> View:
        if response.status_code == _NOT_MODIFIED and self._view is not None:
            return self._view
        body = self._body(response, deadline)
        if response.status_code != _OK:
            raise RelayError(self.url, f"the relay answered {response.status_code}: {_error_of(body)}")
        try:
            return View.from_json(body)
        except ViewJsonError as error:
            raise RelayError(self.url, f"the response is not a view: {error}") from error

    def _body(self, response: requests.Response, deadline: float) -> str:
        """Read a body of limited size in limited time."""
        import requests  # noqa: PLC0415 - see above

        body = bytearray()
        try:
            for piece in response.iter_content(_PIECE):
                body += piece
                if len(body) > _MOST_BYTES:
                    raise RelayError(self.url, f"the response has more than {_MOST_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise RelayError(self.url, f"the response did not end within {self._timeout:g} s")
        except (requests.RequestException, OSError) as error:
            raise RelayError(self.url, f"the response broke off: {_reason(error)}") from error
        return body.decode(errors="replace")


def _session() -> requests.Session:
    """Return a session that keeps its connection, and compresses only as this source limits it."""
    import requests  # noqa: PLC0415 - see above

    session = requests.Session()
    session.headers.update({"Accept": "application/json"})
    return session


def _checked(url: str) -> str:
    """Return the URL without a slash at its end."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError("url", f"must be like http://relay:8080, not {url!r}") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError("url", "must not carry a user name or a password")
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise ConfigError("url", f"must be like http://relay:8080, not {url!r}")
    return url.rstrip("/")


def _error_of(body: str) -> str:
    """Return the text of a relay's error, ``{"error": "..."}``, or the start of another body."""
    try:
        return shown(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return shown(body)


def _age(response: requests.Response) -> float | None:
    """Return the age that the relay says, with the time that caches on the way have added (RFC 9111, 5.1)."""
    try:
        age = float(response.headers[AGE_HEADER]) + float(response.headers.get("Age", 0))
    except (KeyError, ValueError):
        return None
    return age if 0 <= age < math.inf else None


def _reason(error: Exception) -> str:
    """Return the innermost cause, without the objects that requests and urllib3 wrap around it."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return f"{type(cause).__name__}: {cause}" if isinstance(cause, OSError) else type(error).__name__
