"""The sentence of each refused configuration, whole: it names the property and the way out, and holds no value."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from featuregate.config import Settings
from featuregate.errors import ConfigError

SECRET = "hunter2"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
HERE = __file__
DATA = Path(__file__).parents[2] / "data"
SSL = {"security.protocol": "SSL"}
PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
UNSECURED = {**OAUTH, "enable.sasl.oauthbearer.unsecure.jwt": "true"}
ENDPOINT = {**OAUTH, "sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": SECRET}
URL = "sasl.oauthbearer.token.endpoint.url"
KEYWORDS = {"security_protocol": "SSL"}
FOR_OTHER_MECHANISMS: tuple[dict[str, Any], ...] = (
    {"sasl.jaas.config": f'{SCRAM} required username="u" password="{SECRET}";'},
    {"sasl.username": "u", "sasl.password": SECRET},
    {URL: "https://id.example"},
    {"bootstrap.servers": "a", "oauth_cb": print},
)
TOKENS = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}


class Provider:
    """A token provider."""

    def token(self) -> str:
        return SECRET


REFUSED: tuple[Any, ...] = (
    7,
    '"a:9092"',
    "/etc/kafka/client.properties",
    "~/client.conf",
    Path("client.properties"),
    "b:9092,SSL://a:9093",
    *("a:9092;b:9092", "a:9092; b:9092", "a:9092 b:9092", "a;b", "PLAINTEXT://a:9092;b:9092", "[::1]:9092;b:9092"),
    "a:9092|b:9092",
    {"bootstrap.servers": " "},
    {"bootstrap.servers": 9092},
    {"bootstrap.servers": "a", "metadata.broker.list": "b"},
    {"bootstrap.servers": "a", "bootstrap.controllers": "c"},
    {"kafka.metadata.broker.list": "a:x"},
    {"kafka.client.id": "x", "bootstrap.servers": "b"},
    {"kafka.bootstrap.servers": "a", "security.protocol": "SASL_SSL"},
    {"security.protocol": "TLS"},
    {"security.protocol": 3},
    {"broker.address.family": "v5"},
    {"socket.timeout.ms": "soon"},
    {"socket.connection.setup.timeout.ms": 0},
    {"client.id": ["x"]},
    {**SSL, "enable.ssl.certificate.verification": "nope"},
    {**SSL, "ssl.ca.location": "/nowhere/ca.pem"},
    {**SSL, "ssl.ca.location": KEY},
    {**SSL, "ssl.keystore.location": r"C:\certs\ca.pem"},
    {**SSL, "ssl.ca.location": HERE, "ssl.ca.pem": PEM},
    {**SSL, "ssl.key.pem": SECRET, "ssl.certificate.pem": PEM},
    {**SSL, "ssl.key.location": HERE},
    {**SSL, "ssl.keystore.type": "BCFKS"},
    {**PLAIN, "sasl.username": "u", "sasl.jaas.config": f'{SCRAM} required username="a" password="{SECRET}";'},
    {**PLAIN, "sasl.jaas.config": "nonsense"},
    {**PLAIN, "sasl.jaas.config": f"{SECRET} required username=a password=b;"},
    {**PLAIN, "sasl.jaas.config": f"{SCRAM} required username=id password={SECRET} tokenauth=true;"},
    {**PLAIN, "sasl.username": "a", "sasl.password": f"{SECRET}\udcff"},
    {**PLAIN, "sasl.jaas.config": "x.PlainLoginModule required", "username": '"u"', "password": f'"{SECRET}";'},
    {**PLAIN, "sasl.jaas.config": "", "x.PlainLoginModule": "required", "password": f'"{SECRET}";'},
    *({"security.protocol": "SASL_PLAINTEXT", **each} for each in FOR_OTHER_MECHANISMS),
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechansim": "PLAIN", **FOR_OTHER_MECHANISMS[0]},
    {**KERBEROS, "sasl.jaas.config": f"{KRB5} required useKeyTab=true;"},
    {**KERBEROS, "sasl.jaas.config": f"{SCRAM} required username=a password={SECRET};"},
    {**KERBEROS, "sasl.jaas.config": f"{KRB5} required serviceName=a;", "sasl.kerberos.service.name": "b"},
    {**KERBEROS, "sasl.jaas.config": f"{KRB5} required;", "sasl.kerberos.keytab": "/k"},
    {**OAUTH, "sasl.login.callback.handler.class": "com.x.Iam"},
    {**OAUTH, "sasl.oauthbearer.method": "oidc"},
    {**OAUTH, "sasl.oauthbearer.method": "magic"},
    {**OAUTH, "oauth_cb": "fetch"},
    {**OAUTH, "sasl.jaas.config": f"{SCRAM} required;"},
    {**OAUTH, URL: "file://other.host/token"},
    {**OAUTH, URL: "file:token"},
    {**OAUTH, URL: "file:///none/token"},
    {**ENDPOINT, URL: "ftp://x"},
    {**ENDPOINT, URL: f"https://app:{SECRET}@id.example/token"},
    {**ENDPOINT, URL: "https://x", "sasl.oauthbearer.grant.type": "jwt-bearer"},
    {**ENDPOINT, URL: "https://x", "sasl.oauthbearer.extensions": "broken"},
    UNSECURED,
    {**UNSECURED, "sasl.oauthbearer.config": "principal=a lifeSeconds=-1"},
    {**UNSECURED, "sasl.oauthbearer.config": "principal=a lifeSeconds=" + "9" * 5000},
    *({**PLAIN, "sasl.password": f"${{{name}:KPW}}"} for name in ("env", "file", "dir")),
    *({**PLAIN, "sasl.password": f"${{{name}:KPW}}", "config.providers": name} for name in ("env", "file", "dir")),
    {"config.providers": ",".join(map(str, range(101)))},
    {"kafka.bootstrap.servers": "${env:HOSTS_OF_KAFKA}", "config.providers": "env"},
    {"bootstrap_servers": ["a", b"b"]},
    {"client.id": "x", "client_id": "y"},
    {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
    {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "sasl_kerberos_name": "kafka@host"},
    {**KEYWORDS, "ssl_check_hostname": False, "ssl.endpoint.identification.algorithm": "https"},
    {**KEYWORDS, "ssl_context": ssl.create_default_context(), "ssl_cafile": HERE},
    {**KEYWORDS, "ssl_context": SECRET},
    {**TOKENS, "sasl_oauth_token_provider": print},
    {**TOKENS, "sasl_oauth_token_provider": Provider(), "oauth_cb": print},
)
"""Each gives one line of ``tests/data/config_refusals.txt``, in this order."""


def sentence(config: Any, **options: Any) -> str:
    """Return the error of a configuration; one without a broker gets the broker ``a``."""
    if isinstance(config, dict) and not any("bootstrap" in name for name in config):
        config = {"bootstrap_servers" if any("_" in name for name in config) else "bootstrap.servers": "a", **config}
    with pytest.raises(ConfigError) as raised:
        Settings.parse(config, **options)
    assert SECRET not in f"{raised.value!r}"
    return str(raised.value)


def test_each_configuration_that_cannot_be_used_is_refused_in_its_sentence() -> None:
    """Where brokers are listed, too: only missing credentials are none then."""
    said = [sentence(config) for config in REFUSED]
    assert said == (DATA / "config_refusals.txt").read_text().splitlines()
    for config, line in zip(REFUSED, said, strict=True):
        assert "or set broker_list" in line or sentence(config, broker_list="bootstrap") == line


@pytest.mark.parametrize(
    "option",
    [
        *({"total_timeout": value} for value in (0, -1, float("inf"), True, "5")),
        *({"cluster_id": value} for value in ("", "a\nb", "x" * 256, 7)),
        {"broker_list": "all"},
        {"trust_shared_addresses": "yes"},
    ],
)
def test_an_option_that_cannot_be_used_is_refused(option: dict[str, Any]) -> None:
    """Invariant 7: every wait has a bound."""
    (name,) = option
    assert sentence("a", **option).startswith(f"{name.removeprefix('total_')}: must be")
