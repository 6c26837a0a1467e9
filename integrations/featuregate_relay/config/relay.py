"""The configuration of a relay, from a TOML file or from options. Each mistake is one line with its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationError

from featuregate import BrokerSource
from featuregate.config.from_files import NotAllowed, from_file, inert, reaching
from featuregate.config.properties import overridden
from featuregate.config.properties_file import read_properties
from featuregate.config.secrets import in_words_of
from featuregate.errors import ConfigError, FeatureGateError, RequirementError
from featuregate.files import read_file
from featuregate.flags import PREFIXES
from featuregate.polling.discoverer import Discoverer
from featuregate.requirements import Requirement, as_requirement
from featuregate.toml_values import parse_toml
from featuregate_relay.config.access import ClientTable, TlsTable, make_access, problems
from featuregate_relay.config.addresses import ListenAddress
from featuregate_relay.config.tables import FilePath, Name, Seconds, Table, line_of

if TYPE_CHECKING:
    from featuregate_relay.access.authentication import Access
    from featuregate_relay.access.certificates import Certificates


_KEYS: Final = {"broker_list": "broker-list", "cluster_id": "cluster-id", "latch_store": "latches"}
"""Keys of the file, for parameters of the discoverer."""


class ConfigMistakes(FeatureGateError):
    """A configuration cannot be used: a line for each mistake, with its place."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def _requirement(text: object) -> Requirement:
    try:
        return as_requirement(text)  # type: ignore[arg-type]  # raises for what is neither
    except TypeError:
        raise ValueError("must be a requirement or a preset, as text") from None
    except RequirementError as error:
        raise ValueError(str(error).partition("\n")[0]) from None


def _address(text: object) -> ListenAddress:
    return text if isinstance(text, ListenAddress) else ListenAddress.parse(str(text))


def _flat(properties: object) -> object:
    """Return properties by their dotted names: in TOML ``bootstrap.servers`` without quotes is a table in a table."""
    if not isinstance(properties, dict):
        return properties
    flat: dict[str, object] = {}
    for name, value in properties.items():
        inner = _flat(value)
        named = {f"{name}.{key}": each for key, each in inner.items()} if isinstance(inner, dict) else {name: value}
        if twice := sorted(flat.keys() & named):
            raise ValueError(f"{twice[0]} is given twice, with quotes around its name and without")
        flat |= named
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in flat.items()}


def _flag_names(gates: dict[str, Requirement]) -> dict[str, Requirement]:
    for name in gates:
        if not name.strip():
            raise ValueError("a gate needs a name")
        if name.startswith(PREFIXES):
            raise ValueError(f"{name!r} would hide another flag: choose a name without {', '.join(PREFIXES)}")
    return gates


_Gates = Annotated[dict[str, Annotated[Requirement, PlainValidator(_requirement)]], AfterValidator(_flag_names)]


class ClusterTable(Table):
    """A cluster to poll, as ``[clusters.NAME]``."""

    command_config: FilePath | None = None
    """A ``.properties`` file, as for Kafka's own tools."""
    properties: Annotated[dict[str, str | int | float], BeforeValidator(_flat)] = Field(default_factory=dict)
    """More of them, which win."""
    gates: _Gates = Field(default_factory=dict)
    interval: Seconds = 60.0
    timeout: Seconds | None = None
    broker_list: Literal["cluster", "bootstrap"] = "cluster"
    cluster_id: str | None = None
    keep_connections: bool = True
    hold: dict[str, str] = Field(default_factory=dict)
    """Gates of the relay and of its clients that are held closed, and why."""
    latches: FilePath | None = None
    """A folder that keeps latches over restarts."""

    def told(self) -> dict[str, Any]:
        """Return the properties of both files; raises ConfigError."""
        told = read_properties(self.command_config) if self.command_config else {}
        return overridden(told, from_file(self.properties))

    def discoverer(self, properties: Mapping[str, Any]) -> Discoverer:
        """Return a discoverer that does not poll yet; raises ConfigError."""
        source = BrokerSource(
            properties,
            timeout=self.timeout,
            broker_list=self.broker_list,
            cluster_id=self.cluster_id,
            keep_connections=self.keep_connections,
        )
        latches = None if self.latches is None else self.latches.absolute()  # "." was named, and is no empty text
        return Discoverer(source=source, interval=self.interval, latch_store=latches, hold=self.hold)


