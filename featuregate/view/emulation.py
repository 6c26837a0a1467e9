"""A view capped at what a release has: what gates see that must behave as if brokers were older. Pure.

A capped view never proves more than the view itself. Configs stay as they are, because releases do not limit them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.catalog import CapturedRelease, captured_as, captured_releases
from featuregate.errors import ConfigError
from featuregate.view.answers import ApiRange, BrokerAnswer, FrozenMap, SupportedRange

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

_VERSION: Final = re.compile(r"\d+(\.\d+)+")


def release_to_emulate(version: str) -> CapturedRelease:
    """Return what brokers of a release have.

    Raises
    ------
    ConfigError
        No broker of that release was captured; the error lists those that were.
    """
    found = captured_as(version) if _VERSION.fullmatch(str(version)) else None
    if found is None:
        raise ConfigError("emulate", f"no release {version!r} is known; known are {', '.join(captured_releases())}")
    return found


def emulated(view: View, release: CapturedRelease) -> View:
    """Return a view in which brokers have no more than this release: API ranges, supported and finalized levels.

    Optional APIs that the captured broker did not list, such as those of telemetry, are absent.
    """
    shared: dict[object, BrokerAnswer] = {}
    return replace(
        view,
        api_ranges=_capped_apis(view.api_ranges, release),
        supported=_capped_features(view.supported, release),
        finalized=_capped_levels(view.finalized, release),
        brokers=tuple(_capped_broker(broker, release, shared) for broker in view.brokers),
    )


def _capped_broker(broker: BrokerAnswer, release: CapturedRelease, shared: dict[object, BrokerAnswer]) -> BrokerAnswer:
    """Cap by what a broker really serves and deprecates, which its capped answer would not show."""
    content = (broker.api_ranges, broker.supported, broker.finalized, broker.finalized_min)
    if content not in shared:  # thousands of brokers may have the same answer
        served = {key: serves for key in broker.api_ranges if (serves := broker.serves(key)) is not None}
        shared[content] = replace(
            broker,
            api_ranges=_capped_apis(served, release),
            supported=_capped_features(broker.supported, release),
            finalized=_capped_levels(broker.finalized, release),
            finalized_min=broker.deprecated_below,
        )
    capped = shared[content]
    return replace(
        broker,
        api_ranges=capped.api_ranges,
        supported=capped.supported,
        finalized=capped.finalized,
        finalized_min=capped.finalized_min,
    )


def _capped_apis(ranges: Mapping[int, ApiRange], release: CapturedRelease) -> FrozenMap[int, ApiRange]:
    return FrozenMap(
        {
            key: ApiRange(served.min, min(served.max, release.apis[key][1]))
            for key, served in ranges.items()
            if key in release.apis and served.min <= release.apis[key][1]
        }
    )


def _capped_features(
    supported: Mapping[str, SupportedRange], release: CapturedRelease
) -> FrozenMap[str, SupportedRange]:
    return FrozenMap(
        {
            name: SupportedRange(levels.min, min(levels.max, release.features[name][1]))
            for name, levels in supported.items()
            if name in release.features and levels.min <= release.features[name][1]
        }
    )


def _capped_levels(finalized: Mapping[str, int], release: CapturedRelease) -> FrozenMap[str, int]:
    return FrozenMap(
        {name: min(level, release.features[name][1]) for name, level in finalized.items() if name in release.features}
    )
