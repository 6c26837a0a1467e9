"""Fetch the view of a cluster from relays, which poll the brokers for many processes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from featuregate.config.secrets import Secret
from featuregate.errors import ConfigError, RelayError
from featuregate.excluded_apis import ExcludedApis, excluded_apis
from featuregate.files import require_text
from featuregate.forks import load
from featuregate.gating.holds import ALL_GATES, Hold, Holds
from featuregate.logs import get_logger
from featuregate.loops.short_loop import running_loop
from featuregate.sources.relay_connection import Identity, KnownView, RelayConnection
from featuregate.sources.relay_responses import RELAY
from featuregate.sources.seen import Floor

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.sources.brokers import BrokerSource
    from featuregate.sources.source import BrokerAnswers, MergedView

logger = get_logger("featuregate")
_RANDOM = SystemRandom()

_MODULES: Final = (
    "featuregate.abortable",
    "featuregate.sources.bodies",
    "featuregate.view.json_text",
    "netrc",
    "requests",
)
_UNKNOWN_HOLDS: Final = Holds(
    (
        Hold(
            ALL_GATES, "no relay has given a view since the start, and one may hold gates, so every gate is held", RELAY
        ),
    )
)
_LEAST_WAIT: Final = 1
"""Seconds of a request that waits, and for which the next poll is not due when it has ended."""


class _Seen(NamedTuple):
    """The newest answers that this source has returned."""

    cluster_id: str | None
    epoch: int
    answered_at: float
    """When brokers gave them, at the latest, by the clock of this process."""
    seen_at: float

    def floor(self, now: float) -> Floor:
        """Return what a request that is sent now must not be answered below."""
        age = max(0.0, now - self.answered_at)
        return Floor.of(cluster_id=self.cluster_id, epoch=self.epoch, age=age, seen_at=self.seen_at)


class HttpSource:
    """Fetches the view of one cluster from relays (``featuregate serve``).

    ``Discoverer(source=HttpSource("http://localhost:8080"))`` has the gates of a discoverer that asks the brokers, and
    needs no connection to them. Each poll is one ``GET /v1/clusters/{cluster}/view``. The view is as old as the
    brokers' answers in it: when the relay no longer reaches the brokers, the view of each client grows stale, too.

    Several relays may serve one cluster. A poll asks the one that answered last, and the next one when that fails. No
    answer takes the client back: each request carries a floor, and a relay that is below it refuses.

    Raises `ConfigError`: a URL, the timeout or a property of ``fallback`` cannot be used.

    Parameters
    ----------
    url
        Where the relay is: ``http://host:port`` or ``https://host:port``, with a path where a proxy adds one. Or
        several, in any order: each process begins with another one.
    cluster
        The name of the cluster at the relays.
    timeout
        Seconds for all relays of one poll, at the most.
    token, api_key
        What relays, or proxies before them, ask for: sent as ``Authorization: Bearer`` and as ``X-API-Key``.
    verify, cert
        As in `requests`: the file of trusted certificates, and that of the client's certificate and key. Proxies come
        from the environment.
    wait
        Seconds for which a request between polls waits at the relay for other content; the poll follows at once.
        Relays allow 30. 0: only time makes a poll.
    fallback
        The config of the cluster, as for :class:`~featuregate.Discoverer`: the brokers are asked where no relay gives a
        view. Until a relay has given one, its holds are not known, and hold every gate that has not latched.
    exclude_apis
        As for :class:`~featuregate.BrokerSource`.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        cluster: str = "default",
        timeout: float = 15.0,
        wait: float = 30.0,
        token: str | None = None,
        api_key: str | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        fallback: Mapping[str, Any] | str | Path | None = None,
        exclude_apis: ExcludedApis | str | None = None,
        chance: Callable[[], float] = _RANDOM.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if type(timeout) not in {int, float} or not 0 < timeout < math.inf:
            raise ConfigError("timeout", f"must be a number of seconds above 0, not {timeout!r}")
        if type(wait) not in {int, float} or not 0 <= wait < math.inf:
            raise ConfigError("wait", f"must be a number of seconds, not {wait!r}")
        urls = [_checked(each) for each in ([url] if isinstance(url, str) or url is None else url)]
        if not urls:
            raise ConfigError("url", "must name at least one relay, like http://relay:8080")
        require_text("verify", verify)  # requests would verify nothing
        for file in (cert,) if isinstance(cert, str) else cert or ():
            require_text("cert", file)
        self.urls = tuple(urls)
        self.cluster = cluster
        self._timeout = timeout
        self._wait = wait
        self._clock = clock
        self.exclude_apis = excluded_apis(exclude_apis)
        self._fallback: BrokerSource | None = None
        if fallback is not None:
            from featuregate.sources.brokers import BrokerSource  # noqa: PLC0415 - only a fallback needs it

            self._fallback = BrokerSource(fallback, keep_connections=False)
            self.configs: Collection[str] = ()
            """The configs for which the fallback asks brokers. A relay asks for those of its own gates."""
        identity = Identity(
            token=_secret("token", token), api_key=_secret("api_key", api_key), verify=verify, cert=cert
        )
        path = f"/v1/clusters/{quote(cluster, safe='')}/view"
        first = min(int(chance() * len(urls)), len(urls) - 1)
        self._relays = [
            RelayConnection(each, path, identity, clock=clock, chance=chance) for each in urls[first:] + urls[:first]
        ]
        self._known: KnownView | None = None
        self._seen: _Seen | None = None
        self._holds: Holds | None = _UNKNOWN_HOLDS
        """Those of the last view that a relay has given since the start."""
        self._turn: object = None

    def __str__(self) -> str:
        return f"cluster {self.cluster} at {', '.join(self.urls)}"

    @property
    def timeout(self) -> float:
        """Seconds for one poll: for all relays, and for the brokers after them."""
        return self._timeout + (self._fallback.timeout if self._fallback is not None else 0.0)

    def load(self) -> None:
        """Import what a poll needs; see :func:`featuregate.forks.load`."""
        load(_MODULES)
        if self._fallback is not None:
            self._fallback.load()

    async def fetch(self) -> MergedView | BrokerAnswers:
        """Fetch the view, or learn that it has not changed.

        Raises `RelayError`: no relay can be reached and has a view that is new enough; the error names each.
        Raises `DiscoveryError`: nor has any broker of ``fallback`` answered.
        """
        seen, known = self._seen, self._known
        turn = self._turn = object()
        try:
            relay, fetched = await running_loop().in_thread(
                lambda: self._ask_relays(known, seen, lambda: self._turn is turn)
            )
        except RelayError as error:
            if self._fallback is None:
                raise
            if known is not None or seen is None:  # once, and not with each poll in which the brokers are asked
                logger.warning("the brokers are asked, and holds are those of before: %s", error)
            return await self._ask_brokers(self._fallback)
        # Only here: a call that was given up must not change what the next one sends.
        self._relays = [relay, *(other for other in self._relays if other is not relay)]
        self._known, answer = fetched, fetched.answer
        self._holds = answer.holds
        answered_at = self._clock() - (answer.age - answer.transit)
        self._seen = _Seen(answer.view.cluster_id, answer.view.epoch, answered_at, answer.view.seen_at)
        return answer

    async def changed(self, within: float) -> None:
        """Return as soon as the relay has other content than the last view, within these seconds or never.

        A request waits at the relay. Where the relay fails or does not let it wait, only the next poll asks again.
        """
        import asyncio  # noqa: PLC0415 - the front door must be cheap to import

        ends = self._clock() + within
        while self._known is not None and self._known.revision and self._seen is not None:
            known, relay, began = self._known, self._relays[0], self._clock()
            wait = int(min(self._wait, ends - began - _LEAST_WAIT))
            if wait < _LEAST_WAIT:
                break
            floor = self._seen.floor(began)
            if await self._changed_at(relay, known, floor, wait):
                return
            if self._clock() - began < wait / 2:
                break
        await asyncio.get_running_loop().create_future()

    async def _changed_at(self, relay: RelayConnection, known: KnownView, floor: Floor, wait: int) -> bool:
        session = relay.take_session()
        try:
            return await running_loop().in_thread(lambda: relay.changed(session, known, floor, wait, self._timeout))
        except BaseException:  # the caller is cancelled, and leaves no thread behind
            relay.abort(session)
            raise

    def close(self) -> None:
        """Close the connections after the last poll. A later :meth:`fetch` opens them again."""
        self._turn = None
        for relay in self._relays:
            relay.close()
        if self._fallback is not None:
            self._fallback.close()

    def _ask_relays(
        self, known: KnownView | None, seen: _Seen | None, wanted: Callable[[], bool]
    ) -> tuple[RelayConnection, KnownView]:
        """Ask one relay after the other, while the caller wants it; none may take the time of all."""
        errors = []
        for relay in self._relays:
            try:
                floor = None if seen is None else seen.floor(self._clock())
                return relay, relay.get(known, floor, self._timeout / len(self._relays), wanted)
            except RelayError as error:
                errors.append(error)
            if not wanted():
                break
        if len(errors) == 1:
            raise errors[0]
        problem = f"no relay gave a view: {'; '.join(map(str, errors))}"
        raise RelayError(str(self), problem, min(error.rest for error in errors))

    async def _ask_brokers(self, brokers: BrokerSource) -> BrokerAnswers:
        brokers.configs = self.configs
        fetched = await brokers.fetch()
        epoch = max((answer.epoch for answer in fetched.answers if answer.answered), default=-1)
        before = self._seen
        if before is not None and before.cluster_id == fetched.cluster_id:
            epoch = max(epoch, before.epoch)
        self._seen = _Seen(fetched.cluster_id, epoch, self._clock(), fetched.answered_at)
        self._known = None  # below the floor: no relay may say that it is still the newest view
        return fetched._replace(holds=self._holds)


def _secret(name: str, text: str | None) -> Secret | None:
    """Return a secret that can be sent in a header; no error shows it."""
    if text is None:
        return None
    if type(text) is not str or not text.isascii() or not text.isprintable() or text != text.strip() or not text:
        raise ConfigError(name, "must be printable ASCII text, without blanks at its ends")
    return Secret(text)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is no number raises
    except (ValueError, AttributeError, TypeError):
        parts, host = None, None
    if parts is None:  # raised here, because the other error may hold a part of a password
        raise ConfigError("url", "must be like http://relay:8080")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("url", "must not carry a user name or a password")
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise ConfigError("url", "must be like http://relay:8080, without a query")
    return url.rstrip("/")
