"""Carry a move out on a small cluster: one node after the other, then level by level, each step compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import KafkaException

from featuregate.admin.client import Admin
from featuregate.admin.updates import Update, downgrade, moving, to_release, upgrade
from featuregate.catalog import METADATA_VERSION, captured_as, level_name, release_of
from featuregate.errors import ConfigError, FeatureGateError, LocalKafkaError
from featuregate.polling.discovery import discover
from featuregate.rehearsal.runbook import ReachedHop, RehearsalStep, Runbook, StepCounts, StepFinding
from featuregate.rehearsal.state import PROTOCOL, SECONDS, State, compare, read_state
from featuregate.testing.local_kafka.processes import wait_until
from featuregate.testing.local_kafka.releases import recipe_for
from featuregate.testing.traffic import wait_for

if TYPE_CHECKING:
    from featuregate.admin.plans import Plan
    from featuregate.rehearsal.watch import AppWatch
    from featuregate.testing import LocalKafka

IN_SYNC: Final = "kafka-topics.sh --bootstrap-server $BOOTSTRAP --describe --under-replicated-partitions"
SNAPSHOT: Final = {"metadata.log.max.snapshot.interval.ms": 5_000}
"""Older software does not start before each node has written a snapshot: by default that takes an hour."""
BACK: Final = "back from "
"""The name of a way back is that of its step, with this before it."""
_FAILURES: Final = (FeatureGateError, KafkaException, TimeoutError)
_PAUSE: Final = 0.5
_HEARTBEAT: Final = 6.0
"""Seconds in which each member of a group sends a heartbeat, by default every 5, and learns whether it still may."""


def route(start: str, target: str, via: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the releases that all nodes run one after the other.

    Every release of KRaft rolls to every newer one, once ``metadata.version`` is high enough, and with ZooKeeper to
    every newer one before 4.0. So the way is direct, unless ``via`` names releases between.

    Raises `ConfigError`: a release is not newer than the one before it, or the way leads from ZooKeeper to 4.0 or
    newer.
    """
    releases = (start, *via, target)
    for before, after in pairwise(releases):
        if recipe_for(after).numbers <= recipe_for(before).numbers:
            raise ConfigError("to", f"the way goes up, and {after} is not newer than {before}")
    if recipe_for(start).quorum == "zookeeper" and not recipe_for(target).zookeeper:
        raise ConfigError(
            "to",
            f"{start} runs with ZooKeeper and {target} does not: the migration to KRaft (KIP-866) is a hop that is not "
            "rehearsed; end before 4.0, and rehearse the rest with --from of a release that runs KRaft",
        )
    return releases


