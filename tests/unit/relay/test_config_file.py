"""The TOML file of a relay: several clusters, and one line for each mistake."""

import json
import re
from pathlib import Path

import pytest
import requests
from doc_pages import ROOT
from relay_on_socket import served
from transcripts import sections
from waiting import eventually

import featuregate as fg
from featuregate.cli import main
from featuregate.config import Address, Settings
from featuregate.testing import FakeCluster
from featuregate_relay.access.authentication import DEFAULT_RATE
from featuregate_relay.config.access import ClientTable, TlsTable
from featuregate_relay.config.addresses import ListenAddress
from featuregate_relay.config.relay import ClusterTable, ConfigMistakes, RelayConfig, read_config
from featuregate_relay.config.tables import Table

BOUND = 60.0


def mistakes(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "relay.toml"
    file.write_text(text)
    with pytest.raises(ConfigMistakes) as caught:
        read_config(file).discoverers()
    return caught.value.lines


MISTAKES = sections(__file__, "mistakes.txt")


@pytest.mark.parametrize("scene", MISTAKES)
def test_each_mistake_is_a_line_with_its_place(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line shows a value, which may be a password, and no broker is asked."""
    monkeypatch.chdir(tmp_path)
    text, *_ = MISTAKES[scene].split("\n! ")
    Path("relay.toml").write_text(text, encoding="utf-8")
    assert main(["serve", "--config", "relay.toml", "--check-config"]) == 64
    said = capsys.readouterr().err.replace("featuregate: relay.toml: ", "! ")
    assert f"{text}\n{said.strip()}" == MISTAKES[scene]


@pytest.mark.parametrize("text", ["[clusters", "a = " + "[" * 100_000, "a = " + "{b = " * 100_000])
def test_what_is_no_toml_is_one_line(tmp_path: Path, text: str) -> None:
    """However deep it is."""
    (found,) = mistakes(tmp_path, text)
    assert found.startswith("is not TOML: ")


def test_a_file_names_clusters_with_connections_gates_and_latches(tmp_path: Path) -> None:
    """Paths are relative to the file. Names of properties need no quotes."""
    (tmp_path / "client.properties").write_text("bootstrap.servers=a:1\nsecurity.protocol=SSL\n")
    file = tmp_path / "relay.toml"
    file.write_text("""
        listen = "[::1]:9080"
        [clusters.orders]
        command-config = "client.properties"
        latches = "latches"
        interval = 15
        [clusters.orders.gates]
        new-groups = "kip848"
        [clusters.payments]
        properties.bootstrap.servers = "b:1"
        properties.enable.something = true
        broker-list = "bootstrap"
        cluster-id = "payments"
    """)
    config = read_config(file)
    assert config.listen == ListenAddress("::1", 9080)
    orders, payments = config.clusters["orders"], config.clusters["payments"]
    assert (orders.latches, orders.gates) == (tmp_path / "latches", {"new-groups": fg.presets.kip848})
    assert payments.properties == {"bootstrap.servers": "b:1", "enable.something": "true"}
    assert list(config.discoverers()) == ["orders", "payments"]


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list", "kafka.bootstrap.servers"])
@pytest.mark.parametrize("prefix", ["", "kafka.", "Kafka."])
def test_properties_of_the_table_win_in_any_spelling(tmp_path: Path, name: str, prefix: str) -> None:
    """Where names begin with ``kafka.``, only such names are read, and the relay would ask the cluster of the file."""
    (tmp_path / "c.properties").write_text(f"{prefix}bootstrap.servers=a:1\n{prefix}client.id=x\n")
    file = tmp_path / "relay.toml"
    file.write_text(f'[clusters.orders]\ncommand-config = "c.properties"\nproperties.{name} = "b:1"\n')
    (cluster,) = read_config(file).clusters.values()
    found = Settings.parse(cluster.told())
    assert (found.bootstrap, found.client_id) == ((Address("b", 1),), "x")


def test_a_cluster_holds_gates_of_the_relay_and_of_its_clients(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text("""
        [clusters.orders]
        properties.bootstrap.servers = "a:1"
        [clusters.orders.hold]
        eos-v2 = "INC-12"
    """)
    features = read_config(file).discoverers()["orders"]
    features._store.add_gate("eos-v2", lambda: fg.Gate("eos-v2", fg.presets.kip447, policy="sticky", owner=features))
    assert features.holds == (("eos-v2", "INC-12", "the configuration"),)


def test_a_cluster_need_not_keep_the_connections_of_its_polls(tmp_path: Path) -> None:
    """Where a limit on connections matters more than the processors of brokers."""
    file = tmp_path / "relay.toml"
    with FakeCluster(2) as brokers:
        file.write_text(f"""
            [clusters.orders]
            properties.bootstrap.servers = "{brokers.bootstrap}"
            keep-connections = false
        """)
        with read_config(file).discoverers()["orders"] as features:
            assert features.wait(BOUND)
            eventually(lambda: not any(broker.listener.connections for broker in brokers.brokers))


SECTIONS: dict[str, type[Table]] = {
    "At the top": RelayConfig,
    "`[clusters.NAME]`": ClusterTable,
    "`[clients.NAME]`": ClientTable,
    "`[tls]`": TlsTable,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_key_is_on_the_page_of_the_configuration(section: str) -> None:
    """And no other. Tables have sections of their own."""
    keys = {name.replace("_", "-") for name in SECTIONS[section].model_fields}
    tables = {"clusters", "clients", "tls"} if section == "At the top" else set()
    assert set(defaults(section)) == keys - tables


def defaults(section: str) -> dict[str, str]:
    text = (ROOT / "docs/reference/configuration.md").read_text().partition(f"### {section}\n")[2]
    return dict(re.findall(r"^\| `([a-z-]+)` \| .* \| ([^|]+) \|$", re.split("\n##+ ", text)[0], re.MULTILINE))


SAID_BY_OTHERS = {"timeout": Settings.parse("a:1").total_timeout, "requests-per-second": DEFAULT_RATE}
"""The defaults of keys that leave them to another part of the relay."""


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_of_the_configuration_says_the_defaults(section: str) -> None:
    """Each key that may be left out shows its value, the address too; the others say that they are needed."""
    fields = {name.replace("_", "-"): field for name, field in SECTIONS[section].model_fields.items()}
    for key, told in defaults(section).items():
        default = None if fields[key].is_required() else fields[key].get_default(call_default_factory=True)
        value = SAID_BY_OTHERS.get(key, default)
        assert fields[key].is_required() == (told == "needed"), key
        if value or told[0] in "`0123456789":
            said = told.strip("`").replace(",", "") if isinstance(value, float) else told.strip("`")
            assert said == (f"{value:g}" if isinstance(value, float) else json.dumps(spelled(value))), key


def spelled(value: object) -> object:
    if isinstance(value, bool):
        return value
    return list(value) if isinstance(value, tuple) and not isinstance(value, ListenAddress) else str(value)


def test_several_clusters_are_served_by_one_process(tmp_path: Path) -> None:
    """Not ready until each of them can be evaluated; each has its own flags and state."""
    file = tmp_path / "relay.toml"
    with FakeCluster(1) as orders, FakeCluster(1, release="3.9") as payments:
        payments.broker(1).stop()
        file.write_text(f"""
            listen = "127.0.0.1:0"
            [clusters.orders]
            properties.bootstrap.servers = "{orders.bootstrap}"
            gates.groups = "kip848"
            [clusters.payments]
            properties.bootstrap.servers = "{payments.bootstrap}"
            interval = 0.2
            gates.groups = "kip848"
        """)
        with served("--config", str(file)) as relay:
            url = relay.url
            assert "serving clusters orders, payments at " in relay.said
            view = f"{url}/v1/clusters/orders/view"
            eventually(lambda: requests.get(view, timeout=BOUND).status_code == 200)
            ready = requests.get(f"{url}/readyz", timeout=BOUND)
            assert ready.status_code == 503
            waiting = ready.json()["clusters"]["payments"]
            assert waiting["status"] != "ok"
            assert waiting["since"].startswith("20")
            eventually(lambda: "refused" in str(health(url)["payments"]["last_error"]))
            payments.broker(1).start()
            eventually(lambda: requests.get(f"{url}/readyz", timeout=BOUND).status_code == 200)
            for name, opened in (("orders", True), ("payments", False)):
                flag = f"{url}/v1/clusters/{name}/ofrep/v1/evaluate/flags/groups"
                assert requests.post(flag, json={}, timeout=BOUND).json()["value"] is opened
            # The path names no cluster, and the relay serves two.
            assert requests.post(f"{url}/ofrep/v1/evaluate/flags", json={}, timeout=BOUND).status_code == 404
            relay.process.terminate()
            assert relay.process.wait(BOUND) == 0


def health(url: str) -> dict[str, dict[str, object]]:
    return requests.get(f"{url}/v1/clusters", timeout=BOUND).json()["clusters"]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Editors of Windows write one."""
    file = tmp_path / "relay.toml"
    file.write_text("clusters.a.properties.bootstrap.servers = 'b\u00fccher:1'\n", "utf-8-sig")
    assert read_config(file).clusters["a"].properties == {"bootstrap.servers": "b\u00fccher:1"}


def test_a_relay_replaces_placeholders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider may be in the file of properties, and the placeholder in either file."""
    monkeypatch.setenv("HOSTS_OF_KAFKA", "a:1")
    monkeypatch.setenv("FEATUREGATE_CONFIG_ALLOWS", "env:HOSTS_OF_KAFKA")
    (tmp_path / "client.properties").write_text(
        "config.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    )
    file = tmp_path / "relay.toml"
    text = "[clusters.a]\nproperties.bootstrap.servers = '${env:HOSTS_OF_KAFKA}'\n"
    file.write_text(f"{text}command-config = 'client.properties'\n")
    assert list(read_config(file).discoverers()) == ["a"]
    assert "set config.providers=env" in mistakes(tmp_path, text)[0]
