"""UpdateFeatures."""

import pytest

from featuregate.errors import LocalWireError
from featuregate.wire.update_features import (
    FeatureResult,
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

UP = FeatureUpdate(feature="a", max_version_level=1)


@pytest.mark.parametrize("downgrade", [UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE])
def test_kip_584_v0_allows_a_downgrade_by_its_flag(downgrade: UpgradeType) -> None:
    """Controllers of 2.7 to 3.2 honour it; v0 does not tell a safe downgrade from an unsafe one."""
    update = FeatureUpdate(feature="a", max_version_level=0, upgrade_type=downgrade)
    request = UpdateFeaturesRequest(updates=(update,))
    assert UpdateFeaturesRequest.decode(1, request.encode(1)) == request
    assert request.encode(0) == bytes.fromhex("0000ea60 02 02 61 0000 01 00 00")


def test_an_upgrade_over_v0_allows_no_downgrade() -> None:
    """The flag of an upgrade is false."""
    assert UpdateFeaturesRequest(updates=(UP,)).encode(0) == bytes.fromhex("0000ea60 02 02 61 0001 00 00 00")


def test_v0_has_no_other_upgrade_types() -> None:
    """v0 has no place for an unknown upgrade type."""
    update = FeatureUpdate(feature="a", max_version_level=1, upgrade_type=9)
    with pytest.raises(LocalWireError, match="v0 can only allow a downgrade or not"):
        UpdateFeaturesRequest(updates=(update,)).encode(0)


def test_the_flag_of_v0_is_read_as_a_safe_downgrade() -> None:
    """A server decodes the flag of an old client."""
    request = UpdateFeaturesRequest.decode(0, bytes.fromhex("0000ea60 02 02 61 0000 01 00 00"))
    assert request.updates[0].upgrade_type == UpgradeType.SAFE_DOWNGRADE


def test_a_dry_run_over_v0_is_refused() -> None:
    """v0 has no field for a dry run: the controller would change the levels."""
    with pytest.raises(LocalWireError, match="no dry run"):
        UpdateFeaturesRequest(updates=(UP,), validate_only=True).encode(0)


def test_an_unknown_upgrade_type_is_kept() -> None:
    """A controller decodes an unknown upgrade type, and refuses it."""
    request = UpdateFeaturesRequest(updates=(FeatureUpdate(feature="a", max_version_level=1, upgrade_type=9),))
    assert UpdateFeaturesRequest.decode(2, request.encode(2)).updates[0].upgrade_type == 9


def test_v2_answers_for_the_whole() -> None:
    """v2 has no results of single features."""
    response = UpdateFeaturesResponse(results=(FeatureResult(feature="a", error_message="NONE"),))
    assert UpdateFeaturesResponse.decode(1, response.encode(1)) == response
    assert UpdateFeaturesResponse.decode(2, response.encode(2)).results == ()
