"""The latch protocol: what was seen of the cluster and of the group -> the model, and why.

Everything here is pure. The rules that are named (R1 to R12) stand in ``docs/explanation/producer-switch.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from featuregate_confluent.errors import ModelRefused, SwitchFatal
from featuregate_confluent.models import Model, PinnedModel, promised_by

if TYPE_CHECKING:
    from featuregate import Decision
    from featuregate_confluent.latch.marks import Mark

Partition = tuple[str, int]
"""A topic and the number of its partition."""

_NAMED: Final = 3  # members that one sentence names; the rest is counted
_SHOWN: Final = 80  # characters of a name that comes from the network


@dataclass(frozen=True, slots=True)
class Member:
    """A live member of the group, as brokers describe it. This process is one of them."""

    member_id: str
    client_id: str
    instance_id: str | None
    """``group.instance.id`` of a static member."""
    host: str

    @property
    def model(self) -> Model | None:
        """The least model that the member's tag promises; None: no tag, a foreign member.

        Of a static member the ``group.instance.id`` speaks: a classic group shows one that was replaced in place under
        the ``client.id`` of the software before it.
        """
        return promised_by(self.client_id if self.instance_id is None else self.instance_id)

    def __str__(self) -> str:
        instance = "" if self.instance_id is None else f", instance {_shown(self.instance_id)}"
        return f"client {_shown(self.client_id)} on {_shown(self.host)}{instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a member knows of its cluster and its group when it decides."""

    gate_open: bool
    """Whether every known broker checks the group's generation."""
    gate_why: str
    """The gate's own summary, which names brokers."""
    latch: Model | None
    """As from :func:`latch`."""
    members: tuple[Member, ...] | None
    """The live members; None: they could not be read."""
    generation_of_members: int | None
    """The generation that held before and after the members were read; None: it moved, or is not known."""
    generation: int
    """The generation that this member is in, and will commit in."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model to run in, and a sentence that says why, for logs and health."""

    model: Model
    why: str


LATCHED: Final = ModelChoice(Model.V2, "the group is latched at v2, and never goes back by itself")
"""The choice of every member after a v2 commit."""


def latch(marks: Iterable[Mark], latch_in_topic: Model | None = None) -> Model | None:
    """Return the highest model that the group is known to have committed in; None: it has left no mark.

    ``marks`` are those of the member's partitions, read stably (R1), or of all input partitions (R3);
    ``latch_in_topic`` is the model that the compacted topic holds (R11).
    """
    models = (*(mark.model for mark in marks), latch_in_topic)
    return max((model for model in models if model is not None), default=None)


def ids_to_take(model: Model, marks: Mapping[Partition, Mark]) -> tuple[Partition, ...]:
    """Return the newly assigned partitions whose legacy ids are taken before their offsets are read (R8).

    With one producer for each partition, all. In v2, those whose mark is below v2 (R6): a zombie of a foreign member
    may still have a transaction open under that id, and brokers check nothing else of it.
    """
    return tuple(
        sorted(partition for partition, mark in marks.items() if model.per_partition or mark.model is not Model.V2)
    )


def partitions_to_read(
    before: Model | None, model: Model, owned: Collection[Partition], new: Collection[Partition]
) -> tuple[Partition, ...]:
    """Return the partitions whose offsets are read stably, before the first transaction in ``model`` (R8, R12).

    The newly assigned ones; and all that are owned where the kind of producer changes. Another may have taken the id
    of a partition since, and committed there before all brokers checked. Under that id this process would have been
    fenced at its next transaction; under another id only the offset shows it.

    ``before`` is the model that the process ran in, committed or not; None: in none yet.
    """
    changes = before is not None and before.per_partition is not model.per_partition
    return tuple(sorted(owned if changes else new))


