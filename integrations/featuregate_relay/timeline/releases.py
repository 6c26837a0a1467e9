"""The release of a broker, by what it advertises. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from featuregate import Release, View, evaluate
from featuregate.catalog import captured_releases
from featuregate.view.answers import ApiRange, BrokerAnswer, SupportedRange

_CACHED: Final = 256


def release_of(broker: BrokerAnswer) -> str:
    """Return the newest release of Apache Kafka of which a broker has everything; empty where that is not known.

    Releases are known of brokers, not of controllers.
    """
    return _newest_release(broker.api_ranges, broker.supported) if broker.role == "broker" else ""


def release_title(release: str) -> str:
    """Return a release for people: brokers with all of the newest release that is known may be newer."""
    if not release:
        return "an unknown release"
    return f"release {release}{' or newer' if release == captured_releases()[-1] else ''}"


@lru_cache(maxsize=_CACHED)
def _newest_release(api_ranges: Mapping[int, ApiRange], supported: Mapping[str, SupportedRange]) -> str:
    answer = BrokerAnswer(node_id=None, host="", port=0, api_ranges=api_ranges, supported=supported)
    view = View(cluster_id=None, brokers=(answer,))
    releases = reversed(captured_releases())
    return next((release for release in releases if evaluate(view, Release(release)).open), "")
