"""One relay of those that serve a cluster: its connection, one request, and when it may be asked again."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from featuregate.budgets import MOST_RELAY_BYTES
from featuregate.errors import RelayError, ViewJsonError
from featuregate.printable import shown
from featuregate.sources.relay_responses import (
    AGE_HEADER,
    EPOCH_HEADER,
    REVISION_HEADER,
    age_of,
    error_of,
    holds_from_json,
    latched_from_json,
    reason_of,
    renewed,
    retry_after,
)
from featuregate.sources.source import MergedView
from featuregate.view.cluster_view import View, with_printable_texts

if TYPE_CHECKING:
    import requests

    from featuregate.abortable import AbortableAdapter
    from featuregate.config.secrets import Secret
    from featuregate.sources.seen import Floor


_MOST_BYTES: Final = MOST_RELAY_BYTES
_OK: Final = 200
_NOT_MODIFIED: Final = 304
_BACKOFF_CAP: Final = 30.0
_MOST_DOUBLINGS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a client shows a relay, and what it accepts of one, in the terms of `requests`."""

    token: Secret | None = None
    api_key: Secret | None = None
    verify: bool | str = True
    cert: str | tuple[str, str] | None = None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers. As the ``auth`` of a session, so that no entry of a .netrc file replaces the token."""
        if self.token is not None:
            request.headers["Authorization"] = f"Bearer {self.token.reveal()}"
        if self.api_key is not None:
            request.headers["X-API-Key"] = self.api_key.reveal()
        return request


class KnownView(NamedTuple):
    """A view of a relay, as it was when the response was there, with what proves later that it is still the newest."""

    answer: MergedView
    etag: str | None
    revision: str | None
    """The revision of the content; None where the relay sends none, and cannot be asked to wait for another one."""


class RelayConnection:
    """Asks one relay for the view of one cluster; ``clock`` is monotonic, ``chance`` a random number from 0 to 1."""

    def __init__(
        self, url: str, path: str, identity: Identity, *, clock: Callable[[], float], chance: Callable[[], float]
    ) -> None:
        self.url = url
        self._path = path
        self._identity = identity
        self._clock = clock
        self._chance = chance
        self._kept: requests.Session | None = None
        self._in_use: set[requests.Session] = set()
        self._process = os.getpid()
        self._failures = 0
        self._problem = ""
        self._rests_until = -math.inf

    @property
    def rest(self) -> float:
        """Seconds for which the relay is not asked again; 0 where it may be asked."""
        return max(0.0, self._rests_until - self._clock())

    def get(
        self, known: KnownView | None, floor: Floor | None, timeout: float, wanted: Callable[[], bool]
    ) -> KnownView:
        """Ask for the view, or for the news that ``known`` is still the newest one.

        The connection is kept for the next request while ``wanted()``: the caller may have given this one up. Raises
        `RelayError`: the relay cannot be reached, has no view, or has one that is below the floor. It rests for a
        while: for as long as it says, or for a random part of a time that doubles with each failure.
        """
        began = self._clock()
        if rest := self.rest:
            raise RelayError(self.url, f"{self._problem} (not asked for another {rest:.1f} s)", rest)
        query = {} if floor is None else floor.to_query()
        headers = {"If-None-Match": known.etag} if known is not None and known.etag else {}
        session = self.take_session()
        adapter = self._adapter(session)
        try:
            with (
                self._using(session, wanted),
                adapter.limited(timeout),
                self._request(session, "GET", query, headers, timeout) as response,
            ):
                fetched = self._read(response, known, floor, began)
        except RelayError as error:
            problem = f"the relay did not answer within {timeout:g} s" if adapter.aborted else error.problem
            if wanted():
                self._fail(problem)
            raise RelayError(self.url, problem, self.rest) from error
        self._failures = 0
        return fetched

    def changed(self, session: requests.Session, known: KnownView, floor: Floor, wait: int, timeout: float) -> bool:
        """Return whether the relay has other content than ``known``; wait for it, ``wait`` seconds at the most.

        The request is a long poll without a body. It proves nothing: the next poll asks for the view. False also where
        the relay cannot be asked now. Another thread may end it by :meth:`abort`.
        """
        if self.rest:
            return False
        query = floor.to_query() | {"wait": str(wait), "revision": known.revision or ""}
        try:
            with (
                self._using(session, lambda: True),
                self._request(session, "HEAD", query, {}, (timeout, wait + timeout)) as response,
            ):
                status, revision = response.status_code, response.headers.get(REVISION_HEADER)
        except RelayError:
            return False
        return status == _OK and revision not in {None, known.revision}

    def abort(self, session: requests.Session) -> None:
        """End what another thread does with a session, now or later. It is not used again."""
        self._adapter(session).abort()

    def close(self) -> None:
        """Close the connection, and end the requests of other threads. The next request opens another one."""
        self._leave_to_parent()
        for session in list(self._in_use):
            self.abort(session)
        self._keep(None)

    def take_session(self) -> requests.Session:
        """Return the open connection, or a new one: a call that was given up may still use the one before."""
        self._leave_to_parent()
        session, self._kept = self._kept, None
        if session is None or self._adapter(session).aborted:
            from featuregate.abortable import AbortableAdapter, DirectSession  # noqa: PLC0415 - only a relay needs it
            from featuregate.sources.bodies import ACCEPTED  # noqa: PLC0415 - likewise

            session = DirectSession(AbortableAdapter())
            session.headers["Accept"] = "application/json"
            session.headers["Accept-Encoding"] = ACCEPTED
            session.auth = self._identity
        self._in_use.add(session)
        return session

    @contextmanager
    def _using(self, session: requests.Session, wanted: Callable[[], bool]) -> Iterator[None]:
        """Keep a session for the next request, unless this one fails, is ended, or is not wanted any more."""
        try:
            yield
            self._keep(session)
            if self._adapter(session).aborted or not wanted():  # only now: either this sees it, or close() the session
                self._keep(None)
        except BaseException:
            session.close()  # not when garbage is collected: the adapter is part of a cycle
            raise
        finally:
            self._in_use.discard(session)

    def _keep(self, session: requests.Session | None) -> None:
        before, self._kept = self._kept, session
        if before is not None:
            before.close()

    def _leave_to_parent(self) -> None:
        """In a forked child, close this end of the connection alone, and leave the threads of the parent theirs."""
        if self._process != os.getpid():
            self._process, self._in_use = os.getpid(), set()
            self._keep(None)

    def _adapter(self, session: requests.Session) -> AbortableAdapter:
        return cast("AbortableAdapter", session.get_adapter(self.url))

    def _fail(self, problem: str) -> None:
        """Back off with full jitter, so that the clients of a relay that restarts do not come back together."""
        self._failures += 1
        self._problem = problem
        doubled = min(2.0 ** min(self._failures - 1, _MOST_DOUBLINGS), _BACKOFF_CAP)
        self._rests_until = max(self._rests_until, self._clock() + self._chance() * doubled)

    def _request(
        self,
        session: requests.Session,
        method: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        timeout: float | tuple[float, float],
    ) -> requests.Response:
        import requests  # noqa: PLC0415 - see above

        try:
            return session.request(
                method,
                self.url + self._path,
                params=query,
                headers=headers,
                timeout=timeout,
                verify=self._identity.verify,
                cert=self._identity.cert,
                allow_redirects=False,
                stream=True,
            )
        except (requests.RequestException, OSError) as error:
            problem = f"the relay cannot be reached: {reason_of(error)}"
        raise RelayError(self.url, problem)

    def _read(
        self, response: requests.Response, known: KnownView | None, floor: Floor | None, began: float
    ) -> KnownView:
        answer = self._answer(response, known)
        said = age_of(response)
        if said is None:
            raise RelayError(self.url, f"the response has no usable {AGE_HEADER}: is this a featuregate relay?")
        transit = self._clock() - began
        # When the floor was sent, the answers were younger than now by the time that the exchange has taken.
        if floor is not None and (problem := floor.above(answer.view, said - transit)) is not None:
            raise RelayError(self.url, f"the relay is behind: {problem}")
        answer = answer._replace(age=said + transit, transit=transit)
        return KnownView(answer, response.headers.get("ETag"), response.headers.get(REVISION_HEADER))

    def _answer(self, response: requests.Response, known: KnownView | None) -> MergedView:
        if response.status_code == _NOT_MODIFIED and known is not None:
            return known.answer._replace(view=self._renewed(known.answer.view, response))
        body = self._body(response)
        if response.status_code != _OK:
            self._rests_until = self._clock() + retry_after(response) * (1 + self._chance())
            raise RelayError(self.url, f"the relay answered {response.status_code}: {error_of(body)}")
        try:
            view = with_printable_texts(View.from_json(body))
            latched, holds = latched_from_json(body), holds_from_json(body)
        except ViewJsonError as error:
            raise RelayError(self.url, f"the response is not a view: {error}") from error
        # A cache on the way may send an earlier body with the current headers.
        view = self._renewed(view, response) if EPOCH_HEADER in response.headers else view
        return MergedView(view, latched=latched, holds=holds)

    def _renewed(self, view: View, response: requests.Response) -> View:
        try:
            return renewed(view, response.headers)
        except ValueError as error:
            problem = f"the response does not say which poll it is of: {shown(str(error))}"
            raise RelayError(self.url, problem) from None

    def _body(self, response: requests.Response) -> str:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - see above

        from featuregate.sources.bodies import BodyError, read_body  # noqa: PLC0415 - likewise

        try:
            return read_body(response, _MOST_BYTES).decode(errors="replace")
        except BodyError as error:
            raise RelayError(self.url, f"the response is refused: {error}") from None
        except (HTTPError, OSError) as error:
            raise RelayError(self.url, f"the response broke off: {reason_of(error)}") from error
