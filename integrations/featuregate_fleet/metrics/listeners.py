"""Which SASL mechanisms the listeners of brokers allow, as their configs or the operator say. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from featuregate.clients.fit import SASL

MECHANISMS: Final = tuple(step.removeprefix("sasl-") for step in SASL)
_DEFAULT_MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_PROTOCOLS: Final = "listener.security.protocol.map"
_LISTENERS: Final = "listeners"
_OF_BROKERS: Final = ("inter.broker.listener.name", "controller.listener.names", "security.inter.broker.protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerListener:
    """What is known of one listener."""

    mechanisms: frozenset[str] | None = None
    """Empty: clients do not log in by SASL. None: that is not known."""
    of_nodes: bool = False
    """Whether brokers and controllers alone connect to it, which have no name on their own listener."""


UNKNOWN_LISTENER: Final = BrokerListener()


def listener_argument(text: str) -> tuple[str, BrokerListener]:
    """Parse ``CLIENT=SCRAM-SHA-256``, ``CLIENT=none`` or ``INTERNAL=brokers``. Raises ValueError."""
    name, _, value = text.partition("=")
    known = {each.lower(): each for each in MECHANISMS}
    allowed = [each.strip().lower() for each in value.split(",")]
    if name and value == "brokers":
        return name, BrokerListener(of_nodes=True)
    if name and value == "none":
        return name, BrokerListener(mechanisms=frozenset())
    if not name or not all(each in known for each in allowed):
        said = (
            f"NAME={MECHANISMS[1]}, with commas between several of {', '.join(MECHANISMS)}; NAME=none or NAME=brokers"
        )
        raise ValueError(f"{text!r} is not a listener with what it allows: write {said}")
    return name, BrokerListener(mechanisms=frozenset(known[each] for each in allowed))


def configs_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the configs of a broker that say what these listeners are."""
    return (_MECHANISMS, _PROTOCOLS, _LISTENERS, *_OF_BROKERS, *(_own_mechanisms(name) for name in names))


def listeners_of(names: Iterable[str], brokers: Iterable[Mapping[str, str] | None]) -> dict[str, BrokerListener]:
    """Return what the configs of all brokers say of listeners; None for a broker that does not show them.

    Where brokers differ, a listener allows what any of them does.
    """
    configs = list(brokers)
    return {name: _together([_listener(name, of_broker) for of_broker in configs]) for name in names}


def _together(found: list[BrokerListener]) -> BrokerListener:
    allowed = [one.mechanisms for one in found]
    known = frozenset[str]().union(*(each for each in allowed if each is not None))
    return BrokerListener(
        mechanisms=known if found and None not in allowed else None, of_nodes=any(one.of_nodes for one in found)
    )


def _listener(name: str, configs: Mapping[str, str] | None) -> BrokerListener:
    if configs is None:
        return BrokerListener()
    protocols = dict(
        each.strip().upper().partition(":")[::2] for each in (configs.get(_PROTOCOLS) or _DEFAULT_MAP).split(",")
    )
    nodes = {each.strip().upper() for key in _OF_BROKERS[:2] for each in configs.get(key, "").split(",") if each}
    nodes |= set() if configs.get(_OF_BROKERS[0]) else {configs.get(_OF_BROKERS[2], "PLAINTEXT").upper()}
    protocol = next((value for key, value in protocols.items() if _spelled(key) == _spelled(name)), None)
    mechanisms = None if protocol is None else frozenset[str]()
    if protocol and protocol.startswith("SASL_"):
        said = configs.get(_own_mechanisms(name)) or configs.get(_MECHANISMS)
        mechanisms = (
            frozenset(each.strip().upper() for each in re.split("[,\\[\\]]", said) if each.strip()) if said else None
        )
    return BrokerListener(
        mechanisms=mechanisms, of_nodes=_is_of_nodes(name, {_spelled(each) for each in nodes}, configs)
    )


def _is_of_nodes(name: str, nodes: Collection[str], configs: Mapping[str, str]) -> bool:
    """Return whether clients have another listener; where they have none, they use that of brokers."""
    bound = {_spelled(each.strip().partition("://")[0]) for each in configs.get(_LISTENERS, "").split(",") if each}
    return _spelled(name) in nodes and not bound <= set(nodes)


def _spelled(name: str) -> str:
    """Return a name without case, and as an exporter writes it that allows letters, digits and underscores alone."""
    return re.sub(r"\W", "_", name).upper()


def _own_mechanisms(name: str) -> str:
    return f"listener.name.{name.lower()}.{_MECHANISMS}"
