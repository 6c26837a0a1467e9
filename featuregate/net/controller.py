"""Send one request to the controller, wherever it is now.

A KRaft cluster's brokers forward to it, so any broker will do; a ZooKeeper-era cluster's brokers and the controllers
themselves say who it is. Nothing is sent twice unless it was not heard the first time: whoever must not repeat a
request gets `AnswerLost` and decides.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from featuregate.config import Address
from featuregate.errors import FeatureGateError, NetError, RemoteWireError, TimedOut
from featuregate.kafka_errors import NOT_CONTROLLER, broker_error
from featuregate.net.cluster_metadata import BrokerList, check_role, find, identity_of
from featuregate.net.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from featuregate.config import Settings
    from featuregate.wire.cluster import Node
    from featuregate.wire.message import Request, Response

__all__ = ["AnswerLost", "ask_controller"]

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
"""Seconds between attempts: an election takes about a second."""
_PATIENCE: Final = 30.0
"""Seconds for one answer, as Kafka's own client has it (``request.timeout.ms``): it comes after a quorum has agreed."""
R = TypeVar("R", bound="Response")


class AnswerLost(Exception):
    """The request was sent, and no answer that tells came back: it may or may not have been carried out.

    ``cause`` is what came instead: a `NetError`, an answer that does not parse, or NOT_CONTROLLER to the end.
    """

    def __init__(self, broker_list: BrokerList, cause: FeatureGateError) -> None:
        super().__init__(str(cause))
        self.broker_list = broker_list
        self.cause = cause


async def ask_controller(
    settings: Settings, make: Callable[[int], Request[R]], error_code: Callable[[R], int], deadline: float
) -> tuple[R, BrokerList]:
    """Find the controller, send it a request, and give its answer, whose error code is for the caller to judge.

    Where it has moved (NOT_CONTROLLER), or the node that was named cannot be reached, the next one is looked for until
    ``deadline``, a time of the running loop. ``make`` is given the milliseconds that the controller may take. Kafka's
    own client, too, sends a request again after NOT_CONTROLLER.

    Raises
    ------
    DiscoveryError
        Nobody tells who the controller is.
    AnswerLost
        The request was sent, and its answer was lost; or every answer was NOT_CONTROLLER.
    FeatureGateError
        Nothing was sent: no version in common, no authentication, no connection in time.
    """
    known: BrokerList | None = None
    moved: AnswerLost | None = None
    pause = _FIRST_PAUSE
    while True:
        try:
            known = (await find(settings, known, deadline)).broker_list
            response = await _ask(settings, known, make, deadline)
        except NetError as error:
            problem: Exception = error
        except FeatureGateError as error:
            if moved is None:
                raise
            raise moved from error
        else:
            if error_code(response) != NOT_CONTROLLER:
                return response, known
            text = "the controller is not where the cluster says that it is"
            problem = moved = AnswerLost(known, broker_error(NOT_CONTROLLER, text))
        if _left(deadline) <= pause:
            raise moved or problem
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _ask(settings: Settings, broker_list: BrokerList, make: Callable[[int], Request[R]], deadline: float) -> R:
    node = _controller(broker_list)
    address = Address(node.host, node.port)
    with await Connection.open(address, settings, identity_of(broker_list, node)) as connection:
        check_role(address, settings, await connection.negotiate())
        await connection.authenticate()
        seconds = min(_left(deadline), _PATIENCE)
        if seconds <= 0:
            raise TimedOut(address, "looking for the controller", f"{settings.total_timeout:g} s for all of it ran out")
        request = make(max(1, int(1000 * seconds)))
        try:
            return await connection.request(request, within=seconds)
        except (NetError, RemoteWireError) as error:
            raise AnswerLost(broker_list, error) from error


def _controller(broker_list: BrokerList) -> Node:
    """Choose whom to ask: who is said to be the controller, else any node that is up, which forwards or corrects us."""
    named = [node for node in broker_list.nodes if node.node_id == broker_list.controller_id]
    up = [node for node in broker_list.nodes if not node.is_fenced]
    return (named or up or list(broker_list.nodes))[0]


def _left(deadline: float) -> float:
    return deadline - asyncio.get_running_loop().time()
