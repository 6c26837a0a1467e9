"""What a type checker must understand of the front door. Checked by mypy and Pyright, never run."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import featuregate as fg
from featuregate.admin.outcomes import Outcome
from featuregate.admin.plans import Plan
from featuregate.testing import FakeCluster, LocalKafka, Upgrade, UpgradeStep

if TYPE_CHECKING:
    from collections.abc import Mapping

assert_type(fg.__version__, str)

# Poll once: a list of addresses, or the very dict that the app has.
view = fg.discover("localhost:9092", timeout=5)
assert_type(view, fg.View)
assert_type(view.level("transaction.version"), int | None)
assert_type(view.incomplete, bool)
assert_type(fg.discover({"bootstrap.servers": "localhost:9092", "linger.ms": 5}), fg.View)


async def poll() -> fg.View:
    """Coroutines await the same."""
    return await fg.adiscover("localhost:9092", timeout=5)


# Requirements combine into requirements.
named_level: fg.Requirement = fg.Feature("metadata.version") >= "3.3-IV3"
requirement: fg.Requirement = (fg.Feature("group.version") >= 1) & (fg.Api("Fetch") >= 12) | fg.Release("3.9")
between: fg.Requirement = fg.Api("Fetch").between(4, 11)
assert_type(fg.parse("group.version>=1"), fg.Requirement)
assert_type(fg.evaluate(view, fg.presets.kip447), fg.Decision)


def per_partition_model(batch: list[str], *, retries: int = 3) -> int:
    """Stand in for the old way."""
    return len(batch) + retries


with fg.Discoverer({"bootstrap.servers": "localhost:9092"}, interval=60, latch_store="latches") as features:
    assert_type(features, fg.Discoverer)
    assert_type(features.view, fg.View | None)
    latched: Mapping[str, int] = features.latched
    gate = features.gate("eos-v2", fg.presets.kip447)
    assert_type(gate, fg.Gate)
    assert_type(gate.open, bool)
    assert_type(gate.decision, fg.Decision)
    assert_type(gate.wait(timeout=30), bool)
    assert_type(gate.pin(), fg.Pin)
    features.gate("text", "group.version>=1", policy="live")
    features.gate("wrong", fg.presets.zstd, policy="loose")  # type: ignore[arg-type]  # there are two policies

    # A guarded function keeps its signature, and its fallback must have the same.
    @gate.guard(fallback=per_partition_model)
    def per_process_model(batch: list[str], *, retries: int = 3) -> int:
        """Stand in for the new way."""
        return len(batch) + retries

    assert_type(per_process_model(["a"], retries=1), int)
    per_process_model("a", tries=1)  # type: ignore[call-arg, arg-type]  # the signature is still checked

    @gate.guard
    def bare(topic: str) -> int:
        return len(topic)

    assert_type(bare("orders"), int)

    @gate.guard()
    async def commit(batch: list[str]) -> str:
        """Stand in for a coroutine function."""
        return ",".join(batch)

    async def use() -> str:
        """Awaiting gives what the function gives."""
        return await commit(["a"])


with FakeCluster() as cluster:
    assert_type(cluster.bootstrap, str)
with LocalKafka("4.2.0", nodes=3) as kafka:
    assert_type(kafka.bootstrap, str)
    kafka.roll(1, "4.3.1")

for step, upgraded in Upgrade({"brokers": 3}, (UpgradeStep("roll", (1, "4.3")),)):
    assert_type(step, UpgradeStep)
    upgraded.roll(1, "4.2")
    upgraded.roll("1", "4.2")  # type: ignore[arg-type]  # node ids are numbers
    assert_type(upgraded.view(), fg.View)


# Operators plan, try and change; each method has a twin for coroutines.
admin = fg.Admin({"bootstrap.servers": "localhost:9092"}, timeout=30)
assert_type(admin.plan(fg.updates.to_release("4.2"), latched={"mine": fg.presets.kip848}), Plan)
assert_type(admin.dry_run(fg.updates.downgrade({"group.version": 0}, unsafe=True)), Outcome)
assert_type(admin.update(fg.updates.disable("group.version")), Outcome)
assert_type(admin.wait_for_levels({"group.version": 0}, timeout=30), fg.View)


def send(value: bytes) -> None:
    """Stand in for a producer."""


assert_type(fg.UsageReporter(send, app="orders"), fg.UsageReporter)
fg.Discoverer("localhost:9092", usage=fg.UsageReporter(print, app="orders", instance="pod-1", software=("kafka", "1")))
