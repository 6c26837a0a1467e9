"""Updates as the controller reads them, and its answer as an outcome. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.admin.outcomes import FeatureOutcome, Outcome
from featuregate.kafka_errors import NONE, broker_error

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.errors import BrokerError
    from featuregate.net.probe import BrokerList
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_WORDS: Final = {
    -1: "The server experienced an unexpected error when processing the request.",
    7: "The request timed out.",
    31: "Cluster authorization failed.",
    42: "This most likely occurs because of a request being malformed by the client library or the message was sent "
    "to an incompatible broker. See the broker logs for more details.",
    95: "The given update version was invalid.",
    96: "Unable to update finalized features due to an unexpected server error.",
}
"""The texts of Kafka's own client, where the controller answers with a code alone (``Errors.java``)."""


def request(updates: tuple[Update, ...], timeout_ms: int, *, dry_run: bool) -> UpdateFeaturesRequest:
    """Put updates into one request."""
    from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest, UpgradeType  # noqa: PLC0415 - the front door must be cheap to import

    return UpdateFeaturesRequest(
        timeout_ms=timeout_ms,
        updates=tuple(
            FeatureUpdate(
                feature=update.feature,
                max_version_level=update.level,
                upgrade_type=UpgradeType[update.upgrade_type.upper()],
            )
            for update in updates
        ),
        validate_only=dry_run,
    )


def outcome_of(
    response: UpdateFeaturesResponse, broker_list: BrokerList, updates: tuple[Update, ...], *, dry_run: bool
) -> Outcome:
    """Translate an answer: one error for all, or results one by one, or neither where all went well (v2)."""
    if response.error_code != NONE:
        every = _error(response.error_code, response.error_message)
        errors: dict[str, BrokerError | None] = {update.feature: every for update in updates}
    elif response.results:
        errors = {one.feature: _error(one.error_code, one.error_message) for one in response.results}
    else:
        errors = dict.fromkeys(update.feature for update in updates)
    features = tuple(
        FeatureOutcome(update=update, error=errors.get(update.feature, _no_result(update))) for update in updates
    )
    return Outcome(cluster_id=broker_list.cluster_id, dry_run=dry_run, features=features)


def _error(code: int, message: str | None) -> BrokerError | None:
    return None if code == NONE else broker_error(code, message or _WORDS.get(code))


def _no_result(update: Update) -> BrokerError:
    return broker_error(-1, f"The controller response did not contain a result for feature {update.feature}")
