"""featuregate: ask every broker what it can do, and switch behaviour only when that is safe."""

from featuregate import presets
from featuregate.decisions import Decision, evaluate
from featuregate.discoverer import Discoverer
from featuregate.discovery import adiscover, discover
from featuregate.errors import DiscoveryError, FeatureGateError, GateClosed
from featuregate.gates import Gate, Pin
from featuregate.requirements import Api, Capability, Feature, Release, Requirement, parse
from featuregate.shelf import FileShelf, Shelf
from featuregate.version import __version__
from featuregate.view import View

__all__ = [
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
]
