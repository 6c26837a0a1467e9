"""Fake brokers of a release report what a new cluster of this release reports."""

from collections.abc import Callable

import pytest

import featuregate as fg
from featuregate.testing import LocalKafka, release_view
from featuregate.testing.plugin import MakeFakeCluster

pytestmark = pytest.mark.live


def told(view: fg.View) -> tuple[object, ...]:
    """Return what the first broker reports, without time and address."""
    broker = view.brokers[0]
    return broker.api_ranges, broker.supported, broker.finalized, broker.epoch >= 0, broker.asked_version


@pytest.mark.parametrize(
    "version", ["2.4.1", pytest.param("2.8.2", marks=pytest.mark.proof("testing")), "3.9.2", "4.2.0"]
)
def test_fake_brokers_tell_what_real_ones_tell(
    shared_kafka: Callable[[str], LocalKafka], fake_cluster: MakeFakeCluster, version: str
) -> None:
    """API ranges, supported and finalized levels and whether there is an epoch, from the sockets and from the view."""
    real = told(fg.discover(shared_kafka(version).client_config()))
    assert told(fg.discover(fake_cluster(1, release=version).bootstrap)) == real
    assert told(release_view(version)) == real
