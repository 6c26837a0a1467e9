"""Ask every broker of a cluster, and translate what they answer into values."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from featuregate.errors import BrokerError, ConfigError
from featuregate.kafka_errors import NONE, kafka_error
from featuregate.logs import get_logger
from featuregate.printable import fit
from featuregate.sources.source import BrokerAnswers
from featuregate.values import replace
from featuregate.view.answers import (
    ApiRange,
    BrokerAnswer,
    BrokerConfig,
    Failure,
    FrozenMap,
    SupportedRange,
    above_zero,
)
from featuregate.view.cluster_view import with_printable_names

if TYPE_CHECKING:
    from pathlib import Path

    from featuregate.config import Settings
    from featuregate.excluded_apis import ExcludedApis
    from featuregate.net.cluster_metadata import BrokerList
    from featuregate.net.connection import AskedVersions
    from featuregate.net.kept_connections import KeptConnections
    from featuregate.net.probe import ProbeResult
    from featuregate.roles import BrokerListSource, Role

logger = get_logger("featuregate")
_CALM_PART: Final = 10
_POLL_MODULES: Final = (
    "featuregate.net.connection",
    "featuregate.net.asyncio_carrier",
    "featuregate.net.broker_configs",
    "featuregate.net.kept_connections",
    "featuregate.net.probe",
    "featuregate.wire.configs",
    "featuregate.wire.metadata",
    "ipaddress",
    "random",
)
_SASL_MODULES: Final = {
    "SCRAM": ("scramp",),
    "GSSAPI": ("gssapi",),
    "OAUTHBEARER": ("requests", "netrc", "featuregate.abortable"),
}
M = TypeVar("M")
T = TypeVar("T")


class BrokerSource:
    """Asks every broker of a cluster: what :class:`featuregate.Discoverer` makes of its ``config``.

    Nodes of the last broker list are asked for the next one first, and the bootstrap list only when all of them are
    gone. Addresses that close the connection on newer versions of ApiVersions are remembered from one poll to the next.

    Raises `ConfigError`: a property that is used here has a value that cannot be used.

    Parameters
    ----------
    config
        What :class:`featuregate.Discoverer` takes.
    timeout
        Seconds for one poll, at the most; 15 by default. A broker that has not answered by then counts as failed.
    broker_list
        Where the list of brokers comes from. ``"cluster"``: a broker sends it. ``"bootstrap"``: the bootstrap list
        names every broker; then only ApiVersions is sent, which brokers answer before authentication.
    cluster_id
        As for :class:`featuregate.Discoverer`. Listed brokers have no id, so a latch store needs it there.
    exclude_apis
        API versions that this client must not use (KIP-35), such as ``"Produce=9-11,Fetch"``, or the property
        ``featuregate.exclude.apis``: see :func:`featuregate.excluded_apis.excluded_apis`. Gates do not count them as
        served; views show what brokers say.
    trust_shared_addresses
        True, as the property ``featuregate.trust.shared.addresses``: an answer counts for each node that the cluster
        lists at its address, as behind a proxy that answers for all brokers. By default it proves none of them, unless
        the broker compares its id with the expected one (ApiVersions v5, Kafka 4.4).
    allowed_hosts
        The only hosts to connect to, whatever hosts the cluster names, as the property ``featuregate.allowed.hosts``:
        names, ``*.example.com``, addresses and networks, for example ``"*.kafka.example.com,10.0.0.0/8"``. A broker at
        another host counts as one that did not answer, and nothing is sent to it.
    keep_connections
        Keep one connection to each broker between polls, authenticated where the listener wants that. A poll costs the
        brokers a fraction of that on new connections, and a broker that restarts is noticed at once. False: each poll
        opens new connections, and no broker has one between polls.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | Path | Settings,
        *,
        timeout: float | None = None,
        broker_list: BrokerListSource = "cluster",
        cluster_id: str | None = None,
        exclude_apis: ExcludedApis | str | None = None,
        trust_shared_addresses: bool | None = None,
        allowed_hosts: str | Collection[str] | None = None,
        keep_connections: bool = True,
        versions: AskedVersions | None = None,
    ) -> None:
        from featuregate.config import Settings  # noqa: PLC0415 - a fifth of the import's cost

        options = (timeout, cluster_id, exclude_apis, trust_shared_addresses, allowed_hosts)
        if isinstance(config, Settings) and (broker_list != "cluster" or any(each is not None for each in options)):
            raise ConfigError("config", "is parsed already: give the options of the source to Settings.parse")
        self.settings = (
            config
            if isinstance(config, Settings)
            else Settings.parse(
                config,
                total_timeout=timeout,
                broker_list=broker_list,
                cluster_id=cluster_id,
                exclude_apis=exclude_apis,
                trust_shared_addresses=trust_shared_addresses,
                allowed_hosts=allowed_hosts,
            )
        )
        self._keep_connections = keep_connections
        self._kept: KeptConnections | None = None
        self._versions = versions
        self._calm_until = 0.0
        self._broker_list: BrokerList | None = None
        self.configs: Collection[str] = ()
        """The configs for which each broker is asked: those on which requirements depend."""

    @property
    def exclude_apis(self) -> ExcludedApis:
        """API versions that gates do not count as served."""
        return self.settings.exclude_apis

    def __str__(self) -> str:
        return ",".join(str(address) for address in self.settings.bootstrap)

    @property
    def timeout(self) -> float:
        """Seconds for all brokers together (``total_timeout``)."""
        return self.settings.total_timeout

    def load(self) -> None:
        """Import what a poll of these settings needs; see :func:`featuregate.forks.load`."""
        from featuregate.forks import load  # noqa: PLC0415 - only a thread that polls needs it

        settings = self.settings
        load(_POLL_MODULES)
        if settings.tls is not None or "SSL" in settings.protocol:
            load(("featuregate.net.tls", "tempfile", "cryptography.hazmat.primitives.serialization.pkcs12"))
        if settings.sasl is not None:
            load(("featuregate.net.sasl",))
            load(_SASL_MODULES.get(settings.sasl.mechanism.partition("-")[0], ()))

    async def fetch(self) -> BrokerAnswers:
        """Ask every broker once.

        Raises `ConfigError`: certificates or keys that the settings name cannot be used.
        Raises `DiscoveryError`: no broker answered; the error carries the cause of each.
        """
        from featuregate.net.connection import new_connection  # noqa: PLC0415 - sockets only for polls
        from featuregate.net.probe import probe_all  # noqa: PLC0415 - likewise

        kept = self._kept_in_this_loop() if self._keep_connections else None
        connect = kept.connect if kept else partial(new_connection, versions=self._asked_versions())
        probe = await probe_all(self.settings, self._broker_list, connect, self.configs)
        if kept:
            kept.close_unused()
        differs = probe.broker_list.differs
        if differs and (self._broker_list is None or self._broker_list.differs != differs):
            logger.warning("%s: using what Metadata gives", differs)
        self._broker_list = probe.broker_list
        self._asked_versions().keep({*self.settings.bootstrap, *(result.address for result in probe.results)})
        return broker_answers(probe.broker_list, probe.results, self.settings.role)

    async def changed(self, within: float) -> None:
        """Return when a broker has ended a connection that is kept: it stops or restarts.

        After that, more of it does not count for a tenth of the time between polls. So where a proxy ends each
        connection, brokers are polled as often as during a roll.
        """
        import asyncio  # noqa: PLC0415 - see fetch

        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._calm_until - clock())
        await (self._kept.lost.wait() if self._kept else asyncio.get_running_loop().create_future())
        self._calm_until = clock() + within / _CALM_PART

    def close(self) -> None:
        """Close the connections that are kept."""
        kept, self._kept = self._kept, None
        if kept:
            kept.close()

    def _kept_in_this_loop(self) -> KeptConnections:
        """Return what is kept. A forked child has another loop, and may not use the connections of its parent."""
        from featuregate.net.kept_connections import KeptConnections  # noqa: PLC0415 - asyncio, only for a discoverer

        if self._kept is None or not self._kept.is_of_this_loop():
            self._kept = KeptConnections(self._asked_versions())
        self._kept.lost.clear()
        return self._kept

    def _asked_versions(self) -> AskedVersions:
        from featuregate.net.connection import AskedVersions  # noqa: PLC0415 - see fetch

        if self._versions is None:
            self._versions = AskedVersions()
        return self._versions


