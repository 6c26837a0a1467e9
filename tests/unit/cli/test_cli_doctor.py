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
from transcripts import sections
from trustme import CA

from featuregate.cli import plugin_loader
from featuregate.cli.commands.doctor import exit_code, to_json
from featuregate.cli.diagnosis import DoctorFinding, connections
from featuregate.cli.diagnosis.configuration import configuration_findings
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
    return DoctorFinding(severity=severity, code="c", where="w", problem="Problem.", evidence="seen", advice="do")


def codes(properties: dict[str, str]) -> list[str]:
    return [each.code for each in configuration_findings(properties, Settings.parse(properties))]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "SSL", "ssl.key.password": "x"}, []),
        ({"ssl.ca.location": "PLAIN"}, ["ssl-ignored"]),
        ({"sasl.mechanism": "PLAIN"}, ["sasl-ignored"]),
        ({"security.protocl": "SSL"}, ["misspelt-property"]),
        ({"socket.timeout.mss": "SSL"}, ["misspelt-property"]),
        ({"kafka.sasl.mechanims": "SSL", "kafka.bootstrap.servers": "h:1"}, ["misspelt-property", "sasl-ignored"]),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, ["certificate-unchecked"]),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}, ["host-unchecked"]),
        ({"featuregate.trust.shared.addresses": "true"}, ["shared-addresses-trusted"]),
    ],
)
def test_a_configuration_that_does_less_than_it_says_has_a_finding(
    properties: dict[str, str], expected: list[str]
) -> None:
    """Without a warning, TLS or a login that was meant to be on would be off in silence."""
    assert codes({"bootstrap.servers": "h:1", **properties}) == expected


@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("note",), 0), (("note", "warning"), 2), (("error",), 1), (("warning", "error"), 1)],
)
def test_exit_codes(severities: tuple[str, ...], code: int) -> None:
    """Notes do not change the exit code, and an error outweighs any warning."""
    assert exit_code([finding(severity) for severity in severities]) == code


def test_json_has_every_field() -> None:
    assert to_json([finding("note")]) == {
        "findings": [
            {"severity": "note", "code": "c", "where": "w", "problem": "Problem.", "evidence": "seen", "advice": "do"}
        ]
    }


@pytest.fixture
def authority(tmp_path: Path) -> CA:
    made = CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    return made


