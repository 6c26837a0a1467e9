"""The simulated controller with ZooKeeper answers as a real one of 2.8, which has no feature to finalize."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from asking import ask

import featuregate as fg
from featuregate.admin.updates import disable, downgrade, upgrade
from featuregate.errors import UpdateRefused
from featuregate.kafka_errors import INVALID_REQUEST
from featuregate.testing import LocalKafka
from featuregate.testing.simulator import Roll, ZooKeeper, apply, release_build
from featuregate.testing.simulator.cluster import update_features
from featuregate.testing.simulator.zookeeper.cluster import ZooKeeperCluster
from featuregate.wire.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse, UpgradeType

pytestmark = [pytest.mark.proof("simulator"), pytest.mark.live, pytest.mark.slow]

BOUND = 20.0
OLD_PROTOCOL = replace(release_build("2.8"), feature_versioning=False)
START = ZooKeeper("2.8", brokers=1, builds={"2.8-ibp-2.6": OLD_PROTOCOL})
UPDATES = [
    ("bogus", 1, False),
    ("bogus", 2, True),
    ("bogus", 0, True),
    ("bogus", -3, True),
    ("bogus", 0, False),
    ("", 1, False),
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    """Start one broker of 2.8.2, with ZooKeeper."""
    with LocalKafka("2.8.2", nodes=1) as kafka:
        yield kafka


def request_of(feature: str, level: int, *, allow_downgrade: bool) -> UpdateFeaturesRequest:
    kind = UpgradeType.SAFE_DOWNGRADE if allow_downgrade else UpgradeType.UPGRADE
    update = FeatureUpdate(feature=feature, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(updates=(update,))


def asked(kafka: LocalKafka, feature: str, level: int, *, allow_downgrade: bool) -> UpdateFeaturesResponse:
    """Return the request in v0, with its flag."""
    return ask(kafka.bootstrap, request_of(feature, level, allow_downgrade=allow_downgrade), 0, seconds=BOUND)


def compare(kafka: LocalKafka, cluster: ZooKeeperCluster) -> None:
    """Compare every answer and the broker's state with those of the simulation."""
    for feature, level, allow_downgrade in UPDATES:
        request = request_of(feature, level, allow_downgrade=allow_downgrade)
        said = update_features(cluster, request, 0).response
        real = asked(kafka, feature, level, allow_downgrade=allow_downgrade)
        assert (real.error_code, real.error_message) == (said.error_code, said.error_message)
        assert real.results == said.results
    (broker,) = fg.discover(kafka.client_config()).brokers
    tells = cluster.node_state(1)
    assert (broker.epoch, dict(broker.finalized), dict(broker.supported)) == (
        tells.epoch,
        tells.finalized,
        tells.supported,
    )


def restarted(kafka: LocalKafka, protocol: str) -> None:
    """Restart the broker with another inter-broker protocol, and wait until it is the controller again."""
    kafka.properties["inter.broker.protocol.version"] = protocol
    kafka.stop(1)
    kafka.start(1)
    end = time.monotonic() + BOUND
    while asked(kafka, "bogus", 1, allow_downgrade=False).error_code == 41:
        assert time.monotonic() < end, "no broker is the controller"


def test_kip_584_status_goes_with_the_protocol_of_a_real_controller(kafka: LocalKafka) -> None:
    """In a new cluster, a downgrade and an upgrade, epochs and answers are those of the simulation."""
    cluster = START.create()
    compare(kafka, cluster)
    for protocol, build in (("2.6", "2.8-ibp-2.6"), ("2.8", "2.8")):
        restarted(kafka, protocol)
        cluster = apply(cluster, Roll(1, build)).cluster
        compare(kafka, cluster)
    assert cluster.features.version == 2


def test_kip_584_a_plan_agrees_with_a_real_controller_with_zookeeper(kafka: LocalKafka) -> None:
    """The messages are those of the controller, and a downgrade has the flag of v0."""
    admin = fg.Admin(kafka.bootstrap)
    for updates in (upgrade({"bogus": 1}), downgrade({"bogus": 2}), disable("bogus"), disable("bogus", unsafe=True)):
        with pytest.raises(UpdateRefused) as caught:
            admin.update(updates)
        (failure,) = caught.value.outcome.failures
        (predicted,) = admin.plan(updates).updates
        assert failure.error is not None
        assert (failure.error.code, failure.error.message) == (INVALID_REQUEST, predicted.text)
        assert predicted.judgement == "refused"
