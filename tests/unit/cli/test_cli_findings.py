"""Findings about a cluster, from hand-made views, as ``doctor`` prints them: compared whole with ``findings.txt``."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st
from transcripts import sections

from featuregate.admin.registrations import Quorum
from featuregate.cli.commands.doctor import to_text
from featuregate.cli.diagnosis import DoctorFinding, worst_first
from featuregate.cli.diagnosis.cluster import broker_list_findings, cluster_findings
from featuregate.cli.diagnosis.configuration import config_findings
from featuregate.view.answers import ApiRange, BrokerConfig, Failure, SupportedRange
from featuregate.view.cluster_view import outside_support
from featuregate.view.merging import merge

Findings = Iterable[DoctorFinding]


def able(node_id: int = 1, *, epoch: int = 10, group: int | None = 1, metadata: int = 29, **levels: int):
    supported = {"metadata.version": SupportedRange(7, metadata)}
    if group is not None:
        supported["group.version"] = SupportedRange(0, group)
    return replace(broker(node_id, epoch=epoch, **{"metadata_version": metadata, **levels}), supported=supported)


def of(*answers, first=None, quorum=None) -> Findings:
    """Return the findings about these answers; the epoch has risen unless the first view is given."""
    second = view(*answers)
    earlier = first or view(*(replace(each, epoch=each.epoch - 4) for each in second.brokers))
    return cluster_findings(earlier, second, quorum)


def of_frozen(*answers) -> Findings:
    return of(*answers, first=view(*answers))


def silent(kind: str, text: str, **levels: int) -> Findings:
    return of(able(1, group_version=1, **levels), replace(deaf(2), failure=Failure(kind, text)))


def of_controllers(voters: set[int] | None, metadata: int = 29) -> Findings:
    gone = replace(deaf(2), role="controller", failure=Failure("ConnectFailed", "failed while connecting"))
    answers = (replace(able(1, metadata=metadata), role="controller"), gone)
    asked = merge(answers, cluster_id="c", role="controller", seen_at=1.0)
    return cluster_findings(asked, asked, voters and Quorum(voters=frozenset(voters)))


def with_protocols(node_id: int, config: BrokerConfig):
    configs = {"group.coordinator.rebalance.protocols": config}
    return replace(able(node_id, group_version=1), api_ranges={68: ApiRange(0, 1)}, configs=configs)


BOTH, CLASSIC = BrokerConfig("classic,consumer", ""), BrokerConfig("classic", "")
DENIED = BrokerConfig(None, "CLUSTER_AUTHORIZATION_FAILED (31): grant DESCRIBE_CONFIGS")
REFUSED = Failure("ConnectFailed", "b2:9092: refused")
SHARED = Failure("SharedAddress", "brokers 1, 2 share lb:9092: give each its own")
MORE = {**able(2).supported, "share.version": SupportedRange(0, 1)}
WITH_KRAFT = {"metadata.version": SupportedRange(7, 29), "kraft.version": SupportedRange(0, 1)}

SCENES: dict[str, Callable[[], Findings]] = {
    "all is well": lambda: of(*(able(n, group_version=1) for n in (1, 2, 3))),
    "one is silent": lambda: of(able(1, group_version=1), deaf(2)),
    "two are silent alike": lambda: of(able(1, group_version=1), deaf(2), deaf(3)),
    "a controller that is no voter and silent has gone": lambda: of_controllers({1}),
    "its registration can be removed": lambda: of_controllers({1}, 33),
    "a voter is silent": lambda: of_controllers({1, 2}),
    "without the right to ask for voters": lambda: of_controllers(None),
    "an address is shared": lambda: of(*(replace(deaf(n), host="lb", failure=SHARED) for n in (1, 2)), able(3)),
    "its name does not resolve": lambda: silent("UnknownHost", "b2:9092: failed while resolving the name"),
    "another node listens": lambda: silent("REBOOTSTRAP_REQUIRED", "answered with error 129"),
    "its TLS fails": lambda: silent("TlsFailed", "b2:9092: TLS failed"),
    "its certificate has another name": lambda: silent("HostNameMismatch", "b2:9092: TLS failed"),
    "it is not allowed": lambda: silent("HostNotAllowed", "b2:9092: not allowed while connecting"),
    "it is down, and 3.9 starts": lambda: of(able(1, metadata_version=21), replace(deaf(2), failure=REFUSED)),
    "it is down, and 4.0 starts": lambda: silent("ConnectFailed", "refused", metadata_version=21),
    "it is down, and no known release starts": lambda: silent("ConnectFailed", "refused", metadata_version=99),
    "two releases": lambda: of(
        replace(able(1, group_version=1), api_ranges={28: ApiRange(0, 2)}), able(2, group_version=1)
    ),
    "one upgrade brings two features": lambda: of(able(1, group=None), replace(able(2), supported=MORE)),
    "v3 hides features that start at 0": lambda: of(replace(able(1, group=None), asked_version=3), able(2)),
    "one knows no features": lambda: of(replace(broker(1, epoch=-1), asked_version=2), able(2)),
    "none has levels": lambda: of(*(replace(broker(n, epoch=-1), asked_version=3 * n - 3) for n in (1, 2))),
    "finalized above support": lambda: of(able(1, group=0, group_version=1), able(2, group_version=1)),
    "finalized below support": lambda: of(*(able(n, metadata_version=5, group_version=1) for n in (1, 2))),
    "v3 lists what starts above 0": lambda: of(replace(able(1, group=None, metadata_version=5), asked_version=3)),
    "an upgrade is possible": lambda: of(*(able(n, metadata_version=21, group_version=1) for n in (1, 2))),
    "kraft.version is raised by itself": lambda: of(replace(able(1), supported=WITH_KRAFT)),
    "no upgrade while one is silent": lambda: of(able(1, metadata_version=21), deaf(2)),
    "no epoch rises": lambda: of_frozen(able(1, group_version=1), able(2, epoch=9, group_version=1)),
    "with ZooKeeper it rises with features only": lambda: of_frozen(broker(1), broker(2)),
    "one is behind": lambda: of(
        able(1, epoch=104, group_version=1),
        able(2, epoch=10, group_version=1),
        first=view(able(1, epoch=100), able(2, epoch=10)),
    ),
    "a small lag": lambda: of(
        able(1, epoch=104, group_version=1),
        able(2, epoch=103, group_version=1),
        first=view(able(1, epoch=100), able(2, epoch=99)),
    ),
    "one has no epoch": lambda: of(able(1, epoch=-1)),
    "before 4.0": lambda: broker_list_findings(registered=False, role="broker"),
    "from 4.0 on": lambda: broker_list_findings(registered=True, role="broker"),
    "a config closes": lambda: config_findings(view(with_protocols(1, BOTH), with_protocols(2, CLASSIC))),
    "a config is denied": lambda: config_findings(view(with_protocols(1, BOTH), with_protocols(2, DENIED))),
    "a config is not told": lambda: config_findings(view(with_protocols(1, BrokerConfig(None, "timed out")))),
    "a config that Kafka removed": lambda: config_findings(
        view(with_protocols(1, BrokerConfig(None, "no such config", exists=False)))
    ),
    "a config without the level": lambda: config_findings(
        view(replace(with_protocols(1, CLASSIC), finalized={"metadata.version": 21}))
    ),
    "a config that opens": lambda: config_findings(view(with_protocols(1, BOTH))),
}
PRINTED = sections(__file__, "findings.txt")


@pytest.mark.parametrize("scene", SCENES)
def test_the_findings_of_a_cluster_are_printed_whole(scene: str) -> None:
    found = list(SCENES[scene]())
    assert f"{' '.join(finding.code for finding in found)}\n{to_text(found)}".strip() == PRINTED[scene]


def test_a_frozen_epoch_is_normal_of_controllers() -> None:
    """The epoch of a controller is the offset of the last feature record."""
    controllers = (replace(able(1, group_version=1), role="controller"),)
    seen = replace(view(), role="controller", brokers=controllers, epoch=10)
    assert list(cluster_findings(seen, seen)) == []


@given(lowest=st.integers(0, 9), highest=st.integers(0, 9), level=st.integers(1, 9))
def test_a_level_outside_the_supported_range_is_found_on_either_side(lowest: int, highest: int, level: int) -> None:
    seen = view(replace(broker(1, a_version=level), supported={"a.version": SupportedRange(lowest, highest)}))
    assert bool(outside_support(seen)) is not (lowest <= level <= highest)


def test_errors_come_first() -> None:
    def one(severity, code) -> DoctorFinding:
        return DoctorFinding(severity=severity, code=code, where="", problem="", evidence="", advice="")

    sorted_ = worst_first([one("note", "a"), one("error", "b"), one("warning", "c"), one("error", "d")])
    assert [finding.code for finding in sorted_] == ["b", "d", "c", "a"]
