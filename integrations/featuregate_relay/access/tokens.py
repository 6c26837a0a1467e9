"""Tokens of an OpenID Connect provider: JWTs, checked with the keys that the provider publishes.

Everything that needs no key is checked first, and keys are fetched at most once in half a minute, whatever tokens say:
a refused token costs the provider nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt

from featuregate.printable import shown
from featuregate_relay.access.fetching import FetchError, fetch_json

_LEEWAY_SECONDS: Final = 30
_COOLDOWN_SECONDS: Final = 30.0
"""Between two fetches, also failed ones."""
_LIFESPAN_SECONDS: Final = 600.0
"""After which keys are fetched again, so that a key that was withdrawn is noticed."""
_LONGEST_LIFESPAN_SECONDS: Final = 86_400.0
"""For which keys are used while the issuer is down."""
_LONGEST: Final = 8192
_NAMES: Final = ("kid", "kty", "alg", "use", "crv")
"""What names a key, its kind or its algorithm (RFC 7517)."""
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]

logger = logging.getLogger("featuregate")


class InvalidToken(Exception):
    """A token that is refused. The text says why."""


class _KeyName(NamedTuple):
    """Which key makes a signature."""

    key_id: str | None
    """None: the only one of the issuer."""
    algorithm: str


_MALFORMED: Final = (jwt.PyJWTError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What PyJWT raises for members of other types than the specification has, such as a list as ``exp``."""


def _usable(said: dict[str, Any]) -> jwt.PyJWK | None:
    """Return a published key; None where it is malformed or of a kind that is not known: others may be usable."""
    try:
        key = jwt.PyJWK.from_dict(said)
    except _MALFORMED:
        return None
    key_id: object = key.key_id  # PyJWT does not look at it
    return key if key_id is None or isinstance(key_id, str) else None


class Tokens:
    """Checks tokens of one issuer.

    Parameters
    ----------
    algorithms
        The asymmetric algorithms that are accepted, whatever a token or a key says.
    ca
        A file of certificates that the issuer's is checked with; by default those of the system.
    clock
        Seconds of a monotonic clock.
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        algorithms: Sequence[str],
        *,
        ca: Path | None = None,
        clock: Callable[[], float],
    ) -> None:
        self._issuer = issuer
        self._algorithms = tuple(algorithms)
        self._expected: dict[str, Any] = {"issuer": issuer, "audience": audience, "leeway": _LEEWAY_SECONDS}
        self._ca = ca
        self._clock = clock
        self._keys: dict[_KeyName, jwt.PyJWK] = {}
        self._asked_at = float("-inf")
        self._fetched_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token.

        Raises
        ------
        InvalidToken
            The token is malformed, expired, of another issuer, for another audience, or not signed by the issuer.
        """
        try:
            key = await self._key(self._check_without_key(token))
            return jwt.decode(token, key, algorithms=self._algorithms, options={"require": _REQUIRED}, **self._expected)
        except _MALFORMED as error:
            raise InvalidToken(str(error)) from None

    def _check_without_key(self, token: str) -> _KeyName:
        """Check all but the signature, and return which key has made it."""
        if len(token) > _LONGEST:
            raise InvalidToken(f"it has more than {_LONGEST} characters")
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self._algorithms:
            raise InvalidToken("its algorithm is not accepted")
        options: Any = {"verify_signature": False, "require": _REQUIRED}
        options |= {f"verify_{claim}": True for claim in ("exp", "nbf", "iat", "aud", "iss", "sub")}
        jwt.decode(token, options=options, algorithms=self._algorithms, **self._expected)
        key_id = header.get("kid")
        return _KeyName(key_id if isinstance(key_id, str) else None, header["alg"])

    async def _key(self, name: _KeyName) -> jwt.PyJWK:
        known = self._keys.get(name)
        if known is not None and (self._fetching.locked() or self._clock() - self._fetched_at < _LIFESPAN_SECONDS):
            return known
        async with self._fetching:  # one fetch, however many tokens wait for it
            now = self._clock()
            wanted = name not in self._keys or now - self._fetched_at >= _LIFESPAN_SECONDS
            if wanted and now - self._asked_at >= _COOLDOWN_SECONDS:
                self._asked_at = now
                await self._fetch(now)
            if now - self._fetched_at >= _LONGEST_LIFESPAN_SECONDS:
                self._keys = {}
        key = self._keys.get(name)
        if key is None:
            raise InvalidToken("the issuer has no such key")
        return key

    async def _fetch(self, now: float) -> None:
        """Fetch the keys. Where that fails, the last ones stay: an issuer that is down locks no client out."""
        try:
            self._keys = await asyncio.to_thread(self._published)
            self._fetched_at = now
        except (FetchError, *_MALFORMED) as error:
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer, shown(str(error)))

    def _published(self) -> dict[_KeyName, jwt.PyJWK]:
        found = fetch_json(self._issuer.rstrip("/") + "/.well-known/openid-configuration", self._ca)
        if found.get("issuer") != self._issuer:
            raise FetchError("its configuration names another issuer")
        listed = fetch_json(str(found.get("jwks_uri")), self._ca).get("keys")
        published = [one for key in (listed if isinstance(listed, list) else []) for one in self._by_algorithm(key)]
        keys = [key for each in published if (key := _usable(each)) is not None]
        if not keys:
            raise FetchError("it publishes no key that can be used")
        by_name = {_KeyName(key.key_id, key.algorithm_name): key for key in keys}
        is_single = len({name.key_id for name in by_name}) == 1
        return by_name | {name._replace(key_id=None): key for name, key in by_name.items()} if is_single else by_name

    def _by_algorithm(self, key: Any) -> list[Any]:
        """Return a key for each of its algorithms: PyJWT takes an RSA key that names none for one of RS256 alone.

        A key of which a name is not a text, such as a ``kid`` that is a list, is left out: the others are of use.
        """
        if not isinstance(key, dict) or not all(isinstance(key.get(name), str | None) for name in _NAMES):
            return []
        if key.get("kty") != "RSA" or key.get("alg"):
            return [key]
        return [{**key, "alg": algorithm} for algorithm in self._algorithms if algorithm.startswith(("RS", "PS"))]