class _Place(NamedTuple):
    """Where a cluster is on its way."""

    software: Mapping[int, tuple[str, str]]
    """The release of each node, and with ZooKeeper its ``inter.broker.protocol.version``."""
    levels: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Rehearsal:
    """One run of a move."""

    kafka: LocalKafka
    """The small cluster, which runs the first release of the runbook, or the one that it has reached."""
    runbook: Runbook
    """Gets the steps that are carried out, or the ways back from them."""
    watch: AppWatch | None
    """Apps at work, which have begun."""
    on_begin: Callable[[str], None]
    """Called with a line before each step."""
    on_step: Callable[[RehearsalStep], None]
    back: bool = False
    """Whether to undo each step, and carry it out again."""
    _state: State = field(default_factory=dict, init=False)
    _at: _Place = field(default=_Place({}, {}), init=False)

    def carry_out(self) -> None:
        """Carry out all steps, or those before one that fails, which is the last one in the runbook."""
        releases, reached = self.runbook.releases, self.runbook.reached
        begin = 0 if reached is None else releases.index(reached.release)
        protocol = "" if self.kafka.controllers else release_of(releases[begin])
        self._state = self._settled()
        levels = {key.name: int(found.value) for key, found in self._state.items() if key.kind == "level"}
        software = dict.fromkeys((*self.kafka.controllers, *self.kafka.nodes), (releases[begin], protocol))
        self._at = _Place(software, levels)
        try:
            for version in releases[begin + 1 :]:
                self._hop(version)
                self.runbook.reached = ReachedHop(version, dict(self._at.levels), len(self.runbook.steps))
        except _EndedError as ended:
            self.runbook.ended = str(ended)

    # ------------------------------------------------------------ steps

    def _hop(self, version: str) -> None:
        start, brokers, controllers = self._at, self.kafka.nodes, self.kafka.controllers
        old, protocol = start.software[brokers[0]]
        lowest, release = lowest_level(version), release_of(version)
        if controllers and start.levels.get(METADATA_VERSION, 0) < lowest:
            self._raise(self._plan(Update(METADATA_VERSION, lowest)), start)
        way_back = f"stop the node, and start it with {old} again"
        rounds = [(f"{old} -> {version}", f"stop Kafka {old}, install {version}, start it", way_back, protocol)]
        if not controllers:  # with ZooKeeper the level is a property of each broker
            way_back = f"none to {protocol}: Kafka does not support a lower {PROTOCOL} once a broker has used it"
            level = f"{PROTOCOL}={release}"
            rounds.append((level, f"{level} in server.properties, restart Kafka", way_back, release))
        for name, what, way_back, protocol in rounds:
            for node in (*(each for each in controllers if each not in brokers), *brokers):
                step = RehearsalStep(
                    name=f"Node {node}: {name}",
                    commands=[f"# on node {node}: {what}", IN_SYNC],
                    go_on_when="the node is registered, and no replica is out of sync: the command prints nothing",
                    way_back=way_back,
                )
                after, before = (
                    {**self._at.software, node: each} for each in ((version, protocol), start.software[node])
                )
                self._carry_out(step, self._at._replace(software=after), self._at._replace(software=before))
        if controllers:
            self._raise_levels(release, start)

    def _raise_levels(self, release: str, start: _Place) -> None:
        """Raise levels one by one in the order that plans allow: first what can be lowered again."""
        pending = moving(to_release(release), discover(self.kafka.internal_bootstrap, timeout=SECONDS)).updates
        while pending:
            self._raise(min([self._plan(update) for update in pending], key=_risk), start)
            pending = tuple(each for each in pending if self._at.levels.get(each.feature, 0) != each.level)

    @property
    def _admin(self) -> Admin:
        return Admin(self.kafka.internal_bootstrap)

    def _plan(self, update: Update) -> Plan:
        try:
            return self._admin.plan([update], controllers=self.kafka.controller_bootstrap)
        except FeatureGateError:  # controllers before 3.7 answer only other nodes (KIP-919)
            return self._admin.plan([update])

    def _raise(self, plan: Plan, start: _Place) -> None:
        """Raise one level. On the way back all levels of the hop fall, and one node runs the software before it."""
        ((update, current, _, _),) = plan.updates
        feature, before, named = update.feature, current or 0, level_name(update.feature, update.level)
        findings = [StepFinding("warn", f"no return: {each}") for each in plan.no_return]
        findings += [StepFinding("block", f"plan: {each}") for each in plan.effects.changes if each.falls]
        findings += [StepFinding("warn", note) for note in plan.effects.notes if plan.falling]
        lower = f"featuregate downgrade --feature {feature}={before} --bootstrap-server $BOOTSTRAP"
        step = RehearsalStep(
            name=f"{feature}: {level_name(feature, before) if before else 0} -> {named}",
            commands=[f"featuregate upgrade --feature {feature}={named} --bootstrap-server $BOOTSTRAP --wait 60"],
            go_on_when="each broker shows the level: the command ends with 0",
            way_back="; ".join([str(each) for each in (*plan.no_return, *plan.way_back)]) or f"`{lower}`",
            findings=findings,
        )
        first = self.kafka.controllers[0]
        back = _Place({**self._at.software, first: start.software[first]}, start.levels)
        self._carry_out(step, self._at._replace(levels={**self._at.levels, feature: update.level}), back)

    def _carry_out(self, step: RehearsalStep, place: _Place, back: _Place) -> None:
        levels, failed = self._at.levels, ""
        moved = {name: (levels.get(name, 0), to) for name, to in place.levels.items() if to != levels.get(name, 0)}
        try:
            after = self._try(step, place)
        except _FAILURES as error:
            failed = _in_one_line(error)
        else:
            changed, step.seen = compare(self._state, after, moved)
            told = [each for earlier in self.runbook.steps for each in earlier.findings]
            step.findings += [each for each in changed if each not in told]  # each node has the defaults of its release
            self._state, failed = after, _lost(step.counts)
        if failed:
            step.findings.append(StepFinding("block", failed))
        if not self.back:
            self._end(step)
        if failed:
            raise _EndedError(f"{step.name}: {failed}")
        if self.back:
            self._go_back(step, place, back)

    def _go_back(self, step: RehearsalStep, place: _Place, back: _Place) -> None:
        """Undo a step, look at the apps, and carry it out again."""
        tried, ended = replace(step, name=BACK + step.name, findings=[], counts=None), ""
        try:
            self._try(tried, back, at_least=_HEARTBEAT)
            self._go_to(place)
            self._state = self._settled()
        except _FAILURES as error:
            ended = f"no return from here: {_in_one_line(error)}"
            tried.findings = [StepFinding("warn", ended)]
        else:
            ended, text = _lost(tried.counts), f"the way back was tried, and took {tried.seconds:.0f} s"
            bad = "; ".join([each.text for each in tried.findings if each.verdict == "block"] + [ended] * bool(ended))
            tried.findings = [StepFinding("block", f"{text}: {bad}") if bad else StepFinding("ok", text)]
        self._end(tried)
        if ended:  # what comes out again ends no run, as on the way there
            raise _EndedError(ended)

    def _end(self, step: RehearsalStep) -> None:
        self.runbook.steps.append(step)
        self.on_step(step)

    # ------------------------------------------------------------ the cluster

    def _try(self, step: RehearsalStep, place: _Place, *, at_least: float = 0.0) -> State:
        """Go to a place, and look at the cluster and the apps. Raises one of ``_FAILURES``."""
        self.on_begin(f"{step.name} ...")
        began = time.monotonic()
        try:
            self._go_to(place)
            found = self._settled()
            if self.watch is not None:
                step.counts, shown = self.watch.end_step(at_least=at_least)
                step.findings += shown
        finally:
            step.seconds = time.monotonic() - began
        return found

    def _go_to(self, place: _Place) -> None:
        """Lower levels, restart nodes, and raise levels."""
        now, wanted = self._at, place.levels
        lower = {name: wanted.get(name, 0) for name, level in now.levels.items() if wanted.get(name, 0) < level}
        self._move(downgrade(dict(reversed(lower.items()))))
        if lower:  # older software starts once a snapshot is without them
            log = self.kafka.node(self.kafka.controllers[0]).log.with_suffix("") / "data" / "__cluster_metadata-0"
            old = {*log.glob("*.checkpoint")}
            wait_until(lambda: bool({*log.glob("*.checkpoint")} - old), "a snapshot was written", {}, timeout=SECONDS)
        for node, (version, protocol) in place.software.items():
            if now.software[node] != (version, protocol):
                if protocol:
                    self.kafka.properties[PROTOCOL] = protocol
                self.kafka.roll(node, version)
        self._move(upgrade({name: level for name, level in wanted.items() if now.levels.get(name, 0) < level}))
        self._at = place

    def _move(self, updates: Iterable[Update]) -> None:
        """Move levels one by one."""
        for update in updates:
            self._admin.update([update])
            self._admin.wait_for_levels({update.feature: update.level}, SECONDS)

    def _settled(self) -> State:
        """Read the state until it is the same twice but for offsets: brokers apply an update one after the other."""
        found: State = {}

        def is_still() -> bool:
            nonlocal found
            time.sleep(_PAUSE)
            before, found = found, read_state(self.kafka)
            return all(key.kind == "offset" for key, _ in before.items() ^ found.items())

        try:
            wait_for("the cluster comes to rest", is_still, SECONDS)
        except TimeoutError as error:
            raise LocalKafkaError(str(error)) from error
        return found


