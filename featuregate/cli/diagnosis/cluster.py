"""Findings about a cluster, from two views of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from featuregate.admin.no_return import WHAT_TO_DO, oldest_release_now
from featuregate.admin.registrations import Quorum, advice_on
from featuregate.admin.updates import moving, upgrade
from featuregate.catalog import METADATA_VERSION, level_name
from featuregate.cli.diagnosis import DoctorFinding, error_finding, note_finding, warning_finding
from featuregate.errors import ConnectFailed, HostNameMismatch, HostNotAllowed, SharedAddress, TimedOut, UnknownHost
from featuregate.view.cluster_view import View, failures, named, outside_support, reports_no_levels
from featuregate.view.releases import release_of_broker, release_of_level

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer, Failure

_FEATURES_FROM: Final = 3


def broker_list_findings(*, registered: bool, role: str) -> Iterator[DoctorFinding]:
    """Yield a note where the cluster does not list brokers that are down."""
    if not registered and role == "broker":
        yield note_finding(
            code="broker-list-unregistered",
            problem="This cluster lists only the brokers that are running.",
            evidence="brokers before 4.0 do not list the other registered brokers (KIP-1073)",
            advice="a broker that is down for an upgrade may return with old software: let apps list the brokers with "
            'broker_list="bootstrap", or set forget_after to more than the duration of an upgrade',
        )


def cluster_findings(first: View, second: View, quorum: Quorum | None = None) -> Iterator[DoctorFinding]:
    """Yield the findings from two views, some seconds apart. ``quorum`` tells ghosts from controllers that are down."""
    ghosts = _ghosts(second, quorum)
    yield from (_ghost(second, node) for node in ghosts)
    yield from _silent(second, ghosts)
    for find in (_mixed_releases, _not_everywhere, _outside_support, _upgrades, _features):
        yield from find(second)
    yield from _epochs(first, second)


def _ghosts(view: View, quorum: Quorum | None) -> tuple[BrokerAnswer, ...]:
    """Return the controllers that are registered, are not voters, and do not answer: they have gone."""
    voters = None if quorum is None else quorum.voters
    if view.role != "controller" or voters is None:
        return ()
    return tuple(node for node in view.missing if node.node_id not in voters)


def _ghost(view: View, node: BrokerAnswer) -> DoctorFinding:
    supported = view.feature(METADATA_VERSION)
    release = release_of_level(supported.max if supported else 0)
    return warning_finding(
        code="ghost-controller",
        where=node.name,
        problem="This controller has gone: it is registered, is not a voter of the quorum, and does not answer.",
        evidence=f"DescribeQuorum does not list it as a voter; {'' if node.failure is None else node.failure.text}",
        advice="the controller refuses levels that its registration lacks: "
        + advice_on(node.node_id, view.level(METADATA_VERSION) or 0, release),
    )


def _silent(view: View, ghosts: Sequence[BrokerAnswer]) -> Iterator[DoctorFinding]:
    for failure, silent in failures(view).items():
        if not (brokers := [broker for broker in silent if broker not in ghosts]):
            continue
        if failure.kind == SharedAddress.__name__:
            yield _shared_address(failure, brokers)
            continue
        these, they = (f"this {view.role}", "it does") if len(brokers) == 1 else (f"these {view.role}s", "they do")
        yield error_finding(
            code="broker-silent",
            where=named(brokers),
            problem=f"The cluster lists {these}, but {they} not answer.",
            evidence=failure.text,
            advice=_silent_broker_advice(failure, brokers, view),
        )


def _shared_address(failure: Failure, brokers: Sequence[BrokerAnswer]) -> DoctorFinding:
    evidence, _, advice = failure.text.rpartition(": ")
    return error_finding(
        code="shared-address",
        where=named(brokers),
        problem=f"The cluster lists several {brokers[0].role}s at one address, so no answer proves which one gave it.",
        evidence=f"{evidence} (listed at {', '.join(sorted({broker.address for broker in brokers}))})",
        advice=f"{advice}; until then no gate over APIs opens",
    )


def _silent_broker_advice(failure: Failure, brokers: Sequence[BrokerAnswer], view: View) -> str:
    hosts = ", ".join(sorted({repr(broker.host) for broker in brokers}))
    if failure.kind == ConnectFailed.__name__:
        advice = "check that its advertised.listeners is an address that this machine can reach; if it is down, "
        gone = "; where it has gone for good, remove its registration: kafka-cluster.sh unregister --id ID"
        return f"{advice}{_how_to_start(view)}{gone if brokers[0].role == 'broker' else ''}"
    advices = {
        HostNotAllowed.__name__: f"add {hosts} to featuregate.allowed.hosts if the cluster is yours; until then no "
        "gate over APIs opens",
        UnknownHost.__name__: f"make {hosts} resolve on this machine, or set advertised.listeners to a name that "
        "resolves",
        HostNameMismatch.__name__: "set advertised.listeners to a name that is in its certificate, or issue a "
        f"certificate for {hosts}",
        "REBOOTSTRAP_REQUIRED": "another node listens at its address: check advertised.listeners, port forwarding and "
        "proxies; behind a proxy that gives brokers other ids, set metadata.cluster.check.enable=false",
        TimedOut.__name__: "check for a firewall and for a process that hangs; until it answers, no gate over APIs "
        "opens",
    }
    return advices.get(failure.kind, "check its log; until it answers, no gate over APIs opens")


def _how_to_start(view: View) -> str:
    """Say with which release a node starts: not with one that does not support a level, or finds one in the log."""
    first = oldest_release_now(view.finalized)
    levels = f"Kafka before {first[0]} does not start with {' and '.join(first[1])}, and " if first else ""
    return (
        f"it needs the release that the other nodes run: {levels}an older one does not start with a level that was "
        f"lowered and is in the metadata log still: {WHAT_TO_DO}"
    )


def _mixed_releases(view: View) -> Iterator[DoctorFinding]:
    releases: dict[str, list[BrokerAnswer]] = {}
    for broker in view.answering:
        release = release_of_broker(broker)
        releases.setdefault(f"like {release}" if release else "of an unknown release", []).append(broker)
    if len(releases) > 1:
        yield warning_finding(
            code="mixed-releases",
            problem="The brokers run different releases of Kafka.",
            evidence="; ".join(f"{named(brokers)} {release}" for release, brokers in releases.items()),
            advice="finish the rolling upgrade; until then the cluster can do only what its oldest brokers can",
        )
    elif view.mixed:
        yield warning_finding(
            code="mixed-brokers",
            problem="The brokers offer different APIs or features.",
            evidence=f"all seem {next(iter(releases))}",
            advice="'featuregate matrix' shows the difference; a rolling restart or a setting may explain it",
        )


def _not_everywhere(view: View) -> Iterator[DoctorFinding]:
    """Yield one finding for each set of brokers, because an upgrade brings several features at once."""
    names: dict[tuple[BrokerAnswer, ...], list[str]] = {}
    for name in sorted({name for broker in view.answering for name in broker.supported} - set(view.supported)):
        lacking = tuple(b for b in view.answering if b.can_run(name) is None and not b.hides_features)
        names.setdefault(lacking, []).append(name)
    for lacking, lacked in names.items():
        if lacking:
            yield warning_finding(
                code="feature-not-everywhere",
                where=named(lacking),
                problem=f"Not every {view.role} can run {', '.join(lacked)}.",
                evidence=f"{len(lacking)} of {len(view.answering)} that answered do not list it",
                advice="a feature that a broker lacks cannot be finalized: upgrade these brokers first",
            )


def _outside_support(view: View) -> Iterator[DoctorFinding]:
    for name, brokers in outside_support(view).items():
        level = view.finalized[name]
        lowest = [supported.min for broker in brokers if (supported := broker.can_run(name))]
        below = len(lowest) == len(brokers) and level < min(lowest)
        yield error_finding(
            code="finalized-below-support" if below else "finalized-beyond-support",
            where=named(brokers),
            problem=f"{name} is finalized at {level_name(name, level)}, which these brokers do not list as supported.",
            evidence=", ".join(f"{broker.name}: {_range(name, broker)}" for broker in brokers),
            advice=f"raise the level to one that they support: featuregate plan upgrade --feature {name}={max(lowest)}"
            if below
            else "run a release that supports it, at least the one with which the cluster was upgraded",
        )


def _upgrades(view: View) -> Iterator[DoctorFinding]:
    if view.epoch < 0 or view.incomplete:
        return
    below = {name: can.max for name, can in sorted(view.supported.items()) if (view.level(name) or 0) < can.max}
    below = {update.feature: update.level for update in moving(upgrade(below), view).updates} if below else {}
    if below:
        options = " ".join(f"--feature {name}={top}" for name, top in below.items())
        yield note_finding(
            code="upgrade-possible",
            problem="Features are finalized below what all brokers can run.",
            evidence="; ".join(
                f"{name} {level_name(name, view.level(name) or 0)}, all can run {level_name(name, top)}"
                for name, top in below.items()
            ),
            advice=f"when you plan no rollback, ask which have no way back: featuregate plan upgrade {options}",
        )


def _range(name: str, broker: BrokerAnswer) -> str:
    supported = broker.can_run(name)
    return "none" if supported is None else f"{level_name(name, supported.min)} to {level_name(name, supported.max)}"


def _features(view: View) -> Iterator[DoctorFinding]:
    if reports_no_levels(view):
        asked = sorted({b.asked_version for b in view.answering if b.asked_version is not None})
        versions = " and ".join(f"v{version}" for version in asked)
        yield note_finding(
            code="no-finalized-features",
            problem=f"No {view.role} reports finalized features.",
            evidence=f"they answer ApiVersions {versions}, and list no finalized feature",
            advice="use requirements on API versions: gates over features stay unknown here. Kafka reports features "
            "with KRaft, from 3.3; with ZooKeeper there are none, and most other services of its protocol have none",
        )
        return
    hiding = [broker for broker in view.answering if broker.hides_features]
    if hiding:
        yield note_finding(
            code="features-hidden",
            where=named(hiding),
            problem="These brokers may support more features than they list.",
            evidence="they answer ApiVersions up to v3, which leaves out features that start at level 0 (KAFKA-17011)",
            advice="upgrade to 3.9 or newer to see them; the finalized levels are complete",
        )
    old = [b for b in view.answering if b.asked_version is not None and b.asked_version < _FEATURES_FROM]
    if old:
        yield note_finding(
            code="features-unknown",
            where=named(old),
            problem="These brokers do not list features.",
            evidence=f"they answer ApiVersions up to v{max(b.asked_version or 0 for b in old)}; features came with v3",
            advice="use requirements on API versions; features need Kafka 2.7 or newer",
        )


def _epochs(first: View, second: View) -> Iterator[DoctorFinding]:
    kraft = METADATA_VERSION in second.finalized or any(METADATA_VERSION in b.supported for b in second.answering)
    if not kraft or not second.answering:
        return
    silent = [broker for broker in second.answering if broker.epoch < 0]
    if silent:
        yield error_finding(
            code="no-epoch",
            where=named(silent),
            problem="These nodes do not know which levels are finalized.",
            evidence="they return no epoch",
            advice="check whether the controllers have a quorum, and whether these nodes can reach them",
        )
    if second.role == "controller":
        return  # a controller's epoch rises with features only
    behind = [broker for broker in second.answering if 0 <= broker.epoch < first.epoch]
    if second.epoch >= 0 and second.epoch == first.epoch:
        yield warning_finding(
            code="epoch-frozen",
            problem="The epoch does not rise, so no broker receives metadata from the controller.",
            evidence=f"epoch {second.epoch} in both views, {second.seen_at - first.seen_at:.1f} s apart; "
            "it rises twice a second on an idle cluster",
            advice="check whether the controllers have a quorum; with metadata.max.idle.interval.ms=0 it is normal",
        )
    elif behind:
        yield warning_finding(
            code="broker-behind",
            where=named(behind),
            problem="The finalized features of these brokers are out of date.",
            evidence=", ".join(f"{broker.name} is at epoch {broker.epoch}" for broker in behind)
            + f"; epoch {first.epoch} was reached {second.seen_at - first.seen_at:.1f} s before",
            advice="check whether they can reach the controller; featuregate uses the levels with the highest epoch",
        )
