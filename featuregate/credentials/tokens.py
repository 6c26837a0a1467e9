"""Fetch OAUTHBEARER tokens. Each is cached for four fifths of its lifetime."""

from __future__ import annotations

import base64
import inspect
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cachetools import TLRUCache

from featuregate.budgets import MOST_TOKEN_BYTES
from featuregate.config import Secret
from featuregate.config.oauthbearer import (
    Callback,
    ClientCredentials,
    TokenFile,
    TokenProvider,
    TokenSource,
    UnsecuredToken,
)
from featuregate.errors import AuthenticationFailed, ConfigError, FeatureGateError, TimedOut
from featuregate.forks import follow_forks
from featuregate.json_values import JsonError, parse_json
from featuregate.loops.short_loop import running_loop
from featuregate.printable import shown

if TYPE_CHECKING:
    import requests


_KEPT: Final = 0.8
_LONGEST_LIFE: Final = 24 * 3600
"""Seconds: a token with a longer lifetime is fetched again each day."""
_YEAR_5138: Final = 1e11
"""Seconds since 1970. Signers of clouds give milliseconds, which are later."""
_GRACE: Final = 0.5
"""Seconds before the whole exchange is ended, after the timeout of each of its steps, which says more."""
_NO_TOKEN: Final = frozenset(range(0x21)) | {0x7F}
"""Bytes that no token has: blanks and control characters."""
_PIECE: Final = 64 * 1024
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)


def _now() -> float:
    """Seconds since 1970: tokens expire by the wall clock."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, the time until which it may be reused, and its SASL extensions."""

    value: Secret
    reuse_until: float
    """Seconds since 1970."""
    extensions: tuple[tuple[str, str], ...] = ()


class TokenFetcher:
    """Fetches tokens, one at a time from each source, and caches them. Thread-safe."""

    def __init__(self, now: Callable[[], float] = _now) -> None:
        self._now = now
        self._kept: TLRUCache[TokenSource, BearerToken] = TLRUCache(
            64, ttu=lambda _, token, __: token.reuse_until, timer=now
        )
        self.forked()
        follow_forks(self)

    def forked(self) -> None:
        """Begin without callers: those of the parent are not in a forked child, where nobody ends their turn."""
        self._turns = threading.Condition()
        self._asked: set[TokenSource] = set()

    def fetch(self, source: TokenSource, timeout: float) -> BearerToken:
        """Return the cached token, or fetch one. A caller waits where another caller is fetching from the same source.

        ``timeout`` is in seconds, for the endpoint and for that wait: a source that hangs blocks one thread only,
        however often it is used. Raises the same as `fetch_token`.
        """
        with self._turns:
            if not self._turns.wait_for(lambda: source not in self._asked, timeout):
                raise _timed_out(source, timeout)
            if (kept := self._kept.get(source)) is not None:
                return kept
            self._asked.add(source)
        token = None
        try:
            token = self._fetch(source, timeout)
        finally:
            with self._turns:
                self._asked.discard(source)
                if token is not None:
                    self._kept[source] = token
                self._turns.notify_all()
        return token

    def _fetch(self, source: TokenSource, timeout: float) -> BearerToken:
        match source:
            case Callback():
                return self._call(source)
            case ClientCredentials():
                return self._ask(source, timeout)
            case TokenFile():
                return BearerToken(Secret(_token_in(source)), self._now(), source.extensions)
            case TokenProvider():
                return self._provided(source)
            case UnsecuredToken():
                return self._make(source)

    def _until(self, lifetime: float) -> float:
        return self._now() + _KEPT * min(lifetime, _LONGEST_LIFE)

    def _call(self, source: Callback) -> BearerToken:
        """Run confluent-kafka's callback: ``(token, expiry[, principal, extensions])``, the expiry since 1970."""
        try:
            given = source.function(source.config)
        except BaseException as error:  # also sys.exit(): signals come to the main thread, and not to this one
            # The text of the app's error may hold a secret, so the message has only its type; the cause has the rest.
            raise ConfigError("oauth_cb", f"gave no (token, expiry): it failed with {type(error).__name__}") from error
        try:
            token, expiry, *rest = given
            extensions = dict(rest[1] if len(rest) > 1 else {})
            value, expires = str(token), float(expiry)
        except BaseException as error:  # noqa: BLE001 - any result; the error may hold the token, if the two are swapped
            problem = f"gave no (token, expiry): reading it failed with {type(error).__name__}"
        else:
            if expires > _YEAR_5138:
                raise ConfigError(
                    "oauth_cb", "gave an expiry in milliseconds: divide it by 1000, as confluent-kafka wants it"
                )
            until = self._until(expires - self._now())
            return BearerToken(Secret(value), until, tuple((str(name), str(text)) for name, text in extensions.items()))
        raise ConfigError("oauth_cb", problem)

    def _provided(self, source: TokenProvider) -> BearerToken:
        """Call a provider of kafka-python, or one of aiokafka in a loop of its own. It caches its tokens itself."""
        key = "sasl_oauth_token_provider"
        try:
            given = source.provider.token()
            value = _awaited(given) if inspect.isawaitable(given) else given
            extensions: object = getattr(source.provider, "extensions", dict)()
        except BaseException as error:  # as above
            # The text of the app's error may hold a secret, so the message has only its type; the cause has the rest.
            raise ConfigError(key, f"gave no token: it failed with {type(error).__name__}") from error
        if not isinstance(value, str) or not isinstance(extensions, dict):
            raise ConfigError(key, "gave no token: token() must give a str, and extensions() a dict")
        return BearerToken(
            Secret(value), self._now(), tuple((str(name), str(text)) for name, text in extensions.items())
        )

    def _ask(self, source: ClientCredentials, timeout: float) -> BearerToken:
        answer = _post(source, timeout)
        token = answer.get("access_token")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable() and token):
            raise AuthenticationFailed(source.place, "OAUTHBEARER", "the token endpoint's answer has no access_token")
        lifetime = answer.get("expires_in")
        known = isinstance(lifetime, int | float | str) and str(lifetime).isdecimal()
        return BearerToken(Secret(token), self._until(float(str(lifetime)) if known else 0), source.extensions)

    def _make(self, source: UnsecuredToken) -> BearerToken:
        now = self._now()
        claims: dict[str, Any] = {name: text.split() if name == "scope" else text for name, text in source.claims}
        claims |= {"iat": int(now), "exp": int(now) + source.life_seconds}
        value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
        return BearerToken(Secret(value), self._until(source.life_seconds), source.extensions)


