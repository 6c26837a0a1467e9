"""Read the body of a relay's response, decoded within a budget."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from featuregate.budgets import MOST_RATIO

if TYPE_CHECKING:
    import requests

ACCEPTED: Final = "gzip"
"""The only content coding that a request accepts (RFC 9110, 8.4)."""
_READ: Final = 8 * 1024
_DECODED: Final = 64 * 1024
"""Bytes of one step: the ratio is checked after each."""
_SMALL: Final = 1024 * 1024
"""Bytes below which the ratio does not count: a short text of zeros shrinks more than a view."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class BodyError(ValueError):
    """A body is over its budget, or not coded as the response says."""


def read_body(response: requests.Response, most: int) -> bytes:
    """Read a body that was not read yet, of ``most`` bytes after decoding.

    Raises `BodyError`: it has more bytes than are allowed, expands more than any view does, or is not coded as the
    request accepts. Errors of requests, urllib3 and the system: it broke off.
    """
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise BodyError(f"it has the Content-Encoding {coding[:40]!r}, which was not asked for")
    decoder = zlib.decompressobj(_GZIP) if coding.endswith("gzip") else None
    body, received = bytearray(), 0
    for piece in response.raw.stream(_READ, decode_content=False):
        received += len(piece)
        left = piece
        while left:
            decoded, left = _decode(decoder, left)
            body += decoded
            _check(len(body), received, most)
    if decoder is not None and not decoder.eof:
        raise BodyError("its gzip stream is cut")
    return bytes(body)


def _decode(decoder: zlib._Decompress | None, coded: bytes) -> tuple[bytes, bytes]:
    if decoder is None:
        return coded, b""
    if decoder.eof:
        raise BodyError("bytes follow the end of its gzip stream")
    try:
        decoded = decoder.decompress(coded, _DECODED)
    except zlib.error:
        raise BodyError("its gzip stream is damaged") from None
    return decoded, decoder.unconsumed_tail or decoder.unused_data


def _check(decoded: int, received: int, most: int) -> None:
    if decoded > most:
        raise BodyError(f"it has more than {most} bytes")
    if decoded > _SMALL and decoded > MOST_RATIO * received:
        raise BodyError(f"it expands to more than {MOST_RATIO} times its size")
