"""Findings about credentials that hosts which metadata names can read."""

import pytest

from featuregate.cli.diagnosis.configuration import credential_findings, named_host_findings, outside
from featuregate.config import Address, Settings

CLEAR = {
    "bootstrap.servers": "b1.kafka.example.com:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}


def codes(hosts: list[str], **more: str) -> list[str]:
    settings = Settings.parse(CLEAR | {name.replace("_", "."): value for name, value in more.items()})
    findings = [*credential_findings(settings), *named_host_findings(settings, hosts)]
    assert "hunter2" not in str(findings)
    return [finding.code for finding in findings]


def test_a_readable_password_is_a_warning() -> None:
    """PLAIN sends it as it is; SCRAM does not, and TLS hides it."""
    assert codes([]) == ["credentials-in-clear"]
    token = {"sasl_mechanism": "OAUTHBEARER", "enable_sasl_oauthbearer_unsecure_jwt": "true"}
    assert codes([], sasl_oauthbearer_config="principal=u", **token) == ["credentials-in-clear"]
    assert codes(["evil.net"], sasl_mechanism="SCRAM-SHA-256") == []
    assert codes(["evil.net"], security_protocol="SASL_SSL") == []


def test_hosts_elsewhere_get_it_unless_hosts_are_listed() -> None:
    """A broker in the domain of the bootstrap list is expected."""
    assert codes(["b2.kafka.example.com"]) == ["credentials-in-clear"]
    assert codes(["b2.kafka.example.com", *map(str, range(9))]) == [
        "credentials-in-clear",
        "credentials-to-named-hosts",
    ]
    assert codes(["evil.net"], featuregate_allowed_hosts="*.example.com") == ["credentials-in-clear"]


@pytest.mark.parametrize(
    ("bootstrap", "host", "is_outside"),
    [
        ("b1.k.example.com", "B2.k.example.com.", False),
        ("b1.k.example.com", "b2.x.k.example.com", False),
        ("b1.k.example.com", "b1.example.com", True),
        ("example.com", "b1.example.com", False),
        ("example.com", "evil.com", True),
        ("b1", "b2", False),
        ("b1", "b2.example.com", True),
        ("10.0.0.1", "10.0.0.9", False),
        ("10.0.0.1", "10.0.1.9", True),
        ("10.0.0.1", "b1", True),
        ("fd00::1", "FD00:0::2", False),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        ("localhost", "127.0.0.1", False),
    ],
)
def test_a_domain_or_a_network_is_the_same_place(bootstrap: str, host: str, *, is_outside: bool) -> None:
    """A top-level domain is not one."""
    assert outside([host], [Address(bootstrap, 9092)]) == [host] * is_outside
