"""Send one request to the active controller, or one to each node of a cluster.

Brokers of a KRaft cluster forward the request to the controller, so any broker will do. Brokers of a ZooKeeper cluster,
and KRaft controllers, name the active controller. A request is sent again only where the first one was not carried out;
otherwise the caller gets `AnswerLost` and decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from featuregate.errors import FeatureGateError, NetError, RemoteWireError, TimedOut
from featuregate.kafka_errors import NOT_CONTROLLER, broker_error
from featuregate.net.cluster_metadata import BrokerList, address_of, connect_to_node, fetch_broker_list

if TYPE_CHECKING:
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.wire.cluster import Node
    from featuregate.wire.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
"""Seconds between attempts: an election takes about a second."""
_REQUEST_TIMEOUT: Final = 30.0
"""Seconds, as in Kafka's own client (``request.timeout.ms``): the answer comes after the quorum has agreed."""


class AnswerLost(Exception):
    """The request was sent, and its outcome is unknown: it may or may not have been carried out.

    ``cause`` says why: a `NetError`, a response that does not parse, or NOT_CONTROLLER until the deadline.
    """

    def __init__(self, cause: FeatureGateError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def ask_controller(
    settings: Settings, make: Callable[[int], UpdateFeaturesRequest], deadline: float
) -> tuple[UpdateFeaturesResponse, BrokerList]:
    """Find the active controller, send it a request, and return the response. The caller checks its error code.

    Where the controller has moved (NOT_CONTROLLER) or cannot be reached, the call looks for it again until
    ``deadline``, a time of the running loop. ``make`` builds the request from the milliseconds that the controller may
    take. Kafka's own client, too, sends a request again after NOT_CONTROLLER. Raises `DiscoveryError`: no node names
    the controller. Raises `AnswerLost`: the request was sent, and its response was lost; or every response was
    NOT_CONTROLLER. Raises `FeatureGateError`: nothing was sent: no version in common, no authentication, no connection
    in time.
    """
    known: BrokerList | None = None
    moved: AnswerLost | None = None
    pause = _FIRST_PAUSE
    while True:
        try:
            known = (await fetch_broker_list(settings, known, deadline)).broker_list
            response = await _ask(settings, known, make, deadline)
        except NetError as error:
            problem: Exception = error
        except FeatureGateError as error:
            if moved is None:
                raise
            raise moved from error
        else:
            if response.error_code != NOT_CONTROLLER:
                return response, known
            text = "the node that the cluster names as controller is not the controller"
            problem = moved = AnswerLost(broker_error(NOT_CONTROLLER, text))
        if _left(deadline) <= pause:
            raise moved or problem
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _ask(
    settings: Settings, broker_list: BrokerList, make: Callable[[int], UpdateFeaturesRequest], deadline: float
) -> UpdateFeaturesResponse:
    node = _controller(broker_list)
    problem = f"the {settings.total_timeout:g} s in total have passed"
    late = TimedOut(address_of(node), "looking for the controller", problem)
    try:
        async with asyncio.timeout_at(deadline):
            connection = await connect_to_node(settings, broker_list, node)
    except TimeoutError:
        raise late from None
    with connection:
        seconds = min(_left(deadline), _REQUEST_TIMEOUT)
        if seconds <= 0:
            raise late
        request = make(max(1, int(1000 * seconds)))
        try:
            return await connection.request(request, within=seconds)
        except (NetError, RemoteWireError) as error:
            raise AnswerLost(error) from error


def _controller(broker_list: BrokerList) -> Node:
    """Choose the node that is named as controller, else any node that is up: it forwards, or names another."""
    named = [node for node in broker_list.nodes if node.node_id == broker_list.controller_id]
    up = [node for node in broker_list.nodes if not node.is_fenced]
    return (named or up or list(broker_list.nodes))[0]


def _left(deadline: float) -> float:
    return deadline - asyncio.get_running_loop().time()


AT_ONCE: Final = 50
T = TypeVar("T")


async def ask_nodes(
    settings: Settings,
    listed: BrokerList,
    nodes: Iterable[Node],
    ask: Callable[[Node, Connection], Awaitable[T]],
    deadline: float,
) -> list[tuple[Node, T | FeatureGateError | TimeoutError]]:
    """Return what each node answers by the deadline, on the clock of the loop, or why it does not."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(node: Node) -> tuple[Node, T | FeatureGateError | TimeoutError]:
        try:
            async with slots, asyncio.timeout_at(deadline):
                with await connect_to_node(settings, listed, node) as connection:
                    return node, await ask(node, connection)
        except (FeatureGateError, TimeoutError) as error:
            return node, error

    return await asyncio.gather(*map(one, nodes))