def require_same_cluster(decision: Decision, cluster_id: str | None) -> None:
    """Raise SwitchFatal if the gate was decided for another cluster than the one that the consumer is connected to.

    A gate that is open without any view, such as a forced one, proves nothing of any cluster either.
    """
    if decision.cluster_id == cluster_id or not (decision.cluster_id or decision.open):
        return
    seen = "no cluster" if decision.cluster_id is None else f"cluster {_shown(decision.cluster_id)}"
    here = "a cluster without an id" if cluster_id is None else f"cluster {_shown(cluster_id)}"
    raise SwitchFatal(
        f"the gate was decided for {seen}, but the consumer is connected to {here}: make the discoverer in 'features' "
        "with the consumer's bootstrap.servers, or leave it out; in a test, show a view with this cluster_id"
    )


def decide(pinned: PinnedModel, seen: Observation, running: Model | None) -> ModelChoice:
    """Decide in which model to run from here on: never lower than ``running``, and v2 where the latch is v2.

    ``running`` is the model of this process's last *committed* transaction; None: it has committed nothing. A model
    that was chosen and never committed in is not it: a foreign member may have joined since (R5). Raises ModelRefused.
    """
    if Model.V2 in (seen.latch, running):
        return _stay(pinned, seen)
    if pinned is Model.V2:
        return _pinned_v2(seen)
    if pinned is not None:
        return _pinned_below(pinned, running)
    return _highest(seen, running)


def _stay(pinned: PinnedModel, seen: Observation) -> ModelChoice:
    latched = seen.latch is Model.V2
    what = "the group is latched at v2" if latched else "this process has committed in v2"
    if pinned in (None, Model.V2):
        return LATCHED if latched else ModelChoice(Model.V2, f"{what}, and never goes back by itself")
    raise ModelRefused(
        pinned,
        f"{what}: set model to auto or v2. To go back, stop every member and wait until no transaction is open, then "
        "'featuregate group rollback'; a zombie of v2 that is overlooked may leave its outputs there twice",
    )


def _pinned_v2(seen: Observation) -> ModelChoice:
    obstacle = _obstacle(seen)
    if obstacle is not None:
        raise ModelRefused(Model.V2, f"{obstacle}; model=auto waits for it in a lower model")
    return ModelChoice(Model.V2, f"pinned, and {_proof(seen)}")


def _pinned_below(pinned: Model, running: Model | None) -> ModelChoice:
    if running is not None and running > pinned:
        raise ModelRefused(pinned, f"this process has committed in {running.label}; restart it to lower its pin")
    return ModelChoice(pinned, "pinned, and the group is not latched at v2")


def _highest(seen: Observation, running: Model | None) -> ModelChoice:
    obstacle = _obstacle(seen)
    if obstacle is None:
        return ModelChoice(Model.V2, _proof(seen))
    if seen.gate_open:
        return ModelChoice(Model.BRIDGE, f"not v2 yet: {obstacle}")
    held = max(seen.latch or Model.LEGACY, running or Model.LEGACY)
    return ModelChoice(held, f"not higher: {obstacle}")


def _obstacle(seen: Observation) -> str | None:
    """Return what stands against a first v2 commit (R4, R5); None: nothing does."""
    if not seen.gate_open:
        return f"the cluster cannot do it, or does not show that it can ({seen.gate_why})"
    if seen.members is None:
        return "the group's members could not be read"
    if seen.generation_of_members != seen.generation or seen.generation < 0:
        return f"the group's members were not read in generation {seen.generation}, in which the commit would be made"
    if not seen.members:
        return "the group shows no members, not even this one"
    below = [member for member in seen.members if member.model is None or member.model < Model.BRIDGE]
    return _name(below) if below else None


def _name(below: list[Member]) -> str:
    named = "; ".join(
        f"{member} {'shows no tag of featuregate' if member.model is None else f'is {member.model.label}'}"
        for member in below[:_NAMED]
    )
    more = len(below) - _NAMED
    return f"members below bridge: {named}{f'; and {more} more' if more > 0 else ''}"


def _proof(seen: Observation) -> str:
    count = len(seen.members or ())
    return f"every broker checks the group's generation, and every live member ({count}) is bridge at least"


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}...")
