"""The checked options of ``kafka_features``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from featuregate.errors import ConfigError
from featuregate_spark.source.feature_state import FeatureState, Levels, latched_levels, seen_levels
from featuregate_spark.source.rows import KINDS, Only

_KAFKA: Final = "kafka."
_BOOTSTRAP: Final = ("kafka.bootstrap.servers", "kafka.bootstrap.controllers")


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """The options of a reader."""

    kafka: Mapping[str, str] = field(repr=False)
    """Properties of the cluster, prefixed with ``kafka.``. Some are secret."""
    broker_list: Any = "cluster"
    timeout: float = 15.0
    interval: float = 30.0
    stale_after: float | None = None
    forget_after: float = 1800.0
    levels: Callable[[FeatureState], Levels] = latched_levels
    only: Only = field(default_factory=dict)
    pushdown: bool = False

    @property
    def seconds_to_stale(self) -> float:
        """Seconds after which a view without an answer is stale: ``stale_after``, or three intervals."""
        return self.stale_after or 3 * self.interval

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReaderOptions:
        """Read the options of a reader, which are all text.

        Raises
        ------
        ConfigError
            An option is unknown, is missing or has a value that cannot be used.
        """
        kafka = {name: value for name, value in options.items() if name.startswith(_KAFKA)}
        own = {name: value for name, value in options.items() if name not in kafka}
        for name in own:
            if name not in _PARSERS:
                raise ConfigError(
                    name,
                    f"is not an option of kafka_features, which has {', '.join(_PARSERS)}, and properties of Kafka "
                    f"clients prefixed with {_KAFKA}",
                )
        if not any(name in kafka for name in _BOOTSTRAP):
            raise ConfigError(_BOOTSTRAP[0], "is missing: the bootstrap brokers, as host:port")
        values = {name: _PARSERS[name](name, value) for name, value in own.items()}
        only: Only = {name: values.pop(name) for name in ("broker", "kind", "feature") if name in values}
        return cls(kafka=kafka, only=only, **values)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(name, f"{value!r} is not a number of seconds above 0")
    return seconds


def _one_of(choices: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def parse(name: str, value: str) -> Any:
        if value.strip().lower() not in choices:
            raise ConfigError(name, f"{value!r} is none of: {', '.join(choices)}")
        return choices[value.strip().lower()]

    return parse


def _list(name: str, value: str) -> frozenset[Any]:
    items = frozenset(item.strip() for item in value.split(",") if item.strip())
    if not items:
        raise ConfigError(name, "is empty: omit it to get all")
    return items


def _brokers(name: str, value: str) -> frozenset[Any]:
    try:
        return frozenset(int(item) for item in _list(name, value))
    except ValueError:
        raise ConfigError(name, f"{value!r} is not a comma-separated list of broker ids") from None


def _kinds(name: str, value: str) -> frozenset[Any]:
    items = _list(name, value)
    if not items <= set(KINDS):
        raise ConfigError(name, f"{value!r} has items that are none of: {', '.join(KINDS)}")
    return items


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "broker": _brokers,
    "feature": _list,
    "forget_after": _seconds,
    "interval": _seconds,
    "kind": _kinds,
    "levels": _one_of({"latched": latched_levels, "latest": seen_levels}),
    "pushdown": _one_of({"true": True, "false": False}),
    "broker_list": _one_of({"cluster": "cluster", "bootstrap": "bootstrap"}),
    "stale_after": _seconds,
    "timeout": _seconds,
}