class RelayConfig(Table):
    """The whole file."""

    listen: Annotated[ListenAddress, PlainValidator(_address)] = ListenAddress("127.0.0.1", 8080)
    clusters: Annotated[dict[Name, ClusterTable], Field(min_length=1)]
    clients: dict[Name, ClientTable] = Field(default_factory=dict)
    tls: TlsTable | None = None
    allow_origins: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Origins of the pages whose scripts may read the responses; ``*`` for all."""

    @property
    def authenticates(self) -> bool:
        """Whether the relay authenticates clients."""
        return bool(self.clients)

    def access(self, *, anonymous: bool) -> Access | None:
        """Return which client may read what; None: the relay leaves the authentication to a proxy before it."""
        return make_access(self.clients, anonymous=anonymous) if self.authenticates else None

    def certificates(self) -> Certificates | None:
        """Return the certificates of the listener; None: it serves without TLS.

        Raises ConfigMistakes: a file of certificates or keys cannot be used.
        """
        if self.tls is None:
            return None
        try:
            return self.tls.certificates()
        except OSError as error:  # of the file, or of its content
            raise ConfigMistakes([f"tls: the certificate, the key or client-ca cannot be used: {error}"]) from None

    def discoverers(self, *, options: bool = False, look_only: bool = False) -> dict[str, Discoverer]:
        """Return a discoverer for each cluster. ``options``: the configuration comes from options, not from a file.

        With ``look_only`` no code of the configuration runs, and no variable or file that it names is read; a cluster
        that cannot be judged without is left out. Raises ConfigMistakes: properties of some clusters cannot be used.
        """
        made, mistakes = {}, []
        for name, cluster in self.clusters.items():
            reached: list[str] = []
            try:
                properties = cluster.told()
                if look_only:
                    properties, reached = inert(properties), reaching(properties)
                made[name] = cluster.discoverer(properties)
            except ConfigError as error:
                if error.key in reached and not isinstance(error, NotAllowed):
                    continue
                mistakes.append(f"clusters.{name}: {_line_of(error, options=options)}")
        if mistakes:
            raise ConfigMistakes(mistakes)
        return made


def _line_of(error: ConfigError, *, options: bool) -> str:
    """Return the line in the words of the file, or in those of the options."""
    said = in_words_of(error, "--broker-list bootstrap" if options else 'broker-list = "bootstrap"')
    key = _KEYS.get(said.key, said.key)
    only = "; only the file of --config has this key" if options and key == "cluster-id" else ""
    return f"{key}: {said.problem}{only}"


def read_config(path: Path) -> RelayConfig:
    """Read a file. Raises ConfigMistakes: it cannot be read, is not TOML, or has mistakes."""
    try:
        tables = parse_toml(read_file(path).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigMistakes([f"cannot be read: {error.strerror}"]) from None
    except ValueError as error:  # of the encoding, or of TOML, which says the line
        raise ConfigMistakes([f"is not TOML: {error}"]) from None
    return checked(tables, path.parent)


def checked(tables: Mapping[str, Any], folder: Path) -> RelayConfig:
    """Return the configuration that these tables are; raises `ConfigMistakes`."""
    try:
        config = RelayConfig.model_validate(tables, context={"folder": folder})
    except ValidationError as error:
        raise ConfigMistakes([line_of(each) for each in error.errors()]) from None
    if lines := problems(config.clients, config.tls, config.clusters):
        raise ConfigMistakes(lines)
    return config
