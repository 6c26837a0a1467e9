"""Ask every broker of a cluster, and translate what they answer into values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from featuregate.errors import BrokerError
from featuregate.kafka_errors import NONE, kafka_error
from featuregate.sources.source import BrokerAnswers
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange, above_zero

if TYPE_CHECKING:
    from collections.abc import Iterable

    from featuregate.config import Settings
    from featuregate.net.probe import BrokerList, ProbeResult
    from featuregate.roles import Role

__all__ = ["BrokerSource", "broker_answer", "broker_answers"]


class BrokerSource:
    """Asks every broker of a cluster, each on a fresh connection.

    Nodes of the last broker list are asked for the next one first, and the bootstrap list only when all of them are
    gone.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._broker_list: BrokerList | None = None

    def __str__(self) -> str:
        return ",".join(str(address) for address in self.settings.bootstrap)

    @property
    def timeout(self) -> float:
        """Seconds for all brokers together (``total_timeout``)."""
        return self.settings.total_timeout

    async def fetch(self) -> BrokerAnswers:
        """Ask every broker once.

        Raises
        ------
        ConfigError
            Certificates or keys that the settings name cannot be used.
        DiscoveryError
            No broker answered; the error carries the cause of each.
        """
        from featuregate.net.probe import probe_all  # noqa: PLC0415 - asyncio and sockets only once somebody polls

        probe = await probe_all(self.settings, self._broker_list)
        self._broker_list = probe.broker_list
        return broker_answers(probe.broker_list, probe.results, self.settings.role)


def broker_answers(broker_list: BrokerList, results: Iterable[ProbeResult], role: Role) -> BrokerAnswers:
    """Translate the results of a probe that ended just now."""
    at = datetime.now(UTC).timestamp()
    return BrokerAnswers(
        cluster_id=broker_list.cluster_id,
        controller_id=broker_list.controller_id,
        broker_list=broker_list.source,
        registered=broker_list.registered,
        role=role,
        answers=tuple(broker_answer(result, answered_at=at) for result in results),
        answered_at=at,
    )


def broker_answer(result: ProbeResult, answered_at: float) -> BrokerAnswer:
    """Translate the result of one broker. Nowhere else does a message become an answer.

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
    return replace(
        silent,
        api_ranges=FrozenMap((key, ApiRange._make(response.api_ranges[key])) for key in sorted(response.api_ranges)),
        supported=FrozenMap((name, SupportedRange._make(said)) for name, said in sorted(response.supported.items())),
        finalized=above_zero({name: highest for name, (_, highest) in sorted(response.finalized.items())}),
        finalized_min=FrozenMap(
            (name, lowest) for name, (lowest, highest) in sorted(response.finalized.items()) if highest > 0
        ),
        epoch=max(response.epoch, -1),
        asked_version=result.version,
    )


def _failure(result: ProbeResult) -> Failure | None:
    if result.failure is not None:
        named = result.failure.name if isinstance(result.failure, BrokerError) else type(result.failure).__name__
        return Failure(named, str(result.failure))
    if result.response is None:
        return Failure("NoAnswer", "nothing was heard")
    code = result.response.error_code
    return None if code == NONE else Failure(kafka_error(code).name, f"answered with error {code}")
