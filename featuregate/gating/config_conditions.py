"""Whether the configs of the brokers of a view meet a condition, and why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.catalog import api_name
from featuregate.gating.verdicts import RANK, GateVerdict, Reason, silence

if TYPE_CHECKING:
    from featuregate.requirements import ConfigHas
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View

_REMOVED: Final = {"group.coordinator.rebalance.protocols": {"classic": 11, "consumer": 68, "streams": 88}}
"""Configs that Kafka 5.0 removes (KIP-1237), each with the API of what a value switches.

A broker that has the API without the config has it on: there the level decides. An older broker has neither.
"""


def judge_config(view: View, condition: ConfigHas) -> tuple[GateVerdict, list[Reason]]:
    """Decide a condition by the configs of every known broker; each gives a reason.

    It is unknown as long as a broker is silent, was not asked, or did not tell its value, and closed as soon as a
    broker has another value, or no such config. A config that newer brokers do not have closes nothing there.
    """
    text = str(condition)
    if view.role != "broker" or not view.brokers:
        known = f"no {view.role} is known" if view.role == "broker" else f"brokers have this config, not {view.role}s"
        return "unknown", [Reason(text, None, None, "unknown", known)]
    reasons = []
    for broker in view.brokers:
        verdict, said = _of_broker(broker, condition)
        reasons.append(Reason(text, broker.node_id, broker.address, verdict, f"{broker.name} {said}"))
    return min((reason.verdict for reason in reasons), key=RANK.__getitem__), reasons


def _of_broker(broker: BrokerAnswer, condition: ConfigHas) -> tuple[GateVerdict, str]:
    if broker.failure is not None:
        return "unknown", silence(broker.failure)
    found = broker.configs.get(condition.name)
    if found is None:
        return "unknown", f"was not asked for {condition.name}: only a gate, or configs= of discover(), asks for it"
    if not found.exists:
        return _without(broker, condition)
    if found.value is None:
        return "unknown", f"does not tell {condition.name}: {found.problem}"
    has = condition.value in (part.strip() for part in found.value.split(","))
    return "open" if has else "closed", f"has {condition.name}={found.value}"


def _without(broker: BrokerAnswer, condition: ConfigHas) -> tuple[GateVerdict, str]:
    """Decide by the APIs of a broker that has no such config."""
    said = f"has no config {condition.name}"
    key = _REMOVED.get(condition.name, {}).get(condition.value)
    if key is None:
        return "closed", said
    if broker.serves(key) is None:
        return "closed", f"{said}, and does not serve {api_name(key)}"
    return "open", f"{said} (5.0 removes it, KIP-1237) and serves {api_name(key)}: the level decides"
