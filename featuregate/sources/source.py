"""What a source of polls is, and what it returns."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from featuregate.view.merging import merge

if TYPE_CHECKING:
    from featuregate.gating.holds import Holds
    from featuregate.gating.latches import LatchKey
    from featuregate.roles import BrokerListSource, Role
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View


class BrokerAnswers(NamedTuple):
    """The answers of one poll, one for each broker of the list, and the cluster that they belong to."""

    cluster_id: str | None
    """None: the cluster reports no id (before 0.10.1), or the bootstrap list is used and the app names no id."""
    controller_id: int | None
    broker_list: BrokerListSource
    registered: bool
    """Whether the list names brokers that are registered and down, too."""
    role: Role
    answers: tuple[BrokerAnswer, ...]
    answered_at: float
    """Seconds since the Unix epoch."""
    holds: Holds | None = None
    """As in `MergedView`."""

    def merge(self, *, previous: View | None = None, unlisted: tuple[BrokerAnswer, ...] = ()) -> View:
        """Merge the answers into a view.

        Parameters
        ----------
        previous
            The view before: its epoch and finalized levels stay where no answer is newer.
        unlisted
            Brokers that are known and not in the list of this poll.
        """
        return merge(
            (*self.answers, *unlisted),
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            broker_list=self.broker_list,
            role=self.role,
            previous=previous,
            seen_at=self.answered_at,
        )


class MergedView(NamedTuple):
    """A view that was merged elsewhere, and how old the brokers' answers in it are.

    The source says how long ago the brokers answered, rather than when, because clocks of machines differ.
    """

    view: View
    age: float = 0.0
    """Seconds since the brokers answered, at the most."""
    transit: float = 0.0
    """How many of these seconds may be the time that the view needed to get here: the answers are ``age - transit``
    seconds old at the least."""
    latched: frozenset[LatchKey] = frozenset()
    """Gates that were latched elsewhere for the cluster of the view. They are latched where the view goes, too."""
    holds: Holds | None = None
    """Gates that are held elsewhere. They are held where the view goes, too. None: those of the view before go on."""


class Source(Protocol):
    """Where a :class:`~featuregate.Discoverer` gets its answers; ``str()`` of it says where that is.

    A source may also have ``exclude_apis``, which gates do not count as served (KIP-35), ``load()``, which imports what
    :meth:`fetch` needs before the thread starts that polls, and ``close()``, which is called after the last poll.
    """

    @property
    def timeout(self) -> float:
        """Seconds that :meth:`fetch` takes at the most."""

    async def fetch(self) -> BrokerAnswers | MergedView:
        """Return the answers of every broker, or a view that was merged elsewhere.

        Only one call runs at a time.

        Raises `FeatureGateError`: there is no answer, such as :class:`~featuregate.errors.DiscoveryError`. The view
        before stays, and ages.
        """


@runtime_checkable
class NotifyingSource(Source, Protocol):
    """A source that learns of changes, so that a poll need not wait for its time."""

    async def changed(self, within: float) -> None:
        """Return as soon as there may be something new since the last :meth:`Source.fetch`.

        Called between two polls, of which the next is due in ``within`` seconds, and cancelled by then at the latest.
        """


@runtime_checkable
class ConfigSource(Source, Protocol):
    """A source that can ask brokers for the values of their configs."""

    configs: Collection[str]
    """The names of the configs that the next :meth:`Source.fetch` asks for. Most requirements depend on none."""
