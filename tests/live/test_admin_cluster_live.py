"""Updates on a real cluster of three in the middle of a roll, and by users who may and who may not."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer
from waiting import BOUND, eventually

from featuregate import Admin, discover
from featuregate.admin.updates import disable, downgrade, upgrade
from featuregate.errors import LevelsNotReached, UpdateRefused
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live, pytest.mark.slow]

OLD, NEW = "4.2.0", "4.3.1"
ALLOWED = "User:operator;User:ANONYMOUS"
"""Brokers talk to each other, and tools to them, on plaintext listeners of their own."""


@pytest.fixture(scope="module")
def rolled() -> Iterator[LocalKafka]:
    """Three nodes, of which one runs the next release already."""
    with LocalKafka(OLD, nodes=3) as kafka:
        kafka.roll(2, NEW)
        yield kafka


def test_a_plan_names_who_holds_the_cluster_back(rolled: LocalKafka) -> None:
    """The words are those of the controller."""
    updates = upgrade({"metadata.version": 30})
    admin = Admin(rolled.bootstrap)
    with pytest.raises(UpdateRefused) as caught:
        admin.dry_run(updates)
    (prediction,) = admin.plan(updates, controllers=rolled.controller_bootstrap).updates
    (failure,) = caught.value.outcome.failures
    assert "only supports versions 7-29" in prediction.text
    assert failure.error.message.endswith(prediction.text)


def test_a_broker_that_is_paused_makes_a_plan_unknown_and_holds_up_the_wait(rolled: LocalKafka) -> None:
    """It is registered, and what it can do counts, but it does not answer."""
    voter = discover({"bootstrap.controllers": rolled.controller_bootstrap}).controller_id
    paused = next(node for node in rolled.nodes if node != voter)
    rolled.pause(paused)
    try:
        admin = Admin(rolled.bootstrap)
        assert admin.plan(downgrade({"metadata.version": 27})).judgement == "unknown"
        with pytest.raises(LevelsNotReached, match=f"broker {paused} .* is silent"):
            admin.wait_for_levels({"metadata.version": 29}, 1)
    finally:
        rolled.resume(paused)


def test_an_update_finds_the_controller_that_took_over(rolled: LocalKafka) -> None:
    """The leader is killed, and the others vote while the update looks for them. Last: it stays dead."""
    controllers = {"bootstrap.controllers": rolled.controller_bootstrap}
    leader = discover(controllers).controller_id
    assert leader is not None
    rolled.kill(leader)
    admin = Admin(controllers)
    assert admin.update(downgrade({"transaction.version": 1})).done
    assert discover(controllers).controller_id != leader


def test_an_update_reaches_an_older_controller_through_a_newer_broker() -> None:
    """The broker advertises v2, and forwards it as it is: the controller of 3.9 closes the connection on v2."""
    with LocalKafka("3.9.2", controllers=1, release_version="3.8-IV0") as kafka:
        kafka.roll(1, OLD)
        admin = Admin(kafka.bootstrap)
        assert discover(kafka.bootstrap).api_ranges[57].max == 2
        assert admin.dry_run(upgrade({"metadata.version": 21})).done
        outcome = admin.update(upgrade({"metadata.version": 21}))
        assert (outcome.done, outcome.read_back) == (True, False)


def test_who_uses_a_level_and_whether_the_quorum_can_become_dynamic() -> None:
    """A plan names live members and open transactions; every voter that answered is what the leader knows, too.

    Doctor knows a controller that was removed from the dynamic quorum and stopped.
    """
    with LocalKafka(OLD, controllers=3) as kafka:
        admin, controllers = Admin(kafka.bootstrap), kafka.controller_bootstrap
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "payments"})
        producer.init_transactions(BOUND)
        producer.begin_transaction()
        producer.produce("orders", b"x")
        producer.flush(BOUND)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "billing", "group.protocol": "consumer"})
        consumer.subscribe(["orders"])
        eventually(lambda: [consumer.poll(0.1)] and consumer.assignment(), "an assignment")
        users = admin.plan(disable("group.version") + downgrade({"transaction.version": 1})).in_use
        assert any("1 consumer group with members need group.version" in said and "billing" in said for said in users)
        assert any(said.startswith("1 transactional id with an open") and "payments" in said for said in users)
        consumer.close()
        producer.abort_transaction(BOUND)

        kraft = upgrade({"kraft.version": 1})
        assert admin.plan(kraft).judgement == "unknown"  # no controller was asked
        assert admin.plan(kraft, controllers=controllers).judgement == "accepted"
        assert admin.update(kraft).done

        tool = partial(kafka.run_tool, "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server")
        status = tool(kafka.internal_bootstrap, "describe", "--status").stdout
        gone = next(each for each in kafka.controllers if f"LeaderId:              {each}" not in status)
        (directory,) = re.findall(rf'"id": {gone}, "directoryId": "([^"]+)"', status)
        ids = ("--controller-id", str(gone), "--controller-directory-id", directory)
        assert tool(kafka.internal_bootstrap, "remove-controller", *ids).returncode == 0
        kafka.stop(gone)
        doctor = [sys.executable, "-m", "featuregate", "doctor", "--bootstrap-controller", controllers]
        said = subprocess.run(doctor, capture_output=True, text=True, check=False).stdout
        assert f"warning: controller {gone} (127.0.0.1" in said
        assert "This controller has gone: it is registered, is not a voter of the quorum" in said
        assert "start it" not in said


def test_rights() -> None:
    """Looking and planning need none, and a plan says what is missing; a dry run and an update need ALTER."""
    users = {"operator": "operator-secret", "app": "app-secret"}
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ALLOWED,
    }
    with LocalKafka(
        OLD, security="SASL_PLAINTEXT", sasl_mechanism="PLAIN", users=users, properties=properties
    ) as kafka:
        operator = kafka.client_config()
        app = {**operator, "sasl.username": "app", "sasl.password": users["app"]}
        updates = upgrade({"group.version": 1})
        made = Admin(app).plan(updates)
        assert made.judgement == "accepted"  # the level is finalized already
        assert any("the voters are not known" in note and "CLUSTER_AUTHORIZATION" in note for note in made.notes)
        assert any("this user has no ALTER on the cluster" in note for note in made.notes)
        assert not {"voters", "ALTER"} & {*" ".join(Admin(operator).plan(updates).notes).split()}
        with pytest.raises(UpdateRefused) as caught:
            Admin(app).dry_run(updates)
        (failure,) = caught.value.outcome.failures
        assert failure.error.name == "CLUSTER_AUTHORIZATION_FAILED"
        assert failure.error.message.endswith("needs ALTER permission.")
        assert Admin(operator).dry_run(updates).done


def test_the_zookeeper_age() -> None:
    """Two brokers of 2.8: the request goes to the one that is the controller, over v0, and a downgrade does too.

    A plan does not predict a controller with ZooKeeper, and this one refuses.
    """
    unsupported = "Could not apply finalized feature update because the provided feature is not supported."
    refusals = (
        (upgrade({"group.version": 1}), unsupported),
        (downgrade({"group.version": 1}), unsupported),
        (disable("group.version"), "Can not delete non-existing finalized feature."),
    )
    with LocalKafka("2.8.2", nodes=2) as kafka:
        admin = Admin(kafka.bootstrap)
        for updates, why in refusals:
            (predicted,) = admin.plan(updates).updates
            with pytest.raises(UpdateRefused) as caught:
                admin.update(updates)
            (failure,) = caught.value.outcome.failures
            assert predicted.judgement == "unknown"
            assert (failure.error.name, failure.error.message) == ("INVALID_REQUEST", why)


@pytest.mark.proof("admin")
def test_a_controller_that_has_gone_is_not_forgotten_by_a_plan() -> None:
    """The controller refuses what the stopped one had registered, and the plan knows that it may."""
    updates = upgrade({"metadata.version": 29})
    with LocalKafka("3.9.2", controllers=4) as kafka:
        gone = kafka.controllers[-1]
        kafka.stop(gone)
        for node_id in (*kafka.controllers[:-1], *kafka.nodes):
            if node_id != gone:
                kafka.roll(node_id, "4.2.0")
        admin = Admin(kafka.bootstrap)
        with pytest.raises(UpdateRefused, match=f"Controller {gone} only supports versions 1-21"):
            admin.dry_run(updates)
        assert admin.plan(updates).judgement == "unknown"
        made = admin.plan(updates, controllers=kafka.controller_bootstrap)
    assert made.judgement == "unknown"
    assert f"controller {gone}" in made.updates[0].text
    assert "it is a voter, so start it with the new release" in made.updates[0].text
