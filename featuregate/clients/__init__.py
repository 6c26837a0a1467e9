"""Whether the clients of an app work on a release of Kafka, by what was measured of their releases.

``fg.clients.installed()`` finds the clients of this interpreter, ``fg.clients.fit("4.2")`` says of each what works,
and ``fg.clients.not_ready(fg.presets.kip932)`` which of them are too old for it.
"""

from __future__ import annotations

from featuregate.clients.fit import Client, Finding, Fit, fit_of
from featuregate.clients.inventory import fit, installed, not_ready

__all__ = ["Client", "Finding", "Fit", "fit", "fit_of", "installed", "not_ready"]
