"""Ask every broker of a cluster once, and merge the answers.

The front door names these functions, and must be cheap to import: sockets and the reading of
configurations are imported at the first call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from featuregate.sources.brokers import BrokerSource

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.roles import BrokerListSource
    from featuregate.view.cluster_view import View

DISCOVER_SECONDS = 15.0


async def adiscover(
    config: Mapping[str, Any] | str | Path,
    *,
    timeout: float = DISCOVER_SECONDS,  # noqa: ASYNC109 - the same door as discover(): the probe bounds itself
    broker_list: BrokerListSource = "cluster",
    trust_shared_addresses: bool | None = None,
    allowed_hosts: str | Collection[str] | None = None,
    configs: Collection[str] = (),
) -> View:
    """Ask every broker once and return the merged view; :func:`discover` for coroutines."""
    source = BrokerSource(
        config,
        timeout=timeout,
        broker_list=broker_list,
        trust_shared_addresses=trust_shared_addresses,
        allowed_hosts=allowed_hosts,
        keep_connections=False,
    )
    source.configs = (configs,) if isinstance(configs, str) else tuple(configs)
    return (await source.fetch()).merge()


def discover(
    config: Mapping[str, Any] | str | Path,
    *,
    timeout: float = DISCOVER_SECONDS,
    broker_list: BrokerListSource = "cluster",
    trust_shared_addresses: bool | None = None,
    allowed_hosts: str | Collection[str] | None = None,
    configs: Collection[str] = (),
) -> View:
    """Ask every broker of a cluster once, and return the merged view.

    Works where an event loop already runs too, as in a notebook; there it blocks that loop while it asks.

    Raises `ConfigError`: a property that is used here has a value that cannot be used.
    Raises `DiscoveryError`: no broker answered; the error carries the cause of each.

    Parameters
    ----------
    config
        What :class:`featuregate.Discoverer` takes: the app's confluent-kafka dict, other spellings, a ``host:port``
        list or a path.
    timeout
        Seconds for all of it, at the most.
    broker_list
        ``"bootstrap"``: the bootstrap list names every broker, so no broker is asked for the others.
    trust_shared_addresses, allowed_hosts
        As for :class:`featuregate.BrokerSource`.
    configs
        Names of configs for which each broker is asked, which needs DESCRIBE_CONFIGS on the cluster: those of the
        requirements that are to be evaluated, see :func:`featuregate.requirements.configs_in`.
    """
    from featuregate.loops.short_loop import ShortLoop  # noqa: PLC0415 - sockets, only where brokers are asked

    return ShortLoop().run(
        adiscover(
            config,
            timeout=timeout,
            broker_list=broker_list,
            trust_shared_addresses=trust_shared_addresses,
            allowed_hosts=allowed_hosts,
            configs=configs,
        )
    )
