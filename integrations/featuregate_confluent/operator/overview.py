"""What ``featuregate group show`` says of a group: its latch, its members, and what holds it back from v2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from featuregate.cli.plugin import aligned, printable
from featuregate_confluent.latch.marks import Mark
from featuregate_confluent.latch.protocol import Member, Partition, latch
from featuregate_confluent.models import Model

if TYPE_CHECKING:
    from featuregate import Decision
    from featuregate_confluent.client.committed import CommittedOffset, PartitionProgress
    from featuregate_confluent.client.group import GroupDescription


NOT_COMMITTED: Final[CommittedOffset] = (None, Mark(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A group, as it was seen from outside."""

    group: str
    seen: GroupDescription
    offsets: Mapping[Partition, CommittedOffset]
    latch_topic: str | None
    """The name of the latch topic, where it was read."""
    latch_in_topic: Model | None
    gate: Decision
    """Whether every broker checks the group's generation."""
    progress: Mapping[Partition, PartitionProgress] = field(default_factory=dict)
    """The progress of each partition that has an offset or an owner."""
    seen_at: float = 0.0
    """The time of the last look at the progress, on the clock of its times."""

    @property
    def latch(self) -> Model | None:
        """The highest model that the group has left a mark of."""
        return latch((mark for _, mark in self.offsets.values()), self.latch_in_topic)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What stands against v2, a sentence each; none where the group is there, or may go there now."""
        return () if self.latch is Model.V2 else tuple(self._obstacles())

    @property
    def partitions(self) -> list[Partition]:
        """All that have an offset or an owner."""
        return sorted({*self.offsets, *self.seen.owners})

    def stalled_seconds(self, partition: Partition) -> float | None:
        """Return for how long at least the committed offset has not moved, although there was more to consume."""
        found = self.progress.get(partition)
        return None if found is None else found.stalled_seconds(self.seen_at)

    def _obstacles(self) -> Iterator[str]:
        if not self.gate.open:
            yield f"the brokers: {self.gate.summary}"
        if not self.seen.members:
            yield "the group has no members; it moves while members commit"
        for member in self.seen.members:
            if member.model is None:
                yield f"{member} shows no tag of featuregate"
            elif member.model < Model.BRIDGE:
                yield f"{member} is pinned to {member.model.label}"


def to_json(found: Overview) -> dict[str, Any]:
    """Return it as plain values."""
    return {
        "group": found.group,
        "state": found.seen.state,
        "kind": found.seen.kind,
        "coordinator": asdict(found.seen.coordinator),
        "latch": _label(found.latch),
        "latch_topic": None
        if found.latch_topic is None
        else {"topic": found.latch_topic, "latch": _label(found.latch_in_topic)},
        "gate": {"open": found.gate.open, "summary": found.gate.summary},
        "obstacles": list(found.obstacles),
        "members": [{**asdict(member), "promises": _label(member.model)} for member in found.seen.members],
        "offsets": [_partition_json(found, partition) for partition in found.partitions],
    }


def _partition_json(found: Overview, partition: Partition) -> dict[str, Any]:
    offset, mark = found.offsets.get(partition, NOT_COMMITTED)
    owner, progress = found.seen.owners.get(partition), found.progress.get(partition)
    return {
        "topic": partition[0],
        "partition": partition[1],
        "offset": offset,
        "mark": _label(mark.model),
        "text": mark.app_metadata or None,
        "owner": None if owner is None else owner.member_id,
        "end": None if progress is None else progress.end,
        "lag": None if progress is None else progress.lag,
        "stalled_seconds": found.stalled_seconds(partition),
    }


def to_text(found: Overview) -> str:
    """Return it as lines for people; what came over the network is made printable."""
    return "\n".join(map(printable, _lines(found)))


def _lines(found: Overview) -> Iterator[str]:
    coordinator = found.seen.coordinator
    where = f"broker {coordinator.node_id} ({coordinator.host}:{coordinator.port})"
    yield f"group {found.group}: {found.seen.state}, {found.seen.kind}, coordinated by {where}"
    latch_topic = (
        ""
        if found.latch_topic is None
        else f" (latch topic {found.latch_topic}: {_label(found.latch_in_topic) or 'none'})"
    )
    yield f"latch: {_label(found.latch) or 'none'}{latch_topic}"
    if found.latch is Model.V2:
        yield "held back from v2 by nothing: it is there, and never goes back by itself"
    elif not found.obstacles:
        yield "held back from v2 by nothing: members with model=auto move within seconds"
    else:
        yield "held back from v2 by:"
        yield from (f"  {obstacle}" for obstacle in found.obstacles)
    if found.seen.members:
        yield ""
        yield from aligned([("MEMBER", "PROMISES", "INSTANCE", "HOST"), *map(_member_row, found.seen.members)])
    yield ""
    if not found.partitions:
        yield "no offsets are shown: none is committed, or this user lacks the right DESCRIBE on the topics"
    else:
        yield from aligned([("PARTITION", "OFFSET", "LAG", "OWNER", "MARK", "TEXT"), *_offset_rows(found)])
    yield from _stalled(found)


def _stalled(found: Overview) -> Iterator[str]:
    for partition in found.partitions:
        seconds, owner = found.stalled_seconds(partition), found.seen.owners.get(partition)
        if seconds is not None:
            yield ""
            yield (
                f"{partition[0]}[{partition[1]}] has not moved for {seconds:.0f} s although there is more to consume; "
                + (f"its owner is {owner}, member {owner.member_id}" if owner else "no member owns it")
            )


def _member_row(member: Member) -> tuple[str, ...]:
    promises = "no tag" if member.model is None else f"{member.model.label} at least"
    return member.client_id, promises, member.instance_id or "-", member.host


def _offset_rows(found: Overview) -> Iterator[tuple[str, ...]]:
    for partition in found.partitions:
        offset, mark = found.offsets.get(partition, NOT_COMMITTED)
        owner, progress = found.seen.owners.get(partition), found.progress.get(partition)
        lag = None if progress is None else progress.lag
        yield (
            f"{partition[0]}[{partition[1]}]",
            "-" if offset is None else str(offset),
            "-" if lag is None else str(lag),
            "-" if owner is None else f"{owner.client_id} {owner.host}",
            _label(mark.model) or "-",
            mark.app_metadata or "-",
        )


def _label(model: Model | None) -> str | None:
    return None if model is None else model.label
