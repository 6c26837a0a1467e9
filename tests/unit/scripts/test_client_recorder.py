"""The recorder of clients passes bytes on, and keeps what a client requested."""

import gc
import socket
from contextlib import contextmanager
from types import SimpleNamespace

import client_recorder
import client_table
import pytest
from client_offers import OFFERS
from raw_client import API_VERSIONS, RawClient
from waiting import BOUND

import featuregate as fg
from featuregate.catalog import captured_as
from featuregate.testing import FakeCluster
from featuregate.wire.metadata import MetadataRequest


@contextmanager
def offering(name: str, release: str):
    recorder = client_recorder.Recorder()
    with FakeCluster(1, release=release) as cluster:
        port = recorder.listen(lambda: cluster.brokers[0].port, OFFERS[name])
        try:
            with RawClient(SimpleNamespace(host="127.0.0.1", port=port), timeout=BOUND) as client:
                yield client
        finally:
            recorder.close()


def test_the_recorder_keeps_requests_and_software_by_client_id():
    """The broker sees the same connection as without it, and may name its own port in the metadata."""
    recorder = client_recorder.Recorder()
    try:
        with FakeCluster(1, release="4.2") as cluster:
            port = recorder.listen(lambda: int(cluster.bootstrap.rpartition(":")[2]))
            view = fg.discover({"bootstrap.servers": f"127.0.0.1:{port}", "client.id": "recorded"})
            assert view.api("Fetch") is not None
        ((name, version),) = recorder.software["recorded"]
        assert (name, version) == ("featuregate", fg.__version__)
        assert 18 in {key for key, _ in recorder.sent["recorded"]}
    finally:
        recorder.close()


@pytest.mark.parametrize("gone", range(4))
def test_the_recorder_leaves_no_connection_open(gone: int):
    """Clients come and go while it is closed: what is left open warns when it is collected, in any later test."""
    with FakeCluster(1, release="4.2") as cluster:
        for _ in range(20):
            recorder = client_recorder.Recorder()
            port = recorder.listen(lambda: cluster.brokers[0].port)
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            for client in clients[:gone]:
                client.close()
            recorder.close()
            for client in clients:
                client.close()
    gc.collect()


