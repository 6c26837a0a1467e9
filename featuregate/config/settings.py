"""`Settings`: how `featuregate.net` reaches a cluster; checked once, and frozen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, cast, get_args

from featuregate.budgets import MAX_FRAME
from featuregate.config.addresses import Address, parse_bootstrap
from featuregate.config.properties import Properties
from featuregate.errors import ConfigError
from featuregate.excluded_apis import NOTHING_EXCLUDED, ExcludedApis, excluded_apis
from featuregate.logs import get_logger
from featuregate.roles import BrokerListSource, Role
from featuregate.values import dataclass

if TYPE_CHECKING:
    import os

    from featuregate.config.allowed_hosts import AllowedHosts
    from featuregate.config.sasl import Sasl
    from featuregate.config.tls import Tls

logger = get_logger("featuregate")

_CLIENT_ID = "featuregate"
_CONNECT_TIMEOUT = 5.0
_REQUEST_TIMEOUT = 5.0
_TOTAL_TIMEOUT = 15.0
_LONGEST_ID = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to reach a cluster. Equal configurations give equal Settings.

    Picklable unless it holds a callback, a token provider or an `ssl.SSLContext`.
    """

    bootstrap: tuple[Address, ...]
    role: Role = "broker"
    """The nodes of the bootstrap list: brokers, or KRaft controllers."""
    protocol: str = "PLAINTEXT"
    tls: Tls | None = None
    """None: the listener does not use TLS."""
    sasl: Sasl | None = None
    """None: the listener does not use SASL, or no request needs authentication."""
    client_id: str = _CLIENT_ID
    address_family: str = "any"
    """``any``, ``v4`` or ``v6``."""
    connect_timeout: float = _CONNECT_TIMEOUT
    """Seconds, for the TCP and the TLS handshake of one connection together."""
    request_timeout: float = _REQUEST_TIMEOUT
    """Seconds, from sending one request to its complete response."""
    total_timeout: float = _TOTAL_TIMEOUT
    """Seconds, for all brokers; a broker that has not answered by then has failed."""
    max_frame: int = MAX_FRAME
    """Bytes; a longer response is refused when its length arrives."""
    concurrency: int = 32
    """The most brokers that are probed concurrently."""
    broker_list: BrokerListSource = "cluster"
    """``cluster``: a broker gives the list; ``bootstrap``: the bootstrap list names every broker."""
    cluster_id: str | None = None
    """The id that the cluster must have, and has where it reports none; None accepts any id."""

    trust_shared_addresses: bool = False
    """Whether an answer counts for each node that is listed at its address; see `featuregate.net.probe`."""

    allowed_hosts: AllowedHosts | None = None
    """The hosts to which the client may connect, whatever hosts the metadata names; None allows every host."""

    check_node: bool = True
    """Whether requests name the cluster and the node that are expected at an address (KIP-1242)."""
    exclude_apis: ExcludedApis = NOTHING_EXCLUDED
    """API versions that this client must not use. Views show what brokers advertise; gates leave these versions out."""

    @classmethod
    def parse(
        cls,
        config: str | Mapping[str, object] | os.PathLike[str],
        *,
        broker_list: str = "cluster",
        cluster_id: str | None = None,
        total_timeout: float | None = None,
        exclude_apis: ExcludedApis | str | None = None,
        trust_shared_addresses: bool | None = None,
        allowed_hosts: str | Collection[str] | None = None,
    ) -> Settings:
        """Read the app's configuration, in any of the spellings.

        ``config`` is ``"host:port,[::1]:9093"``, the mapping that the app gives confluent-kafka, one with Java's
        names, one with Spark's (``kafka.`` in front), the keyword arguments of kafka-python or aiokafka, or the
        path of a ``.properties`` file. Arguments override properties, and properties override the defaults. Other
        properties are ignored; the log has a warning of one whose name resembles that of a security property.

        Raises `ConfigError`, with the name of the property and its allowed values.
        """
        source = _source(broker_list)
        properties = Properties.of(config)
        misspelt = properties.misspelt_security()
        for name, meant in misspelt.items():
            # No error: apps share the dict with clients that have properties of their own.
            logger.warning("%s has no effect, so connections may be less secure than meant: write %s", name, meant)
        protocol = properties.choice("security.protocol")
        if properties.ignored:
            _check_ignored(properties, protocol, misspelt)
        role, bootstrap = _bootstrap(properties, protocol)
        tls = sasl = None
        if protocol.endswith("SSL"):
            from featuregate.config.tls import read_tls  # noqa: PLC0415 - only TLS waits for it

            tls = read_tls(properties)
        if protocol.startswith("SASL_"):
            from featuregate.config.sasl import read_sasl  # noqa: PLC0415 - only SASL waits for it

            sasl = read_sasl(properties, bootstrap_only=source == "bootstrap")
        return cls(
            bootstrap=bootstrap,
            role=role,
            protocol=protocol,
            tls=tls,
            sasl=sasl,
            client_id=properties.text("client.id") or _CLIENT_ID,
            address_family=properties.choice("broker.address.family"),
            connect_timeout=properties.seconds("socket.connection.setup.timeout.ms") or _CONNECT_TIMEOUT,
            request_timeout=properties.seconds("socket.timeout.ms")
            or properties.seconds("request.timeout.ms")
            or _REQUEST_TIMEOUT,
            total_timeout=_total(total_timeout),
            broker_list=source,
            check_node=properties.flag("metadata.cluster.check.enable"),
            exclude_apis=_excluded(properties, exclude_apis),
            trust_shared_addresses=_trusted(properties, trust_shared_addresses),
            allowed_hosts=_allowed(properties, allowed_hosts),
            cluster_id=_cluster_id(cluster_id),
        )


