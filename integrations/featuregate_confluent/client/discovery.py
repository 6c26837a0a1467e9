"""The discoverer of a member, where the app has none: that of its consumer's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate import BrokerSource, Discoverer, UsageReporter
from featuregate_librdkafka.usage_topic import SOFTWARE, UsageTopic

if TYPE_CHECKING:
    from featuregate_confluent.config.options import SwitchOptions


def make_discoverer(options: SwitchOptions, *, instance: str | None) -> Discoverer:
    """Return a discoverer, which reports to ``usage_topic`` where there is one; ``instance`` names this process."""
    usage = None
    if topic := options["usage_topic"]:
        sender = UsageTopic(dict(options["producer"]), topic)
        usage = UsageReporter(sender, app=options["app_id"], instance=instance, software=SOFTWARE)
    return Discoverer(
        source=BrokerSource(dict(options["consumer"]), exclude_apis=options["exclude_apis"]),
        interval=options["interval"],
        latch_store=options["state_dir"],
        usage=usage,
    )
