"""The iteration order of a Java ``HashMap`` with names as its keys.

A controller of Kafka 4.0 or newer keeps the updates of a request in such a map, and refuses the request because of the
first update that fails. So the order decides which of several errors the controller reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_BUCKETS: Final = 16
_LOAD: Final = 0.75


def in_map_order(names: Iterable[str]) -> list[str]:
    """Sort distinct names as a ``java.util.HashMap`` lists them after they were inserted in this order.

    Source: ``String.hashCode`` and ``HashMap.hash`` of the Java class library. Buckets of eight names or more have
    another order; no request has so many features.
    """
    distinct = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(distinct) > buckets * _LOAD:
        buckets *= 2
    return sorted(distinct, key=lambda name: _spread(_hash_code(name)) & (buckets - 1))


def _hash_code(text: str) -> int:
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code


def _spread(code: int) -> int:
    return code ^ (code >> 16)
