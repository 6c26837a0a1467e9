"""The configuration of a relay, from a TOML file or from options. Each mistake is one line with its place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)

from featuregate.config.properties import read_properties
from featuregate.errors import ConfigError, FeatureGateError, RequirementError
from featuregate.polling.discoverer import Discoverer
from featuregate.requirements import Requirement, as_requirement, served_in
from featuregate_relay.addresses import Address
from featuregate_relay.flags import LEVEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

__all__ = ["ClusterConfig", "ConfigMistakes", "RelayConfig", "checked", "read_config"]

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class ConfigMistakes(FeatureGateError):
    """A configuration cannot be used: a line for each mistake, with its place."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def _path(text: object, info: ValidationInfo) -> Path:
    """Return a path, which is relative to the folder of the file that names it."""
    if not isinstance(text, str):
        raise ValueError("must be the path of a file")  # noqa: TRY004 - pydantic reports ValueErrors
    return Path((info.context or {}).get("folder", "."), text)


def _requirement(text: object) -> Requirement:
    try:
        requirement = as_requirement(text)  # type: ignore[arg-type]  # raises for what is neither
    except TypeError:
        raise ValueError("must be a requirement or a preset, as text") from None
    except RequirementError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    if (fleeting := next(served_in(requirement), None)) is not None:
        raise ValueError(f"a latch would hide that {fleeting} ends: require >= instead of serves")
    return requirement


def _address(text: object) -> Address:
    return text if isinstance(text, Address) else Address.parse(str(text))


def _flat(properties: object) -> object:
    """Return properties by their dotted names: in TOML ``bootstrap.servers`` without quotes is a table in a table."""
    if not isinstance(properties, dict):
        return properties
    flat: dict[str, object] = {}
    for name, value in properties.items():
        inner = _flat(value)
        flat |= {f"{name}.{key}": each for key, each in inner.items()} if isinstance(inner, dict) else {name: value}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in flat.items()}


def _flag_names(gates: dict[str, Requirement]) -> dict[str, Requirement]:
    for name in gates:
        if name.startswith(LEVEL):
            raise ValueError(f"{name!r} would hide the level of a feature: choose another name")
    return gates


FilePath = Annotated[Path, PlainValidator(_path)]
"""A path in a configuration."""
Name = Annotated[str, Field(pattern=_NAME)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Gates = Annotated[dict[str, Annotated[Requirement, PlainValidator(_requirement)]], AfterValidator(_flag_names)]


class _Table(BaseModel):
    """A table of the file. Keys are spelled with hyphens, as options are; a key that is not known is a mistake."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,  # it may be a password
    )


class ClusterConfig(_Table):
    """A cluster to poll, as ``[clusters.NAME]``."""

    command_config: FilePath | None = None
    """A ``.properties`` file, as for Kafka's own tools."""
    properties: Annotated[dict[str, str | int | float], BeforeValidator(_flat)] = {}
    """More of them, which win."""
    gates: _Gates = {}
    interval: Seconds = 60.0
    timeout: Seconds | None = None
    broker_list: Literal["cluster", "bootstrap"] = "cluster"
    cluster_id: str | None = None
    latches: FilePath | None = None
    """A folder that keeps latched levels over restarts."""

    def discoverer(self) -> Discoverer:
        """Return a discoverer that does not poll yet; raises ConfigError."""
        told = read_properties(self.command_config) if self.command_config else {}
        return Discoverer(
            {**told, **self.properties},
            interval=self.interval,
            timeout=self.timeout,
            broker_list=self.broker_list,
            cluster_id=self.cluster_id,
            latch_store=self.latches,
        )


class RelayConfig(_Table):
    """The whole file."""

    listen: Annotated[Address, PlainValidator(_address)] = Address("127.0.0.1", 8080)
    clusters: Annotated[dict[Name, ClusterConfig], Field(min_length=1)]

    def discoverers(self) -> dict[str, Discoverer]:
        """Return a discoverer for each cluster.

        Raises
        ------
        ConfigMistakes
            Properties of some clusters cannot be used.
        """
        made, mistakes = {}, []
        for name, cluster in self.clusters.items():
            try:
                made[name] = cluster.discoverer()
            except ConfigError as error:
                mistakes.append(f"clusters.{name}: {error}")
        if mistakes:
            raise ConfigMistakes(mistakes)
        return made


def read_config(path: Path) -> RelayConfig:
    """Read a file.

    Raises
    ------
    ConfigMistakes
        The file cannot be read, is no TOML, or has mistakes.
    """
    try:
        tables = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigMistakes([f"cannot be read: {error.strerror}"]) from None
    except ValueError as error:  # of the encoding, or of TOML, which says the line
        raise ConfigMistakes([f"is no TOML: {error}"]) from None
    return checked(tables, path.parent)


def checked(tables: Mapping[str, Any], folder: Path) -> RelayConfig:
    """Return the configuration that these tables are; raises `ConfigMistakes`."""
    try:
        return RelayConfig.model_validate(tables, context={"folder": folder})
    except ValidationError as error:
        raise ConfigMistakes([_line(each) for each in error.errors()]) from None


def _line(mistake: ErrorDetails) -> str:
    """Return a mistake in one line. Its input is left out."""
    place = ".".join(str(part) for part in mistake["loc"] if part != "[key]")
    text = mistake["msg"].removeprefix("Value error, ")
    said = {
        "extra_forbidden": "there is no such key",
        "missing": "is missing",
        "string_pattern_mismatch": "must be made of letters, digits, '.', '_' and '-'",
        "too_short": "must not be empty",
    }.get(mistake["type"], text[:1].lower() + text[1:])
    return f"{place}: {said}"
