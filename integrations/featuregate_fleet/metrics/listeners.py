"""Which SASL mechanisms the listeners of brokers allow, as their configs or the operator say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from featuregate.clients.fit import SASL

MECHANISMS: Final = tuple(step.removeprefix("sasl-") for step in SASL)
_DEFAULT_MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_PROTOCOLS: Final = "listener.security.protocol.map"
_LISTENERS: Final = "listeners"
_WITHOUT_SASL: Final = frozenset({"PLAINTEXT", "SSL"})
_OF_BROKERS: Final = ("inter.broker.listener.name", "controller.listener.names", "security.inter.broker.protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerListener:
    """What is known of one listener."""

    mechanisms: frozenset[str] | None = None
    """Empty: clients do not log in by SASL. None: that is not known."""
    of_nodes: bool = False
    """Whether brokers and controllers alone connect to it, which have no name on their own listener."""


def listener_argument(text: str) -> tuple[str, BrokerListener]:
    """Parse ``CLIENT=SCRAM-SHA-256``, ``CLIENT=none`` or ``INTERNAL=brokers``. Raises ValueError."""
    name, _, value = text.partition("=")
    allowed = frozenset(each.strip().upper() for each in value.split(","))
    if name and value == "brokers":
        return name, BrokerListener(of_nodes=True)
    if name and value == "none":
        return name, BrokerListener(mechanisms=frozenset())
    if name and allowed <= set(MECHANISMS):
        return name, BrokerListener(mechanisms=allowed)
    said = f"NAME={MECHANISMS[1]}, with commas between several of {', '.join(MECHANISMS)}; NAME=none or NAME=brokers"
    raise ValueError(f"{text!r} is not a listener with what it allows: write {said}")


def with_listener(given: Mapping[str, BrokerListener], name: str, one: BrokerListener) -> dict[str, BrokerListener]:
    """Add what is said of a listener to what others say. Raises ValueError (one excludes the other)."""
    before = given.get(name, one)
    if before.mechanisms and one.mechanisms:
        one = BrokerListener(mechanisms=before.mechanisms | one.mechanisms)
    elif before != one:
        raise ValueError(f"{name} is given as what excludes another: mechanisms, none, or brokers")
    return {**given, name: one}


def configs_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the configs of a broker that say what these listeners are."""
    own = (_own_mechanisms(written) for name in names for written in _written(name))
    return (_MECHANISMS, _PROTOCOLS, _LISTENERS, *_OF_BROKERS, *own)


def listeners_of(names: Iterable[str], brokers: Iterable[Mapping[str, str] | None]) -> dict[str, BrokerListener]:
    """Return what the configs of all brokers say of listeners; None for a broker that does not show them.

    Where brokers differ, a listener allows what any of them does.
    """
    configs, found = list(brokers), {}
    for name in names:
        allowed = [_mechanisms(name, each) if each is not None else None for each in configs]
        known = [each for each in allowed if each is not None]
        found[name] = BrokerListener(
            mechanisms=frozenset[str]().union(*known) if known and known == allowed else None,
            of_nodes=any(each is not None and _is_of_nodes(name, each) for each in configs),
        )
    return found


def _mechanisms(name: str, configs: Mapping[str, str]) -> frozenset[str] | None:
    protocols = (each.partition(":") for each in (configs.get(_PROTOCOLS) or _DEFAULT_MAP).split(","))
    pairs = ((key.strip().lower(), value.strip().upper()) for key, _, value in protocols)  # Kafka takes blanks, too
    found = [pair for pair in pairs if _spelled(pair[0]) == _spelled(name)]
    own, protocol = found[0] if len(found) == 1 else ("", "")
    if protocol in _WITHOUT_SASL:
        return frozenset()
    if not protocol.startswith("SASL_") or own not in _written(name):
        return None
    said = configs.get(_own_mechanisms(own)) or configs.get(_MECHANISMS)
    return frozenset(re.findall(r"[^\s,\[\]]+", said.upper())) if said else None


def _is_of_nodes(name: str, configs: Mapping[str, str]) -> bool:
    """Return whether clients have another listener; where they have none, they use that of brokers."""
    of_brokers, of_controllers, protocol = (configs.get(key, "") for key in _OF_BROKERS)
    nodes = {_spelled(each) for each in f"{of_brokers or protocol or 'PLAINTEXT'},{of_controllers}".split(",")}
    bound = {_spelled(each.partition("://")[0]) for each in configs.get(_LISTENERS, "").split(",") if each}
    return _spelled(name) in nodes and not bound <= nodes


def _spelled(name: str) -> str:
    """Return the name of a listener as it is compared: exporters write small letters, and underscores for dashes."""
    return re.sub(r"\W", "_", name.strip()).upper()


def _written(name: str) -> set[str]:
    """Return how the configs of brokers may write the name, which an exporter has changed."""
    return {name.lower(), name.lower().replace("_", "-")}


def _own_mechanisms(name: str) -> str:
    return f"listener.name.{name.lower()}.{_MECHANISMS}"
