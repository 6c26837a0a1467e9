"""``doctor``: its output, its exit codes, and its findings about fake clusters."""

from __future__ import annotations

import json
import re
import ssl
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from trustme import CA

from featuregate.cli import plugin_loader
from featuregate.cli.commands.doctor import exit_code, to_json, to_text
from featuregate.cli.diagnosis.configuration import configuration_findings
from featuregate.cli.diagnosis.findings import DoctorFinding
from featuregate.cli.exit_codes import USAGE
from featuregate.config import Settings
from featuregate.testing import FakeCluster
from featuregate.version import how_to_install

if TYPE_CHECKING:
    from conftest import Run

    MakeCluster = Callable[..., FakeCluster]

ROOT = Path(__file__).parents[3]
CLI = ROOT / "featuregate" / "cli"


def finding(severity) -> DoctorFinding:
    """Return a finding of this severity."""
    return DoctorFinding(severity=severity, code="c", where="w", problem="Problem.", evidence="seen", advice="do")


def codes(properties: dict[str, str]) -> list[str]:
    """Return the codes of the findings about a configuration."""
    return [each.code for each in configuration_findings(properties, Settings.parse(properties))]


def test_a_consistent_configuration_has_no_finding() -> None:
    """An example is TLS with the password of a key."""
    assert codes({"bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.key.password": "x"}) == []


@pytest.mark.parametrize(("name", "code"), [("ssl.ca.location", "ssl-ignored"), ("sasl.mechanism", "sasl-ignored")])
def test_settings_without_effect_are_a_warning(name: str, code: str) -> None:
    """An example is a TLS property without security.protocol."""
    assert codes({"bootstrap.servers": "h:1", name: "PLAIN"}) == [code]


@pytest.mark.parametrize("name", ["security.protocl", "kafka.sasl.mechanims", "socket.timeout.mss"])
def test_a_misspelt_property_is_a_warning(name: str) -> None:
    """Without it, TLS or a login that was meant to be on would be off in silence."""
    prefix = "kafka." if name.startswith("kafka.") else ""
    assert "misspelt-property" in codes({f"{prefix}bootstrap.servers": "h:1", name: "SSL"})


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("enable.ssl.certificate.verification", "false", "certificate-unchecked"),
        ("ssl.endpoint.identification.algorithm", "none", "host-unchecked"),
    ],
)
def test_tls_without_a_check_is_a_warning(name: str, value: str, code: str) -> None:
    """An attacker between client and broker can answer."""
    assert codes({"bootstrap.servers": "h:1", "security.protocol": "SSL", name: value}) == [code]


def test_trust_in_shared_addresses_is_a_note() -> None:
    """It is right behind a proxy that answers for all brokers, and wrong behind a balancer."""
    properties = {"bootstrap.servers": "h:1", "featuregate.trust.shared.addresses": "true"}
    assert codes(properties) == ["shared-addresses-trusted"]


@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("note",), 0), (("note", "warning"), 2), (("error",), 1), (("warning", "error"), 1)],
)
def test_exit_codes(severities: tuple[str, ...], code: int) -> None:
    """Notes do not change the exit code, and an error outweighs any warning."""
    assert exit_code([finding(severity) for severity in severities]) == code


def test_text_has_problem_evidence_and_advice() -> None:
    """The text also has the number of findings."""
    assert to_text([finding("error"), finding("note")]) == (
        "error: w: Problem.\n  seen  seen\n  do    do\n\nnote: w: Problem.\n  seen  seen\n  do    do\n\n1 error, 1 note"
    )


def test_no_finding_is_printed_too() -> None:
    """An operator might take empty output for a failure."""
    assert to_text([]) == "nothing is wrong"


def test_json_has_every_field() -> None:
    """Scripts read the JSON."""
    assert to_json([finding("note")]) == {
        "findings": [
            {"severity": "note", "code": "c", "where": "w", "problem": "Problem.", "evidence": "seen", "advice": "do"}
        ]
    }