class Translated:
    """Translates what the answers of one poll share once.

    Thousands of nodes may give the same 512 API ranges, which are one object then and count once against the budget of
    the poll. Translating them for each node would take seconds after the deadline.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, Callable[[Any], Any]], tuple[object, Any]] = {}

    def once(self, content: M, make: Callable[[M], T]) -> T:
        """Return what ``make`` returned for this object."""
        key = id(content), make
        if key not in self._known:
            self._known[key] = content, make(content)  # with the object, so that no other one gets its id
        made: T = self._known[key][1]
        return made


def broker_answers(broker_list: BrokerList, results: Iterable[ProbeResult], role: Role) -> BrokerAnswers:
    """Translate the results of a probe that ended just now."""
    at = time.time()  # noqa: TID251 - people read it; datetime would take 2 ms of the 100 of a command
    translated = Translated()
    return BrokerAnswers(
        cluster_id=broker_list.cluster_id,
        controller_id=broker_list.controller_id,
        broker_list=broker_list.source,
        registered=broker_list.registered,
        role=role,
        answers=tuple(broker_answer(result, answered_at=at, translated=translated) for result in results),
        answered_at=at,
    )


def broker_answer(result: ProbeResult, answered_at: float, translated: Translated | None = None) -> BrokerAnswer:
    """Translate the result of one broker. Nowhere else does a message become an answer.

    Texts of the broker are escaped here, so that no terminal, log or page that shows them later obeys them, and
    features with a blank name are left out.
    An answer that carries an error code is a failure.
    """
    silent = BrokerAnswer(
        node_id=result.node_id,
        host=result.address.host,
        port=result.address.port,
        role="controller" if result.role == "controller" else "broker",
        answered_at=answered_at,
        failure=_failure(result),
    )
    response = result.response
    if silent.failure is not None or response is None:
        return silent
    once = (translated or Translated()).once
    return replace(
        silent,
        api_ranges=once(response.api_ranges, _api_ranges),
        supported=once(response.supported, _supported),
        finalized=once(response.finalized, _finalized),
        epoch=max(response.epoch, -1),
        asked_version=result.version,
        configs=FrozenMap((name, BrokerConfig._make(said)) for name, said in sorted(result.configs.items())),
    )


def _api_ranges(said: Mapping[int, tuple[int, int]]) -> FrozenMap[int, ApiRange]:
    return FrozenMap((key, ApiRange._make(said[key])) for key in sorted(said))


def _supported(said: Mapping[str, tuple[int, int]]) -> FrozenMap[str, SupportedRange]:
    return FrozenMap((name, SupportedRange._make(each)) for name, each in sorted(with_printable_names(said).items()))


def _finalized(said: Mapping[str, tuple[int, int]]) -> FrozenMap[str, int]:
    levels = sorted(with_printable_names(said).items())
    return above_zero({name: highest for name, (_, highest) in levels})


def _failure(result: ProbeResult) -> Failure | None:
    if result.failure is not None:
        named = result.failure.name if isinstance(result.failure, BrokerError) else type(result.failure).__name__
        # Without the address, so that brokers that fail in the same way say the same.
        return Failure(named, fit(str(result.failure).removeprefix(f"{result.address}: ")))
    if result.response is None:
        return Failure("NoAnswer", "the broker did not answer")
    code = result.response.error_code
    return None if code == NONE else Failure(kafka_error(code).name, f"answered with error {code}")
