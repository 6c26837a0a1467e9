"""featuregate: ask every broker what it can do, and switch behaviour only when that is safe.

A name is imported when it is first used, so that a command line or a PySpark worker pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from featuregate.version import __version__

if TYPE_CHECKING:
    from featuregate import presets, updates
    from featuregate.admin import Admin
    from featuregate.decisions import Decision, evaluate
    from featuregate.discoverer import Discoverer
    from featuregate.discovery import adiscover, discover
    from featuregate.errors import DiscoveryError, FeatureGateError, GateClosed
    from featuregate.gates import Gate, Pin
    from featuregate.requirements import Api, Capability, Feature, Release, Requirement, parse
    from featuregate.shelf import FileShelf, Shelf
    from featuregate.view import View

__all__ = [
    "Admin",
    "Api",
    "Capability",
    "Decision",
    "Discoverer",
    "DiscoveryError",
    "Feature",
    "FeatureGateError",
    "FileShelf",
    "Gate",
    "GateClosed",
    "Pin",
    "Release",
    "Requirement",
    "Shelf",
    "View",
    "__version__",
    "adiscover",
    "discover",
    "evaluate",
    "parse",
    "presets",
    "updates",
]

_MODULES = ("presets", "updates")
_ROOMS = {
    "admin": ("Admin",),
    "decisions": ("Decision", "evaluate"),
    "discoverer": ("Discoverer",),
    "discovery": ("adiscover", "discover"),
    "errors": ("DiscoveryError", "FeatureGateError", "GateClosed"),
    "gates": ("Gate", "Pin"),
    "requirements": ("Api", "Capability", "Feature", "Release", "Requirement", "parse"),
    "shelf": ("FileShelf", "Shelf"),
    "view": ("View",),
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"featuregate.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"featuregate.{_HOMES[name]}"), name)
    globals()[name] = found  # the next read is that of any module attribute
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
