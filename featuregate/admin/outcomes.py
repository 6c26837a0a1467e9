"""The outcome of an update, as values. :mod:`featuregate.admin.client` translates a controller's answer into them.

Pure: it does no I/O and reads no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from featuregate.kafka_errors import may_be_done

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.errors import BrokerError
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View


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
