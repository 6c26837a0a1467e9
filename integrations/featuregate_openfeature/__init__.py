"""An OpenFeature provider over a discoverer, in the process of the app.

`featuregate_openfeature.provider` resolves the flags of `featuregate.flags`, and emits an event for each change.
"""

from __future__ import annotations

from featuregate.version import how_to_install

try:
    from featuregate_openfeature.provider import KafkaFeatureProvider
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openfeature":
        raise
    raise ImportError(f"featuregate_openfeature needs openfeature-sdk: {how_to_install('openfeature')}") from error

__all__ = ["KafkaFeatureProvider"]
