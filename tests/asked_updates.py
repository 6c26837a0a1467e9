"""Updates of levels, as any client may ask for them: for fake controllers, real ones and other clients."""

from collections.abc import Mapping
from typing import NamedTuple

from featuregate.testing import FakeCluster
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType


class Asked(NamedTuple):
    """What UpdateFeatures asks for. Over v0 a downgrade is a flag, which controllers with KRaft ignore."""

    levels: Mapping[str, int]
    upgrade_type: int = UpgradeType.UPGRADE
    dry_run: bool = False
    version: int = 1

    @property
    def request(self) -> UpdateFeaturesRequest:
        updates = tuple(
            FeatureUpdate(feature=name, max_version_level=level, upgrade_type=self.upgrade_type)
            for name, level in self.levels.items()
        )
        return UpdateFeaturesRequest(updates=updates, validate_only=self.dry_run)

    def of(self, cluster: FakeCluster) -> UpdateFeaturesResponse | None:
        controller = cluster.controller(1, "broker")
        assert controller is not None
        return controller(self.request, self.version)


def up(levels: Mapping[str, int], *, dry_run: bool = False, version: int = 1) -> Asked:
    """Ask for higher levels, as ``kafka-features upgrade`` does."""
    return Asked(levels, UpgradeType.UPGRADE, dry_run, version)


def down(levels: Mapping[str, int], *, unsafe: bool = False, dry_run: bool = False, version: int = 1) -> Asked:
    """Ask for lower levels, 0 to disable a feature, as ``kafka-features downgrade`` and ``disable`` do."""
    return Asked(levels, UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE, dry_run, version)