def _check_ignored(properties: Properties, protocol: str, misspelt: Collection[str]) -> None:
    from featuregate.config.no_effect import refused, require_plain_names, weaker  # noqa: PLC0415 - most apps have none

    require_plain_names(properties.prefix, properties.names(), properties.ignored)
    if found := refused(properties.unread, "connect", *(("tls",) if protocol.endswith("SSL") else ())):
        raise ConfigError(properties.prefix + found[0], found[1])
    for name, meaning in weaker(properties.unread, protocol).items():
        if properties.prefix + name not in misspelt:
            logger.warning("%s%s %s", properties.prefix, name, meaning)


def _excluded(properties: Properties, given: ExcludedApis | str | None) -> ExcludedApis:
    if given is not None:
        return excluded_apis(given)
    name = "featuregate.exclude.apis"
    return excluded_apis(properties.text(name), key=properties.spelling(name))


def _trusted(properties: Properties, given: object) -> bool:
    if given is None:
        return properties.flag("featuregate.trust.shared.addresses")
    if not isinstance(given, bool):
        raise ConfigError("trust_shared_addresses", f"must be True or False, not {given!r:.80}")
    return given


def _allowed(properties: Properties, given: object) -> AllowedHosts | None:
    name = "featuregate.allowed.hosts"
    if given is None and not properties.is_set(name):
        return None
    from featuregate.config.allowed_hosts import allowed_hosts  # noqa: PLC0415 - most apps allow every host

    if given is not None:
        return allowed_hosts(given)
    return allowed_hosts(properties.text(name) or "", key=properties.spelling(name))


def _source(broker_list: str) -> BrokerListSource:
    if broker_list not in get_args(BrokerListSource):
        raise ConfigError("broker_list", f"must be one of: {', '.join(get_args(BrokerListSource))}")
    return cast("BrokerListSource", broker_list)


def _cluster_id(given: object) -> str | None:
    if given is None:
        return None
    if not (isinstance(given, str) and 0 < len(given) <= _LONGEST_ID and given.isprintable()):
        raise ConfigError("cluster_id", f"must be a text of 1 to {_LONGEST_ID} printable characters, not {given!r:.80}")
    return given


def _bootstrap(properties: Properties, protocol: str) -> tuple[Role, tuple[Address, ...]]:
    servers, controllers = properties.text("bootstrap.servers"), properties.text("bootstrap.controllers")
    key = properties.spelling("bootstrap.servers")
    if servers is not None and controllers is not None:
        raise ConfigError(key, "bootstrap.controllers is given too: keep one, to ask either brokers or controllers")
    if controllers is not None:
        return "controller", parse_bootstrap(properties.spelling("bootstrap.controllers"), controllers, protocol)
    if servers is None:
        only = " (some names begin with kafka., so only such names are read)" if properties.prefix else ""
        raise ConfigError(
            key,
            f"is missing: set it to the addresses of brokers, as host:port{only}{properties.hint('bootstrap.servers')}",
        )
    return "broker", parse_bootstrap(key, servers, protocol)


def _total(given: float | None) -> float:
    if given is None:
        return _TOTAL_TIMEOUT
    if type(given) not in {int, float} or not 0 < given < float("inf"):
        raise ConfigError("timeout", "must be a number of seconds above 0")
    return float(given)
