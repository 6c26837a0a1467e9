"""The drop-in for kafka-features, with clusters that answer what a test sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripted import ScriptedCluster

from featuregate.admin.client import Admin
from featuregate.admin.updates import upgrade
from featuregate.catalog import release_levels
from featuregate.cli.kafka_features.changing import update
from featuregate.wire.update_features import UpdateFeaturesResponse

if TYPE_CHECKING:
    from conftest import Run

EXCEPTION = "org.apache.kafka.common.errors."
TIMED_OUT = f"{EXCEPTION}TimeoutException: Timed out waiting for a node assignment. Call: describeFeatures"


def test_describe_prints_the_level_names_of_kafka_features(drop_in: Run, cluster: ScriptedCluster) -> None:
    """The tool of 4.3 has no names for lower and higher levels."""
    cluster.nodes[1].supported["metadata.version"] = (1, 33)
    code, out, err = drop_in("--bootstrap-server", cluster.nodes[1].address, "describe", "--node-id", "1")
    assert (code, err) == (0, "")
    (row,) = [line for line in out.splitlines() if "metadata.version" in line]
    assert "SupportedMinVersion: UNKNOWN 1 " in row
    assert "SupportedMaxVersion: UNKNOWN 33 " in row


def test_a_release_is_sent_whole(drop_in: Run, cluster: ScriptedCluster) -> None:
    """kafka-features sends every feature, also one that has its level already."""
    levels = release_levels(29)
    cluster.apply(levels)
    assert drop_in("--bootstrap-server", cluster.bootstrap, "downgrade", "--release-version", "4.2")[0] == 0
    (received,) = cluster.received
    assert {update.feature: update.max_version_level for update in received.request.updates} == levels


@pytest.mark.parametrize("command", ["upgrade", "feature-dependencies"])
def test_names_of_levels_are_not_accepted(drop_in: Run, command: str) -> None:
    """kafka-features accepts numbers only."""
    assert drop_in("--bootstrap-server", "h:1", command, "--feature", "metadata.version=3.3-IV3") == (
        1,
        "",
        "Can't parse feature=level string metadata.version=3.3-IV3: unable to parse 3.3-IV3 as a short.\n",
    )


def test_only_the_options_of_kafka_features_are_accepted(drop_in: Run) -> None:
    """The drop-in refuses the commands and options of featuregate."""
    for argv in (["plan"], ["update"], ["describe", "--output", "json"], ["disable", "--yes"]):
        code, _, err = drop_in("--bootstrap-server", "h:1", *argv)
        assert (code, err.startswith("Command line error: ")) == (1, True)


def test_help_goes_to_standard_output(drop_in: Run) -> None:
    """Printing the help is no failure."""
    code, out, err = drop_in("--help")
    assert (code, err, out.startswith("usage: kafka-features ")) == (0, "", True)


# ------------------------------------------------------------------ errors of Kafka's Admin client


def test_a_cluster_that_does_not_answer_times_out(drop_in: Run) -> None:
    """featuregate's own message, with the cause, precedes that of Kafka."""
    code, out, err = drop_in("--bootstrap-server", "127.0.0.1:1", "describe")
    assert (code, out) == (1, "")
    own, kafka = err.splitlines()
    assert "127.0.0.1:1: failed while connecting" in own
    assert kafka == TIMED_OUT


@pytest.mark.parametrize("bootstrap", ["h:x", "", "localhost", "localhost:9092,localhost", "no-such-host.invalid:9092"])
@pytest.mark.parametrize("command", [["describe"], ["upgrade", "--feature", "a=1"]], ids=" ".join)
def test_no_client_is_created_for_an_unusable_bootstrap_list(drop_in: Run, bootstrap: str, command: list[str]) -> None:
    """Kafka reports that alone; featuregate's own message precedes it."""
    code, out, err = drop_in("--bootstrap-server", bootstrap, *command)
    assert (code, out, err.splitlines()[1:]) == (1, "", ["Failed to create new KafkaAdminClient"])


def test_a_missing_configuration_file_is_named(drop_in: Run, tmp_path: Path) -> None:
    """The message is the name alone, as in kafka-features."""
    missing = str(tmp_path / "client.properties")
    assert drop_in("--bootstrap-server", "h:1", "--command-config", missing, "describe") == (1, "", f"{missing}\n")


