"""Ask every broker of a cluster, and give what they said as values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from featuregate.errors import BrokerError
from featuregate.kafka_errors import NONE, kafka_error
from featuregate.view.answers import ApiRange, BrokerAnswer, Failure, FrozenMap, SupportedRange, above_zero
from featuregate.view.cluster_view import merge

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.probe import BrokerList, ProbeResult
    from featuregate.roles import Role
    from featuregate.view.cluster_view import View

__all__ = ["Asked", "ask", "broker_answer"]


class Asked(NamedTuple):
    """What every broker said, and the broker list by which they were found."""

    broker_list: BrokerList
    answers: tuple[BrokerAnswer, ...]
    at: float
    """Seconds since the Unix epoch."""

    def view(self, role: Role, *, previous: View | None = None, unlisted: tuple[BrokerAnswer, ...] = ()) -> View:
        """Merge it, with the view before and with brokers that are known but not listed."""
        return merge(
            (*self.answers, *unlisted),
            cluster_id=self.broker_list.cluster_id,
            controller_id=self.broker_list.controller_id,
            broker_list=self.broker_list.source,
            role=role,
            previous=previous,
            seen_at=self.at,
        )


async def ask(settings: Settings, known: BrokerList | None = None) -> Asked:
    """Ask every broker once.

    Parameters
    ----------
    settings
        Where and how to ask.
    known
        The broker list of the last time: brokers are looked for there first, and at the bootstrap list only when all of
        them are gone.

    Raises
    ------
    DiscoveryError
        Nobody answered; the error carries the cause of each.
    """
    from featuregate.net.probe import probe_all  # noqa: PLC0415 - see above

    found = await probe_all(settings, known)
    at = datetime.now(UTC).timestamp()
    return Asked(found.broker_list, tuple(broker_answer(heard, answered_at=at) for heard in found.heard), at)


def broker_answer(heard: ProbeResult, answered_at: float) -> BrokerAnswer:
    """Translate what the network heard from one broker. Only here does the domain meet a message.

    An answer that carries an error code is a failure.
    """
    silent = BrokerAnswer(
        node_id=heard.node_id,
        host=heard.address.host,
        port=heard.address.port,
        role="controller" if heard.role == "controller" else "broker",
        answered_at=answered_at,
        failure=_failure(heard),
    )
    response = heard.response
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
        asked_version=heard.version,
    )


def _failure(heard: ProbeResult) -> Failure | None:
    if heard.failure is not None:
        named = heard.failure.name if isinstance(heard.failure, BrokerError) else type(heard.failure).__name__
        return Failure(named, str(heard.failure))
    if heard.response is None:
        return Failure("NoAnswer", "nothing was heard")
    code = heard.response.error_code
    return None if code == NONE else Failure(kafka_error(code).name, f"answered with error {code}")
