"""API keys by name, and names by key."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from featuregate.catalog.api_names import API_NAMES, FORMER_API_NAMES
from featuregate.errors import UnknownApi

if TYPE_CHECKING:
    from collections.abc import Iterable


def api_name(key: int) -> str:
    """Return the name of an API key, such as ``Fetch`` for 1; ``api:99`` for a key that is newer than this table."""
    return API_NAMES.get(key) or f"api:{key}"


def api_key(api: str | int) -> int:
    """Return the key of an API.

    A name may be spelled as in the protocol (``TxnOffsetCommit``), as in Kafka's log lines (``TXN_OFFSET_COMMIT``) or
    in any mix of cases; a name of an older release is accepted too. ``api:99`` is key 99, and so is 99.

    Raises
    ------
    UnknownApi
        The name is unknown. The error has similar names.
    """
    if isinstance(api, int):
        return api
    key = _keys().get(_folded(api))
    if key is None:
        prefix, _, number = api.partition(":")
        if prefix == "api" and number.isascii() and number.isdigit():
            return int(number)
        raise UnknownApi(api, close_to(api, API_NAMES.values()))
    return key


def close_to(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names that are similar in any case, the closest first."""
    import difflib  # noqa: PLC0415 - only errors need it

    by_folded = {_folded(candidate): candidate for candidate in known}
    return tuple(by_folded[close] for close in difflib.get_close_matches(_folded(name), by_folded, n=3, cutoff=0.8))


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


@functools.cache
def _keys() -> dict[str, int]:
    return {_folded(name): key for name, key in (*FORMER_API_NAMES.items(), *((n, k) for k, n in API_NAMES.items()))}
