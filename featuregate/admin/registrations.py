"""Which controllers a level has to suit: the registered ones, which need not be voters any more. Pure.

From ``metadata.version`` 3.7-IV0 on (KIP-919) a controller registers what it can run, and the registration stays when
the controller goes. The active controller refuses a level that a registered controller cannot run. Only controllers
list the registrations; no request of a client shows what they say.

Source: ``FeatureControlManager.reasonNotSupported`` and ``ClusterControlManager`` of Apache Kafka 4.4.0; KIP-853,
KIP-919, KIP-1312.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.releases import ReleaseNumber

_UNREGISTERS_FROM: Final = 33
"""``metadata.version`` 4.4-IV2 (KIP-1312)."""
_OBSERVERS_FROM: Final = (3, 9)
"""A controller that is not in ``controller.quorum.voters`` can start from there on (KIP-853)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The voters of the metadata log, as DescribeQuorum reports them."""

    voters: frozenset[int] | None
    """Their node ids; None: unknown."""
    addresses: tuple[str, ...] = ()
    """``host:port`` of the voters, as they listen for controllers; empty before 3.9."""
    problem: str = ""
    """Why the voters are unknown."""
    may_alter: bool = True
    """False where a node says that the user has no ALTER on the cluster, which a change needs."""


def unasked(
    brokers: Sequence[BrokerAnswer],
    controllers: Sequence[BrokerAnswer],
    quorum: Quorum | None,
    *,
    named_by_controllers: bool,
    registers: bool,
) -> str:
    """Say why a node that was not asked may refuse a level; empty where each was asked.

    ``named_by_controllers``: whether controllers listed ``controllers``, so that each registered one is among them.
    ``registers``: whether controllers register at this ``metadata.version``.
    """
    if not brokers:
        return "brokers were not asked, and the controller refuses a level that a registered one cannot run"
    if not controllers:
        return (
            "controllers were not asked, and the active one refuses a level that a registered one cannot run, also "
            "where that has gone: ask them too (--controllers)"
        )
    voters = (quorum.voters if quorum is not None else None) or frozenset()
    asked = {node.node_id for node in controllers}
    if named_by_controllers and (missing := sorted(voters - asked)):
        names = ", ".join(map(str, missing))
        return f"voters that no controller lists, {names}, have not registered: start them with the new release"
    if not named_by_controllers and registers:
        return (
            "the bootstrap list names the controllers, and a registered one that is not in it may refuse: let the "
            "controllers name each other (--broker-list cluster)"
        )
    return ""


def why_silent(node: BrokerAnswer, voters: frozenset[int], metadata_level: int, release: ReleaseNumber) -> str:
    """Say why it is not known what a registered controller that does not answer can run, and what to do."""
    if node.node_id in voters:
        return (
            f"{node.name} is silent, and counts with the levels of its registration: it is a voter, so start it with "
            "the new release"
        )
    advice = advice_on(node.node_id, metadata_level, release)
    return f"{node.name} is registered, is not a voter, and does not answer, and its registration counts: {advice}"


def advice_on(node_id: int | None, metadata_level: int, release: ReleaseNumber) -> str:
    """Say how the registration of a controller that has gone is removed, or renewed where nothing removes it.

    ``release`` is that of the active controller.
    """
    if metadata_level >= _UNREGISTERS_FROM:
        return f"remove its registration: kafka-cluster.sh unregister-controller --id {node_id}"
    first = "upgrade the controllers to 3.9 or newer, and " if release < _OBSERVERS_FROM else ""
    return (
        f"nothing removes a registration below metadata.version 4.4-IV2 (KIP-1312): {first}start a controller with "
        f"node.id={node_id} and the new release once, with controller.quorum.bootstrap.servers and without "
        "controller.quorum.voters, so that it registers again"
    )
