"""UpdateFeatures (key 57): raise or lower finalized levels.

KIP-584 defined v0, KIP-778 v1 (upgrade types, dry run), KIP-1022's follow-up v2 (no results: it is all or nothing).
Source: ``UpdateFeaturesRequest.json`` and ``UpdateFeaturesResponse.json`` of Apache Kafka 4.4.0.
"""

from enum import IntEnum
from typing import Annotated, Final

from featuregate.errors import LocalWireError
from featuregate.wire.message import Request, Response
from featuregate.wire.readers import Reader
from featuregate.wire.schema import Before, Boolean, Flexible, Int8, Int16, Int32, Scalar, Versions, structure
from featuregate.wire.writers import Writer

_DRY_RUN_FROM: Final = 1


class UpgradeType(IntEnum):
    """The direction in which a level may change (``FeatureUpdate.UpgradeType``)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """A downgrade that loses no metadata; otherwise the controller refuses it."""
    UNSAFE_DOWNGRADE = 3
    """A downgrade that may lose metadata. No release of Kafka allows it for ``metadata.version``."""


def _read_allow_downgrade(reader: Reader, label: str) -> UpgradeType:
    return UpgradeType.SAFE_DOWNGRADE if reader.boolean(label) else UpgradeType.UPGRADE


def _write_allow_downgrade(writer: Writer, upgrade_type: int, label: str) -> None:
    if upgrade_type not in tuple(UpgradeType):
        raise writer.error("v0 can only allow a downgrade or not", label)
    writer.boolean(value=upgrade_type != UpgradeType.UPGRADE)


_ALLOW_DOWNGRADE = Scalar("bool", _read_allow_downgrade, _write_allow_downgrade, 1)


@structure
class FeatureUpdate(Flexible):
    """The new level of one feature."""

    feature: str
    max_version_level: Int16
    """0 disables the feature, which counts as a downgrade."""
    upgrade_type: Annotated[Int8, Before(1, _ALLOW_DOWNGRADE)] = UpgradeType.UPGRADE
    """An `UpgradeType`; a number that is none of them is kept, as a controller has to refuse it.

    v0 has a flag instead, which allows a downgrade, safe or not; it is read as `UpgradeType.SAFE_DOWNGRADE`.
    Controllers that speak nothing newer (2.7 to 3.2, with ZooKeeper) honour it. KRaft controllers, from 3.3 on, ignore
    it and take every update over v0 for an upgrade.
    """


@structure
class FeatureResult(Flexible):
    """The result of one update."""

    feature: str
    error_code: Int16 = 0
    error_message: str | None = None
    """``NONE`` from brokers of 4.0 on, where the update succeeded."""


@structure
class UpdateFeaturesResponse(Response, api=(57, "UpdateFeatures"), versions=(0, 2), flexible_from=0):
    """The result of the request, and of each update where the version has them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: Annotated[tuple[FeatureResult, ...], Versions(0, 1)] = ()
    """One for each feature in v0 and v1; none in v2, which has one error for the whole request."""


@structure
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Request new finalized levels. Needs ALTER on the cluster."""

    PREFERRED = 1
    """A broker forwards the request as it is to the active controller, which during a roll may be of 3.9 and close the
    connection on v2. v1 says as much, from 3.3 on; v2 only leaves the results out."""

    timeout_ms: Int32 = 60_000
    updates: tuple[FeatureUpdate, ...]
    validate_only: Annotated[Boolean, Versions(1)] = False
    """A dry run; v1 and newer."""

    def encode(self, version: int) -> bytes:
        """Encode the body; raises `LocalWireError` for a dry run over v0."""
        if self.validate_only and version < _DRY_RUN_FROM:
            problem = "v0 has no dry run, it would really change the levels"
            raise LocalWireError(f"{self._title(version)}: validate_only: {problem}")
        return Request.encode(self, version)
