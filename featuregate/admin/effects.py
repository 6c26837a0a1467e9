"""What ``eligible.leader.replicas.version`` does to ``min.insync.replicas``, from the configs of one cluster. Pure.

The controller that raises the level from 0 writes a default of the cluster where there is none: the value in its own
properties, or Kafka's default. That default beats the properties of brokers. It deletes the dynamic values of brokers.
Lowering the level restores neither. Source: ``ConfigurationControlManager.maybeGenerateElrSafetyRecords`` of Apache
Kafka 4.4.0, and real clusters (``scripts/effects.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.patterns import pattern
from featuregate.printable import some

if TYPE_CHECKING:
    from featuregate.admin.updates import Update

ELR: Final = "eligible.leader.replicas.version"
MIN_INSYNC: Final = "min.insync.replicas"
_DEFAULT_OF_CLUSTER: Final = 3
_SOURCES: Final = {
    1: "its own",
    2: "dynamic, of the broker",
    _DEFAULT_OF_CLUSTER: "the default of the cluster",
    4: "in its properties",
    5: "Kafka's default",
}
"""By ``ConfigSource`` of DescribeConfigs."""
_OF_PROPERTIES: Final = (4, 5)
_SHOWN: Final = 20
_NUMBER: Final = pattern(r"[0-9]{1,10}")
"""The digits of an INT32. Python refuses to read a number of thousands of digits."""


class ConfigValue(NamedTuple):
    """A value of a config, and where it is set."""

    value: str
    source: int = 0
    """``ConfigSource``; 0: not known."""

    def __str__(self) -> str:
        return f"{self.value} ({_SOURCES.get(self.source, f'source {self.source}')})" if self.source else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncConfigs:
    """``min.insync.replicas`` as the nodes of a cluster say it; what could not be read is in ``problems``."""

    brokers: Mapping[int, tuple[ConfigValue, ...]] = field(default_factory=dict)
    """By node id: the value that holds, then those that it hides."""
    controllers: Mapping[int, tuple[ConfigValue, ...]] = field(default_factory=dict)
    topics: Mapping[str, str | None] = field(default_factory=dict)
    """The value that a topic has itself; None where it has that of its brokers."""
    problems: tuple[str, ...] = ()
    """Nodes that could not be asked, and why."""
    topics_problem: str = ""
    """Why topics are not known; a topic loses nothing that its brokers keep."""


class ConfigChange(NamedTuple):
    """A value of a config that a level changes, or leaves as it is."""

    config: str
    where: str
    """``broker 1``, or topics by name."""
    before: str
    after: str
    falls: bool

    def __str__(self) -> str:
        return f"{self.config} of {self.where}: {self.before} -> {self.after}"


class Effects(NamedTuple):
    """What updates do to configs."""

    changes: tuple[ConfigChange, ...] = ()
    problems: tuple[str, ...] = ()
    """Why it is not known what they do."""
    notes: tuple[str, ...] = ()

    @property
    def falling(self) -> frozenset[str]:
        """The configs of which a value falls."""
        return frozenset(change.config for change in self.changes if change.falls)


NO_EFFECTS: Final = Effects()


def raises_elr(updates: Iterable[Update], levels: Mapping[str, int]) -> bool:
    """Say whether updates raise the level from 0."""
    return any(update.feature == ELR and update.level > 0 for update in updates) and not levels.get(ELR)


def effects_on_in_sync(configs: InSyncConfigs | None, voters: Iterable[int] | None) -> Effects:
    """Say what raising the level from 0 does; each of ``voters`` may be the active controller (None: unknown)."""
    if configs is None:
        return Effects(problems=(f"{MIN_INSYNC} of brokers and controllers was not read",))
    problems = list(configs.problems)
    if not configs.brokers and not problems:
        problems.append(f"no broker was asked for {MIN_INSYNC}")
    written, whose = _written(configs, voters, problems)
    after = " or ".join(sorted(written)) + whose if written else "unknown"
    changes = tuple(_changes(configs, written, after))
    return Effects(changes, tuple(problems), tuple(_notes(configs, changes)))


def _written(configs: InSyncConfigs, voters: Iterable[int] | None, problems: list[str]) -> tuple[frozenset[str], str]:
    """Return the default of the cluster after the update, of which there are several where controllers differ."""
    everyone = [value for values in (*configs.brokers.values(), *configs.controllers.values()) for value in values]
    there = frozenset(value.value for value in everyone if value.source == _DEFAULT_OF_CLUSTER)
    if there:
        return there, " (the default of the cluster)"
    if voters is None:
        problems.append(f"the voters are not known, and the active controller writes its own {MIN_INSYNC}")
        return frozenset(), ""
    found = set()
    for voter in sorted(voters):
        values = configs.controllers.get(voter) or configs.brokers.get(voter) or ()  # in combined mode it is both
        own = next((value.value for value in values if value.source in _OF_PROPERTIES), None)
        if own is None and not any(f"controller {voter} " in problem for problem in problems):
            problems.append(f"{MIN_INSYNC} of controller {voter} was not read: ask it too (--controllers)")
        elif own is not None:
            found.add(own)
    return frozenset(found), " (written by the controller, from its properties)"


def _changes(configs: InSyncConfigs, written: frozenset[str], after: str) -> Iterator[ConfigChange]:
    now = {broker: values[0] for broker, values in sorted(configs.brokers.items()) if values}
    for broker, value in now.items():
        yield ConfigChange(MIN_INSYNC, f"broker {broker}", str(value), after, _falls({value.value}, written))
    followers = [name for name, own in sorted(configs.topics.items()) if own is None]
    if followers:
        values = {value.value for value in now.values()}
        named = f"{len(followers)} topics without a value of their own ({some(followers, _SHOWN)})"
        yield ConfigChange(MIN_INSYNC, named, " or ".join(sorted(values)), after, _falls(values, written))
    for own in sorted({own for own in configs.topics.values() if own is not None}):
        names = sorted(name for name, each in configs.topics.items() if each == own)
        named = f"{len(names)} topics with a value of their own ({some(names, _SHOWN)})"
        yield ConfigChange(MIN_INSYNC, named, own, own, falls=False)


def _falls(before: set[str], after: frozenset[str]) -> bool:
    """Say whether one of the values may be lower afterwards; what is not a number may be."""
    if not all(map(_NUMBER.fullmatch, (*before, *after))):
        return before != after
    return bool(before and after) and min(map(int, after)) < max(map(int, before))


def _notes(configs: InSyncConfigs, changes: tuple[ConfigChange, ...]) -> Iterator[str]:
    if configs.topics_problem:
        yield f"topics were not asked for {MIN_INSYNC}: {configs.topics_problem}"
    if any(change.falls for change in changes):
        values = [values[0].value for values in configs.brokers.values() if values]
        highest = max(values, key=lambda text: int(text) if _NUMBER.fullmatch(text) else 0)
        rises = ", and topics with fewer replicas than that refuse acks=all" if len(set(values)) > 1 else ""
        yield (
            f"set the default of the cluster first, so that no value falls{rises}: kafka-configs --bootstrap-server "
            f"HOST:PORT --entity-type brokers --entity-default --alter --add-config {MIN_INSYNC}={highest}"
        )
