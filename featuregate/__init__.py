"""featuregate: ask every broker what it can do, and switch behaviour only when that is safe.

A name is imported when it is first used, so that a command line or a PySpark worker pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module

from featuregate.before_forks import before_fork as _before_fork  # noqa: F401 - forks wait from here on
from featuregate.version import __version__

TYPE_CHECKING = False  # typing takes most of the time before a command can catch Ctrl-C
if TYPE_CHECKING:
    from featuregate import clients
    from featuregate.admin import updates
    from featuregate.admin.client import Admin
    from featuregate.errors import DiscoveryError, FeatureGateError, GateClosed
    from featuregate.gating.decisions import Decision, evaluate
    from featuregate.gating.gates import Gate, Pin
    from featuregate.gating.latch_store import FileLatchStore, LatchStore
    from featuregate.polling.discoverer import Discoverer
    from featuregate.polling.discovery import adiscover, discover
    from featuregate.requirements import Api, Config, Feature, Release, Requirement, parse, presets
    from featuregate.sources.brokers import BrokerSource
    from featuregate.sources.http import HttpSource
    from featuregate.usage.reporting import UsageReporter
    from featuregate.view.cluster_view import View

__all__ = [
    "Admin",
    "Api",
    "BrokerSource",
    "Config",
    "Decision",
    "Discoverer",
    "DiscoveryError",
    "Feature",
    "FeatureGateError",
    "FileLatchStore",
    "Gate",
    "GateClosed",
    "HttpSource",
    "LatchStore",
    "Pin",
    "Release",
    "Requirement",
    "UsageReporter",
    "View",
    "__version__",
    "adiscover",
    "clients",
    "discover",
    "evaluate",
    "parse",
    "presets",
    "updates",
]

_MODULES = {"clients": "clients", "presets": "requirements.presets", "updates": "admin.updates"}
_ROOMS = {
    "admin.client": ("Admin",),
    "errors": ("DiscoveryError", "FeatureGateError", "GateClosed"),
    "gating.decisions": ("Decision", "evaluate"),
    "gating.gates": ("Gate", "Pin"),
    "gating.latch_store": ("FileLatchStore", "LatchStore"),
    "polling.discoverer": ("Discoverer",),
    "polling.discovery": ("adiscover", "discover"),
    "requirements": ("Api", "Config", "Feature", "Release", "Requirement", "parse"),
    "sources.brokers": ("BrokerSource",),
    "sources.http": ("HttpSource",),
    "usage.reporting": ("UsageReporter",),
    "view.cluster_view": ("View",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"featuregate.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"featuregate.{_HOMES[name]}"), name)
    globals()[name] = found  # the next read is that of any module attribute
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
