"""The recorder of clients passes bytes on, and keeps what a client requested."""

from __future__ import annotations

import client_recorder
import client_table

import featuregate as fg
from featuregate.testing import FakeCluster


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


def test_tokens_without_a_header_are_no_requests():
    """After SaslHandshake 0 a token of SASL is a bare frame."""
    recorder = client_recorder.Recorder()
    for token in (b"\0user\0secret-password", b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", b""):
        recorder._record(token)
    assert not recorder.sent
    recorder.close()


def test_errors_lose_what_differs_from_run_to_run():
    """So a run that sees the same writes the same table."""
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
    assert found == {
        "sends": {"0": [9, 10], "17": [1], "18": [3]},
        "steps": {"produce": "works", "consume": "works"},
    }
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
