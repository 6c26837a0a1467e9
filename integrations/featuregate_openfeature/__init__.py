"""An OpenFeature provider over a discoverer, in the process of the app.

`featuregate_openfeature.provider` resolves the flags of `featuregate.flags`, and emits an event for each change.
"""

from __future__ import annotations

try:
    from featuregate_openfeature.provider import KafkaFeatureProvider
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "openfeature":
        raise
    raise ImportError(
        "featuregate_openfeature needs openfeature-sdk: pip install '.[openfeature]' in a checkout"
    ) from error

__all__ = ["KafkaFeatureProvider"]
