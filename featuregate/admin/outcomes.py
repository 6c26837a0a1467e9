"""Updates as the controller reads them, and the outcome that its answer says, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate.kafka_errors import NONE, UNKNOWN_SERVER_ERROR, broker_error, may_be_done

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.errors import BrokerError
    from featuregate.net.cluster_metadata import BrokerList
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureOutcome:
    """What became of the update of one feature."""

    update: Update
    error: BrokerError | None
    """Why it was refused; None where it was done, or in a dry run could be."""
    answer: BrokerError | None = None
    """The controller's answer where it did not say the outcome, and the level was read from the brokers instead."""

    @property
    def done(self) -> bool:
        """Whether the controller agreed."""
        return self.error is None

    @property
    def open(self) -> bool:
        """Whether the error leaves it open if the level was changed, as REQUEST_TIMED_OUT does."""
        return self.error is not None and may_be_done(self.error.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a controller said to a request, feature by feature. ``str()`` shows it to people."""

    cluster_id: str | None
    dry_run: bool
    """Nothing was changed; the controller said what it would do."""
    features: tuple[FeatureOutcome, ...]
    """In the order in which they were asked for."""
    read_back: bool = False
    """The answer was lost or did not say the outcome, and the levels were read from the brokers afterwards."""

    @property
    def done(self) -> bool:
        """Whether the controller agreed to all of it."""
        return not self.failures

    @property
    def failures(self) -> tuple[FeatureOutcome, ...]:
        """Those that were refused. From 4.0 on one refusal refuses all, with the same words."""
        return tuple(feature for feature in self.features if not feature.done)

    def __str__(self) -> str:
        what = "dry run" if self.dry_run else "update"
        head = f"{what} of cluster {self.cluster_id or 'unknown'}: {len(self.failures)} of {len(self.features)} refused"
        lines = [f"  {one.update.feature} to {one.update.level}: {one.error or 'agreed'}" for one in self.features]
        return "\n".join([head, *lines])


def lagging(view: View, levels: Mapping[str, int]) -> tuple[str, ...]:
    """Say which known nodes do not show these finalized levels, and what they show; empty where all do."""
    return tuple(text for node in view.brokers if (text := _lag(node, levels)))


def _lag(node: BrokerAnswer, levels: Mapping[str, int]) -> str:
    if node.failure is not None:
        return f"{node.name} is silent: {node.failure.text}"
    if node.epoch < 0:
        return f"{node.name} does not know what is finalized"
    other = [
        f"{name} {node.finalized.get(name, 0)}"
        for name, level in levels.items()
        if node.finalized.get(name, 0) != level
    ]
    return f"{node.name} shows {', '.join(other)}" if other else ""


_WORDS: Final = {
    UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
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
    for name in {update.feature for update in updates} - errors.keys():
        missing = f"The controller response did not contain a result for feature {name}"
        errors[name] = broker_error(UNKNOWN_SERVER_ERROR, missing)
    features = tuple(FeatureOutcome(update=update, error=errors[update.feature]) for update in updates)
    return Outcome(cluster_id=broker_list.cluster_id, dry_run=dry_run, features=features)


def _error(code: int, message: str | None) -> BrokerError | None:
    return None if code == NONE else broker_error(code, message or _WORDS.get(code))
