"""The part of a discoverer that apps read: the current view, gates, decisions and waits for changes.

No method does I/O. The waits block; the others return at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from featuregate.errors import ConfigError
from featuregate.gating.gates import Gate, Pin
from featuregate.printable import as_unicode
from featuregate.requirements import Requirement, as_requirement

if TYPE_CHECKING:
    from featuregate.gating.decisions import Decision
    from featuregate.gating.events import MetricsHook, OnChange
    from featuregate.gating.holds import Hold
    from featuregate.gating.latches import Policy
    from featuregate.gating.store import Store
    from featuregate.polling.poller import Poller
    from featuregate.view.cluster_view import View

_LONGEST_BURN_IN: Final = timedelta(days=36_525)
"""What is longer has an end that no clock reaches, and no text can show."""


class Features(ABC):
    """Answers from one store, and from the poller that writes it."""

    _store: Store
    _poller: Poller

    @abstractmethod
    def ensure_polling(self) -> None:
        """Start polling where nothing polls."""

    @abstractmethod
    def _ensure_configs(self, requirement: Requirement) -> None:
        """Have brokers asked soon for the configs that a requirement depends on, where they were not."""

    @abstractmethod
    def wait_until(self, done: Callable[[], bool], timeout: float) -> bool:
        """Block until ``done()``, looked at after each poll, for ``timeout`` seconds at most; return whether it is."""

    @property
    def view(self) -> View | None:
        """The view of the last poll; ``None`` before the first answer. One reference read."""
        return self._store.view

    def view_and_age(self) -> tuple[View | None, float]:
        """Return the view and the seconds since the brokers answered, both of the same poll, for servers of views.

        :meth:`health` has an age, too; a poll that ends between that call and the look at :attr:`view` has another.
        """
        return self._poller.view_and_age()

    @property
    def latched(self) -> Mapping[str, int]:
        """The highest finalized level ever seen of each feature of this cluster. Never falls."""
        return dict(self._store.latch_state.levels)  # an app may change what it gets

    def gate(
        self,
        name: str,
        requirement: Requirement | str,
        *,
        policy: Policy = "sticky",
        open_after: timedelta | None = None,
    ) -> Gate:
        """Return the gate of this name; starts polling where nothing polls yet.

        The same name and requirement give the same gate, which lives as long as its discoverer: the app need not keep
        it. Names belong to behaviours of the app, never to single requests: see :meth:`evaluate`.

        Raises `ConfigError`: the name is empty or has bytes that are not UTF-8, or there is a gate of it with another
        requirement, policy or burn-in; the burn-in is not a time above 0, is longer than 100 years, or is given to a
        live gate.
        Raises `RequirementError`: the text does not parse.
        Raises `TypeError`: the name is not a text, or the requirement is neither a requirement nor a text.

        Parameters
        ----------
        name
            What logs, metrics and the durable latch call it. A latch belongs to the name *and* the requirement.
        requirement
            Such as ``Feature("group.version") >= 1``, a preset, or text: ``"kip447"``, ``"group.version>=1"``.
        policy
            ``"sticky"``: once open, open, for this cluster id. ``"live"``: open only while it is proved.
        open_after
            Burn-in: a sticky gate opens only after its requirement has held in every poll for this time. If the
            requirement ceases to hold, the time begins again. A latch store keeps the time over restarts.
        """
        if not isinstance(name, str):
            raise TypeError(f"a gate is named by text, not by {name!r}")
        if not name.strip():
            raise ConfigError("name", "a gate needs a name, by which logs, metrics and the latch call it")
        if as_unicode(name) != name:  # no latch store could write it, nor the latch of any other gate beside it
            raise ConfigError("name", f"{name!r} holds bytes that are not UTF-8")
        if policy not in ("sticky", "live"):
            raise ConfigError("policy", f'must be "sticky" or "live", not {policy!r}')
        wanted = as_requirement(requirement)  # what is none would spoil each poll, and so every other gate
        seconds = _burn_in_seconds(open_after, policy)
        gate = self._store.add_gate(name, lambda: Gate(name, wanted, policy=policy, owner=self, open_after=seconds))
        if (str(gate.requirement), gate.policy, gate.open_after) != (str(wanted), policy, seconds):
            burn_in = f", opens after {gate.open_after:g} s" if gate.open_after else ""
            problem = f"gate {name!r} is already {gate.policy}{burn_in} and requires {gate.requirement}"
            raise ConfigError("name", problem)
        self.ensure_polling()
        self._ensure_configs(wanted)
        return gate

    def evaluate(self, requirement: Requirement | str) -> Decision:
        """Evaluate a requirement against the current view, without a gate and without a latch.

        A stale view opens nothing. Use a gate for behaviour that must not go back.
        """
        return self._store.evaluate(as_requirement(requirement))

    @property
    def holds(self) -> tuple[Hold, ...]:
        """The holds that count, on gates of this app and of others; the first one of a gate gives the reason."""
        return self._store.holds.found.found

    def pin(self) -> dict[str, Pin]:
        """Freeze all gates at one instant, by name: for a unit of work that asks more than one."""
        return self._store.pin()

    def wait(self, timeout: float) -> bool:
        """Block until there is a view, for ``timeout`` seconds at most; return whether there is.

        In a coroutine: ``await asyncio.to_thread(features.wait, 5)``.
        """
        return self.wait_until(lambda: self._store.view is not None, timeout)

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Call ``callback`` when the content of the view becomes another one; returns what takes it off again.

        It runs in the poll loop, outside any lock, so it should be short. One that fails is logged and survived.
        """
        return self._store.hooks.listen(callback)

    def on_event(self, callback: MetricsHook) -> Callable[[], None]:
        """Call ``callback`` with each :data:`~featuregate.gating.events.Event`; returns what takes it off again.

        It runs in the poll loop, or where a gate is made, outside any lock, so it should be short. One that fails is
        logged and survived.
        """
        return self._store.hooks.hook(callback)


def _burn_in_seconds(open_after: object, policy: Policy) -> float:
    if open_after is None:
        return 0.0
    if not isinstance(open_after, timedelta) or not timedelta(0) < open_after <= _LONGEST_BURN_IN:
        problem = f"must be a timedelta above 0 and at most 100 years, such as timedelta(days=7), not {open_after!r}"
        raise ConfigError("open_after", problem)
    if policy == "live":
        raise ConfigError("open_after", "is for sticky gates: a live gate closes again when its requirement ends")
    return open_after.total_seconds()
