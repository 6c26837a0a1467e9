"""Ask brokers which producers and groups use a level that an update lowers. It needs DESCRIBE on them, or sees none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.errors import FeatureGateError
from featuregate.kafka_errors import check_error
from featuregate.net.cluster_metadata import fetch_broker_list
from featuregate.net.controller import ask_nodes
from featuregate.printable import shown, some
from featuregate.wire.in_use import ListGroupsRequest, ListTransactionsRequest

if TYPE_CHECKING:
    from featuregate.admin.updates import Update
    from featuregate.config import Settings
    from featuregate.net.connection import Connection
    from featuregate.view.cluster_view import View
    from featuregate.wire.cluster import Node

_SHOWN: Final = 5
_TRANSACTIONS: Final = "transaction.version"
_GROUP_TYPES: Final = {"group.version": "consumer", "share.version": "share", "streams.version": "streams"}
"""The type of the groups that need a feature."""
_MAY_DESCRIBE: Final = "and a client sees only what it may DESCRIBE"
_WITHOUT_MEMBERS: Final = frozenset({"Empty", "Dead"})
_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class InUse(NamedTuple):
    """What one broker or more coordinate."""

    groups: frozenset[tuple[str, str]] = frozenset()
    """Type and name of groups with members."""
    transactions: frozenset[str] = frozenset()
    """Transactional ids with an open transaction."""
    idle: int = 0
    """The number of other transactional ids: their producers may be alive."""
    problems: tuple[str, ...] = ()
    """What was not seen, and why."""

    def __or__(self, other: InUse) -> InUse:
        return InUse(
            self.groups | other.groups,
            self.transactions | other.transactions,
            self.idle + other.idle,
            self.problems + other.problems,
        )


def lowered(updates: Iterable[Update], view: View) -> dict[str, int]:
    """Return the features whose users can be asked for, and that the updates lower, with their new levels. Pure.

    Where the levels of now are not known, what is to lower one may do so.
    """
    known = {name: view.level(name) for name in (_TRANSACTIONS, *_GROUP_TYPES)}
    return {
        update.feature: update.level
        for update in updates
        if update.feature in known
        and (update.upgrade_type != "upgrade" if (now := known[update.feature]) is None else update.level < now)
    }


def users_of(levels: dict[str, int], found: InUse) -> Iterator[str]:
    """Say who uses the levels that are lowered, in sentences. Pure."""
    for feature, level in levels.items():
        if feature == _TRANSACTIONS:
            yield from _producers(level, found)
        elif not (names := sorted(name for kind, name in found.groups if kind == _GROUP_TYPES[feature])):
            yield f"no {_GROUP_TYPES[feature]} group with members was seen, {_MAY_DESCRIBE}"
        else:
            who = f"{len(names)} {_GROUP_TYPES[feature]} group{'s' * (len(names) != 1)}"
            then = (
                f"use {feature}, and go on at {level}" if level else f"need {feature}, and their next heartbeat fails"
            )
            yield f"{who} with members {then}: {some(names, _SHOWN)}"
    for problem in dict.fromkeys(found.problems):
        yield f"whether producers or groups use {' and '.join(levels)} is not known of {problem}"


def _producers(level: int, found: InUse) -> Iterator[str]:
    names = sorted(found.transactions)
    if names or found.idle:
        those = f": {some(names, _SHOWN)}" if names else ""
        yield (
            f"{len(names)} transactional id{'s' * (len(names) != 1)} with an open transaction and {found.idle} others "
            f"were seen, whose producers go on with {_TRANSACTIONS}={level} at their next transaction{those}"
        )
    else:
        yield f"no transactional id was seen, {_MAY_DESCRIBE}"


async def fetch_in_use(settings: Settings, updates: Iterable[Update], view: View) -> tuple[str, ...]:
    """Ask each broker for groups and transactional ids, where an update lowers what they use; in sentences.

    What fails is one of the sentences. A client sees only what it may DESCRIBE.
    """
    if not (levels := lowered(updates, view)):
        return ()
    if settings.role == "controller" or settings.broker_list == "bootstrap":
        return tuple(users_of(levels, InUse(problems=("brokers, which were not asked",))))
    return tuple(users_of(levels, await _fetch(settings, levels)))


async def _fetch(settings: Settings, levels: dict[str, int]) -> InUse:
    async def ask(_: Node, connection: Connection) -> InUse:
        found = InUse()
        if _TRANSACTIONS in levels:
            found |= await _transactions(connection)
        if levels.keys() & _GROUP_TYPES.keys():
            found |= await _groups(connection)
        return found

    deadline = asyncio.get_running_loop().time() + settings.total_timeout
    try:
        listed = (await fetch_broker_list(settings, None, deadline)).broker_list
    except FeatureGateError as error:
        return InUse(problems=(f"the brokers: {error}",))
    found = InUse()
    for node, each in await ask_nodes(
        settings, listed, (node for node in listed.nodes if not node.is_fenced), ask, deadline
    ):
        if isinstance(each, InUse):
            found |= each
        else:
            why = str(each) if isinstance(each, FeatureGateError) else "no answer in time"
            found |= InUse(problems=(f"broker {node.node_id}: {why}",))
    return found


async def _transactions(connection: Connection) -> InUse:
    response = await connection.request(ListTransactionsRequest())
    check_error(response)
    states = response.transaction_states
    running = frozenset(shown(each.transactional_id) for each in states if each.transaction_state in _OPEN)
    return InUse(transactions=running, idle=sum(each.transaction_state not in _OPEN for each in states))


async def _groups(connection: Connection) -> InUse:
    response = await connection.request(ListGroupsRequest())
    check_error(response)
    alive = (each for each in response.groups if each.group_state not in _WITHOUT_MEMBERS)
    return InUse(groups=frozenset((each.group_type.lower(), shown(each.group_id)) for each in alive))
