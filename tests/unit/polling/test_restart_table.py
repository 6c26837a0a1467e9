"""The table of latch stores in the page on latches: what a restart does while all brokers are down, row by row."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import update
from doc_pages import ROOT
from relay_on_socket import serving

import featuregate as fg
from featuregate.errors import RelayError
from featuregate.testing import FakeCluster, release_view
from featuregate_confluent import TopicLatchStore
from featuregate_spark.pins.pin import next_pin

BOUND = 30.0
HOUR = 3600.0
ZSTD = fg.presets.zstd


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1, release="4.2") as running:
        yield running


def goes_down(cluster: FakeCluster, latch_store: object = None) -> None:
    """Let an app latch, and then stop every broker."""
    with fg.Discoverer(cluster.bootstrap, interval=HOUR, latch_store=latch_store) as features:
        assert features.gate("zstd", ZSTD).wait(BOUND)
    cluster.broker(1).stop()


def starts_again(cluster: FakeCluster, **options: object) -> bool:
    """Say whether the gate is open in the next process, once a poll has found no broker."""
    with fg.Discoverer(cluster.bootstrap, timeout=1.0, interval=HOUR, **options) as features:
        gate = features.gate("zstd", ZSTD)
        at_once = gate.open
        with pytest.raises(fg.DiscoveryError):
            features.refresh(BOUND)
        assert gate.open is at_once
        return at_once


def a_topic(cluster: FakeCluster, _: Path) -> None:
    """Its brokers are those that are down."""
    goes_down(cluster)
    store = TopicLatchStore({"bootstrap.servers": cluster.bootstrap, "log_level": 0}, app="orders", timeout=0.2)
    assert not starts_again(cluster, latch_store=store, cluster_id=cluster.cluster_id)


def a_checkpoint(_: FakeCluster, __: Path) -> None:
    """The newest pin is that of the process before."""
    with fg.Discoverer("localhost:1", interval=HOUR) as features:
        update(features._store, release_view("4.2"))
        pin = next_pin(None, 0, release_view("4.2"), [features.gate("zstd", ZSTD)], at=1.0)
    with fg.Discoverer("localhost:1", interval=HOUR) as features:
        again = next_pin(pin, 1, None, [features.gate("zstd", ZSTD)], at=2.0)
    assert (pin.snapshot.opened, again.snapshot.opened) == ({"zstd": True}, {"zstd": True})


def a_folder(cluster: FakeCluster, folder: Path) -> None:
    """It knows the cluster that the bootstrap list led to, where the app trusts that, or the app names the cluster."""
    with fg.Discoverer(cluster.bootstrap, interval=HOUR, latch_store=folder, start_from="latch") as features:
        assert features.gate("zstd", ZSTD).wait(BOUND)
    cluster.broker(1).stop()
    assert starts_again(cluster, latch_store=folder, start_from="latch")
    assert starts_again(cluster, latch_store=folder, cluster_id=cluster.cluster_id)
    assert not starts_again(cluster, latch_store=folder)


def a_relay(cluster: FakeCluster, folder: Path) -> None:
    """A relay that has restarted, too, has latches of its folder, and no view to send them with."""
    relay = {"interval": HOUR, "timeout": 1.0, "latch_store": folder / "relay", "start_from": "latch"}
    mine = {"interval": HOUR, "latch_store": folder / "client", "start_from": "latch"}
    with fg.Discoverer(cluster.bootstrap, **relay) as features:
        gate = features.gate("zstd", ZSTD)
        assert gate.wait(BOUND)
        cluster.broker(1).stop()
        with serving({"default": features}, gate) as url, fg.Discoverer(source=fg.HttpSource(url), **mine) as client:
            assert client.gate("zstd", ZSTD).wait(BOUND)
    with fg.Discoverer(cluster.bootstrap, **relay) as features:
        gate = features.gate("zstd", ZSTD)
        assert gate.open
        with serving({"default": features}, gate) as again:
            with fg.Discoverer(source=fg.HttpSource(again), interval=HOUR) as client, pytest.raises(RelayError):
                client.refresh(BOUND)
            assert not client.gate("zstd", ZSTD).open
    with fg.Discoverer(source=fg.HttpSource(url), **mine) as client:
        assert client.gate("zstd", ZSTD).open


ROWS: dict[str, Callable[[FakeCluster, Path], None]] = {
    "confluent-kafka": a_topic,
    "PySpark": a_checkpoint,
    "the core alone": a_folder,
    "`HttpSource`": a_relay,
}


def test_each_row_of_the_page_is_run() -> None:
    page = (ROOT / "docs" / "how-to" / "keep-latches.md").read_text()
    table = page.partition("## Which latch store\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:] == list(ROWS)


@pytest.mark.parametrize("app", ROWS)
def test_a_restart_while_all_brokers_are_down(app: str, cluster: FakeCluster, tmp_path: Path) -> None:
    ROWS[app](cluster, tmp_path)