def test_tokens_without_a_header_are_no_requests():
    """After SaslHandshake 0 a token of SASL is a bare frame."""
    recorder = client_recorder.Recorder()
    for token in (b"\0user\0secret-password", b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", b""):
        recorder._record(token)
    assert not recorder.sent
    recorder.close()


def test_errors_lose_what_differs_from_run_to_run():
    """A run that sees the same writes the same table."""
    text = "sasl_plaintext://127.0.0.1:45678/bootstrap: failed after 1023ms in state AUTH"
    assert client_table.shortened(text) == "sasl_plaintext://BROKER: failed after Nms in state AUTH"
    assert len(client_table.shortened("x" * 500)) == client_table.LONGEST


def test_a_check_names_steps_and_versions_that_differ():
    """The text of an error may change."""

    def row(**changed):
        steps = {"produce": "works", "consume": {"why": "timed out"}} | changed.pop("steps", {})
        return {"c==1": {"brokers": {"4.2.0": {"sends": {"1": [11]} | changed, "steps": steps}}}}

    assert list(client_table.differences(row(), row(steps={"consume": {"why": "no"}}))) == []
    assert list(client_table.differences(row(), row(steps={"consume": "works"}))) == [
        "c==1 on Kafka 4.2.0: consume works, in the table fails"
    ]
    assert list(client_table.differences({}, row())) == ["c==1 on Kafka 4.2.0 is not in the table"]
    assert list(client_table.differences(row(), row(**{"12": [3]}))) == []  # a heartbeat
    assert "sends API 1 [12], in the table [11]" in next(client_table.differences(row(), row(**{"1": [12]})))


def test_a_run_of_some_steps_keeps_what_is_known_of_the_others():
    """A run of all steps stands for itself."""

    def row(**on):
        return {"c==1": {"software": [], "brokers": {"4.2.0": on}}}

    known = {"sends": {"0": [9], "18": [3]}, "steps": {"produce": "works", "consume": "fails"}}
    some = {"sends": {"0": [9, 10], "17": [1]}, "steps": {"consume": "works"}}
    (found,) = client_table.merged(row(**known), row(**some))["c==1"]["brokers"].values()
    assert found == {"sends": {"0": [9, 10], "17": [1], "18": [3]}, "steps": {"produce": "works", "consume": "works"}}
    whole = {"sends": {"0": [11]}, "steps": {"produce": "works", "consume": "works"}}
    assert client_table.merged(row(**known), row(**whole))["c==1"]["brokers"]["4.2.0"] == whole


def test_pins_are_measured_alone_and_checked():
    """The rest of the row stays as it was."""
    table = {"c==1": {"software": [], "brokers": {}, "pins": {"3.9.2": "0.10.0"}}}
    pins = {"c==1": {"pins": {"4.2.0": "0.11"}}}
    assert list(client_table.differences(table, pins)) == [
        "c==1 on Kafka 4.2.0: works with api_version 0.11, in the table None"
    ]
    assert client_table.merged(table, pins)["c==1"]["pins"] == {"3.9.2": "0.10.0", "4.2.0": "0.11"}


@pytest.mark.parametrize("release", ["0.11.0", "2.8", "3.9", "4.4"])
@pytest.mark.parametrize(("name", "end"), [("newest", 1), ("oldest", 0)])
def test_a_broker_offers_one_version_of_each_api(name: str, end: int, release: str):
    """In each version of ApiVersions that the broker answers, also where it answers with error 35."""
    served = captured_as(release).apis
    wanted = {key: each if key == 18 else (each[end], each[end]) for key, each in served.items()}
    if name == "oldest":
        wanted |= {8: (max(1, served[8][0]),) * 2, 9: (max(1, served[9][0]),) * 2}  # 0 is about ZooKeeper
    for version in (0, 3, 4, 5):
        with offering(name, release) as client:
            answered_in = version if version <= served[18][1] else 0
            found = client.ask(API_VERSIONS, version, answered_in)
            assert found.error_code == (0 if answered_in == version else 35)
            assert found.api_ranges.items() <= wanted.items()
            assert found.error_code or found.api_ranges == wanted


def test_other_answers_pass_unchanged():
    """Only ApiVersions is another one, however often it is asked."""
    with offering("oldest", "4.2") as client:
        for _ in range(2):
            assert client.ask(API_VERSIONS, 3).api_ranges[3] == (0, 0)
            assert len(client.ask(MetadataRequest(), 12).brokers) == 1


def test_a_broker_before_api_versions_closes_the_connection():
    """As Kafka 0.9 does with an API that it does not know. It answers others."""
    with offering("none", "3.9") as client, pytest.raises(ConnectionError):
        client.ask(API_VERSIONS, 0)
    with offering("none", "3.9") as client:
        assert client.ask(MetadataRequest(), 1).brokers


def test_offers_are_measured_alone_and_checked(tmp_path):
    """The rest of the row stays as it was, and the file has a line for each offer, with what differs from the last."""
    seen = {"release": "3.9.2", "sends": {"0": [0]}, "steps": {"produce": "works"}}
    row = {"seen": "2026-11-27", "how": "wheel", "bundles": {}, "software": [], "brokers": {"4.2.0": seen}}
    offers = {"c==1": {"offers": {"oldest": seen, "newest": {**seen, "sends": {"0": [13]}}}}}
    table = {"c==1": row}
    assert list(client_table.differences(table, offers)) == [
        "c==1 where oldest versions are offered is not in the table",
        "c==1 where newest versions are offered is not in the table",
    ]
    path = tmp_path / "clients.json"
    client_table.write(path, client_table.merged(table, offers))
    assert path.read_text().count('"release"') == 2  # of the broker, and of the first offer
    (found,) = client_table.read(path).values()
    assert list(found["offers"]) == ["newest", "oldest"]
    assert found == row | {"offers": offers["c==1"]["offers"]}
    assert list(client_table.differences({"c==1": found}, offers)) == []


@pytest.mark.parametrize(
    ("offer", "release", "version", "refused"),
    [
        (None, "4.2.0", 0, True),
        (None, "3.9.2", 0, False),
        ("oldest", "3.9.2", 0, False),
        ("oldest", "3.9.2", 1, True),
        ("newest", "4.4.0", 12, True),
        ("none", "3.9.2", 1, False),
    ],
)
def test_what_is_not_offered_is_refused(offer: str | None, release: str, version: int, *, refused: bool):
    """The requests are of Produce. A broker that offers nothing does not say what it refuses."""
    broker = SimpleNamespace(release=release, offer=OFFERS[offer] if offer else None)
    assert client_table.is_refused(broker, 0, version) is refused
