"""Test doubles for apps: fake clusters, real Kafka on this machine, and features without a network.

Names are imported when they are first used, so that the pytest plugin does not slow down a test run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featuregate.testing.fakes.cluster import FakeCluster
    from featuregate.testing.latch_store_law import check_latch_store
    from featuregate.testing.local_kafka.cluster import LocalKafka
    from featuregate.testing.random_upgrades import Upgrade, UpgradeStep, upgrades
    from featuregate.testing.static import StaticFeatures, release_view

__all__ = [
    "FakeCluster",
    "LocalKafka",
    "StaticFeatures",
    "Upgrade",
    "UpgradeStep",
    "check_latch_store",
    "release_view",
    "upgrades",
]

_HOMES = {
    "fakes.cluster": "FakeCluster",
    "latch_store_law": "check_latch_store",
    "local_kafka.cluster": "LocalKafka",
    "random_upgrades": "Upgrade UpgradeStep upgrades",
    "static": "StaticFeatures release_view",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
