"""What is wrong with a cluster, told from two looks at it. Pure; the judgement of ``doctor`` is here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from featuregate.admin.updates import moving, upgrade
from featuregate.catalog import METADATA_VERSION, captured_releases, level_name
from featuregate.cli.tables import runs
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Release
from featuregate.view.cluster_view import merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View

__all__ = ["Finding", "Severity", "about_broker_list", "about_cluster", "outside_support", "worst_first"]

Severity = Literal["error", "warning", "note"]
_ORDER: Final[Mapping[Severity, int]] = {"error": 0, "warning": 1, "note": 2}
_FEATURES_FROM: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or good to know."""

    severity: Severity
    code: str
    """For programs: ``broker-silent``. docs/reference/command-line.md lists them all."""
    where: str
    """A broker, an address, ``cluster`` or ``configuration``."""
    problem: str
    """A sentence."""
    evidence: str
    """What was seen."""
    advice: str
    """What to do."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity; what was found first stays first."""
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def about_broker_list(*, registered: bool, role: str) -> Iterator[Finding]:
    """Say it where the cluster cannot list brokers that are down."""
    if not registered and role == "broker":
        yield Finding(
            severity="note",
            code="broker-list-unregistered",
            where="cluster",
            problem="This cluster lists only brokers that are up.",
            evidence="brokers before 4.0 do not tell which others are registered (KIP-1073)",
            advice="one that is down for an upgrade may come back with old software: let an app name its brokers by "
            'broker_list="bootstrap", or keep forget_after longer than an upgrade',
        )


def about_cluster(first: View, second: View) -> Iterator[Finding]:
    """Yield what is wrong, by two looks some seconds apart."""
    yield from _silent(second)
    yield from _mixed(second)
    yield from _not_everywhere(second)
    yield from _outside_support(second)
    yield from _upgrades(second)
    yield from _hidden(second)
    yield from _epochs(first, second)


def _silent(view: View) -> Iterator[Finding]:
    for broker in view.missing:
        assert broker.failure is not None
        yield Finding(
            severity="error",
            code="broker-silent",
            where=broker.name,
            problem=f"The cluster knows this {broker.role}, but it does not answer here.",
            evidence=broker.failure.text,
            advice=_revive(broker),
        )


def _revive(broker: BrokerAnswer) -> str:
    assert broker.failure is not None
    if broker.failure.kind == "ConnectFailed" and "resolving" in broker.failure.text:
        return f"let {broker.host!r} resolve on this machine, or let advertised.listeners name what does"
    if broker.failure.kind == "ConnectFailed":
        return "start it, or see whether its advertised.listeners names an address that this machine can reach"
    if broker.failure.kind == "REBOOTSTRAP_REQUIRED":
        return "somebody else listens at its address: see advertised.listeners, port forwarding and proxies"
    if broker.failure.kind == "TimedOut":
        return "look for a firewall between, and whether the process hangs; until it answers, no gate over APIs opens"
    return "see its log; until it answers, no gate over APIs opens"


def _mixed(view: View) -> Iterator[Finding]:
    releases: dict[str, list[BrokerAnswer]] = {}
    for broker in view.answering:
        releases.setdefault(_release(broker), []).append(broker)
    if len(releases) > 1:
        yield Finding(
            severity="warning",
            code="mixed-releases",
            where="cluster",
            problem="The brokers run different releases of Kafka.",
            evidence="; ".join(f"{_names(brokers)} {release}" for release, brokers in releases.items()),
            advice="finish the rolling upgrade; until then only what the oldest can do holds for the cluster",
        )
    elif view.mixed:
        yield Finding(
            severity="warning",
            code="mixed-brokers",
            where="cluster",
            problem="The brokers do not all offer the same APIs or features.",
            evidence=f"all seem {next(iter(releases))}",
            advice="'featuregate matrix' shows the difference; a roll that has just begun or a setting may explain it",
        )


def _release(broker: BrokerAnswer) -> str:
    """Judge the release of a broker by what it advertises: the newest of which it has all."""
    alone = merge([broker], cluster_id=None, role=broker.role, seen_at=broker.answered_at)
    fits = [release for release in captured_releases() if evaluate(alone, Release(release)).open]
    return f"like {fits[-1]}" if fits else "of a release that we cannot tell"


def _not_everywhere(view: View) -> Iterator[Finding]:
    """Yield one finding for each set of brokers: a roll brings several features at once."""
    names: dict[tuple[BrokerAnswer, ...], list[str]] = {}
    for name in sorted({name for broker in view.answering for name in broker.supported} - set(view.supported)):
        lacking = tuple(b for b in view.answering if b.can_run(name) is None and not b.hides_features)
        names.setdefault(lacking, []).append(name)
    for lacking, lacked in names.items():
        if lacking:
            yield Finding(
                severity="warning",
                code="feature-not-everywhere",
                where=_names(lacking),
                problem=f"Not every {view.role} can run {', '.join(lacked)}.",
                evidence=f"{len(lacking)} of {len(view.answering)} that answered do not list it",
                advice="what some lack cannot be finalized: upgrade these first",
            )