def diagnose(run: Run, tmp_path: Path, bootstrap: str, **properties: str) -> list[dict[str, str]]:
    """Run doctor with these properties, and return its findings."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
    ended = run("doctor", "--output", "json", "--command-config", str(file), "--bootstrap-server", bootstrap)
    assert "hunter2" not in ended.out + ended.err
    findings: list[dict[str, str]] = json.loads(ended.out)["findings"]
    return findings


@pytest.fixture
def authority(tmp_path: Path) -> CA:
    """Return a certificate authority whose certificate is in ``ca.pem``."""
    made = CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made


def server_tls(authority: CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("cluster", "properties", "code", "advice"),
    [
        ({"passwords": {"u": "p"}}, {}, "listener-requires-sasl", "one of PLAIN"),
        (
            {"passwords": {"u": "p"}},
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_username": "u",
                "sasl_password": "hunter2",
            },
            "authentication",
            "check sasl.mechanism",
        ),
        ({}, {"security_protocol": "SSL"}, "listener-speaks-plaintext", "set security.protocol to PLAINTEXT"),
        ({}, {"security_protocol": "TLS"}, "configuration", "the page Configuration"),
    ],
)
def test_doctor_names_the_problem_of_a_listener(
    run: Run,
    tmp_path: Path,
    fake_cluster: MakeCluster,
    cluster: dict[str, Any],
    properties: dict[str, str],
    code: str,
    advice: str,
) -> None:
    """It tries other protocols, and never prints a password."""
    findings = diagnose(run, tmp_path, fake_cluster(1, **cluster).bootstrap, **properties)
    (finding,) = (each for each in findings if each["code"] != "credentials-in-clear")
    assert (finding["severity"], finding["code"]) == ("error", code)
    assert advice in finding["advice"]


@pytest.mark.parametrize(
    ("properties", "passwords", "code", "advice"),
    [
        ({}, None, "listener-speaks-tls", "set security.protocol to SSL"),
        ({"security_protocol": "SSL"}, None, "tls", "ssl.ca.location"),
        (
            {"security_protocol": "SSL", "ssl_ca_location": "ca.pem"},
            {"ada": "engine"},
            "listener-requires-sasl",
            "set security.protocol to SASL_SSL, and sasl.mechanism to one of PLAIN",
        ),
    ],
)
def test_doctor_names_the_problem_of_a_tls_listener(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_cluster: MakeCluster,
    authority: CA,
    properties: dict[str, str],
    passwords: dict[str, str] | None,
    code: str,
    advice: str,
) -> None:
    """A TLS listener that requires authentication closes the connection, so doctor requests its mechanisms."""
    monkeypatch.chdir(tmp_path)
    cluster = fake_cluster(1, tls=server_tls(authority), passwords=passwords)
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap, **properties)
    assert finding["code"] == code
    assert advice in finding["advice"]


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_doctor_names_a_listener_that_wants_a_client_certificate(
    run: Run, tmp_path: Path, fake_cluster: MakeCluster, authority: CA, newest: ssl.TLSVersion
) -> None:
    """With TLS 1.3 the handshake of the client has ended before the listener misses the certificate."""
    context = server_tls(authority)
    context.maximum_version, context.verify_mode = newest, ssl.CERT_REQUIRED
    authority.configure_trust(context)
    cluster = fake_cluster(1, tls=context)
    trust = str(tmp_path / "ca.pem")
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap, security_protocol="SSL", ssl_ca_location=trust)
    assert finding["code"] == "client-certificate"
    assert "requires a client certificate" in finding["problem"]


def test_doctor_names_a_controller_among_brokers(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """The command recognises a controller by the APIs that it serves."""
    cluster = fake_cluster(1, controllers=1)
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap_controllers)
    assert finding["code"] == "wrong-endpoint"


def test_doctor_names_a_listener_that_is_not_kafka(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """A web server answers with text."""
    cluster = fake_cluster(1)
    cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap)
    assert finding["code"] == "not-kafka"


def test_doctor_names_a_listener_that_speaks_http_over_tls(
    run: Run, tmp_path: Path, fake_cluster: MakeCluster, authority: CA
) -> None:
    """It speaks TLS, and security.protocol=SSL would not help."""
    cluster = fake_cluster(1, tls=server_tls(authority))
    for _ in range(2):
        cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap)
    assert (finding["code"], finding["advice"]) == ("not-kafka", "check the port")


def test_doctor_names_a_listener_that_does_not_answer(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """The listener answers none of the protocols that the command tries."""
    cluster = fake_cluster(1)
    cluster.broker(1).pause()
    (finding,) = diagnose(run, tmp_path, cluster.bootstrap, socket_timeout_ms="200")
    assert finding["code"] == "silent"


def test_doctor_names_an_address_that_refuses_connections(run: Run) -> None:
    """The text has the finding first."""
    ended = run("doctor", "--bootstrap-server", "127.0.0.1:1")
    assert ended.code == 1
    assert ended.out.startswith("error: 127.0.0.1:1: The connection is refused.")


@pytest.mark.slow
def test_doctor_names_mixed_releases(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """The finding lists the brokers of each release."""
    cluster = fake_cluster(3, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    findings = {finding["code"]: finding["evidence"] for finding in diagnose(run, tmp_path, cluster.bootstrap)}
    assert findings["mixed-releases"] == f"brokers 1,3 like 4.2; broker 2 ({cluster.broker(2).address}) like 3.9"


@pytest.mark.slow
def test_doctor_reports_a_silent_broker_once(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """The finding is about the broker, and there is none about its bootstrap address."""
    cluster = fake_cluster(3)
    cluster.broker(3).stop()
    findings = diagnose(run, tmp_path, cluster.bootstrap)
    of_cluster = [finding["code"] for finding in findings if not finding["code"].startswith("client-")]
    assert of_cluster == ["broker-silent", "epoch-frozen"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "advice"),
    [("localhost", "issue a certificate for 'localhost'"), ("kafka.invalid", "make 'kafka.invalid' resolve")],
)
def test_doctor_names_a_broker_that_advertises_a_wrong_name(
    run: Run, tmp_path: Path, fake_cluster: MakeCluster, authority: CA, host: str, advice: str
) -> None:
    """The name is not in the certificate of the broker, or it does not resolve."""
    cluster = fake_cluster(2, tls=server_tls(authority))
    broker = cluster.broker(2)
    broker.node = replace(broker.node, host=host)
    tls = {"security_protocol": "SSL", "ssl_ca_location": str(tmp_path / "ca.pem")}
    findings = {finding["code"]: finding for finding in diagnose(run, tmp_path, cluster.broker(1).address, **tls)}
    assert advice in findings["broker-silent"]["advice"]


@pytest.mark.slow
def test_doctor_names_two_clusters_in_one_list(run: Run, tmp_path: Path, fake_cluster: MakeCluster) -> None:
    """The command asks each address on its own."""
    bootstrap = f"{fake_cluster(1).bootstrap},{fake_cluster(1).bootstrap}"
    assert "two-clusters" in {finding["code"] for finding in diagnose(run, tmp_path, bootstrap)}


def test_every_code_is_documented() -> None:
    """Scripts rely on the codes of that page."""
    files = [*(CLI / "diagnosis").glob("*.py"), CLI / "commands/doctor.py"]
    source = "".join(file.read_text() for file in files)
    codes = set(re.findall(r'(?:code=|_Diagnosis\(\s*|_unsafe\(\s*)"([a-z-]+)"', source)) | {
        "ssl-ignored",
        "sasl-ignored",
    }
    page = (ROOT / "docs/reference/command-line.md").read_text()
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_doctor_names_addresses_that_the_cluster_advertises_and_no_client_reaches(
    run: Run, fake_cluster: MakeCluster
) -> None:
    """A broker in a container that advertises its name there, the best-known problem of beginners."""
    kafka = fake_cluster(1)
    bootstrap = kafka.bootstrap
    kafka.broker(1).node = replace(kafka.broker(1).node, host="kafka.invalid")
    ended = run("doctor", "--bootstrap-server", bootstrap)
    assert "No broker answers at the address that the cluster advertises for it." in ended.out
    assert f"{bootstrap} answered, and lists these addresses: set advertised.listeners" in ended.out
    checked = run("check", "kip447", "--bootstrap-server", bootstrap)
    assert f"{bootstrap} answered, and lists these addresses: set advertised.listeners" in checked.out
    described = run("describe", "--bootstrap-server", bootstrap)
    assert f"{bootstrap} answered, and lists these addresses: set advertised.listeners" in described.err


def test_doctor_without_the_pyspark_side_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--spark`` needs no cluster."""
    monkeypatch.setattr(plugin_loader, "DIAGNOSES", "featuregate.no.such.group")
    ended = run("doctor", "--spark")
    assert ended.code == USAGE
    assert "pip install '.[spark]'" in ended.err


def test_doctor_without_pyspark_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel has the diagnosis in any case; PySpark comes with the extra."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    ended = run("doctor", "--spark")
    assert ended.code == USAGE
    assert ended.err == f"featuregate: --spark needs the PySpark side: {how_to_install('spark')}\n"
