"""Findings about a cluster, from hand-made views."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from hypothesis import strategies as st

from featuregate.admin.registrations import Quorum
from featuregate.cli.diagnosis.cluster import broker_list_findings, cluster_findings
from featuregate.cli.diagnosis.configs import config_findings
from featuregate.cli.diagnosis.findings import DoctorFinding, worst_first
from featuregate.view.answers import ApiRange, BrokerConfig, Failure, SupportedRange
from featuregate.view.merging import merge
from featuregate.view.support import outside_support


def able(node_id: int = 1, *, epoch: int = 10, group: int | None = 1, metadata: int = 29, **levels: int):
    """Return the answer of a KRaft broker, with its supported ranges and finalized levels."""
    supported = {"metadata.version": SupportedRange(7, metadata)}
    if group is not None:
        supported["group.version"] = SupportedRange(0, group)
    return replace(broker(node_id, epoch=epoch, **{"metadata_version": metadata, **levels}), supported=supported)


def found(second, first=None, quorum=None) -> dict[str, DoctorFinding]:
    """Return the findings by code; the epoch has risen unless the first view is given."""
    earlier = first or view(*(replace(each, epoch=each.epoch - 4) for each in second.brokers))
    return {finding.code: finding for finding in cluster_findings(earlier, second, quorum)}


def test_a_healthy_cluster_has_no_finding() -> None:
    """The brokers are equal, every level is finalized, and the epoch rises."""
    assert found(view(*(able(n, group_version=1) for n in (1, 2, 3)))) == {}


def test_a_silent_broker_is_an_error() -> None:
    """The finding has the cause."""
    finding = found(view(able(1), deaf(2)))["broker-silent"]
    assert (finding.severity, finding.where) == ("error", "broker 2 (b2:9092)")
    assert finding.evidence == "said nothing for 5 s"
    assert "firewall" in finding.advice


@pytest.mark.parametrize(
    ("voters", "metadata", "codes", "advice"),
    [
        ({1}, 29, {"ghost-controller"}, "start a controller with node.id=2 and the new release once"),
        ({1}, 33, {"ghost-controller"}, "kafka-cluster.sh unregister-controller --id 2"),
        ({1, 2}, 29, {"broker-silent"}, "the release that the other nodes run"),
        (None, 29, {"broker-silent"}, "the release that the other nodes run"),  # no right to ask for the voters
    ],
)
def test_a_controller_that_is_no_voter_and_silent_has_gone(voters, metadata, codes, advice) -> None:
    """Its registration counts, so the advice is how to remove it, and not to start it."""
    gone = replace(deaf(2), role="controller", failure=Failure("ConnectFailed", "failed while connecting"))
    answers = (replace(able(1, metadata=metadata), role="controller"), gone)
    asked = merge(answers, cluster_id="c", role="controller", seen_at=1.0)
    said = found(asked, asked, voters and Quorum(voters=frozenset(voters)))
    silent = said.keys() & {"ghost-controller", "broker-silent"}
    assert silent == codes
    assert advice in said[silent.pop()].advice


def test_a_shared_address_is_an_error_that_names_it() -> None:
    """The advice is that of the failure."""
    shared = [
        replace(deaf(n), host="lb", failure=Failure("SharedAddress", "brokers 1, 2 share lb:9092: give each its own"))
        for n in (1, 2)
    ]
    finding = found(view(*shared, able(3)))["shared-address"]
    assert (finding.severity, finding.where) == ("error", "brokers 1-2")
    assert finding.evidence == "brokers 1, 2 share lb:9092 (listed at lb:9092)"
    assert finding.advice == "give each its own; until then no gate over APIs opens"


NO_CONFIG = BrokerConfig(None, "no such config", exists=False)


def with_protocols(node_id: int, value: str | None, problem: str = ""):
    """Return the answer of a broker that has all of kip848, with this config."""
    apis = {68: ApiRange(0, 1)}
    configs = {"group.coordinator.rebalance.protocols": BrokerConfig(value, problem)}
    return replace(able(node_id, group_version=1), api_ranges=apis, configs=configs)


def test_a_config_that_switches_a_preset_off_is_a_warning() -> None:
    """The finding names the broker, and what to add to its config."""
    (finding,) = config_findings(view(with_protocols(1, "classic,consumer"), with_protocols(2, "classic")))
    assert (finding.code, finding.severity, finding.where) == ("config-closes", "warning", "b2:9092")
    assert "kip848" in finding.problem
    assert finding.advice.startswith("add consumer to group.coordinator.rebalance.protocols on each broker")


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        ("CLUSTER_AUTHORIZATION_FAILED (31): grant DESCRIBE_CONFIGS", "grant this client DESCRIBE_CONFIGS"),
        ("timed out", "check why the broker does not tell it"),
    ],
)
def test_a_config_that_is_not_told_is_a_note(problem: str, advice: str) -> None:
    """The note names the right only where the broker refused for the lack of it."""
    (finding,) = config_findings(view(with_protocols(1, "consumer"), with_protocols(2, None, problem)))
    assert (finding.code, finding.severity, finding.where) == ("config-unknown", "note", "b2:9092")
    assert finding.advice.startswith(advice)


def test_a_config_that_kafka_removed_is_no_finding() -> None:
    """The level decides at a broker that has none."""
    without = replace(with_protocols(1, None), configs={"group.coordinator.rebalance.protocols": NO_CONFIG})
    assert list(config_findings(view(without))) == []


def test_a_config_matters_only_where_features_and_apis_allow_it() -> None:
    """Brokers of 3.9 have the protocol off by default, and no level of group.version."""
    off = replace(with_protocols(1, "classic"), finalized={"metadata.version": 21})
    assert list(config_findings(view(off))) == []
    assert list(config_findings(view(with_protocols(1, "consumer")))) == []


def test_brokers_that_fail_alike_are_one_finding() -> None:
    """A rack without power is one problem."""
    finding = found(view(able(1), deaf(2), deaf(3)))["broker-silent"]
    assert (finding.where, finding.problem) == (
        "brokers 2-3",
        "The cluster lists these brokers, but they do not answer.",
    )


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        (Failure("UnknownHost", "b2:9092: failed while resolving the name"), "advertised.listeners"),
        (Failure("ConnectFailed", "b2:9092: failed while connecting: refused"), "the release that the other nodes run"),
        (Failure("REBOOTSTRAP_REQUIRED", "answered with error 129"), "another node listens"),
        (Failure("TlsFailed", "b2:9092: TLS failed"), "check its log"),
        (Failure("HostNameMismatch", "b2:9092: TLS failed"), "issue a certificate for 'b2'"),
    ],
)
def test_advice_for_a_silent_broker_depends_on_the_cause(failure: Failure, advice: str) -> None:
    """A name that does not resolve needs another fix than a process that is down."""
    assert advice in found(view(able(1), replace(deaf(2), failure=failure)))["broker-silent"].advice


@pytest.mark.parametrize(
    ("levels", "release"),
    [
        ({"metadata_version": 21}, "Kafka before 3.9 does not start with metadata.version, and"),
        ({"metadata_version": 21, "group_version": 1}, "Kafka before 4.0 does not start with group.version, and"),
        ({"metadata_version": 99}, "the other nodes run: an older one does not start"),
    ],
)
def test_a_broker_that_is_down_may_not_start_with_an_older_release(levels: dict[str, int], release: str) -> None:
    """Nor after a level was lowered, which no view shows."""
    refused = replace(deaf(2), failure=Failure("ConnectFailed", "b2:9092: refused"))
    advice = found(view(able(1, **levels), refused))["broker-silent"].advice
    assert release in advice
    assert "start it" not in advice


def test_brokers_that_differ_are_a_warning() -> None:
    """A rolling upgrade may be in progress."""
    old = replace(able(1, group_version=1), api_ranges={28: ApiRange(0, 2)})
    codes = found(view(old, able(2, group_version=1)))
    assert {"mixed-releases", "mixed-brokers"} & set(codes)


def test_a_feature_that_some_lack_is_a_warning_that_names_them() -> None:
    """The operator must upgrade these brokers first."""
    finding = found(view(able(1, group=None), able(2)))["feature-not-everywhere"]
    assert (finding.severity, finding.where) == ("warning", "broker 1 (b1:9092)")
    assert "group.version" in finding.problem


def test_features_that_the_same_brokers_lack_are_one_finding() -> None:
    """One upgrade brings several features at once."""
    new = replace(able(2), supported={**able(2).supported, "share.version": SupportedRange(0, 1)})
    assert (
        "can run group.version, share.version."
        in found(view(able(1, group=None), new))["feature-not-everywhere"].problem
    )


def test_a_broker_that_hides_features_does_not_count_as_lacking_them() -> None:
    """ApiVersions v3 leaves out features that start at 0."""
    codes = found(view(replace(able(1, group=None), asked_version=3), able(2)))
    assert "feature-not-everywhere" not in codes
    assert codes["features-hidden"].severity == "note"


def test_a_broker_that_knows_no_features_is_a_note() -> None:
    """Kafka before 2.4 cannot list features."""
    codes = found(view(replace(broker(1, epoch=-1), asked_version=2), able(2)))
    assert codes["features-unknown"].severity == "note"


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_brokers_without_any_finalized_feature_are_a_note(version) -> None:
    """Kafka with ZooKeeper, or no Kafka: no upgrade is advised, whatever version of ApiVersions they answer."""
    codes = found(view(replace(broker(1, epoch=-1), asked_version=version), replace(broker(2), asked_version=version)))
    assert codes["no-finalized-features"].severity == "note"
    assert f"v{version}" in codes["no-finalized-features"].evidence
    assert not {"features-hidden", "features-unknown"} & codes.keys()


def test_finalized_above_what_a_broker_can_run_is_an_error() -> None:
    """Such a broker should not be running."""
    finding = found(view(able(1, group=0, group_version=1), able(2, group_version=1)))["finalized-beyond-support"]
    assert (finding.severity, finding.where) == ("error", "broker 1 (b1:9092)")


def test_finalized_below_the_lowest_level_that_a_broker_supports_is_an_error() -> None:
    """An example is metadata.version 5 with brokers of 4.0 and newer, which support 7 and higher."""
    finding = found(view(able(1, metadata_version=5, group_version=1), able(2, metadata_version=5, group_version=1)))[
        "finalized-below-support"
    ]
    assert (finding.severity, finding.where) == ("error", "brokers 1-2")
    assert finding.problem.startswith("metadata.version is finalized at 3.3-IV1")
    assert finding.advice.endswith("featuregate plan upgrade --feature metadata.version=7")


def test_the_listed_features_of_a_broker_that_hides_features_count() -> None:
    """metadata.version starts above 0, so ApiVersions v3 lists it."""
    seen = view(replace(able(1, group=None, metadata_version=5), asked_version=3))
    assert "finalized-below-support" in found(seen)


@given(lowest=st.integers(0, 9), highest=st.integers(0, 9), level=st.integers(1, 9))
def test_a_level_outside_the_supported_range_is_found_on_either_side(lowest: int, highest: int, level: int) -> None:
    """A level within the range is no finding."""
    seen = view(replace(broker(1, a_version=level), supported={"a.version": SupportedRange(lowest, highest)}))
    assert bool(outside_support(seen)) is not (lowest <= level <= highest)


def test_finalized_below_what_all_can_run_is_a_note_with_the_command() -> None:
    """The advice of the note is the command that upgrades the feature."""
    finding = found(view(able(1, metadata_version=21, group_version=1), able(2, metadata_version=21, group_version=1)))[
        "upgrade-possible"
    ]
    assert finding.severity == "note"
    assert finding.evidence.startswith(
        "metadata.version 3.9-IV0, all can run 4.2-IV1; metadata.version: 29 cannot be lowered below 23 (4.0-IV1) again"
    )
    assert "Kafka before 4.2 does not start with 29; to go back, lower it to 23" in finding.evidence
    assert finding.advice.endswith(": featuregate plan upgrade --feature metadata.version=29")


@pytest.mark.parametrize("newest", [21, 25, 29])
def test_kraft_version_is_not_suggested_beside_others(newest: int) -> None:
    """It never goes down again, and controllers before 4.1 write a level that the quorum ignores."""
    node = able(1, metadata=newest, metadata_version=newest, group_version=1)
    node = replace(node, supported={**node.supported, "kraft.version": SupportedRange(0, 1)})
    assert "upgrade-possible" not in found(view(node))


def test_no_upgrade_is_suggested_while_a_broker_is_silent() -> None:
    """The supported levels of the silent broker are unknown."""
    assert "upgrade-possible" not in found(view(able(1, metadata_version=21), deaf(2)))


def test_a_frozen_epoch_is_a_warning() -> None:
    """No broker receives metadata from the controller."""
    seen = view(able(1), able(2, epoch=9))
    assert found(seen, first=seen)["epoch-frozen"].severity == "warning"


def test_a_frozen_epoch_is_normal_before_kraft() -> None:
    """With ZooKeeper the epoch rises with features only."""
    seen = view(broker(1), broker(2))
    assert "epoch-frozen" not in found(seen, first=seen)


def test_a_frozen_epoch_is_normal_of_controllers() -> None:
    """The epoch of a controller is the offset of the last feature record."""
    controllers = (replace(able(1, group_version=1), role="controller"),)
    seen = replace(view(), role="controller", brokers=controllers, epoch=10)
    assert "epoch-frozen" not in found(seen, first=seen)


def test_a_broker_behind_the_first_view_is_a_warning() -> None:
    """A broker should have read a record that is two seconds old."""
    first = view(able(1, epoch=100), able(2, epoch=10))
    finding = found(view(able(1, epoch=104), able(2, epoch=10)), first=first)["broker-behind"]
    assert finding.where == "broker 2 (b2:9092)"


def test_a_small_lag_is_normal() -> None:
    """The epochs of brokers may differ by a few records."""
    first = view(able(1, epoch=100, group_version=1), able(2, epoch=99, group_version=1))
    assert found(view(able(1, epoch=104, group_version=1), able(2, epoch=103, group_version=1)), first=first) == {}


def test_a_kraft_broker_without_an_epoch_is_an_error() -> None:
    """The broker does not know the finalized levels."""
    assert found(view(able(1, epoch=-1)))["no-epoch"].severity == "error"


def test_a_broker_list_without_stopped_brokers_is_a_note() -> None:
    """Kafka before 4.0 leaves stopped brokers out."""
    assert [finding.code for finding in broker_list_findings(registered=False, role="broker")] == [
        "broker-list-unregistered"
    ]
    assert list(broker_list_findings(registered=True, role="broker")) == []


def test_errors_come_first() -> None:
    """Warnings and notes follow, and the order within a severity stays."""

    def one(severity, code) -> DoctorFinding:
        return DoctorFinding(severity=severity, code=code, where="", problem="", evidence="", advice="")

    sorted_ = worst_first([one("note", "a"), one("error", "b"), one("warning", "c"), one("error", "d")])
    assert [finding.code for finding in sorted_] == ["b", "d", "c", "a"]