def outside_support(view: View) -> dict[str, list[BrokerAnswer]]:
    """Return the features that are finalized below or above what brokers support, each with these brokers.

    A broker that hides features from ApiVersions v3 (KAFKA-17011) counts for what it lists.
    """
    if view.epoch < 0:
        return {}
    outside = {
        name: [broker for broker in view.answering if not _supports(broker, name, level)]
        for name, level in sorted(view.finalized.items())
    }
    return {name: brokers for name, brokers in outside.items() if brokers}


def _supports(broker: BrokerAnswer, name: str, level: int) -> bool:
    supported = broker.can_run(name)
    return broker.hides_features if supported is None else supported.min <= level <= supported.max


def _outside_support(view: View) -> Iterator[Finding]:
    for name, brokers in outside_support(view).items():
        level = view.finalized[name]
        lowest = [supported.min for broker in brokers if (supported := broker.can_run(name))]
        below = len(lowest) == len(brokers) and level < min(lowest)
        yield Finding(
            severity="error",
            code="finalized-below-support" if below else "finalized-beyond-support",
            where=_names(brokers),
            problem=f"{name} is finalized at {level_name(name, level)}, which these do not say that they can run.",
            evidence=", ".join(f"{broker.name}: {_range(name, broker)}" for broker in brokers),
            advice=f"raise the level to one that they support: featuregate upgrade --feature {name}={max(lowest)}"
            if below
            else "run a release there that can, at least the one that the cluster was upgraded with",
        )


def _upgrades(view: View) -> Iterator[Finding]:
    if view.epoch < 0 or view.incomplete:
        return
    below = {
        name: range_.max for name, range_ in sorted(view.supported.items()) if (view.level(name) or 0) < range_.max
    }
    below = {update.feature: update.level for update in moving(upgrade(below), view).updates} if below else {}
    if below:
        said = (
            f"{name} {level_name(name, view.level(name) or 0)}, all can run {level_name(name, top)}"
            for name, top in below.items()
        )
        wanted = " ".join(f"--feature {name}={top}" for name, top in below.items())
        yield Finding(
            severity="note",
            code="upgrade-possible",
            where="cluster",
            problem="Features are finalized below what all brokers can run.",
            evidence="; ".join(said),
            advice=f"once you will not go back to the old release: featuregate upgrade {wanted}",
        )


def _range(name: str, broker: BrokerAnswer) -> str:
    can = broker.can_run(name)
    return "none" if can is None else f"{level_name(name, can.min)} to {level_name(name, can.max)}"


def _hidden(view: View) -> Iterator[Finding]:
    hiding = [broker for broker in view.answering if broker.hides_features]
    if hiding:
        yield Finding(
            severity="note",
            code="features-hidden",
            where=_names(hiding),
            problem="These may support more features than they say.",
            evidence="they answer ApiVersions up to v3, which leaves out features that start at level 0 (KAFKA-17011)",
            advice="upgrade to 3.9 or newer to see them; finalized levels are told in full",
        )
    old = [b for b in view.answering if b.asked_version is not None and b.asked_version < _FEATURES_FROM]
    if old:
        yield Finding(
            severity="note",
            code="features-unknown",
            where=_names(old),
            problem="These tell nothing about features.",
            evidence=f"they answer ApiVersions up to v{max(b.asked_version or 0 for b in old)}; features came with v3",
            advice="gate on API versions there; features need Kafka 2.7 or newer",
        )


def _epochs(first: View, second: View) -> Iterator[Finding]:
    kraft = METADATA_VERSION in second.finalized or any(METADATA_VERSION in b.supported for b in second.answering)
    if not kraft or not second.answering:
        return
    silent = [broker for broker in second.answering if broker.epoch < 0]
    if silent:
        yield Finding(
            severity="error",
            code="no-epoch",
            where=_names(silent),
            problem="These do not know what the cluster has finalized.",
            evidence="they tell no epoch",
            advice="see whether the controllers have a quorum, and whether these can reach them",
        )
    if second.role == "controller":
        return  # a controller's epoch moves with features only
    behind = [broker for broker in second.answering if 0 <= broker.epoch < first.epoch]
    if second.epoch >= 0 and second.epoch == first.epoch:
        yield Finding(
            severity="warning",
            code="epoch-frozen",
            where="cluster",
            problem="The epoch stands still, so nobody hears from the controller.",
            evidence=f"epoch {second.epoch} in both looks, {second.seen_at - first.seen_at:.1f} s apart; "
            "it rises twice a second on an idle cluster",
            advice="see whether the controllers have a quorum; with metadata.max.idle.interval.ms=0 it is normal",
        )
    elif behind:
        yield Finding(
            severity="warning",
            code="broker-behind",
            where=_names(behind),
            problem="What these say of finalized features is old.",
            evidence=", ".join(f"{broker.name} is at epoch {broker.epoch}" for broker in behind)
            + f"; epoch {first.epoch} was reached {second.seen_at - first.seen_at:.1f} s before",
            advice="see whether they can reach the controller; featuregate goes by the highest epoch meanwhile",
        )


def _names(brokers: Sequence[BrokerAnswer]) -> str:
    if len(brokers) == 1:
        return brokers[0].name
    numbers = runs(broker.node_id for broker in brokers if broker.node_id is not None)
    return f"{brokers[0].role}s " + ",".join(
        filter(None, [numbers, *(broker.address for broker in brokers if broker.node_id is None)])
    )
