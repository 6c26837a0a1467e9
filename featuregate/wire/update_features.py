"""UpdateFeatures (key 57): raise or lower finalized levels.

KIP-584 defined v0, KIP-778 v1 (upgrade types, dry run), KIP-1022's follow-up v2 (no results: it is all or nothing).
Source: ``UpdateFeaturesRequest.json`` and ``UpdateFeaturesResponse.json`` of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final

from featuregate.wire.message import Request, Response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from featuregate.wire.readers import Reader
    from featuregate.wire.writers import Writer

__all__ = ["FeatureResult", "FeatureUpdate", "UpdateFeaturesRequest", "UpdateFeaturesResponse", "UpgradeType"]

_UPGRADE_TYPE_FROM: Final = 1
_RESULTS_UNTIL: Final = 1
_SMALLEST_UPDATE: Final = 5
_SMALLEST_RESULT: Final = 5


class UpgradeType(IntEnum):
    """The direction in which a level may change (``FeatureUpdate.UpgradeType``)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """A downgrade that loses no metadata; otherwise the controller refuses it."""
    UNSAFE_DOWNGRADE = 3
    """A downgrade that may lose metadata. No release of Kafka allows it for ``metadata.version``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The new level of one feature."""

    feature: str
    max_version_level: int
    """0 disables the feature, which counts as a downgrade."""
    upgrade_type: int = UpgradeType.UPGRADE
    """An `UpgradeType`; a number that is none of them is kept, as a controller has to refuse it.

    v0 has a flag instead, which allows a downgrade, safe or not; it is read as `UpgradeType.SAFE_DOWNGRADE`.
    Controllers that speak nothing newer (2.7 to 3.2, with ZooKeeper) honour it. KRaft controllers, from 3.3 on, ignore
    it and take every update over v0 for an upgrade.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureResult:
    """The result of one update."""

    feature: str
    error_code: int = 0
    error_message: str | None = None
    """``NONE`` from brokers of 4.0 on, where the update succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(Response):
    """The result of the request, and of each update where the version has them."""

    API_KEY: ClassVar = 57
    NAME: ClassVar = "UpdateFeatures"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 0

    error_code: int = 0
    error_message: str | None = None
    results: tuple[FeatureResult, ...] = ()
    """One for each feature in v0 and v1; none in v2, which has one error for the whole request."""
    throttle_time_ms: int = 0
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        throttle_time_ms = reader.int32("throttle_time_ms")
        error_code = reader.int16("error_code")
        error_message = reader.nullable_string("error_message")
        results: tuple[FeatureResult, ...] = ()
        if version <= _RESULTS_UNTIL:
            results = reader.array("results", _SMALLEST_RESULT, lambda: _read_result(reader))
        return cls(
            error_code=error_code,
            error_message=error_message,
            results=results,
            throttle_time_ms=throttle_time_ms,
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms, "throttle_time_ms")
        writer.int16(self.error_code, "error_code")
        writer.nullable_string(self.error_message, "error_message")
        if version <= _RESULTS_UNTIL:
            writer.array(self.results, lambda result: _write_result(writer, result))
        writer.tags(self.unknown_tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Request new finalized levels. Needs ALTER on the cluster."""

    API_KEY: ClassVar = 57
    NAME: ClassVar = "UpdateFeatures"
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE_FROM: ClassVar = 0
    RESPONSE = UpdateFeaturesResponse

    timeout_ms: int = 60_000
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    """A dry run; v1 and newer."""
    unknown_tags: Mapping[int, bytes] = field(default_factory=dict)
    """Unknown tagged fields, as received."""

    @classmethod
    def _read(cls, reader: Reader, version: int) -> Self:
        return cls(
            timeout_ms=reader.int32("timeout_ms"),
            updates=reader.array("feature_updates", _SMALLEST_UPDATE, lambda: _read_update(reader, version)),
            validate_only=version >= _UPGRADE_TYPE_FROM and reader.boolean("validate_only"),
            unknown_tags=reader.tags(),
        )

    def _write(self, writer: Writer, version: int) -> None:
        writer.int32(self.timeout_ms, "timeout_ms")
        writer.array(self.updates, lambda update: _write_update(writer, version, update))
        if version >= _UPGRADE_TYPE_FROM:
            writer.boolean(value=self.validate_only)
        elif self.validate_only:
            raise writer.error("v0 has no dry run, it would really change the levels", "validate_only")
        writer.tags(self.unknown_tags)


def _read_update(reader: Reader, version: int) -> FeatureUpdate:
    feature = reader.string("feature_updates.feature")
    max_version_level = reader.int16("feature_updates.max_version_level")
    if version >= _UPGRADE_TYPE_FROM:
        upgrade_type = reader.int8("feature_updates.upgrade_type")
    else:
        allow_downgrade = reader.boolean("feature_updates.allow_downgrade")
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if allow_downgrade else UpgradeType.UPGRADE
    reader.tagged()
    return FeatureUpdate(feature=feature, max_version_level=max_version_level, upgrade_type=upgrade_type)


def _write_update(writer: Writer, version: int, update: FeatureUpdate) -> None:
    writer.string(update.feature, "feature_updates.feature")
    writer.int16(update.max_version_level, "feature_updates.max_version_level")
    if version >= _UPGRADE_TYPE_FROM:
        writer.int8(update.upgrade_type, "feature_updates.upgrade_type")
    elif update.upgrade_type in tuple(UpgradeType):
        writer.boolean(value=update.upgrade_type != UpgradeType.UPGRADE)
    else:
        raise writer.error("v0 can only allow a downgrade or not", "feature_updates.upgrade_type")
    writer.tags({})


def _read_result(reader: Reader) -> FeatureResult:
    feature = reader.string("results.feature")
    error_code = reader.int16("results.error_code")
    error_message = reader.nullable_string("results.error_message")
    reader.tagged()
    return FeatureResult(feature=feature, error_code=error_code, error_message=error_message)


def _write_result(writer: Writer, result: FeatureResult) -> None:
    writer.string(result.feature, "results.feature")
    writer.int16(result.error_code, "results.error_code")
    writer.nullable_string(result.error_message, "results.error_message")
    writer.tags({})
