"""The admin client: plan, dry run, apply.

``UpdateFeatures`` (KIP-584, KIP-778) is the only request of featuregate that changes a cluster. It needs ALTER on the
cluster, also for a dry run. Reading views and planning need no right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from featuregate.admin.outcomes import FeatureOutcome, Outcome, lagging, outcome_of, request
from featuregate.admin.plans import Plan, UnreadLatch, plan
from featuregate.admin.updates import LeftOut, Update, checked
from featuregate.errors import (
    ConfigError,
    DiscoveryError,
    FeatureGateError,
    LevelsNotReached,
    UpdateRefused,
    UpdateUncertain,
)
from featuregate.loops import run_blocking

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.config import Settings
    from featuregate.requirements import Requirement
    from featuregate.view.cluster_view import View

UPDATE_SECONDS: Final = 60.0
"""As Kafka's own client has it (``default.api.timeout.ms``)."""
READ_BACK_SECONDS: Final = 10.0
_FIRST_LOOK: Final = 0.1
_LONGEST_PAUSE: Final = 1.0


class Admin:
    """Plans updates of finalized features, tries them, and applies them. It holds no connection and no thread.

    The methods block; they work where an event loop runs, too. A coroutine calls them by `asyncio.to_thread`.

    Raises `ConfigError`: a property that is used here has a value that cannot be used.

    Parameters
    ----------
    config
        What :class:`featuregate.Discoverer` takes, for brokers (``bootstrap.servers``) or for the controllers of a
        KRaft cluster (``bootstrap.controllers``).
    timeout
        Seconds for one method, at the most.
    read_back
        Seconds, beyond the timeout, for which the client reads the levels of the brokers where the answer of the
        controller was lost or does not say the outcome.
    cluster_id
        The cluster to ask: no other one gets a request. Without it, any that the addresses lead to.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | Path,
        *,
        timeout: float = UPDATE_SECONDS,
        read_back: float = READ_BACK_SECONDS,
        cluster_id: str | None = None,
    ) -> None:
        from featuregate.config import Settings  # noqa: PLC0415 - the front door must be cheap to import

        self._settings = Settings.parse(config, total_timeout=timeout, cluster_id=cluster_id)
        self._read_back_seconds = read_back

    def __repr__(self) -> str:
        return f"<Admin of {', '.join(map(str, self._settings.bootstrap))}>"

    def plan(
        self,
        updates: Iterable[Update],
        *,
        controllers: Mapping[str, Any] | str | Path | None = None,
        latched: Mapping[str, Requirement | UnreadLatch] | None = None,
        accept_effects: Iterable[str] = (),
    ) -> Plan:
        """Predict the answer of the controller, and the apps that the update would affect. It needs no right.

        With DESCRIBE on the cluster it also tells a controller that has gone for good from one that is down, and with
        DESCRIBE on groups and transactional ids which of them use a level that is lowered.

        Raises `InvalidUpdate`: there is no update, or two of one feature.
        Raises `DiscoveryError`: no broker answered.

        Parameters
        ----------
        updates
            From :func:`featuregate.admin.updates.upgrade` and its sisters.
        controllers
            How to reach the controllers too, with ``bootstrap.controllers`` in it, or ``host:port``: what they can run
            counts. Only a cluster at ``metadata.version`` 3.7-IV0 or later names them, and only with ALTER.
        latched
            Gates of apps that have switched, by name: see :func:`featuregate.admin.plans.latched_in`.
        accept_effects
            The configs whose values may fall by it: ``min.insync.replicas``. What an update does to configs is known
            with DESCRIBE_CONFIGS on the cluster.
        """
        wanted = checked(updates)
        others = None if controllers is None else self._controllers(controllers)

        async def ask() -> Plan:
            view = await self._look(self._settings)
            asked = None if others is None else (others, await self._look(others))
            return await plan_of(
                self._settings, view, wanted, controllers=asked, latched=latched, accept_effects=accept_effects
            )

        return run_blocking(ask)

    def dry_run(self, updates: Iterable[Update]) -> Outcome:
        """Ask the controller whether it would; nothing is changed. Raises as :meth:`update`."""
        wanted = checked(updates)
        return run_blocking(lambda: self._send(wanted, dry_run=True))

    def update(self, updates: Iterable[Update]) -> Outcome:
        """Change finalized levels, and return what became of each.

        Raises `UpdateRefused`: the controller did not agree to all of it. From 4.0 on nothing was changed then, except
        that the quorum of 4.1 and newer may have raised ``kraft.version`` all the same; before 4.0, what it agreed to
        was: ``error.outcome`` says which.
        Raises `UpdateUncertain`: the answer was lost on its way, or does not say whether the levels were changed
        (REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR and the others of ``featuregate.kafka_errors.may_be_done``), and
        reading back did not decide it.
        Raises `LocalWireError`: the cluster speaks nothing newer than UpdateFeatures v0, and this is a dry run, which
        v0 does not know. Nothing was sent.
        Raises `DiscoveryError`, `NetError`, `AuthenticationFailed`: nothing was sent.
        """
        wanted = checked(updates)
        return run_blocking(lambda: self._send(wanted, dry_run=False))

    def wait_for_levels(self, levels: Mapping[str, int], timeout: float) -> View:
        """Wait until every known node shows these finalized levels, for ``timeout`` seconds at the most.

        Raises `LevelsNotReached`: one does not, or is silent; the error names each.
        Raises `DiscoveryError`: no broker answered, until the end.
        """
        view = run_blocking(lambda: self._look_until(levels, timeout))
        if late := lagging(view, levels):
            raise LevelsNotReached(timeout, late)
        return view

    # ------------------------------------------------------------------ how

    async def _look(self, settings: Settings) -> View:
        from featuregate.sources.brokers import BrokerSource  # noqa: PLC0415 - see __init__

        return (await BrokerSource(settings, keep_connections=False).fetch()).merge()

    def _controllers(self, config: Mapping[str, Any] | str | Path) -> Settings:
        from featuregate.config import Settings  # noqa: PLC0415 - see __init__

        where = {"bootstrap.controllers": config} if isinstance(config, str) else config
        settings = Settings.parse(where, total_timeout=self._settings.total_timeout)
        if settings.role != "controller":
            raise ConfigError("bootstrap.controllers", "is missing: these are to be controllers, not brokers")
        return settings

    async def _look_until(self, levels: Mapping[str, int], seconds: float) -> View:
        """Look until every node shows the levels, or time is over; give the last look.

        It goes on while no broker answers: all may be restarting. Raises `DiscoveryError` where none does at
        the end.
        """
        import asyncio  # noqa: PLC0415 - see __init__

        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        pause = _FIRST_LOOK
        while True:
            left = max(deadline - clock(), pause)
            try:
                view = await self._look(replace(self._settings, total_timeout=min(left, self._settings.total_timeout)))
            except DiscoveryError:
                if clock() + pause >= deadline:
                    raise
            else:
                if not lagging(view, levels) or clock() + pause >= deadline:
                    return view
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _send(self, updates: tuple[Update, ...], *, dry_run: bool) -> Outcome:
        import asyncio  # noqa: PLC0415 - see __init__

        from featuregate.net.controller import AnswerLost, ask_controller  # noqa: PLC0415

        deadline = asyncio.get_running_loop().time() + self._settings.total_timeout

        try:
            response, broker_list = await ask_controller(
                self._settings, lambda timeout_ms: request(updates, timeout_ms, dry_run=dry_run), deadline
            )
        except AnswerLost as lost:
            if dry_run:
                raise lost.cause from lost
            return await self._read_back(updates, None, str(lost.cause), lost)
        outcome = outcome_of(response, broker_list, updates, dry_run=dry_run)
        open_outcomes = [one for one in outcome.features if one.open]
        if open_outcomes and not dry_run:
            doubtful = [one.update for one in open_outcomes]
            outcome = await self._read_back(doubtful, outcome, _answered(outcome), open_outcomes[0].error)
        if not outcome.done:
            raise UpdateRefused(outcome)
        return outcome

    async def _read_back(
        self, updates: Sequence[Update], said: Outcome | None, problem: str, cause: Exception | None
    ) -> Outcome:
        """Read the levels of the brokers back, to learn whether updates without a clear answer were applied."""
        wanted = {update.feature: update.level for update in updates}
        try:
            view = await self._look_until(wanted, self._read_back_seconds)
        except FeatureGateError as error:
            raise UpdateUncertain(f"{problem}; then {error}", wanted, dict.fromkeys(wanted), said) from cause
        seen = {feature: view.level(feature) for feature in wanted}
        if seen != wanted:
            raise UpdateUncertain(problem, wanted, seen, said) from cause
        if said is None:
            features = tuple(FeatureOutcome(update=update, error=None) for update in updates)
            return Outcome(cluster_id=view.cluster_id, dry_run=False, features=features, read_back=True)
        features = tuple(replace(one, error=None, answer=one.error) if one.open else one for one in said.features)
        return replace(said, features=features, read_back=True)


def _answered(outcome: Outcome) -> str:
    """Say what the controller answered where that leaves something open: first the doubt, then what is known."""
    doubts = dict.fromkeys(str(one.error).rstrip(".") for one in outcome.features if one.open)
    known = [f"{one.update.feature} was changed" for one in outcome.features if one.done]
    known += [f"{one.update.feature} was refused: {one.error}" for one in outcome.failures if not one.open]
    return "; ".join([f"the controller answered {' and '.join(doubts)}", *known])


async def plan_of(
    settings: Settings,
    view: View,
    updates: tuple[Update, ...],
    *,
    controllers: tuple[Settings, View] | None,
    latched: Mapping[str, Requirement | UnreadLatch] | None,
    left_out: Iterable[LeftOut] = (),
    accept_effects: Iterable[str] = (),
) -> Plan:
    """Ask a cluster for what a plan needs more than its view, and predict updates by `featuregate.admin.plans.plan`.

    ``controllers`` says how they were reached, and what they answered.
    """
    from featuregate.admin.configs import fetch_what_changes  # noqa: PLC0415 - see __init__
    from featuregate.admin.in_use import fetch_in_use  # noqa: PLC0415 - likewise
    from featuregate.admin.quorum import fetch_quorum  # noqa: PLC0415 - likewise

    others, more = controllers or (None, None)
    brokers, more = (None, view) if view.role == "controller" else (view, more)
    made = plan(
        brokers,
        updates,
        controllers=more,
        quorum=await fetch_quorum(settings),
        latched=latched,
        left_out=left_out,
        configs=await fetch_what_changes(updates, view, settings, others),
        accept_effects=accept_effects,
    )
    return replace(made, in_use=await fetch_in_use(settings, updates, view))
