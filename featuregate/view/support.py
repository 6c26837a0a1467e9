"""Finalized levels: those that brokers do not support, and brokers that report none. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.catalog import METADATA_VERSION

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer
    from featuregate.view.cluster_view import View


def outside_support(view: View) -> dict[str, list[BrokerAnswer]]:
    """Return the features that are finalized below or above what brokers support, each with these brokers.

    Of a broker that leaves features out of ApiVersions v3 (KAFKA-17011), only the listed features count.
    """
    if view.epoch < 0:
        return {}
    outside = {
        name: [broker for broker in view.answering if not _supports(broker, name, level)]
        for name, level in sorted(view.finalized.items())
    }
    return {name: brokers for name, brokers in outside.items() if brokers}


def _supports(broker: BrokerAnswer, name: str, level: int) -> bool:
    supported = broker.can_run(name)
    return broker.hides_features if supported is None else supported.min <= level <= supported.max


def reports_no_levels(view: View) -> bool:
    """Return whether brokers answered, and none of them finalizes features: Kafka with ZooKeeper, or not Kafka.

    A KRaft broker lists ``metadata.version`` even where it does not know the finalized levels.
    """
    return bool(view.answering) and not any(
        broker.finalized or METADATA_VERSION in broker.supported for broker in view.answering
    )