@pytest.mark.parametrize("command", [["describe"], ["upgrade", "--feature", "a=1"]], ids=" ".join)
def test_a_misspelt_property_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, drop_in: Run, command: list[str]
) -> None:
    """Each reading of the configuration warns."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocl=SSL\n")
    drop_in("--bootstrap-server", "127.0.0.1:1", "--command-config", str(file), *command)
    assert [record.levelname for record in caplog.records if "security.protocl" in record.message] == ["WARNING"]


def test_an_old_cluster_does_not_support_the_request(drop_in: Run, cluster: ScriptedCluster) -> None:
    """The message has Kafka's name of the API."""
    for node in cluster.nodes.values():
        del node.api_ranges[57]
    _, out, _ = drop_in("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "a=1")
    assert out == "Could not upgrade a to 1. The node does not support UPDATE_FEATURES\n"


def test_a_node_of_the_wrong_kind_is_an_exception_of_kafka(drop_in: Run, cluster: ScriptedCluster) -> None:
    """featuregate's own message names the right option."""
    code, _, err = drop_in("--bootstrap-controller", cluster.bootstrap, "describe")
    assert code == 1
    assert "is a broker: use bootstrap.servers" in err
    assert err.endswith(
        f"{EXCEPTION}MismatchedEndpointTypeException: The request was sent to an endpoint of type BROKER, but we "
        "wanted an endpoint of type CONTROLLER\n"
    )
    with ScriptedCluster(1, role="controller") as quorum:
        err = drop_in("--bootstrap-server", quorum.bootstrap, "describe")[2]
    assert err.endswith("UnsupportedVersionException: The node does not support METADATA\n")


def test_an_unknown_node_times_out_at_once(drop_in: Run, cluster: ScriptedCluster) -> None:
    """Kafka's client waits for a minute."""
    code, _, err = drop_in("--bootstrap-server", cluster.bootstrap, "describe", "--node-id", "9")
    own = "kafka-features-py: this cluster has no broker 9; its brokers are: 1-3"
    assert (code, err) == (1, f"{own}\n{TIMED_OUT}\n")


# ------------------------------------------------------------------ unknown outcomes


def test_an_update_with_an_unknown_outcome_is_reported_as_such(cluster: ScriptedCluster) -> None:
    """kafka-features prints the message of the controller there."""
    cluster.says = cluster.lose
    refused = update(Admin(cluster.bootstrap, read_back=0.2), upgrade({"a": 1}), dry_run=False)
    assert refused["a"].startswith("the update may or may not have been applied: ")


@pytest.mark.parametrize("applied", [True, False])
def test_a_timeout_of_the_controller_is_printed_as_by_kafka_features(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str], *, applied: bool
) -> None:
    """Standard error has the levels that the brokers show."""

    def time_out(request: object, node: object) -> UpdateFeaturesResponse:
        if applied:
            cluster.agree(request, node)  # type: ignore[arg-type]  # as it was called
        return UpdateFeaturesResponse(error_code=7)

    cluster.says = time_out
    admin = Admin(cluster.bootstrap, read_back=20.0 if applied else 0.2)
    refused = update(admin, upgrade({"share.version": 7}), dry_run=False)
    assert refused == {"share.version": "The request timed out."}
    words = "they report the new levels" if applied else "the update may or may not have been applied"
    assert words in capsys.readouterr().err


DROP_IN, FEATUREGATE = "featuregate.cli.kafka_features.command", "featuregate.cli.app"
CLUSTER = {"asyncio", "ssl", "javaproperties", "featuregate.config", "featuregate.cli.kafka_features.client"}
CHANGES = {"featuregate.admin", "featuregate.gating", "featuregate.requirements"}
UNUSED = {
    "datetime",
    "featuregate.config.sasl",
    "featuregate.config.tls",
    "featuregate.wire.metadata",
    "javaproperties",
    "pathlib",
    "random",
}


@pytest.mark.parametrize(
    ("module", "command", "heavy"),
    [
        (DROP_IN, "version-mapping", {"argparse", FEATUREGATE} | CLUSTER),
        (DROP_IN, "--bootstrap-server {} describe", {"argparse", FEATUREGATE} | CHANGES | UNUSED),
        (FEATUREGATE, "--bootstrap-server {} describe", {"shutil", "featuregate.view.matrix"} | CHANGES | UNUSED),
    ],
)
def test_a_command_starts_light(cluster: ScriptedCluster, module: str, command: str, heavy: set[str]) -> None:
    """Most of the time of a short command is spent on its imports.

    A lookup asks no cluster; describe checks no gate, changes nothing, reads no certificate and asks once.
    """
    argv = command.format(cluster.bootstrap).split()
    code = f"import sys; from {module} import main; main({argv}); print(' '.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stderr.split())
