"""The table of every property that is read: its spellings, its values, and its meaning.

The names are those of librdkafka (``CONFIGURATION.md``) and of Apache Kafka's Java clients
(``CommonClientConfigs``, ``SslConfigs``, ``SaslConfigs``). Spark's spelling is Java's with ``kafka.`` in front. The
names with underscores are the keyword arguments of kafka-python and aiokafka.
The reference page of the docs is made from this table.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from featuregate.config.addresses import PROTOCOLS

_ALIKE: Final = 0.95
"""How alike a misspelling is, from 0 to 1. Properties of Kafka's clients that are not in the table are at 0.944."""


class PropertyKey(NamedTuple):
    """One setting, with all spellings of its name."""

    spellings: tuple[str, ...]
    """Its names. Two of them with different values in one configuration are an error."""
    kind: str
    """``addresses``, ``text``, ``secret``, ``choice``, ``flag``, ``milliseconds``, ``callable`` or ``object``."""
    meaning: str
    choices: tuple[str, ...] = ()
    """The values of a ``choice``, in any case."""
    default: str = ""
    """The default; empty for none."""

    @property
    def name(self) -> str:
        """The spelling that this package uses for the setting."""
        return self.spellings[0]


KEYS: tuple[PropertyKey, ...] = (
    # where
    PropertyKey(
        ("bootstrap.servers", "metadata.broker.list", "bootstrap_servers"),
        "addresses",
        "brokers to start from: host:port, with commas between, or a list of them",
    ),
    PropertyKey(("bootstrap.controllers",), "addresses", "KRaft controllers to ask instead of brokers"),
    PropertyKey(
        ("client.id", "client_id"),
        "text",
        "the name of this client in logs and quotas of brokers",
        default="featuregate",
    ),
    PropertyKey(
        ("broker.address.family",),
        "choice",
        "the family of addresses to connect to",
        ("any", "v4", "v6"),
        default="any",
    ),
    PropertyKey(
        ("security.protocol", "security_protocol"),
        "choice",
        "the protocol of the listener",
        PROTOCOLS,
        default="PLAINTEXT",
    ),
    PropertyKey(
        ("featuregate.exclude.apis",),
        "text",
        "API versions that this client must not use: `Produce=9-11,Fetch`. librdkafka refuses a property that it does "
        "not know, so give `exclude_apis=` instead where one dict serves both",
    ),
    PropertyKey(
        ("featuregate.trust.shared.addresses",),
        "flag",
        "whether an answer from an address counts for each node that the cluster lists there; true only where whatever "
        "listens there answers for all of them. Give `trust_shared_addresses=` instead where one dict serves both",
        default="false",
    ),
    PropertyKey(
        ("featuregate.allowed.hosts",),
        "addresses",
        "the only hosts to connect to, whatever hosts the cluster names: names, `*.example.com`, addresses and "
        "networks, each for every port or with one; left out: every host. Give `allowed_hosts=` instead where one dict "
        "serves both",
    ),
    PropertyKey(
        ("config.providers",),
        "text",
        "providers of values for placeholders such as `${env:NAME}`; `config.providers.NAME.class` is one of Kafka's",
    ),
    PropertyKey(
        ("metadata.cluster.check.enable",),
        "flag",
        "whether a broker that knows ApiVersions v5 (4.4) receives the cluster and the node that the client expects, "
        "and refuses to answer for another (KIP-1242); false behind a proxy that gives brokers other ids. "
        "As in Java from 4.4; librdkafka refuses it",
        default="true",
    ),
    # how long
    PropertyKey(
        ("socket.connection.setup.timeout.ms", "socket_connection_setup_timeout_ms"),
        "milliseconds",
        "connecting, the TLS handshake included",
        default="5000",
    ),
    PropertyKey(("socket.timeout.ms",), "milliseconds", "one request (librdkafka)", default="5000"),
    PropertyKey(
        ("request.timeout.ms", "request_timeout_ms"),
        "milliseconds",
        "one request (Java, Python); not read if socket.timeout.ms is set, since it has another meaning in librdkafka",
        default="5000",
    ),
    # TLS: trusted certificates
    PropertyKey(
        ("ssl.ca.location", "ssl_cafile"),
        "text",
        "PEM file or folder of trusted certificates; left out or `probe`: the system's",
    ),
    PropertyKey(("ssl.ca.pem", "ssl.truststore.certificates"), "text", "trusted certificates, as PEM text"),
    PropertyKey(("ssl.truststore.location",), "text", "trusted certificates: a PEM, PKCS12 or JKS file"),
    PropertyKey(
        ("ssl.truststore.password",),
        "secret",
        "the truststore's password; a JKS file without it is read unchecked, as in Java",
    ),
    PropertyKey(
        ("ssl.truststore.type",),
        "choice",
        "the truststore's format; what the file holds decides",
        ("PEM", "PKCS12", "JKS"),
    ),
    PropertyKey(
        ("enable.ssl.certificate.verification",), "flag", "whether certificates are checked at all", default="true"
    ),
    PropertyKey(
        ("ssl.endpoint.identification.algorithm",),
        "choice",
        "`none` or empty: certificates are checked, but the host names in them are not",
        ("https", "none", ""),
        default="https",
    ),
    PropertyKey(
        ("ssl_check_hostname",), "flag", "whether host names in certificates are checked (kafka-python)", default="true"
    ),
    PropertyKey(
        ("ssl_context",),
        "object",
        "an `ssl.SSLContext`, in place of certificates, keys and checks; librdkafka cannot use it, so the switch and "
        "other parts that use confluent-kafka refuse it",
    ),
    PropertyKey(
        ("ssl.crl.location", "ssl_crlfile"), "text", "a PEM file of revoked certificates (librdkafka, kafka-python)"
    ),
    # TLS: the client's certificate
    PropertyKey(("ssl.certificate.location", "ssl_certfile"), "text", "the client's certificate chain: a PEM file"),
    PropertyKey(
        ("ssl.certificate.pem", "ssl.keystore.certificate.chain"), "text", "the client's certificate chain, as PEM text"
    ),
    PropertyKey(("ssl.key.location", "ssl_keyfile"), "text", "the client's private key: a PEM file"),
    PropertyKey(("ssl.key.pem", "ssl.keystore.key"), "secret", "the client's private key, as PEM text"),
    PropertyKey(
        ("ssl.key.password", "ssl_password"),
        "secret",
        "the private key's password; in a JKS file that of the keystore where left out",
    ),
    PropertyKey(
        ("ssl.keystore.location",), "text", "the client's certificate chain and private key: a PEM, PKCS12 or JKS file"
    ),
    PropertyKey(("ssl.keystore.password",), "secret", "the keystore's password"),
    PropertyKey(
        ("ssl.keystore.type",), "choice", "the keystore's format; what the file holds decides", ("PEM", "PKCS12", "JKS")
    ),
    # SASL
    PropertyKey(
        ("sasl.mechanism", "sasl.mechanisms", "sasl_mechanism"),
        "text",
        'PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI; any other needs `broker_list="bootstrap"`',
        default="GSSAPI",
    ),
    PropertyKey(("sasl.username", "sasl_plain_username"), "text", "for PLAIN and SCRAM"),
    PropertyKey(("sasl.password", "sasl_plain_password"), "secret", "for PLAIN and SCRAM"),
    PropertyKey(
        ("sasl.jaas.config",),
        "secret",
        "Java's form of the credentials: Plain, Scram, OAuthBearer and Krb5 login modules",
    ),
    PropertyKey(
        ("sasl.kerberos.service.name", "sasl_kerberos_service_name"),
        "text",
        "the first part of the brokers' principals",
        default="kafka",
    ),
    PropertyKey(
        ("sasl.kerberos.principal",),
        "text",
        "the client, for GSSAPI with a keytab; that of the tickets without one",
        default="kafkaclient",
    ),
    PropertyKey(("sasl.kerberos.keytab",), "text", "the client's keys; left out: a ticket that kinit got"),
    PropertyKey(
        ("sasl_kerberos_domain_name",),
        "text",
        "the second part of the brokers' principals (kafka-python); left out: the address of each broker",
    ),
    PropertyKey(("sasl_kerberos_name",), "object", "kafka-python's name of the service, which is refused with advice"),
    PropertyKey(
        ("sasl.login.callback.handler.class",),
        "text",
        "a Java class, which is not run; errors about a missing token name it",
    ),
    PropertyKey(
        ("oauth_cb",),
        "callable",
        "confluent-kafka's: takes sasl.oauthbearer.config, gives (token, expiry[, ...]); a file names the function as "
        "`module:function`, which is imported",
    ),
    PropertyKey(
        ("sasl_oauth_token_provider",),
        "object",
        "kafka-python's (`token()`) or aiokafka's (`async token()`), called for each connection",
    ),
    PropertyKey(("sasl.oauthbearer.config",), "text", "the argument of oauth_cb, or the claims of an unsecured token"),
    PropertyKey(
        ("enable.sasl.oauthbearer.unsecure.jwt",), "flag", "make unsecured tokens; for tests only", default="false"
    ),
    PropertyKey(
        ("sasl.oauthbearer.method",),
        "choice",
        "`oidc`: get tokens from the endpoint",
        ("default", "oidc"),
        default="default",
    ),
    PropertyKey(
        ("sasl.oauthbearer.grant.type",),
        "choice",
        "the grant type of the request to the endpoint",
        ("client_credentials",),
        default="client_credentials",
    ),
    PropertyKey(
        ("sasl.oauthbearer.token.endpoint.url",),
        "text",
        "the address of the token endpoint; or `file:///...`, a file with a token, read for each connection",
    ),
    PropertyKey(
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"),
        "text",
        "the client's id at the endpoint",
    ),
    PropertyKey(
        ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
        "secret",
        "the client's secret at the endpoint",
    ),
    PropertyKey(("sasl.oauthbearer.scope",), "text", "the scope of the token"),
    PropertyKey(("sasl.oauthbearer.extensions",), "text", "SASL extensions: key=value, with commas between"),
    PropertyKey(("https.ca.location",), "text", "PEM file of certificates trusted at the token endpoint"),
)

SPELLINGS: Final = frozenset(spelling for key in KEYS for spelling in key.spellings)
"""Every name that is read."""

KEYWORDS: frozenset[str] = frozenset(
    spelling for key in KEYS for spelling in key.spellings if "_" in spelling and spelling != "oauth_cb"
)
"""The spellings of kafka-python and aiokafka."""


SPARK_PREFIX: Final = "kafka."


def is_spark(name: str) -> bool:
    """Return whether a name has the prefix of Spark's options, of which Spark ignores the case."""
    return name.lower().startswith(SPARK_PREFIX)


def plain_name(name: str) -> str:
    """Return a name without the prefix of Spark's options."""
    return name[len(SPARK_PREFIX) :] if is_spark(name) else name


def misspelt(names: Iterable[str], *, alike: float = _ALIKE) -> dict[str, str]:
    """Return the names that are not in the table, but resemble a spelling there, with that spelling."""
    from featuregate.catalog import close_to  # noqa: PLC0415 - only what finds mistakes needs it

    close = {name: close_to(name, SPELLINGS, alike=alike) for name in names if name not in SPELLINGS}
    return {name: found[0] for name, found in close.items() if found}
