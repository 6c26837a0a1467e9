"""Whether the configs of the brokers of a view meet a condition, and why. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.gating.verdicts import RANK, GateVerdict, Reason, silence

if TYPE_CHECKING:
    from featuregate.requirements import ConfigHas
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View


def judge_config(view: View, condition: ConfigHas) -> tuple[GateVerdict, list[Reason]]:
    """Decide a condition by the configs of every known broker; each gives a reason.

    It is unknown as long as a broker is silent, was not asked, or did not tell its value, and closed as soon as a
    broker lacks the value.
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
    if found.value is None:
        return "unknown", f"does not tell {condition.name}: {found.problem}"
    has = condition.value in (part.strip() for part in found.value.split(","))
    return "open" if has else "closed", f"has {condition.name}={found.value}"
