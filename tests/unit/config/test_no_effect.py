"""Properties and files that other programs obey, and that would be ignored in silence."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from featuregate.cli.diagnosis.configuration import configuration_findings
from featuregate.config import Settings
from featuregate.config.properties_file import read_properties
from featuregate.errors import ConfigError

NAMES = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
SPRING = "".join(f"spring.kafka.properties.{name}={text}\n" for name, text in NAMES.items())
FOREIGN = {
    "JSON": [json.dumps(NAMES), json.dumps({"a": NAMES}, indent=2), json.dumps([NAMES], indent=1), "\ufeff{}"],
    "TOML or an INI file": [
        "[kafka]\n" + "".join(f"k.{name} = '{text}'\n" for name, text in NAMES.items()),
        "title = 'x'\n[clusters.a]\nproperties.security.protocol = 'SASL_SSL'\n",
    ],
    "YAML": [
        "---\nmine:\n  properties:\n    protocol: SASL_SSL\n",
        "my-kafka:\n  protocol: SASL_SSL\n",
        "security:\n  protocol: SASL_SSL\n",
        "client.id: a\nsasl:\n  a:\n    mechanism: PLAIN\nacks: all\n",
    ],
    "the configuration of a broker": [
        "process.roles=broker\nnode.id=1\nlisteners=SASL_SSL://:9093\nlog.dirs=/a\n",
        "bootstrap.servers=a:1\nsecurity.inter.broker.protocol=SASL_SSL\n",
    ],
    "XML": ["<properties><entry key='security.protocol'>SASL_SSL</entry></properties>"],
    "a file of environment variables": [
        "KAFKA_SECURITY_PROTOCOL=SASL_SSL\nKAFKA_SASL_MECHANISM=PLAIN\n",
        "# x\nexport SECURITY_PROTOCOL=SASL_SSL\n",
    ],
    "Spring's configuration": [SPRING, "spring.kafka.bootstrap-servers=a\n"],
    "a JAAS file": [f"KafkaClient {{\n  {JAAS}\n}};\n", f"KafkaClient\n{{\n{JAAS}\n}};\n"],
    "": ["a.b=c\n", "hunter2\n", "https://u:hunter2@h/x\n", "net.sasl.enable=true\n"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in FOREIGN.items() for text in texts])
def test_a_file_without_a_known_property_is_named(tmp_path: Path, kind: str, text: str) -> None:
    """The connection would be PLAINTEXT, though the file says otherwise."""
    file = tmp_path / "client.conf"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"has no property of Kafka's clients: ") as caught:
        read_properties(file)
    assert f"it looks like {kind}" in str(caught.value) if kind else "such as bootstrap.servers" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["\n", " ", "a\n", "a \n\n", "[", "[a\n", "---\n", "a:\n", "a:\n b:\n", "LoginModule\n", "A=\n"]
)
def test_a_large_file_is_judged_in_one_pass(tmp_path: Path, text: str) -> None:
    """Lines that are held against all that follow them would take hours already in a fifth of a megabyte."""
    file = tmp_path / "client.conf"
    file.write_text("x.y=1 LoginModule\n" + text * (200_000 // len(text)))
    with pytest.raises(ConfigError, match="has no property"):
        read_properties(file)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "acks=all\n",
        "kafka.acks=all\n",
        "process.roles=a\nsecurity.protocol=SSL\n",
        "compression.type=zstd\na=b\n",
    ],
)
def test_a_file_of_other_properties_of_clients_is_read(tmp_path: Path, text: str) -> None:
    """A file for a producer may have no property that featuregate reads."""
    file = tmp_path / "client.conf"
    file.write_text(text)
    read_properties(file)


@pytest.mark.parametrize(
    "name",
    [
        *("spring.kafka.properties.security.protocol", "spring.kafka.security.protocol", "SECURITY_PROTOCOL"),
        *("KAFKA_SECURITY_PROTOCOL", "securityProtocol", "security-protocol", "producer.security.protocol"),
        *("properties.sasl.jaas.config", "consumer.override.sasl.mechanism", "listener.name.x.ssl.keystore.location"),
        "spring.kafka.ssl.trust-store-location",
    ],
)
def test_a_name_of_another_program_is_refused_where_the_protocol_is_not_set(name: str) -> None:
    """The connection would be PLAINTEXT. Where the protocol is set, the name is that of another connection."""
    with pytest.raises(
        ConfigError, match=r"has no effect, since it is the name for another program: write s"
    ) as caught:
        Settings.parse({"bootstrap.servers": "a", name: "hunter2"})
    assert (caught.value.key, "hunter2" in str(caught.value)) == (name, False)
    with pytest.raises(ConfigError, match=r"write kafka\.s"):
        Settings.parse({"kafka.bootstrap.servers": "a", name: "hunter2"})
    Settings.parse({"bootstrap.servers": "a", "security.protocol": "SSL", name: "hunter2"})
    Settings.parse({"bootstrap.servers": "a", "schema.registry.ssl.truststore.location": "x"})


OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
PLAIN = {"security.protocol": "SASL_PLAINTEXT", **{name: text for name, text in NAMES.items() if "sasl" in name}}
TLS = {"security.protocol": "SSL"}
ENDPOINT = {
    "sasl.oauthbearer.token.endpoint.url": "https://a/t",
    "sasl.oauthbearer.client.id": "i",
    "sasl.oauthbearer.client.secret": "hunter2",
}


@pytest.mark.parametrize(
    ("base", "name", "value", "same"),
    [
        (PLAIN, "sasl.client.callback.handler.class", "com.x.Handler", "org.apache.kafka.common.security.x.Y"),
        (PLAIN, "sasl.login.callback.handler.class", "com.x.Handler", "org.apache.kafka.common.security.x.Y"),
        (PLAIN, "sasl.login.class", "com.x.Login", "org.apache.kafka.common.security.authenticator.DefaultLogin"),
        (OAUTH | ENDPOINT, "sasl.oauthbearer.jwt.retriever.class", "com.x.Jwt", None),
        (OAUTH | ENDPOINT, "sasl.oauthbearer.metadata.authentication.type", "azure_imds", "none"),
        (OAUTH, "sasl.oauthbearer.metadata.authentication.type", "azure_imds", None),
        (OAUTH | ENDPOINT, "sasl.oauthbearer.assertion.private.key.file", "/a", None),
        (OAUTH | ENDPOINT, "sasl.oauthbearer.header.urlencode", "true", "false"),
        (TLS, "ssl.engine.factory.class", "com.x.Factory", None),
        (TLS, "ssl.engine.location", "/a.so", None),
        (TLS, "ssl.providers", "fips", "default"),
        (TLS, "ssl.provider", "BCJSSE", ""),
        (TLS, "security.providers", "com.x.P", ""),
        (TLS, "ssl.ca.certificate.stores", "CA,Root", "Root"),
        ({}, "socks5_proxy", "socks5://u:hunter2@h:1", None),
        ({}, "proxy_url", "socks5://u:hunter2@h:1", None),
    ],
)
def test_a_property_that_changes_what_others_mean_is_refused(
    base: dict[str, str], name: str, value: str, same: str | None
) -> None:
    """Another client would have other credentials, keys or ways to the brokers."""
    config = {"bootstrap.servers": "a", **base}
    for prefix in ("", "kafka."):
        with pytest.raises(ConfigError) as caught:
            Settings.parse({prefix + key: text for key, text in {**config, name: value}.items()})
        assert caught.value.key == prefix + name
        assert "hunter2" not in str(caught.value)
    if same is not None:
        Settings.parse({**config, name: same})


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2", "TLSv1.2,TLSv1.3"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384", ""),
        ("ssl.trustmanager.algorithm", "InsecureTrustManager", "PKIX"),
        ("ssl.something.new", "x", None),
        ("sasl.kerberos.kinit.cmd", "kinit x", None),
        ("client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "use_all_dns_ips"),
        ("plugin.library.paths", "monitoring", ""),
        ("api.version.request", "false", "true"),
    ],
)
def test_a_property_without_effect_is_named(
    caplog: pytest.LogCaptureFixture, name: str, value: str, same: str | None
) -> None:
    """The log has a warning, and doctor a finding; not where featuregate does the same."""
    caplog.set_level(logging.WARNING, "featuregate")
    config: dict[str, Any] = {"bootstrap.servers": "a", **PLAIN, "security.protocol": "SASL_SSL"}
    for given, expected in ((value, [name]), (same, [])):
        if given is None:
            continue
        caplog.clear()
        settings = Settings.parse({**config, name: given})
        assert [record.getMessage().split()[0] for record in caplog.records] == expected
        found = [each for each in configuration_findings({**config, name: given}, settings) if each.code == "no-effect"]
        assert [each.problem for each in found] == [f"{each} has no effect." for each in expected]


def test_settings_without_effect_are_named_in_any_spelling() -> None:
    """kafka-python's have an underscore. Twenty are named, however many there are."""
    names = ["sasl_mechanism", *(f"sasl.a{number}" for number in range(1000))]
    found = configuration_findings(dict.fromkeys(names, "a"), Settings.parse("a:1"))
    (evidence,) = [each.evidence for each in found if each.code == "sasl-ignored"]
    assert evidence.startswith("security.protocol is PLAINTEXT; set are sasl.a0, sasl.a1, sasl.a10, ")
    assert evidence.endswith(" and 981 more")
    (only,) = configuration_findings({"sasl_mechanism": "PLAIN"}, Settings.parse("a:1"))
    assert only.evidence.endswith("set are sasl_mechanism")


def test_a_function_of_the_app_replaces_classes_of_java() -> None:
    """Files for Java often name such a class beside."""
    config = {"bootstrap.servers": "a", **OAUTH, "sasl.client.callback.handler.class": "com.x.Handler"}
    assert Settings.parse({**config, "oauth_cb": print}).sasl


@pytest.mark.parametrize("where", ["KAFKA_OPTS", "java.security.auth.login.config"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_jaas_file_is_named_where_credentials_are_missing(
    monkeypatch: pytest.MonkeyPatch, where: str, mechanism: str
) -> None:
    """Java's clients read the credentials from it."""
    config = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    if where == "KAFKA_OPTS":
        monkeypatch.setenv(where, "-Xmx1g -Djava.security.auth.login.config=/etc/hunter2.conf")
    else:
        config[where] = "/etc/hunter2.conf"
    with pytest.raises(ConfigError, match=rf"{where} names a JAAS file, which only Java reads: give what") as caught:
        Settings.parse(config)
    assert "hunter2" not in str(caught.value)