class Listeners:
    """What scenes ask: clusters with a listener of some kind, each as its bootstrap list."""

    def __init__(self, made: MakeCluster, authority: CA) -> None:
        self._made, self._authority = made, authority

    def plain(self, brokers: int = 1, **kept: Any) -> FakeCluster:
        return self._made(brokers, **kept)

    def tls(self, brokers: int = 1, newest: ssl.TLSVersion | None = None, **kept: Any) -> FakeCluster:
        """Return a cluster that speaks TLS; with ``newest`` it wants a certificate of its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(context)
        if newest:
            context.maximum_version, context.verify_mode = newest, ssl.CERT_REQUIRED
            self._authority.configure_trust(context)
        return self._made(brokers, tls=context, **kept)

    def http(self, cluster: FakeCluster, times: int = 1) -> str:
        for _ in range(times):
            cluster.broker(1).garbage_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return cluster.bootstrap

    def hangs(self) -> str:
        cluster = self.plain()
        cluster.broker(1).pause()
        return cluster.bootstrap

    def one_down(self) -> str:
        cluster = self.plain(3)
        cluster.broker(3).stop()
        return cluster.bootstrap

    def advertising(self, host: str) -> str:
        cluster = self.tls(2)
        cluster.broker(2).node = replace(cluster.broker(2).node, host=host)
        return cluster.broker(1).address


LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
SSL = {"security.protocol": "SSL"}
TRUST = {**SSL, "ssl.ca.location": "ca.pem"}
ADA = {"ada": "engine"}
SCENES: dict[str, tuple[Callable[[Listeners], str], dict[str, str]]] = {
    "a login is wanted": (lambda its: its.plain(passwords=ADA).bootstrap, {}),
    "a login is refused": (lambda its: its.plain(passwords=ADA).bootstrap, {**LOGIN, "sasl.password": "hunter2"}),
    "TLS to a plain listener": (lambda its: its.plain().bootstrap, SSL),
    "a protocol that there is not": (lambda its: its.plain().bootstrap, {"security.protocol": "TLS"}),
    "plain text to a TLS listener": (lambda its: its.tls().bootstrap, {}),
    "an authority that is not trusted": (lambda its: its.tls().bootstrap, SSL),
    # the listener closes the connection, so doctor requests its mechanisms
    "a login is wanted within TLS": (lambda its: its.tls(passwords=ADA).bootstrap, TRUST),
    # told by the APIs that it serves
    "a controller among brokers": (lambda its: its.plain(controllers=1).bootstrap_controllers, {}),
    "not Kafka": (lambda its: its.http(its.plain()), {}),
    # security.protocol=SSL would not help
    "not Kafka within TLS": (lambda its: its.http(its.tls(), 2), {}),
    "no answer": (lambda its: its.hangs(), {"socket.timeout.ms": "200"}),
    "a refused connection": (lambda _: "127.0.0.1:1", {}),
    # about the broker, and not about its bootstrap address too
    "a silent broker": (lambda its: its.one_down(), {}),
    "a broker advertises a name that is not in its certificate": (lambda its: its.advertising("localhost"), TRUST),
    "a broker advertises a name that does not resolve": (lambda its: its.advertising("kafka.invalid"), TRUST),
    "Event Hubs": (lambda its: its.plain(service="event-hubs").bootstrap, {}),
    "Redpanda": (lambda its: its.plain(service="redpanda").bootstrap, {}),
    "Kroxylicious": (lambda its: its.plain(service="kroxylicious").bootstrap, {}),
    "a proxy that passes DescribeCluster on": (lambda its: its.plain(3, service="kafka-proxy").bootstrap, {}),
    "two clusters in one list": (lambda its: f"{its.plain().bootstrap},{its.plain().bootstrap}", {}),
}
KEPT = sections(__file__, "doctor.txt")
SLOW = {"a silent broker", "two clusters in one list", "Event Hubs", "Redpanda", "Kroxylicious"}
SLOW |= {each for each in SCENES if "advertises" in each or "passes" in each}


@pytest.fixture
def listeners(fake_cluster: MakeCluster, authority: CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Listeners:
    monkeypatch.chdir(tmp_path)
    return Listeners(fake_cluster, authority)


def diagnose(run: Run, bootstrap: str, properties: dict[str, str]) -> list[dict[str, str]]:
    Path("client.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    ended = run("doctor", "--output", "json", "--command-config", "client.properties", "--bootstrap-server", bootstrap)
    assert "hunter2" not in ended.out + ended.err
    findings: list[dict[str, str]] = json.loads(ended.out)["findings"]
    return findings


@pytest.mark.parametrize(
    "scene", [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in SCENES]
)
def test_doctor_names_what_is_wrong_and_what_to_do(run: Run, listeners: Listeners, scene: str) -> None:
    """It tries other protocols, and never prints a password. What was seen is left out: it has words of OpenSSL."""
    arranged, properties = SCENES[scene]
    found = diagnose(run, arranged(listeners), properties)
    assert "\n".join("{severity} {code}: {problem}\n  do  {advice}".format(**each) for each in found) == KEPT[scene]


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_doctor_names_a_listener_that_wants_a_client_certificate(
    run: Run, listeners: Listeners, newest: ssl.TLSVersion
) -> None:
    """With TLS 1.3 the handshake of the client has ended before the listener misses the certificate."""
    (finding,) = diagnose(run, listeners.tls(newest=newest).bootstrap, TRUST)
    assert finding["code"] == "client-certificate"
    assert "requires a client certificate" in finding["problem"]


@pytest.mark.slow
def test_doctor_names_mixed_releases(run: Run, listeners: Listeners) -> None:
    cluster = listeners.plain(3, release="4.2", finalized={"metadata.version": 21})
    cluster.roll(2, "3.9")
    findings = {finding["code"]: finding["evidence"] for finding in diagnose(run, cluster.bootstrap, {})}
    assert findings["mixed-releases"] == f"brokers 1,3 like 4.2; broker 2 ({cluster.broker(2).address}) like 3.9"


def test_every_code_is_documented() -> None:
    """Scripts rely on the codes of that page."""
    files = [*(CLI / "diagnosis").glob("*.py"), CLI / "commands/doctor.py"]
    source = "".join(file.read_text() for file in files)
    codes = set(re.findall(r'(?:code=|ConnectionCause\(\s*|_unsafe\(\s*)"([a-z-]+)"', source))
    codes |= {code for _, _, code, *_ in connections._DIAGNOSES} | {"ssl-ignored", "sasl-ignored"}
    page = (ROOT / "docs/reference/command-line.md").read_text()
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in page} == set()


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
