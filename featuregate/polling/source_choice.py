"""Which source a discoverer polls: all brokers of a cluster, by the app's properties, or the source of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featuregate.errors import ConfigError
from featuregate.excluded_apis import ExcludedApis, excluded_apis

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from featuregate.roles import BrokerListSource
    from featuregate.sources.source import Source


def choose_source(
    config: Mapping[str, Any] | str | Path | None,
    source: Source | None,
    *,
    timeout: float | None,
    broker_list: BrokerListSource,
    cluster_id: str | None,
    exclude_apis: ExcludedApis | str | None,
    trust_shared_addresses: bool | None,
    allowed_hosts: str | Collection[str] | None,
    keep_connections: bool,
    latches_last: bool,
) -> tuple[Source, ExcludedApis]:
    """Return the source to poll, and the API versions that gates do not count as served.

    ``latches_last`` says that latches outlive the process. The other arguments are those of
    :class:`featuregate.Discoverer`.

    Raises
    ------
    ConfigError
        A property that is used here has a value that cannot be used, or two arguments do not fit each other.
    """
    if source is not None:
        own = (config, timeout, cluster_id, trust_shared_addresses, allowed_hosts)
        if any(given is not None for given in own) or broker_list != "cluster":
            raise ConfigError(
                "source",
                "has its own config, timeout, broker_list, cluster_id, trust_shared_addresses and allowed_hosts",
            )
        return source, exclude_apis if isinstance(exclude_apis, ExcludedApis) else excluded_apis(exclude_apis or "")
    if config is None:
        raise ConfigError("config", "is missing: give the app's properties, or a source")
    from featuregate.polling.discovery import broker_source  # noqa: PLC0415 - a fifth of the import's cost

    brokers = broker_source(
        config,
        timeout=timeout,
        broker_list=broker_list,
        cluster_id=cluster_id,
        exclude_apis=exclude_apis,
        trust_shared_addresses=trust_shared_addresses,
        allowed_hosts=allowed_hosts,
        keep_connections=keep_connections,
    )
    if latches_last and broker_list == "bootstrap" and cluster_id is None:
        raise ConfigError(
            "cluster_id",
            "is missing: listed brokers report no cluster id, and the latches of a latch store belong to a cluster;"
            " give the cluster's id, or a name that stays the same for as long as the cluster exists",
        )
    return brokers, brokers.settings.exclude_apis