_FETCHER: Final = TokenFetcher()


async def fetch_token(source: TokenSource, within: float, fetcher: TokenFetcher = _FETCHER) -> BearerToken:
    """Return the cached token, or fetch one in another thread than that of the loop.

    ``within`` is in seconds. Raises `TimedOut`, `ConfigError` when a callback fails, `AuthenticationFailed` when an
    endpoint refuses.
    """
    loop = running_loop()
    try:
        async with loop.timeout(within):
            return await loop.in_thread(lambda: fetcher.fetch(source, within))
    except TimeoutError:
        raise _timed_out(source, within) from None


def _awaited(given: Awaitable[object]) -> object:
    import asyncio  # noqa: PLC0415 - few providers are coroutines

    async def wait() -> object:
        return await given

    return asyncio.run(wait())


def _token_in(source: TokenFile) -> str:
    """Return the token of a file, without the white space around it, as Java does."""
    try:
        with Path(source.path).open("rb") as file:
            content = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise ConfigError(source.key, f"{source.path!r} cannot be read: {error.strerror}") from None
    token = content.strip()
    if not token or len(content) > MOST_TOKEN_BYTES or not token.isascii() or any(byte in _NO_TOKEN for byte in token):
        raise ConfigError(source.key, f"{source.path!r} holds no token: it must have one word and nothing else")
    return token.decode("ascii")


def _timed_out(source: TokenSource, seconds: float) -> TimedOut:
    match source:
        case ClientCredentials():
            where = source.place
        case TokenFile():
            where = source.path
        case TokenProvider():
            where = "sasl_oauth_token_provider"
        case _:
            where = "oauth_cb"
    return TimedOut(where, "waiting for a token", f"no answer within {seconds:g} s")


def _post(source: ClientCredentials, timeout: float) -> dict[str, Any]:
    """Ask the endpoint within ``timeout`` seconds: a timeout of `requests` begins again with each byte."""
    import requests  # noqa: PLC0415 - only a token endpoint needs it

    from featuregate.abortable import AbortableAdapter, DirectSession  # noqa: PLC0415 - likewise

    form = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
    adapter = AbortableAdapter()
    try:
        with (
            DirectSession(adapter) as session,
            adapter.limited(timeout + _GRACE),
            session.post(
                source.endpoint,
                data=form,
                auth=(_utf8(source.client_id), _utf8(source.client_secret.reveal())),
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
                timeout=timeout,
                verify=source.ca_location or True,
                allow_redirects=False,
                stream=True,
            ) as response,
        ):
            return _answer(source, response)
    except (requests.RequestException, OSError) as error:
        problem = f"the token endpoint cannot be reached: {type(error).__name__}"
    except AuthenticationFailed as error:  # also of an answer that the end of the exchange has cut
        problem = error.problem
    if adapter.aborted:
        raise _timed_out(source, timeout)
    # Raised here, because the other error holds the address with its query, and would be the context of this one.
    raise AuthenticationFailed(source.place, "OAUTHBEARER", problem)


def _utf8(text: str) -> str:
    """Return UTF-8 bytes as Latin-1 text, since requests encodes user names and passwords as Latin-1."""
    return text.encode().decode("latin-1")


def _answer(source: ClientCredentials, response: requests.Response) -> dict[str, Any]:
    try:
        answer = parse_json(_body(response), "answer").value
    except JsonError:
        answer = None
    if response.status_code == _OK and isinstance(answer, dict):
        return answer
    raise _refused(source, response.status_code, answer)


def _body(response: requests.Response) -> bytes:
    """Read a body of limited size; empty where it is compressed, since it may expand to any size."""
    body = b""
    if response.headers.get("Content-Encoding", "identity") == "identity":
        for piece in response.iter_content(_PIECE):
            body += piece
            if len(body) > MOST_TOKEN_BYTES:
                return b""
    return body


def _refused(source: ClientCredentials, status: int, answer: Any) -> FeatureGateError:
    if status in _REDIRECTS:
        what = "a redirect, which featuregate does not follow with a secret"
    elif isinstance(answer, dict) and "error" in answer:
        said = [answer.get(name) for name in ("error", "error_description")]
        what = ": ".join(shown(text) for text in said if text and isinstance(text, str)) or "no reason given"
    else:
        what = "no JSON object" if status == _OK else "no reason given"
    return AuthenticationFailed(source.place, "OAUTHBEARER", f"the token endpoint answered {status}: {what}")


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=").decode()
