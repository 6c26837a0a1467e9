"""``doctor``: configuration, words and exit codes."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from featuregate.cli.commands.doctor import exit_code, to_json, to_text
from featuregate.cli.diagnosis.configuration import configuration_findings
from featuregate.cli.diagnosis.findings import Finding
from featuregate.config import Settings
from featuregate.testing import FakeCluster

if TYPE_CHECKING:
    from conftest import Run

ROOT = Path(__file__).parents[3]
CLI = ROOT / "featuregate" / "cli"


def finding(severity) -> Finding:
    """Make one of this severity."""
    return Finding(severity=severity, code="c", where="w", problem="Problem.", evidence="seen", advice="do")


def codes(properties: dict[str, str]) -> list[str]:
    """Judge a configuration."""
    return [each.code for each in configuration_findings(properties, Settings.parse(properties))]


def test_settings_that_fit_are_fine() -> None:
    """Nothing to say."""
    assert codes({"bootstrap.servers": "h:1", "security.protocol": "SSL", "ssl.key.password": "x"}) == []


@pytest.mark.parametrize(("name", "code"), [("ssl.ca.location", "ssl-ignored"), ("sasl.mechanism", "sasl-ignored")])
def test_settings_without_effect_are_a_warning(name: str, code: str) -> None:
    """Somebody forgot security.protocol."""
    assert codes({"bootstrap.servers": "h:1", name: "PLAIN"}) == [code]


def test_unchecked_certificates_are_a_warning() -> None:
    """Whoever is in between can answer."""
    properties = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "enable.ssl.certificate.verification": "false",
    }
    assert codes(properties) == ["certificate-unchecked"]


def test_unchecked_host_names_are_a_warning() -> None:
    """Any trusted certificate will do then."""
    properties = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert codes(properties) == ["host-unchecked"]


@pytest.mark.parametrize(
    ("severities", "code"),
    [((), 0), (("note",), 0), (("note", "warning"), 2), (("error",), 1), (("warning", "error"), 1)],
)
def test_exit_codes(severities: tuple[str, ...], code: int) -> None:
    """A note is nothing wrong, and an error outdoes any warning."""
    assert exit_code([finding(severity) for severity in severities]) == code


def test_text_says_what_and_why_and_what_to_do() -> None:
    """The whole of a small one."""
    assert to_text([finding("error"), finding("note")]) == (
        "error: w: Problem.\n  seen  seen\n  do    do\n\nnote: w: Problem.\n  seen  seen\n  do    do\n\n1 error, 1 note"
    )


def test_a_tls_listener_that_wants_authentication_is_named(run: Run, tmp_path: Path) -> None:
    """It closes the connection without a word, so doctor asks which mechanisms it enables."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.ca.location={tmp_path / 'ca.pem'}\n")
    with FakeCluster(1, tls=tls, passwords={"ada": "engine"}) as cluster:
        ended = run("doctor", "--bootstrap-server", cluster.bootstrap, "--command-config", str(file))
    assert ended.code == 1
    assert "set security.protocol to SASL_SSL, and sasl.mechanism to one of PLAIN" in ended.out


def test_no_finding_is_said() -> None:
    """Silence might be a failure."""
    assert to_text([]) == "nothing is wrong"


def test_json_has_every_field() -> None:
    """For programs."""
    assert to_json([finding("note")]) == {
        "findings": [
            {"severity": "note", "code": "c", "where": "w", "problem": "Problem.", "evidence": "seen", "advice": "do"}
        ]
    }


def test_a_wrong_value_is_a_finding(run: Run, tmp_path: Path) -> None:
    """Doctor is for configurations that do not work."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    ended = run("doctor", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file))
    assert ended.code == 1
    assert ended.out.startswith("error: configuration: security.protocol is not valid.")


def test_a_refused_address_is_a_finding(run: Run) -> None:
    """And the only one, so an error."""
    ended = run("doctor", "--bootstrap-server", "127.0.0.1:1")
    assert ended.code == 1
    assert ended.out.startswith("error: 127.0.0.1:1: The connection is refused.")


def test_no_cluster_is_wrong_usage(run: Run) -> None:
    """There is nothing to look at."""
    assert run("doctor").code == 64


def test_every_code_is_documented() -> None:
    """Programs are written from that page."""
    files = [*(CLI / "diagnosis").glob("*.py"), CLI / "commands/doctor.py"]
    source = "".join(file.read_text() for file in files)
    codes = set(re.findall(r'(?:code=|_Diagnosis\(\s*|_unsafe\(\s*)"([a-z-]+)"', source)) | {
        "ssl-ignored",
        "sasl-ignored",
    }
    page = (ROOT / "docs/reference/command-line.md").read_text()
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in page} == set()
