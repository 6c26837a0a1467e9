"""What brokers offer to clients in place of the API versions that they serve, to see what a client falls back to. Pure.

A recorder puts these ranges into a real broker's answer to ApiVersions. The broker serves more than it offers, so that
rare calls, such as a commit or an admin call, get a real answer, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from featuregate.wire.api_versions import ApiVersionsResponse
from featuregate.wire.frames import read_correlation_id, write_response

CORRELATION_ID: Final = 4
"""Bytes: the whole header of a response to ApiVersions."""

ANSWERED_FROM: Final = {8: 1, 9: 1}
"""OffsetCommit 0 and OffsetFetch 0 are about offsets in ZooKeeper: brokers with KRaft list them, and refuse them."""


class Offer(NamedTuple):
    """What a broker offers, and which release is behind it."""

    name: str
    release: str
    end: int | None
    """The end of each range that is the only version offered, 0 or -1; None for ApiVersions without an answer."""

    def ranges(self, served: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Return one version of each API. ApiVersions is as the broker has it: clients ask with any version."""
        found = {key: max(each[self.end or 0], ANSWERED_FROM.get(key, 0)) for key, each in served.items()}
        alone = {key: (version, version) for key, version in found.items()}
        return alone | {key: served[key] for key in served.keys() & {ApiVersionsResponse.API_KEY}}


OFFERS: Final = {
    offer.name: offer
    for offer in (Offer("newest", "4.4.0", -1), Offer("oldest", "3.9.2", 0), Offer("none", "3.9.2", None))
}
"""A later Kafka without all versions but the newest, an early one, and one before ApiVersions, which was 0.9."""


def offered(payload: bytes, asked: int, offer: Offer) -> bytes:
    """Return the frame of an answer to ApiVersions of version ``asked``, with other ranges."""
    response, version = ApiVersionsResponse.decode_answer(asked, payload[CORRELATION_ID:])
    changed = replace(response, api_ranges=offer.ranges(response.api_ranges))
    return write_response(changed, version, read_correlation_id(payload))