def add_ways_back(runbook: Runbook, second: Runbook) -> None:
    """Write what the second run has shown into the steps of the first one.

    A step that was not tried lies beyond the point of no return, where the second run has found that point.
    """
    tried = {step.name: step.findings[0] for step in second.steps}
    not_tried = StepFinding("unknown", f"not tried: the second run ended: {second.ended}")
    if any(each.verdict == "warn" for each in tried.values()):
        not_tried = StepFinding("ok", "not tried: it lies beyond the point of no return")
    for step in runbook.steps:
        step.back = tried.get(BACK + step.name, not_tried)


def lowest_level(version: str) -> int:
    """Return the ``metadata.version`` that must be finalized before a node runs a release: for 4.0, 3.3-IV3."""
    row = captured_as(version)
    return row.features.get(METADATA_VERSION, (0, 0))[0] if row is not None else 0


class _EndedError(Exception):
    """A step failed."""


def _lost(counts: StepCounts | None) -> str:
    return f"{counts.lost} of {counts.sent} records did not come out" if counts is not None and counts.lost else ""


def _in_one_line(error: Exception) -> str:
    """Return what went wrong, with the cause that a log of Java names."""
    return error.in_one_line if isinstance(error, LocalKafkaError) else " ".join(str(error).split())


def _risk(plan: Plan) -> tuple[bool, bool, bool]:
    """Sort what is refused to the end, and before it what cannot be undone."""
    ((update, _, judgement, _),) = plan.updates
    return judgement == "refused", bool(plan.no_return), update.feature == METADATA_VERSION
